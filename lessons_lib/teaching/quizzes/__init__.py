"""Questions about mechanism, a module for each lesson; ``quiz_widget`` beside it shows them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from lessons_lib.teaching.quizzes.parts import QuizQuestion

#: Lessons that have a quiz, by the name of their module of exercises; lesson 00 has no exercises.
LESSONS: Final = (
    "start_here",
    "measure_memory",
    "eager_and_graph",
    "loops",
    "tracing",
    "growth",
    "state",
    "capstone",
)


def questions(lesson: str) -> tuple[QuizQuestion, ...]:
    """Give a lesson's questions; none when it has no quiz."""
    if lesson not in LESSONS:
        return ()
    found: tuple[QuizQuestion, ...] = import_module(f"{__name__}.{lesson}").QUESTIONS
    return found
