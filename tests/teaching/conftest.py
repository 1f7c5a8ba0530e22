"""Fixtures of the tests of teaching."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Exercise
from tests.support.quick import quick, set_aside
from tests.teaching.graded import make_double

__all__ = ["double", "own_progress", "quick", "set_aside"]


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the tests do out of the user's progress."""
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "progress.json"))


@pytest.fixture
def double() -> Iterator[Exercise]:
    """Give the tests' own exercise."""
    grading._references.pop(("tests.q1", 0), None)
    yield make_double()
    grading._references.pop(("tests.q1", 0), None)
