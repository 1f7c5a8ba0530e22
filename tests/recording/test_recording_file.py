"""What is saved is loaded; what is no recording, or a damaged one, is said in a sentence."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from tests.support.handmade import made

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


@pytest.mark.parametrize("version", [0, 4, 99, "1", None, 1.5, True])
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
