"""Have `growth` look at steps, one or several at once, and explain what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lessons_lib.instruments.growth import Cause, Growth, growth
from lessons_lib.instruments.growth.notes import LOSES_REFERENCES

CALLS = 10
#: Each step may gain a KiB of the C heap a call that is none of its own, or little of it.
TOGETHER = 7


def clean(result: Growth) -> bool:
    """Tell whether nothing grows, but for what TensorFlow 2.16 itself leaks, which must be said."""
    if LOSES_REFERENCES and result.grows:
        said = any("itself leaks" in note for note in result.notes)
        return said and all(f.cause == Cause.PYTHON_OBJECTS and not f.held for f in result.causes)
    return result.cause == Cause.NONE


def look(step: Any, **options: Any) -> Growth:
    return growth(step, **{"iterations": CALLS, "warmup": 2, **options})


def together(makers: Iterable[Callable[[], Any]]) -> Callable[[int], None]:
    """Make one step of several: to look through the heap is what takes the time."""
    them = [maker() for maker in makers]

    def step(i: int) -> None:
        for one in them:
            one(i)

    return step


def in_groups(names: Iterable[str]) -> list[list[str]]:
    """Divide names into as many as are looked at together."""
    names = list(names)
    return [names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER)]


def assert_none_grows(makers: Iterable[Callable[[], Any]], **options: Any) -> None:
    """Look at several at once, but not so many that what counts for nothing adds up to something.

    Each by itself where TensorFlow's own leaks would add up.
    """
    makers, most = list(makers), 1 if LOSES_REFERENCES else TOGETHER
    for first in range(0, len(makers), most):
        result = look(together(makers[first : first + most]), **options)
        assert clean(result), explain(result)


def explain(result: Growth) -> str:
    found = "\n".join(f"{f.cause}, {f.size}: {f.text} {f.held}" for f in result.causes)
    return f"{result!r}\n{found}\n{list(result.notes)}\n{list(result.evidence)}"
