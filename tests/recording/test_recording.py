"""What a finished recording says: breakdowns, comparison, and how it shows itself."""

from __future__ import annotations

import copy
import dataclasses
import re
import types
from typing import Any

import pytest

from lessons_lib.common.results import summary_html
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line
from lessons_lib.recording import composition, segment
from lessons_lib.recording.buffers import Site
from lessons_lib.recording.categories import Category
from lessons_lib.recording.graph_facts import inner_graph
from lessons_lib.recording.recorder import note_input, record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.variables import variable_of
from tests.support.handmade import ADD, MUL, made
from tests.support.tensors import ints, new, ready, scalar

KIB = 1024


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


@pytest.mark.parametrize(
    ("op", "kind", "told"),
    [
        ("Conv2DBackpropFilter", "temp", True),
        ("DepthwiseConv2dNativeBackpropInput", "temp", True),
        ("Conv2DBackpropFilter", "output", False),
        ("Sum", "temp", False),  # whose output is allocated so
        (None, "temp", False),
    ],
)
def test_what_a_convolution_works_in_is_told(op: str | None, kind: str, told: bool) -> None:
    table = made((0, 1024, 0, 1), sites=(Site(op, kind=kind),)).at_peak()._repr_html_()
    assert ("workspace" in table) is told


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
    found = [segment.shape_of(text) for text in ("[]", "[2,3]", "[?,3]", "")]
    assert found == [(), (2, 3), None, None]


def test_a_type_that_tensorflow_does_not_know_is_none() -> None:
    found = [segment.dtype_of(number) for number in (tf.float32.as_datatype_enum, 0, 9_999)]
    assert found == ["float32", None, None]


def test_what_is_not_known_has_a_name_and_no_category() -> None:
    handle = types.SimpleNamespace(name="encoder/kernel:0")
    variable = variable_of(handle)
    assert (variable.name, variable.category, variable.layer) == ("encoder/kernel", None, "encoder")
    assert variable_of(handle) is variable
    assert inner_graph(tf.Graph(), b"nothing") is None
    before, after = composition.categories(Recording("an empty block", 1.0).buffers)
    assert (len(before), len(after)) == (0, 0)


@pytest.mark.parametrize("lines", [True, False])
def test_inputs_are_noted_where_lines_are(lines: bool) -> None:
    text, number = tf.fill([9], "a text"), new(9)
    with record(lines=lines) as recording:
        kept = []
        for part in (text, number):
            kept.append(tf.raw_ops.DeepCopy(x=part))
            note_input()
        kept.append(tf.raw_ops.DeepCopy(x=number))
    parts = [b.nbytes for b in recording.buffers if b.category is Category.INPUTS]
    # An element of text takes 24 bytes, which hold a short one.
    assert sorted(parts) == ([9 * 4, 9 * 24] if lines else [])
