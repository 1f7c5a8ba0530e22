"""What the tests of grading share: an exercise of their own, ``double(x)``."""

from __future__ import annotations

import linecache
from typing import Any, Final

from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity
from lessons_lib.teaching.exercises.result import CheckResult

S: Final = 4 * 256 * 1024  # bytes of the tensors of `double`


def double_starter(x: Any) -> Any:
    """Return twice x."""
    ...


def double_solution(x: Any) -> Any:
    """Return twice x."""
    return 2.0 * x


def make_double(**changes: Any) -> Exercise:
    """Make the exercise, with some fields changed; a budget of 1.5 S for the peak."""
    fields: dict[str, Any] = {
        "key": "tests.q1",
        "title": "Twice",
        "prompt": "Write `double(x)`.",
        "starter": double_starter,
        "solution_code": double_solution,
        "inputs": lambda size, seed: Inputs((normal(seed, size["rows"], 1024),)),
        "shown": {"rows": 64},
        "graded": ({"rows": 256},),
        "limits": (
            Limit(
                Quantity.PEAK,
                lambda size: 3 * floats(size["rows"], 1024) // 2,
                floor=lambda size: floats(size["rows"], 1024),
            ),
        ),
        "hints": ("Think of +.", "x + x."),
        "seconds": 20.0,
    }
    return Exercise(**{**fields, **changes})


def grade(exercise: Exercise, answer: Any) -> CheckResult:
    """Grade an answer, with inputs that are the same in each run."""
    return grading.grade(exercise, answer, seed=1)


def run_as_in_a_cell(source: str, namespace: dict[str, Any]) -> None:
    """Run code so that its source can be read, as AutoGraph needs."""
    name = f"<ipython-input-1-{len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)
