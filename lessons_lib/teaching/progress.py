"""What a learner has done: one small JSON file on their own machine, and nothing is sent anywhere.

The file lies in the user's data folder, or where the environment variable
``LESSONS_LIB_PROGRESS`` says.  It is written whole or not at all, under a lock, and each change
is merged into what the file holds at that moment, so several notebooks can work at once and a
killed kernel does no harm.  A damaged file is set aside; a file of a newer version is left as it
is.  A file that cannot be used never stops a lesson: it is said once, and what is done in this
kernel is still shown.  Best figures are bytes or counts, as in the exercise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import filelock
import platformdirs

from lessons_lib.common import results
from lessons_lib.common.files import write_atomically
from lessons_lib.notebook import display
from lessons_lib.teaching.catalogue import COUNTS, LESSONS

VARIABLE: Final = "LESSONS_LIB_PROGRESS"
FORMAT: Final = "lessons_lib progress"
VERSION: Final = 1

#: Another notebook holds the lock for some milliseconds.
_LOCK_SECONDS: Final = 10.0

Document = dict[str, Any]
_HEADERS: Final = ("lesson", "exercises passed", "questions answered", "what comes next")

#: The module's only state: what was said already (once is enough), and, where the file cannot be
#: written, what was done in this kernel.
_said: Final[set[str]] = set()
_unsaved: Final[list[Callable[[Document], None]]] = []


def path() -> Path:
    """Give the file's place; it need not exist."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return platformdirs.user_data_path("lessons_lib", appauthor=False) / "progress.json"


