"""For pytest alone: how it runs the lessons in this folder (``tests/support/lesson_runs.py``)."""

import os
import tempfile

from tests.support.lesson_runs import pytest_runtest_call, pytest_terminal_summary

__all__ = ["pytest_runtest_call", "pytest_terminal_summary"]

# Lesson 00 shows the learner's progress: here nobody has done anything yet.
_folder = tempfile.TemporaryDirectory(prefix="lessons_lib-progress-")
os.environ["LESSONS_LIB_PROGRESS"] = os.path.join(_folder.name, "progress.json")
