"""Progress: one file, whole at any moment, and never a reason for a lesson to stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lessons_lib.teaching import progress, quizzes
from lessons_lib.teaching.exercises import LESSONS, count
from tests.support.notebooks import ROOT


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    progress._said.clear()
    progress._unsaved.clear()
    yield
    progress._said.clear()
    progress._unsaved.clear()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "deep" / "progress.json"
    monkeypatch.setenv(progress.VARIABLE, str(place))
    return place


def test_starts_empty_and_reading_writes_nothing(file: Path) -> None:
    assert progress.load().exercises == {}
    assert not file.exists()


def test_the_best_of_all_checks_is_kept(file: Path) -> None:
    progress.note_exercise("loops.q1", passed=False, best=None)
    progress.note_exercise("loops.q1", passed=True, best=300)
    progress.note_exercise("loops.q1", passed=True, best=200)
    progress.note_exercise("loops.q1", passed=False, best=None)
    assert progress.load().exercises == {
        "loops.q1": {"attempts": 4, "passed": True, "best": 200, "solution_seen": False}
    }
    assert progress.load().passed("loops") == 1
    assert progress.load().passed("tracing") == 0


def test_the_reference_solution_is_not_the_learners(file: Path) -> None:
    progress.note_exercise("loops.q1", passed=True, best=100, own=False)
    entry = progress.load().exercises["loops.q1"]
    assert (entry["passed"], entry["best"], entry["solution_seen"]) == (False, None, True)


def test_questions_keep_the_fewest_tries(file: Path) -> None:
    for tries in (3, 1, 2):
        progress.note_question("loops", "2", tries)
    assert progress.load().quizzes == {"loops": {"2": 1}}


def test_the_table_has_every_lesson(file: Path) -> None:
    progress.note_exercise("loops.q1", passed=True, best=1)
    progress.note_question("loops", "1", 1)
    shown = progress.load()
    rows = {row[0]: row[1:] for row in shown.rows()}
    assert len(rows) == 1 + len(LESSONS)
    exercises, questions = count("loops"), len(quizzes.questions("loops"))
    assert rows["00 start here"][:2] == ("", f"0 of {len(quizzes.questions('start_here'))}")
    assert rows["03 loops"] == (f"1 of {exercises}", f"1 of {questions}", "")
    assert rows["01 measure memory"][0].startswith("0 of ")
    assert "03 loops" in shown._repr_html_()
    assert f"1 of {exercises}" in str(shown)
    assert repr(shown) == "<Progress: 1 exercises passed, 1 questions answered>"


def test_the_first_open_thing_comes_next(file: Path) -> None:
    def following() -> list[str]:
        return [row[3] for row in progress.load().rows()]

    assert following()[0] == "next: question 1 of its quiz"
    assert not any(following()[1:])
    for number in range(len(quizzes.questions("start_here"))):
        progress.note_question("start_here", str(number + 1), 1)
    assert following()[:2] == ["", "next: exercise measure_memory.q1"]
    for number in range(count("measure_memory")):
        progress.note_exercise(f"measure_memory.q{number + 1}", passed=True, best=1)
    progress.note_question("measure_memory", "1", 1)
    assert following()[1] == "next: question 2 of its quiz"


def test_reset(file: Path) -> None:
    progress.note_exercise("loops.q1", passed=True, best=1)
    progress.reset()
    assert progress.load().exercises == {}
    assert json.loads(file.read_text())["exercises"] == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "something else", "version": 1}',
        '{"format": "lessons_lib progress"}',
        '{"format": "lessons_lib progress", "version": 1, "exercises": [], "quizzes": {}}',
        '{"format": "lessons_lib progress", "version": 1, "exercises": {"a": 3}, "quizzes": {}}',
        '{"format": "lessons_lib progress", "version": 1, "exercises": {}, "quizzes": {"a": 1}}',
        '{"format": "lessons_lib progress", "version": 1, "quizzes": {}, "exercises": '
        '{"a": {"attempts": -1, "passed": true, "best": 1, "solution_seen": false}}}',
    ],
)
def test_a_damaged_file_is_set_aside_and_said_once(
    file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    progress.note_exercise("loops.q1", passed=True, best=1)
    progress.note_exercise("loops.q2", passed=True, best=1)
    assert capsys.readouterr().out.count("was damaged") == 1
    aside = file.with_name("progress.damaged-1.json")
    assert aside.read_text() == text
    assert set(progress.load().exercises) == {"loops.q1", "loops.q2"}


def test_bytes_that_are_no_text_are_set_aside(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"\xff\xfe\x00")
    progress.note_exercise("loops.q1", passed=True, best=1)
    assert file.with_name("progress.damaged-1.json").read_bytes() == b"\xff\xfe\x00"


def test_a_newer_file_is_left_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    newer = json.dumps({"format": progress.FORMAT, "version": 99, "other": {}})
    file.write_text(newer)
    progress.note_exercise("loops.q1", passed=True, best=1)
    progress.note_exercise("loops.q2", passed=True, best=1)
    assert file.read_text() == newer
    assert capsys.readouterr().out.count("newer version") == 1
    # In this kernel it still counts.
    assert progress.load().passed("loops") == 2


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "deep" / "progress.json"))
    progress.note_exercise("loops.q1", passed=True, best=1)
    assert "can't be written" in capsys.readouterr().out
    tmp_path.chmod(0o700)


def test_a_place_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "file" / "progress.json"))
    progress.note_exercise("loops.q1", passed=True, best=1)
    progress.note_exercise("loops.q1", passed=True, best=1)
    assert capsys.readouterr().out.count("can't be") == 1
    assert progress.load().passed("loops") == 1


def test_a_failed_write_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.note_exercise("loops.q1", passed=True, best=1)
    before = file.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress, "write_atomically", full)
    progress.note_exercise("loops.q2", passed=True, best=1)
    assert file.read_text() == before
    assert "No space left" in capsys.readouterr().out
    assert progress.load().passed("loops") == 2


def test_several_threads_lose_nothing(file: Path) -> None:
    def work(number: int) -> None:
        for _ in range(10):
            progress.note_exercise(f"loops.q{number}", passed=False, best=None)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    attempts = {key: entry["attempts"] for key, entry in progress.load().exercises.items()}
    assert attempts == {f"loops.q{number}": 10 for number in range(4)}


_WRITER = """
import importlib.util, sys, types
# The module alone: TensorFlow is not needed for this.
sys.modules["lessons_lib"] = package = types.ModuleType("lessons_lib")
package.__path__ = [sys.argv[1]]
from lessons_lib.teaching import progress
for _ in range(25):
    progress.note_question("loops", sys.argv[2] + str(_), 1)
    progress.note_exercise("loops.q1", passed=False, best=None)
print("done", flush=True)
"""


def _writer(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(ROOT / "lessons_lib"), name],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.child
def test_several_processes_lose_nothing(file: Path) -> None:
    writers = [_writer(name) for name in "abc"]
    assert [writer.communicate(timeout=120)[0].strip() for writer in writers] == ["done"] * 3
    done = progress.load()
    assert len(done.quizzes["loops"]) == 75
    assert done.exercises["loops.q1"]["attempts"] == 75


@pytest.mark.child
def test_a_killed_process_leaves_a_whole_file_and_no_lock(file: Path) -> None:
    writers = [_writer(name) for name in "ab"]
    while not file.exists():
        assert any(writer.poll() is None for writer in writers) or file.exists()
    for writer in writers:
        writer.kill()
        writer.communicate()
    progress.note_exercise("tracing.q1", passed=True, best=1)
    assert progress.load().passed("tracing") == 1
    assert not list(file.parent.glob("*damaged*"))


@pytest.mark.skipif(sys.platform != "linux", reason="each system has a place of its own")
def test_the_place_is_where_the_system_keeps_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert progress.path() == tmp_path / "lessons_lib" / "progress.json"
