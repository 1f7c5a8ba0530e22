"""What a lesson's claim is made of, and how one is entered.

::

    CLAIMS = Claims("03_loops")


    @CLAIMS.add(
        1,
        "An eager loop keeps every intermediate tensor.",
        "false",
        measured="{found.laws}",
        advice="Let one name stand for the state.",
        was=("03.1",),
    )
    def _(found):
        return found["one name"].law == "2" and found["a list"].law == "n"

The function is the condition.  Its arguments are what the lesson measured, and `measured` is
filled in from the same ones: a format string, or a function of them.
"""

from __future__ import annotations

import inspect
import re
import string
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lessons_lib.common.units import MIB, format_bytes

Verdict = Literal["true", "false", "partly", "it depends", "not measured"]
VERDICTS: tuple[str, ...] = get_args(Verdict)
Condition = Callable[..., bool]


class _Filler(string.Formatter):
    """Format strings that also know ``!b``, exact bytes, and ``!n``, noisy ones in whole MiB."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Convert a field's value."""
        if conversion == "b":
            return format_bytes(value)
        if conversion == "n":
            return f"≈ {value / MIB:.0f} MiB"
        return super().convert_field(value, conversion)


@dataclass(frozen=True)
class Claim:
    """A claim of a lesson.

    Attributes
    ----------
    lesson : str
        The lesson's notebook, without ``.ipynb``.
    number : int
        Its number in the lesson, from 1.
    text : str
        What is said, in a sentence.
    verdict : str
        One of ``true``, ``false``, ``partly``, ``it depends``, ``not measured``.
    condition : callable
        From what was measured to whether the verdict holds.
    measured : str or callable
        What was measured, as a format string or a function of the condition's arguments.
    advice : str
        What to do about it.
    was : tuple of str
        Numbers of the claims that stand here, as they were in earlier editions: ``"03.1"``.
    """

    lesson: str
    number: int
    text: str
    verdict: Verdict
    condition: Condition
    measured: str | Callable[..., str]
    advice: str
    was: tuple[str, ...] = ()

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of what has to be measured for it."""
        return tuple(inspect.signature(self.condition).parameters)

    def said(self, found: Mapping[str, Any]) -> str:
        """Write what was measured."""
        if callable(self.measured):
            return self.measured(**found)
        return _Filler().vformat(self.measured, (), found)

    @property
    def source(self) -> str:
        """The condition as it is written, without what is for this package only."""
        lines = textwrap.dedent(inspect.getsource(self.condition)).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("def "))
        text = "\n".join(lines[start:])
        return re.sub(r"^def \w+", "def holds", text)


class Claims:
    """The claims of one lesson, by number.

    Parameters
    ----------
    lesson : str
        Its notebook's name, without ``.ipynb``.
    """

    def __init__(self, lesson: str) -> None:
        self.lesson = lesson
        self._claims: dict[int, Claim] = {}

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims[number] for number in sorted(self._claims))

    def __len__(self) -> int:
        return len(self._claims)

    def __getitem__(self, number: int) -> Claim:
        if number not in self._claims:
            raise KeyError(
                f"{self.lesson} has no claim {number!r}: give one of "
                f"{', '.join(map(str, sorted(self._claims)))}"
            )
        return self._claims[number]

    def add(
        self,
        number: int,
        text: str,
        verdict: Verdict,
        *,
        measured: str | Callable[..., str],
        advice: str,
        was: tuple[str, ...] = (),
    ) -> Callable[[Condition], Condition]:
        """Enter a claim; what is decorated is its condition.  Parameters as of `Claim`."""
        if verdict not in VERDICTS:
            words = ", ".join(VERDICTS)
            raise ValueError(f"{verdict!r} is not a verdict: use one of {words}")
        if number in self._claims:
            raise ValueError(f"{self.lesson} has a claim {number} already: give it another number")

        def enter(condition: Condition) -> Condition:
            self._claims[number] = Claim(
                self.lesson, number, text, verdict, condition, measured, advice, was
            )
            return condition

        return enter
