"""Answers that people give and that are wrong, for every exercise: each must be refused.

One module for each lesson, with ``WRONG``: by exercise, the answers, how each must fare, and words
that its message must have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lessons_lib.teaching.exercises.result import Status


class Wrong(NamedTuple):
    """A wrong answer: the mistake, the function, how it must fare, and words of its message."""

    label: str
    answer: Callable[..., Any]
    status: Status
    says: str = ""
