"""How long the checks of exercises take: ``python -m tests.benchmarks.checks [LESSON ...]``.

For each exercise, the seconds of a check of the reference solution, as a learner's first check in a
kernel would take it (the reference's own figures are measured, too), and of its wrong answers, the
longest of them.  Wall-clock seconds of this machine, and the processor's: the goal is 3 s for a
typical answer and 1 s for a wrong one on two quiet cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lessons_lib.teaching.exercises import LESSONS, exercises, grading
from lessons_lib.teaching.exercises.question import Question


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Give the wall-clock and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def main(lessons: list[str]) -> None:
    """Print a line for each exercise."""
    print(f"{'exercise':<22} {'right answer':>18} {'slowest wrong answer':>24}")
    for module in lessons or list(LESSONS.values()):
        right = import_module(f"tests.teaching.right_answers.{module}").RIGHT
        wrong = import_module(f"tests.teaching.wrong_answers.{module}").WRONG
        for question in exercises(module):
            if not isinstance(question, Question):
                continue
            exercise, number = question.exercise, question.key.partition(".")[2]
            answer = right[number][0]
            took = timed(lambda: grading.grade(exercise, answer, seed=1))  # noqa: B023
            slowest, label = max(
                (timed(lambda: grading.grade(exercise, w.answer, seed=1)), w.label)  # noqa: B023
                for w in wrong[number]
            )
            print(
                f"{question.key:<22} {took[0]:6.1f} s ({took[1]:4.1f} s CPU) "
                f"{slowest[0]:6.1f} s ({slowest[1]:4.1f} s CPU)  {label}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
