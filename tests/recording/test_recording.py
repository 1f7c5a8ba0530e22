"""What a finished recording says: breakdowns, comparison, files, and how it shows itself."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.results import summary_html
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line
from lessons_lib.recording import attribution, composition
from lessons_lib.recording.buffers import BufferStore, Site
from lessons_lib.recording.graph_facts import inner_graph
from lessons_lib.recording.recorder import note_inputs, record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.variables import variable_of
from tests.support.exactness_checks import ints, new, ready, scalar

KIB = 1024


def made(
    *lives: tuple[int, int, int, int],
    sites: tuple[Site, ...] = (Site("Add", line=Line("a.py", 1, "x + y")),),
    label: str = "",
    times: int = 0,
) -> Recording:
    """Make a recording by hand from (site, bytes, event of birth, event of death)."""
    columns = np.array(lives, np.int64).reshape(-1, 4).T
    events = times or int(max(columns[2:].max(initial=-1) + 1, 0))
    store = BufferStore(
        sites=sites,
        site=columns[0],
        nbytes=columns[1],
        reserved=(columns[1] + 255) // 256 * 256,
        born=columns[2],
        died=columns[3],
        times=np.arange(events).astype(np.float64) * 0.5,
    )
    recording = Recording.open(label)
    recording.close(seconds=events * 0.5, buffers=store, exact=True, notes=())
    return recording


ADD = Site("Add", shape=(2, 2), dtype="float32", line=Line("/home/a.py", 1, "x + y"))
MUL = Site("Mul", line=Line("/home/a.py", 2, "x * y"), forward_line=Line("/home/a.py", 1, "x + y"))
NOWHERE = Site(None)


@pytest.fixture
def three() -> Recording:
    """Three buffers and one of before.

    Events: 0 a (100) born, 1 old (64) dies, 2 b (50) born, 3 a dies, 4 c (7) born.
    Live: 100, 36, 86, -14, -7.
    """
    return made(
        (0, 100, 0, 3), (2, 64, -1, 1), (1, 50, 2, -1), (2, 7, 4, -1), sites=(ADD, MUL, NOWHERE)
    )


# ---------------------------------------------------------------- figures


def test_figures(three: Recording) -> None:
    assert three.timeline()[1].tolist() == [0, 100, 36, 86, -14, -7, -7]
    assert three.timeline()[0].tolist() == [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    assert (three.peak_bytes, three.peak_at) == (100, 0.0)
    assert three.kept_bytes == -7
    assert three.allocated_bytes == 157


def test_a_later_peak() -> None:
    recording = made((0, 10, 0, 1), (0, 20, 2, -1), (0, 5, 3, -1))
    assert (recording.peak_bytes, recording.peak_at, recording.kept_bytes) == (25, 1.5, 25)
    assert [b.nbytes for b in recording.at_peak()] == [20, 5]


def test_only_releases_have_no_peak() -> None:
    recording = made((0, 10, -1, 0), (0, 20, -1, 1))
    assert (recording.peak_bytes, recording.peak_at, recording.kept_bytes) == (0, 0.0, -30)
    assert recording.at_peak() == ()
    assert recording.allocated_bytes == 0
    assert recording.by_op().rows == ()


def test_sums_beyond_floating_point() -> None:
    recording = made((0, 2**53, 0, -1), (0, 1, 1, -1), (0, 1, 2, -1))
    assert recording.peak_bytes == 2**53 + 2
    assert recording.by_op().rows[0].peak_bytes == 2**53 + 2


def test_at_peak_is_largest_first_and_born_in_the_block() -> None:
    recording = made((0, 5, 0, -1), (0, 30, 1, -1), (0, 8, -1, 4), (0, 20, 2, 3))
    assert [b.nbytes for b in recording.at_peak()] == [30, 20, 5]
    assert recording.at_peak().nbytes == recording.peak_bytes == 55


def test_at_peak_of_a_real_block() -> None:
    ready(ints(9), ints(100), scalar())
    old = new(9)
    with record() as recording:
        a, b = new(9), new(100)
        del old, a
    assert [(x.nbytes, x.shape) for x in recording.at_peak()] == [(400, (100,)), (36, (9,))]
    assert recording.peak_bytes == 436
    del b


# ---------------------------------------------------------------- buffers


def test_buffers_are_a_sequence(three: Recording) -> None:
    buffers = three.buffers
    assert len(buffers) == 4
    assert [b.index for b in buffers] == [0, 1, 2, 3]
    assert buffers[-1].nbytes == buffers[3].nbytes == 7
    assert [b.nbytes for b in buffers[1:3]] == [64, 50]
    assert (buffers[0].allocated_at, buffers[0].freed_at) == (0.0, 1.5)
    assert (buffers[1].allocated_at, buffers[1].freed_at) == (None, 0.5)
    assert buffers[2].freed_at is None
    assert buffers[0].reserved_bytes == 256
    for index in (4, -5):
        with pytest.raises(IndexError, match="no buffer"):
            _ = buffers[index]


def test_buffers_carry_their_description(three: Recording) -> None:
    first, old, second, _ = three.buffers
    assert (first.op, first.shape, first.dtype, str(first.line)) == (
        "Add", (2, 2), "float32", "a.py:1",
    )  # fmt: skip
    assert str(second.forward_line) == "a.py:1"
    assert (old.op, old.line, old.shape) == (None, None, None)
    assert "unknown op" in repr(old)
    assert "a.py:1" in repr(first)


def test_nothing_can_be_changed(three: Recording) -> None:
    for thing, name in ((three, "label"), (three.buffers[0], "nbytes"), (three.buffers, "sites")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 1)
    with pytest.raises(RuntimeError, match="finished"):
        three.close(label="again")


def test_copies_are_alike(three: Recording) -> None:
    twin = copy.copy(three)
    assert twin.peak_bytes == three.peak_bytes
    assert copy.deepcopy(three).kept_bytes == three.kept_bytes


# ---------------------------------------------------------------- breakdowns


def test_by_op(three: Recording) -> None:
    rows = {row.key: row for row in three.by_op().rows}
    assert set(rows) == {"Add", "Mul", "unknown"}
    figures = {
        key: (row.buffers, row.allocated_bytes, row.peak_bytes, row.kept_bytes)
        for key, row in rows.items()
    }
    # The buffer of before was not allocated in the block, so it is in no row.
    assert figures == {"Add": (1, 100, 100, 0), "Mul": (1, 50, 0, 50), "unknown": (1, 7, 0, 7)}
    assert [row.key for row in three.by_op().rows] == ["Add", "Mul", "unknown"]


def test_by_line(three: Recording) -> None:
    rows = three.by_line().rows
    assert [row.key for row in rows] == ["a.py:1", "a.py:2", "unknown"]
    assert [row.line for row in rows] == [ADD.line, MUL.line, None]


def test_files_of_one_name_are_two_lines() -> None:
    here, there = (Site("Add", line=Line(f"/{d}/a.py", 1)) for d in "xy")
    recording = made((0, 10, 0, -1), (1, 20, 1, -1), sites=(here, there))
    assert [(row.key, row.peak_bytes) for row in recording.by_line().rows] == [
        ("a.py:1", 20), ("a.py:1", 10),
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["by_op", "by_line"])
def test_breakdowns_add_up(by: str) -> None:
    ready(ints(9), ints(100), scalar())
    x = new(100)
    with record() as recording:
        y = [tf.tanh(x) * scalar() for _ in range(5)]
        z = new(9)
    rows = getattr(recording, by)().rows
    assert sum(row.allocated_bytes for row in rows) == recording.allocated_bytes == 5 * 800 + 36
    assert sum(row.peak_bytes for row in rows) == recording.peak_bytes == 5 * 400 + 400
    assert sum(row.kept_bytes for row in rows) == recording.kept_bytes == 5 * 400 + 36
    assert sum(row.buffers for row in rows) == len(recording.buffers) == 11
    del y, z


# ---------------------------------------------------------------- comparison


def test_a_recording_does_not_differ_from_itself(three: Recording) -> None:
    difference = three.diff(three)
    assert difference.rows == ()
    assert (difference.peak_bytes, difference.kept_bytes, difference.allocated_bytes) == (0, 0, 0)


def test_a_difference_is_second_minus_first(three: Recording) -> None:
    other = made((0, 130, 0, -1), (1, 10, 1, -1), sites=(ADD, Site("New")))
    difference = three.diff(other)
    assert difference.peak_bytes == 140 - 100
    assert difference.kept_bytes == 140 - -7
    assert difference.allocated_bytes == 140 - 157
    rows = {(row.op, str(row.line)): row for row in difference.rows}
    assert rows["Add", "a.py:1"].peak_bytes == 30
    assert rows["Add", "a.py:1"].kept_bytes == 130
    assert rows["Mul", "a.py:2"].allocated_bytes == -50
    assert rows["New", "None"].peak_bytes == 10
    assert [abs(row.peak_bytes) for row in difference.rows] == [30, 10, 0, 0]
    back = other.diff(three)
    assert (back.peak_bytes, back.allocated_bytes) == (-40, 17)


@pytest.mark.parametrize("other", [None, 3, "recording", Recording])
def test_a_difference_needs_a_recording(three: Recording, other: Any) -> None:
    with pytest.raises(TypeError, match="another Recording"):
        three.diff(other)


# ---------------------------------------------------------------- files


def test_what_is_saved_is_loaded(three: Recording, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    three.save(path)
    again = Recording.load(str(path))
    assert list(again.buffers) == list(three.buffers)
    for name in ("label", "seconds", "exact", "notes", "versions", "peak_bytes", "kept_bytes"):
        assert getattr(again, name) == getattr(three, name)
    assert again == three
    assert hash(again) == hash(three)
    assert made((0, 5, 0, -1)) != three
    assert again.by_line() == three.by_line()
    assert again.diff(three).rows == ()
    assert os.listdir(tmp_path) == ["recording.json"]


def test_a_real_recording_is_saved_and_loaded(tmp_path: Path) -> None:
    with record('a "label" – ⚙') as recording:
        graph = tf.function(lambda x: tf.matmul(x, x))
        y = graph(tf.ones([4, 4]))
    recording.save(tmp_path / "r")
    again = Recording.load(tmp_path / "r")
    assert again == recording
    assert again.versions["tensorflow"] == tf.__version__
    del y


def test_a_file_that_cannot_be_written_leaves_nothing(three: Recording, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="could not be written"):
        three.save(tmp_path / "file" / "recording.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        three.save(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_missing_folder_is_made(three: Recording, tmp_path: Path) -> None:
    three.save(tmp_path / "runs" / "today" / "r.json")
    assert Recording.load(tmp_path / "runs" / "today" / "r.json") == three


@pytest.mark.parametrize("path", ["", 3, None, b"r.json", "a\0b"])
def test_what_is_no_name_of_a_file_is_said_in_a_sentence(three: Recording, path: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="give") as caught:
        three.save(path)
    assert "\n" not in str(caught.value)


def test_an_old_file_stays_when_saving_fails(
    three: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.json"
    three.save(path)
    before = path.read_bytes()

    def fails(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(KeyboardInterrupt):
        made((0, 5, 0, -1)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["recording.json"]


NOT_RECORDINGS = {
    "empty": b"",
    "text": b"hello",
    "cut": b'{"format": "lessons_lib recording", "version": 1',
    "binary": bytes(range(256)),
    "list": b"[]",
    "number": b"3",
    "null": b"null",
    "other": b'{"format": "something else", "version": 1}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", NOT_RECORDINGS)
def test_a_file_that_is_no_recording(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(NOT_RECORDINGS[name])
    with pytest.raises(ValueError, match="not a recording") as caught:
        Recording.load(path)
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing_here"):
        Recording.load(tmp_path / "nothing_here")


@pytest.mark.parametrize("version", [0, 3, 99, "1", None, 1.5, True])
def test_a_recording_of_another_version(three: Recording, version: Any, tmp_path: Path) -> None:
    path = tmp_path / "r"
    three.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["version"] = version
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match="format"):
        Recording.load(path)


DAMAGE: dict[str, Any] = {
    "no label": {"label": ...},
    "label a number": {"label": 3},
    "seconds text": {"seconds": "1"},
    "seconds true": {"seconds": True},
    "seconds not a number": {"seconds": math.nan},
    "seconds negative": {"seconds": -1.0},
    "exact a number": {"exact": 1},
    "notes text": {"notes": "a note"},
    "notes numbers": {"notes": [1]},
    "versions a list": {"versions": []},
    "versions of numbers": {"versions": {"tensorflow": 2}},
    "no times": {"times": ...},
    "times text": {"times": ["a"] * 5},
    "times nested": {"times": [[0.0]] * 5},
    "times infinite": {"times": [0.0, 1.0, 2.0, 3.0, math.inf]},
    "times backwards": {"times": [4.0, 3.0, 2.0, 1.0, 0.0]},
    "times too few": {"times": [0.0]},
    "sizes missing": {"nbytes": ...},
    "sizes of other length": {"nbytes": [1]},
    "sizes negative": {"nbytes": [-1, 64, 50, 7]},
    "sizes fractions": {"nbytes": [1.5, 64, 50, 7]},
    "sizes true": {"nbytes": [True, 64, 50, 7]},
    "sizes too large": {"nbytes": [2**70, 64, 50, 7]},
    "sizes text": {"nbytes": ["100", 64, 50, 7]},
    "reserved negative": {"reserved": [-256, 256, 256, 256]},
    "site out of range": {"site": [0, 2, 1, 3]},
    "site negative": {"site": [0, 2, -1, 2]},
    "born out of range": {"born": [0, -1, 2, 5]},
    "born below": {"born": [0, -2, 2, 4]},
    "dead before birth": {"died": [3, 1, 0, -1]},
    "never there": {"born": [-1, -1, 2, 4], "died": [-1, 1, -1, -1]},
    "one event of two buffers": {"born": [0, -1, 2, 2]},
    "sites a number": {"sites": 3},
    "sites of text": {"sites": ["Add", "Mul", "?"]},
    "a shape of text": {"sites": [{"shape": ["2"]}] * 3},
    "a line of text": {"sites": [{"line": "a.py:1"}] * 3},
    "a line without number": {"sites": [{"line": {"file": "a.py", "text": ""}}] * 3},
    "a cell of text": {
        "sites": [{"line": {"file": "a", "number": 1, "text": "", "cell": "2"}}] * 3
    },
    "fused text": {"sites": [{"fused": "Relu"}] * 3},
    "an op of numbers": {"sites": [{"op": 5}] * 3},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_recording(three: Recording, name: str, tmp_path: Path) -> None:
    path = tmp_path / "r"
    three.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    for key, value in DAMAGE[name].items():
        if value is ...:
            del document[key]
        else:
            document[key] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match="damaged recording") as caught:
        Recording.load(path)
    assert caught.value.__cause__ is None
    assert "Recording.save" in str(caught.value)


def test_files_hold_no_code() -> None:
    import lessons_lib

    folder = Path(lessons_lib.__file__).parent
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (pickle|marshal|shelve|dill)\b", text, re.M), path


# ---------------------------------------------------------------- how it shows itself

NASTY = "<script>alert('x')</script>&\"'"


@pytest.fixture
def nasty() -> Recording:
    line = Line(f"/home/{NASTY}.py", 1, f"x = '{NASTY}'")
    site = Site(NASTY, NASTY, (1,), NASTY, NASTY, line, line, NASTY, (NASTY,))
    recording = Recording.open(NASTY)
    store = made((0, 100, 0, -1), sites=(site,)).buffers
    recording.close(seconds=1.0, buffers=store, exact=False, notes=(f"note {NASTY}",))
    return recording


@pytest.mark.parametrize(
    "view",
    [
        lambda r: r,
        lambda r: r.by_op(),
        lambda r: r.by_line(),
        lambda r: r.at_peak(),
        lambda r: r.diff(made((0, 5, 0, -1), label=NASTY)),
        lambda r: made((0, 5, 0, -1), label=NASTY).diff(r),
    ],
)
def test_what_comes_from_the_user_is_escaped(nasty: Recording, view: Any) -> None:
    page = view(nasty)._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert set(re.findall(r"</?([a-zA-Z]+)", page)) <= {
        "table", "caption", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip


def test_pictures_escape_too(nasty: Recording) -> None:
    page = nasty.plot()._repr_html_()
    assert "<script" not in page


def test_tables_say_what_they_leave_out() -> None:
    sites = tuple(Site("Add", shape=(k,), line=Line("a.py", 1, "x + y")) for k in range(40))
    recording = made(*[(k, 10 + k, k, -1) for k in range(40)], sites=sites)
    page = summary_html(recording)
    assert "… 32 more" in page
    assert "816 B" in page  # the smallest 32: 10 + 11 + … + 41
    assert page.count("<tr>") == 2 + 1 + 8 + 1


def test_alike_buffers_share_a_row() -> None:
    page = summary_html(made(*[(0, 100, k, -1) for k in range(30)]))
    assert ">30</td>" in page
    assert "2.93 KiB" in page
    assert page.count("<tr>") == 2 + 1 + 1


def test_short_representations(three: Recording) -> None:
    assert repr(three) == "<Recording: peak 100 B, kept -7 B, 4 buffers, ≈ 2.5 s>"
    assert repr(three.by_op()) == "<by op at the peak: Add 100 B, Mul 0 B, unknown 0 B>"
    assert repr(three.at_peak()) == "<1 buffer, 100 B>"
    assert repr(three.buffers) == "<4 buffers>"
    assert "not exact" in repr(dataclasses.replace(three, exact=False))


def test_a_misspelt_attribute(three: Recording) -> None:
    with pytest.raises(AttributeError, match="peak_byte"):
        _ = three.peak_byte  # type: ignore[attr-defined, unused-ignore]


def test_what_is_not_there_is_said(three: Recording) -> None:
    assert Recording("an empty block", 1.0).held_bytes == 0
    assert three.buffers != 3
    assert repr(three.diff(three)) == "<RecordingDiff: peak 0 B, kept 0 B, 0 places differ>"
    with pytest.raises(TypeError, match=r"not from 3: give the path of one that"):
        Recording.load(3)  # type: ignore[arg-type]


def test_shapes_are_read_where_they_are_known() -> None:
    found = [attribution._shape(text) for text in ("[]", "[2,3]", "[?,3]", "")]
    assert found == [(), (2, 3), None, None]


def test_a_type_that_tensorflow_does_not_know_is_none() -> None:
    found = [attribution._dtype(number) for number in (tf.float32.as_datatype_enum, 0, 9_999)]
    assert found == ["float32", None, None]


def test_what_is_not_known_has_a_name_and_no_category() -> None:
    handle = types.SimpleNamespace(name="encoder/kernel:0")
    variable = variable_of(handle)
    assert (variable.name, variable.category, variable.layer) == ("encoder/kernel", None, "encoder")
    assert variable_of(handle) is variable
    assert inner_graph(tf.Graph(), b"nothing") is None
    before, after = composition.categories(Recording("an empty block", 1.0).buffers)
    assert (len(before), len(after)) == (0, 0)


def test_inputs_are_noted_only_where_lines_are() -> None:
    x = new(9)
    with record(lines=False) as recording:
        note_inputs([x])
    assert (recording.exact, recording.allocated_bytes) == (True, 0)