@dataclass(frozen=True, repr=False)
class Progress(results.Result):
    """What has been done so far.

    Attributes
    ----------
    exercises : dict of str to dict
        By key (``"loops.q1"``): ``attempts``, ``passed``, ``best`` (bytes or a count) and
        ``solution_seen``.
    quizzes : dict of str to dict
        By lesson: the questions answered rightly, each with the number of tries.
    """

    exercises: dict[str, dict[str, Any]] = field(default_factory=dict)
    quizzes: dict[str, dict[str, int]] = field(default_factory=dict)

    def passed(self, lesson: str) -> int:
        """Count the passed exercises of a lesson, by its module's name (``"loops"``)."""
        return sum(
            bool(entry["passed"])
            for key, entry in self.exercises.items()
            if key.partition(".")[0] == lesson
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Give a row for each lesson: name, exercises passed, questions answered, what is next.

        Only the first lesson in which something is left says what.
        """
        from lessons_lib.teaching import quizzes

        rows: list[tuple[str, str, str, str]] = []
        found = ""
        for number, module in {"00": "start_here", **LESSONS}.items():
            title = f"{number} {module.replace('_', ' ')}"
            answered = self.quizzes.get(module, {})
            questions = [str(n + 1) for n in range(len(quizzes.questions(module)))]
            open_questions = [n for n in questions if n not in answered]
            graded = module in LESSONS.values()  # lesson 00 has a quiz, and no exercises
            names = [f"q{n + 1}" for n in range(COUNTS[module])] if graded else []
            open_exercises = [n for n in names if not self._passed(f"{module}.{n}")]
            left = ""
            if not found:
                found = left = _left(module, open_exercises, open_questions)
            exercises = f"{len(names) - len(open_exercises)} of {len(names)}" if graded else ""
            quiz = f"{len(questions) - len(open_questions)} of {len(questions)}"
            rows.append((title, exercises, quiz if questions else "", left))
        return rows

    def _passed(self, key: str) -> bool:
        return bool(self.exercises.get(key, {}).get("passed"))

    def __str__(self) -> str:
        rows = [_HEADERS, *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADERS))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def __repr__(self) -> str:
        passed = sum(bool(entry["passed"]) for entry in self.exercises.values())
        answered = sum(map(len, self.quizzes.values()))
        return f"<Progress: {passed} exercises passed, {answered} questions answered>"


@results.summary_html.register
def _(result: Progress) -> str:
    return results.html_table(_HEADERS, result.rows(), align="lrrl")


def _left(module: str, exercises: list[str], questions: list[str]) -> str:
    """Say what comes next in a lesson; empty when nothing is left."""
    if exercises:
        return f"next: exercise {module}.{exercises[0]}"
    if questions:
        return f"next: question {questions[0]} of its quiz"
    return ""


def load() -> Progress:
    """Read what has been done; never raises."""
    document, _ = _read(path())
    for change in _unsaved:
        change(document)
    return Progress(document["exercises"], document["quizzes"])


def reset() -> None:
    """Forget everything that has been done, on disk and in this kernel.

    A file of a newer version is left alone, which is said.
    """
    _unsaved.clear()
    _change(lambda document: document.update(_empty()))


def note_exercise(key: str, *, passed: bool, best: int | None, own: bool = True) -> None:
    """Note a check of an exercise.

    Parameters
    ----------
    key : str
        The exercise.
    passed : bool
        Whether the answer passed.
    best : int or None
        Its figure, in bytes or a count; the smallest one of all passed checks is kept.
    own : bool
        False for the reference solution, which passes but is not the learner's.
    """

    def change(document: Document) -> None:
        entry = _entry(document, key)
        if not own:
            entry["solution_seen"] = True
            return
        entry["attempts"] += 1
        entry["passed"] = entry["passed"] or passed
        if best is not None:
            entry["best"] = best if entry["best"] is None else min(best, entry["best"])

    _change(change)


def note_solution(key: str) -> None:
    """Note that an exercise's solution was shown."""
    _change(lambda document: _entry(document, key).update(solution_seen=True))


def note_question(lesson: str, question: str, tries: int) -> None:
    """Note that a question of a quiz was answered rightly, at which try."""

    def change(document: Document) -> None:
        answered = document["quizzes"].setdefault(lesson, {})
        answered[question] = min(tries, answered.get(question, tries))

    _change(change)


def _empty() -> Document:
    return {"format": FORMAT, "version": VERSION, "exercises": {}, "quizzes": {}}


def _entry(document: Document, key: str) -> dict[str, Any]:
    fresh = {"attempts": 0, "passed": False, "best": None, "solution_seen": False}
    entry: dict[str, Any] = document["exercises"].setdefault(key, fresh)
    return entry


def _say(what: str) -> None:
    if what not in _said:
        _said.add(what)
        display.show(what)


def _change(change: Callable[[Document], None]) -> None:
    """Merge one change into the file."""
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(f"{target}.lock", timeout=_LOCK_SECONDS):
            document, writable = _read(target)
            if writable:
                change(document)
                write_atomically(target, json.dumps(document, indent=1, sort_keys=True) + "\n")
                return
    except OSError as error:  # a lock that is not to be had is one, too
        reason = error.strerror or type(error).__name__
        _say(
            f"Progress can't be written to {target} ({reason}): it lasts until this kernel ends. "
            f"Set {VARIABLE} to a file that can be written."
        )
    _unsaved.append(change)


def _read(target: Path) -> tuple[Document, bool]:
    """Read the file; also tell whether it may be written."""
    try:
        text = target.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _empty(), True
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        _say(f"The progress file {target} can't be read ({error.strerror}): it is left as it is.")
        return _empty(), False
    document = _parsed(text)
    if document is not None and isinstance(document.get("version"), int):
        newer = document["version"] > VERSION
        if newer:
            _say(
                f"The progress in {target} was written by a newer version of lessons_lib: it is "
                "left as it is, and what you do now lasts until this kernel ends."
            )
            return _empty(), False
        if _valid(document):
            return document, True
    aside = _set_aside(target)
    where = f"kept as {aside.name}" if aside is not None else "left as it is"
    _say(f"The progress file {target} was damaged: it is {where}, and a new one is begun.")
    return _empty(), aside is not None


def _parsed(text: str) -> Document | None:
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    good = isinstance(document, dict) and document.get("format") == FORMAT
    return document if good else None


def _whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _valid(document: Document) -> bool:
    exercises, quizzes = document.get("exercises"), document.get("quizzes")
    if not isinstance(exercises, dict) or not isinstance(quizzes, dict):
        return False
    for entry in exercises.values():
        if not isinstance(entry, dict) or not _whole(entry.get("attempts")):
            return False
        if not isinstance(entry.get("passed"), bool):
            return False
        if not isinstance(entry.get("solution_seen"), bool):
            return False
        if "best" not in entry or not (entry["best"] is None or _whole(entry["best"])):
            return False
    return all(
        isinstance(answered, dict) and all(map(_whole, answered.values()))
        for answered in quizzes.values()
    )


def _set_aside(target: Path) -> Path | None:
    for number in range(1, 100):
        aside = target.with_name(f"{target.stem}.damaged-{number}{target.suffix}")
        if not aside.exists():
            try:
                os.replace(target, aside)
            except OSError:
                return None
            return aside
    return None
