"""Claims on trial: each verdict of a lesson is an assertion about what was just measured.

A lesson makes one `Lesson`, hands each claim's verdict to it together with the condition that
must hold for it, and closes with the table of them all.  A condition that does not hold raises,
so a verdict can never outlive the measurement that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from lessons_lib.common.results import Result, html_table, summary_html

Verdict = Literal["true", "false", "partly", "it depends", "not measured"]


@dataclass(frozen=True)
class Claim(Result):
    """One claim and what came of it.

    Attributes
    ----------
    number : int
        Its number within the lesson, from 1.
    claim : str
        What is said.
    verdict : str
        One of ``true``, ``false``, ``partly``, ``it depends``, ``not measured``.
    measured : str
        What was measured, with units; noisy figures stand after ``≈``.
    advice : str
        What to do about it.
    """

    number: int
    claim: str
    verdict: Verdict
    measured: str
    advice: str

    def __repr__(self) -> str:
        return f"claim {self.number}: {self.verdict} ({self.measured})"


@summary_html.register
def _(result: Claim) -> str:
    row = (f"{result.number}. {result.claim}", result.verdict, result.measured)
    return html_table(("claim", "verdict", "measured"), [row], align="lll")


class Lesson:
    """The verdicts of one lesson, in the order in which they are reached.

    Parameters
    ----------
    name : str
        The lesson's number and name, as its notebook's file name has it.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"a lesson's name is text, not {name!r}: give that of its notebook, without .ipynb"
            )
        self.name = name
        self._claims: dict[int, Claim] = {}

    def verdict(
        self,
        number: int,
        claim: str,
        verdict: Verdict,
        *,
        holds: bool,
        measured: str,
        advice: str,
    ) -> Claim:
        """Give the verdict on a claim, which must follow from what was measured.

        Parameters
        ----------
        number : int
            The claim's number; a claim that is tried again replaces its verdict.
        claim : str
            What is said, in a sentence.
        verdict : str
            ``"true"``, ``"false"``, ``"partly"``, ``"it depends"`` or ``"not measured"``.
        holds : bool
            Whether the measurements say so.
        measured, advice : str
            What was measured, and what to do about it.

        Raises
        ------
        AssertionError
            If `holds` is false: the verdict does not follow here.
        ValueError
            If `verdict` is not one of the words above.
        """
        if verdict not in get_args(Verdict):
            words = ", ".join(get_args(Verdict))
            raise ValueError(f"{verdict!r} is not a verdict: use one of {words}")
        if not holds:
            raise AssertionError(
                f"claim {number} of {self.name}: the measurements do not say {verdict!r} here "
                f"({measured}): run the lesson again from the top, and report it if it stays so"
            )
        self._claims[number] = Claim(number, claim, verdict, measured, advice)
        return self._claims[number]

    def wrap_up(self) -> WrapUp:
        """Give the table of all verdicts."""
        return WrapUp(self.name, tuple(self._claims[n] for n in sorted(self._claims)))


@dataclass(frozen=True, repr=False)
class WrapUp(Result):
    """All verdicts of a lesson: claim, verdict, what was measured, what to do about it."""

    name: str
    claims: tuple[Claim, ...]

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.claims)} claims tried>"


@summary_html.register
def _(result: WrapUp) -> str:
    rows = [(f"{c.number}. {c.claim}", c.verdict, c.measured, c.advice) for c in result.claims]
    return html_table(("claim", "verdict", "what you measured", "what to do"), rows, align="llll")
