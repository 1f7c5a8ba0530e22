"""For pytest alone: how it runs the lessons in this folder (``tests/support/lesson_runs.py``)."""

from tests.support.lesson_runs import pytest_runtest_call, pytest_terminal_summary

__all__ = ["pytest_runtest_call", "pytest_terminal_summary"]
