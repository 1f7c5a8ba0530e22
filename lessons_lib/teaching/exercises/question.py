"""`Question`: what a learner sees of an exercise: `check`, `hint`, `solution`, and its cells."""

from __future__ import annotations

import html
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lessons_lib.common import results
from lessons_lib.common.units import plain_units
from lessons_lib.notebook import display
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Answer, Exercise, source_of
from lessons_lib.teaching.exercises.result import CheckResult, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A check that takes longer says how far it is.
_SILENT_SECONDS: Final = 2.0


class Cell(NamedTuple):
    """A cell of a lesson: ``"markdown"`` or ``"code"``, and its source."""

    kind: str
    source: str


class Hints:
    """Hints from weak to strong, and how many were given."""

    def __init__(self, key: str, texts: tuple[str, ...]) -> None:
        self._key, self._texts = key, texts
        self._given = 0

    def show(self) -> None:
        """Show the next hint; the last one again and again."""
        number = min(self._given, len(self._texts) - 1)
        self._given = number + 1
        more = len(self._texts) - number - 1
        tail = f" ({more} more)" if more else " (the last one)"
        text = f"Hint {number + 1}{tail}: {self._texts[number]}"
        display.show(text, f"<div>{html.escape(text)}</div>")

    @property
    def next_step(self) -> str:
        """Say what to call when stuck."""
        if self._given < len(self._texts):
            return f"Next: {self._key}.hint() gives hint {self._given + 1} of {len(self._texts)}."
        return f"Next: {self._key}.solution() shows the reference solution."


class Question:
    """An exercise as learners use it.

    Attributes
    ----------
    exercise : Exercise
    """

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self._hints = Hints(exercise.key, exercise.hints)

    def __repr__(self) -> str:
        return repr(self.exercise)

    @property
    def key(self) -> str:
        """Such as ``"loops.q1"``."""
        return self.exercise.key

    @plain_units()  # an exercise says its budget so, whatever the lesson's unit
    def check(self, answer: Any = None, *, seed: int | None = None) -> CheckResult:
        """Grade an answer, show the outcome and return it.

        Parameters
        ----------
        answer : callable, optional
            The learner's function itself.
        seed : int, optional
            Seed of the inputs; by default they are new in every check.

        Returns
        -------
        CheckResult
            With `status`, `message`, `peak_bytes`, `budget_bytes`; never raises because of what
            the answer does (an interrupt from the keyboard passes through).
        """
        result = grading.grade(self.exercise, answer, seed, _Progress(self.key))
        if not result.passed:
            result = replace(result, next_step=self._hints.next_step)
        if result.status is not Status.NOT_ATTEMPTED:
            progress.note_exercise(
                self.key,
                passed=result.passed,
                best=result.figure.measured if result.passed and result.figure else None,
                own=answer is not self.exercise.solution_code,
            )
        result.show()
        return result

    def hint(self) -> None:
        """Show a hint; each further call gives a stronger one."""
        self._hints.show()

    def solution(self) -> Answer:
        """Show the reference solution's code and return it as a function."""
        progress.note_solution(self.key)
        code = source_of(self.exercise.solution_code)
        display.show(code, f"<pre><code>{html.escape(code)}</code></pre>")
        return self.exercise.solution_code

    def cells(self) -> tuple[Cell, ...]:
        """Give the lesson's cells: the task, and the starter with its check."""
        exercise = self.exercise
        module, _, number = self.key.partition(".")
        task = f"### {number.upper()}. {exercise.title}\n\n{exercise.task()}"
        code = f"{source_of(exercise.starter)}\n\n\n{module}.{number}.check({exercise.name})"
        return Cell("markdown", task), Cell("code", code)


@results.draw.register(CheckResult)
def _(result: CheckResult, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.teaching.exercises.score_plot import draw_score

    return draw_score(result, ax, **options)


@results.alt_text.register(CheckResult)
def _(result: CheckResult, **options: Any) -> str:
    from lessons_lib.teaching.exercises.score_plot import describe_score

    return describe_score(result, **options)


class _Progress:
    """Says how far a long check is."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._began = time.monotonic()

    def __call__(self, number: int, runs: int) -> None:
        seconds = time.monotonic() - self._began
        if seconds > _SILENT_SECONDS:
            print(
                f"checking {self._key}: run {number} of {runs}, ≈ {seconds:.0f} s so far",
                flush=True,
            )
