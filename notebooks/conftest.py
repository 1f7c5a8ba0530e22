"""For pytest alone: how it runs the lessons in this folder (``tests/support/lesson_runs.py``)."""

from contextlib import ExitStack

from tests.support.lesson_runs import pytest_runtest_call, pytest_terminal_summary
from tests.support.notebooks import nobodys_progress

__all__ = ["pytest_configure", "pytest_runtest_call", "pytest_terminal_summary"]

_until_the_end = ExitStack()


def pytest_configure() -> None:
    """Begin: lesson 00 shows the learner's progress, and here nobody has done anything yet."""
    _until_the_end.enter_context(nobodys_progress())


def pytest_unconfigure() -> None:
    """Give the progress back."""
    _until_the_end.close()
