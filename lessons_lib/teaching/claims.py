"""Claims on trial: each verdict of a lesson is an assertion about what was just measured.

A lesson makes one `Lesson`, hands it what it measured for each claim, and closes with the table of
them all.  Texts, conditions and advice lie in `lessons_lib.teaching.lessons`.  A condition that
does not hold raises, so a verdict can never outlive the measurement that it came from.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.runtime import held_back_stderr
from lessons_lib.common.units import Unit, format_bytes, plain_units, use_unit
from lessons_lib.instruments.preflight import preflight
from lessons_lib.teaching.lessons import claims_of
from lessons_lib.teaching.lessons.claim import Claim


@dataclass(frozen=True)
class TriedClaim(Result):
    """A claim and what came of it.

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
    verdict: str
    measured: str
    advice: str

    def __repr__(self) -> str:
        return f"claim {self.number}: {self.verdict} ({self.measured}). {self.advice}"


@summary_html.register
def _(result: TriedClaim) -> str:
    row = (f"{result.number}. {result.claim}", result.verdict, result.measured, result.advice)
    return html_table(
        ("claim", "verdict", "you measured", "what to do"), [row], align="llll", prose=True
    )


@dataclass(frozen=True, repr=False)
class ShownClaim(Result):
    """What decides a claim, to be read."""

    claim: Claim

    def __repr__(self) -> str:
        claim = self.claim
        return (
            f"Claim {claim.number}: {claim.text}\nThe verdict is {claim.verdict!r} if this holds "
            f"for what was measured:\n\n{claim.source}"
        )


@summary_html.register
def _(result: ShownClaim) -> str:
    claim = result.claim
    return (
        f"<p><strong>Claim {claim.number}.</strong> {html.escape(claim.text)} The verdict is "
        f"<em>{claim.verdict}</em> if this holds for what was measured:</p>"
        f"<pre><code>{html.escape(claim.source)}</code></pre>"
    )


class Lesson:
    """The verdicts of one lesson, in the order in which they are reached.

    A lesson is made before its first tensor: it has TensorFlow set itself up, without the
    messages of that, and looks whether figures are exact.

    Parameters
    ----------
    name : str
        The lesson's number and name, as its notebook's file name has it.
    unit : int, optional
        Bytes of the size that the lesson counts in.  From now on tables, pictures and predictions
        of this process count in it.
    unit_name : str
        What it is called.
    """

    def __init__(self, name: str, unit: int | None = None, unit_name: str = "S") -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"a lesson's name is text, not {name!r}: give that of its notebook, without .ipynb"
            )
        if unit is not None and (isinstance(unit, bool) or not isinstance(unit, int) or unit < 1):
            raise ValueError(f"a unit is a whole number of bytes, not {unit!r}: give its size")
        self.name = name
        self.unit = None if unit is None else Unit(unit_name, unit)
        use_unit(self.unit)
        self._known = claims_of(name)
        self._tried: dict[int, TriedClaim] = {}
        with held_back_stderr():  # TensorFlow's first use tells of graphics processors
            self._check = preflight()

    def __repr__(self) -> str:
        check = self._check
        said = "Figures are exact." if check.exact else "\n".join(check.problems)
        if self.unit is not None:
            with plain_units():
                size = format_bytes(self.unit.nbytes)
            said += f" {self.unit.name} = {size}."
        return f"{said} Lesson {self.name} can begin." if check.exact else said

    def claim(self, number: int) -> ShownClaim:
        """Show what decides a claim: its text, and the condition of its verdict.

        Parameters
        ----------
        number : int

        Raises
        ------
        KeyError
            If the lesson has no claim of this number.
        ValueError
            If no claims belong to the lesson's name.
        """
        return ShownClaim(self._claim(number))

    def _claim(self, number: int) -> Claim:
        if self._known is None:
            raise ValueError(
                f"the lesson {self.name!r} has no claims: give the name of its notebook, as in "
                "ll.Lesson('03_loops')"
            )
        return self._known[number]

    def verdict(self, number: int, **measured: Any) -> TriedClaim:
        """Give the verdict on a claim, which must follow from what was measured.

        Parameters
        ----------
        number : int
            The claim's number; a claim that is tried again replaces its verdict.
        **measured
            What was measured, under the names that the claim asks for; `claim` shows them.

        Raises
        ------
        AssertionError
            If the verdict does not follow here.
        TypeError
            If something that was to be measured is missing, or something else is given.
        KeyError, ValueError
            As for `claim`.
        """
        claim = self._claim(number)
        if set(measured) != set(claim.takes):
            raise TypeError(
                f"claim {number} of {self.name} is decided by {', '.join(claim.takes)}, and "
                f"{', '.join(measured) or 'nothing'} was given: hand over what its section "
                f"measured; lesson.claim({number}) shows how it is decided"
            )
        said = claim.said(measured)
        if not claim.condition(**measured):
            raise AssertionError(_failed(claim, said))
        return self._note(TriedClaim(number, claim.text, claim.verdict, said, claim.advice))

    def _note(self, tried: TriedClaim) -> TriedClaim:
        self._tried[tried.number] = tried
        return tried

    def wrap_up(self) -> WrapUp:
        """Give the table of all verdicts."""
        missing = [c for c in self._known or () if c.number not in self._tried]
        return WrapUp(
            self.name,
            tuple(self._tried[n] for n in sorted(self._tried)),
            tuple(f"{c.number}. {c.text}" for c in missing),
        )


def _failed(claim: Claim, said: str) -> str:
    return (
        f"claim {claim.number} of {claim.lesson}: the verdict {claim.verdict!r} does not follow "
        f"from what was measured here ({said}). Run the cells of this section again, from its "
        "heading down. If it fails again, choose Kernel > Restart Kernel, run the first code cell "
        "and then this section. If it still fails, your TensorFlow behaves in another way, and "
        f"the lesson is wrong for it: please report it. lesson.claim({claim.number}) shows what "
        "was expected"
    )


@dataclass(frozen=True, repr=False)
class WrapUp(Result):
    """All verdicts of a lesson: claim, verdict, what was measured, what to do about it.

    Attributes
    ----------
    name : str
        The lesson's.
    claims : tuple of TriedClaim
        By number.
    missing : tuple of str
        Claims that were not tried yet.
    """

    name: str
    claims: tuple[TriedClaim, ...]
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        rest = f", {len(self.missing)} not tried yet" if self.missing else ""
        return f"<{self.name}: {len(self.claims)} claims tried{rest}>"


@summary_html.register
def _(result: WrapUp) -> str:
    rows = [(f"{c.number}. {c.claim}", c.verdict, c.measured, c.advice) for c in result.claims]
    rows += [(claim, "not tried yet", "", "") for claim in result.missing]
    return html_table(
        ("claim", "verdict", "what you measured", "what to do"), rows, align="llll", prose=True
    )
