"""`DrawnQuestion`: a diagnosis of one of several programs, drawn by the learner's seat."""

from __future__ import annotations

from typing import Any

from lessons_lib.notebook import display
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Place
from lessons_lib.teaching.exercises.question import Cell, Hints
from lessons_lib.teaching.exercises.result import CheckResult


class DrawnQuestion(DiagnosisQuestion):
    """A diagnosis of one of several programs: seats side by side get different ones.

    Parameters
    ----------
    *diagnoses : Diagnosis
        With one key, title, prompt and set of causes.

    Attributes
    ----------
    diagnoses : tuple of Diagnosis
        All of them.
    diagnosis : Diagnosis
        The one that was shown last; until then, the first.
    """

    def __init__(self, *diagnoses: Diagnosis) -> None:
        super().__init__(diagnoses[0])
        self.diagnoses = diagnoses
        self._drawn = False

    def show(self, seat: int = 1) -> None:
        """Draw a program, show its listing, run it, and show what was measured.

        Parameters
        ----------
        seat : int
            Your seat's number, or any other whole number.

        Raises
        ------
        TypeError
            If it is none.
        """
        if not isinstance(seat, int) or isinstance(seat, bool):
            raise TypeError(f"a seat is a whole number, not {seat!r}: give your seat's number")
        chosen = self.diagnoses[(seat - 1) % len(self.diagnoses)]
        if chosen is not self.diagnosis:
            self.diagnosis = chosen
            self._hints = Hints(chosen.key, chosen.hints)
        self._drawn = True
        super().show()

    def check(self, answer: Any = None) -> CheckResult:
        """Grade an answer about the program that was shown; before that, nothing is graded."""
        return super().check(answer if self._drawn else None)

    def hint(self) -> None:
        """Show a hint on the program that was shown; each further call gives a stronger one."""
        if self._was_drawn():
            super().hint()

    def solution(self) -> dict[Place, str]:
        """Show the right answer with its reasons, and return it; nothing before `show`."""
        return super().solution() if self._was_drawn() else {}

    def _was_drawn(self) -> bool:
        if not self._drawn:
            text = f"Run {self.key}.show with your seat's number first: it says which script."
            display.show(text, f"<div>{text}</div>")
        return self._drawn

    def cells(self) -> tuple[Cell, ...]:
        """Give the lesson's cells; the second names a seat."""
        task, show, check = super().cells()
        return task, show._replace(source=show.source.replace("()", "(seat=1)")), check
