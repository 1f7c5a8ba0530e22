"""Which of many cases the check runs, and which are left to ``python -m tests --further``."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from itertools import groupby
from typing import Any

import pytest


def first_of_each(
    cases: Iterable[Any], kind: Callable[[Any], Hashable] = lambda _: None, keep: int = 1
) -> list[Any]:
    """Mark all cases as `further` but the first ones of each kind.

    Parameters
    ----------
    cases : iterable
        As `pytest.mark.parametrize` takes them: a case of several values is a tuple.
    kind : callable, optional
        Gives a case's kind; without it, all are of one.
    keep : int
        How many of each kind are not marked.
    """
    seen: dict[Hashable, int] = {}
    marked: list[Any] = []
    for case in cases:
        number = seen[kind(case)] = seen.get(kind(case), 0) + 1
        values = case if isinstance(case, tuple) else (case,)
        marks = () if number <= keep else (pytest.mark.further,)
        marked.append(pytest.param(*values, marks=marks))
    return marked


def or_further(names: Iterable[Any], check: Container[Any]) -> list[Any]:
    """Mark those names of cases as `further` that are not in the check."""
    return [
        pytest.param(name, marks=() if name in check else (pytest.mark.further,)) for name in names
    ]


def mark_further(items: Iterable[pytest.Item]) -> None:
    """Of the crossed cases of tests marked `each_value`, mark as `further` what adds no value.

    Of all cases of a test, those stay that have each value of each parameter at least once: one
    after the other the case that has most values which no earlier one has, until none is left.
    """
    for _, group in groupby(items, key=lambda item: getattr(item, "function", None)):
        cases = [item for item in group if item.get_closest_marker("each_value")]
        values = {item: _values(item) for item in cases}
        missing = set().union(*values.values())
        while missing:
            best = max(values, key=lambda item: len(values[item] & missing))
            missing -= values.pop(best)
        for item in values:
            item.add_marker(pytest.mark.further)


def _values(item: pytest.Item) -> frozenset[tuple[str, int]]:
    """Give a case's parameters, each with what its value is known again by."""
    parameters: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    return frozenset((name, id(value)) for name, value in parameters.items())
