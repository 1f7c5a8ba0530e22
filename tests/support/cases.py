"""Which of many cases the check runs, and which are left to ``python -m tests --further``."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
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


def or_further(names: Iterable[str], check: Container[str]) -> list[Any]:
    """Mark those names of cases as `further` that are not in the check."""
    return [
        pytest.param(name, marks=() if name in check else (pytest.mark.further,)) for name in names
    ]
