"""Fixtures of the tests of teaching."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.common.gc_control import quick_collection
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Exercise
from tests.teaching.graded import make_double


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the tests do out of the user's progress."""
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "progress.json"))


@pytest.fixture(scope="module")
def _set_aside() -> Iterator[None]:
    """Set aside once what each check would look at again."""
    with quick_collection():
        yield


@pytest.fixture
def quick(_set_aside: None) -> None:
    """Set aside what the tests before left alive, too, until the module's end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def double() -> Iterator[Exercise]:
    """Give the tests' own exercise."""
    grading._references.pop(("tests.q1", 0), None)
    yield make_double()
    grading._references.pop(("tests.q1", 0), None)
