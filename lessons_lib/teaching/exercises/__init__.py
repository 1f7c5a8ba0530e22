"""Exercises graded in bytes: one module for each lesson.

::

    from lessons_lib.teaching import loops

    loops.q1.check(my_function)
    loops.q1.hint()
    loops.q1.solution()

An answer is right when it gives the right value, does what the task asks for, and stays within its
limits: a peak, bytes kept, bytes allocated, traces, operations, or growth.  See
`lessons_lib.teaching.exercises.exercise.Exercise`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lessons_lib.teaching.catalogue import COUNTS, LESSONS

if TYPE_CHECKING:
    from lessons_lib.teaching.exercises.question import Question

__all__ = ["LESSONS", "count", "exercises", "module_of"]


def module_of(name: str) -> Any:
    """Give the module of a lesson's exercises, by its name (``"loops"``)."""
    return import_module(f"{__name__}.lessons.{name}")


def exercises(module: str) -> tuple[Question, ...]:
    """Give a lesson's exercises, by the name of their module (``"loops"``)."""
    found: tuple[Question, ...] = module_of(module).EXERCISES
    return found


def count(module: str) -> int:
    """Count a lesson's exercises."""
    return COUNTS[module]
