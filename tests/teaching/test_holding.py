"""What an answer keeps from call to call, and who holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lessons_lib.teaching.exercises.exercise import Inputs, Way
from lessons_lib.teaching.exercises.inputs import normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity
from lessons_lib.teaching.exercises.result import Status
from lessons_lib.teaching.exercises.running import growth_per_call
from tests.teaching.graded import S, double_solution, grade, make_double

pytestmark = pytest.mark.usefixtures("quick")


def _kept_by_an_object() -> Any:
    class Keeper:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def __call__(self, x: Any) -> Any:
            self.seen.append(x)
            return 2.0 * x

    return Keeper()


_everything: dict[int, Any] = {}


def _kept_in_a_global() -> Any:
    _everything.clear()

    def step(x: Any) -> Any:
        _everything[len(_everything)] = x
        return 2.0 * x

    return step


def _kept_by_a_default() -> Any:
    def step(x: Any, seen: list[Any] = []) -> Any:  # noqa: B006 - the mistake itself
        seen += [x]
        return 2.0 * x

    return step


def _kept_by_a_function_inside() -> Any:
    arrays: list[Any] = []
    counts: list[int] = []

    def note(x: Any) -> None:
        counts.append(len(counts))
        arrays.append(x.numpy())

    def step(x: Any) -> Any:
        note(x)
        return 2.0 * x

    return step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "name", "line"),
    [
        (_kept_by_an_object, "self.seen", "self.seen.append(x)"),
        (_kept_in_a_global, "_everything", "_everything[len(_everything)] = x"),
        (_kept_by_a_default, "seen", "seen += [x]"),
        (_kept_by_a_function_inside, "arrays", "arrays.append(x.numpy())"),
    ],
)
def test_a_leak_is_blamed_on_the_line_that_holds(
    answer: Callable[[], Any], name: str, line: str
) -> None:
    def inputs(size: Any, seed: int) -> Inputs:
        def call(number: int) -> Any:
            return lambda: (normal(seed + number, size["rows"], 1024),)

        return Inputs((), tuple(call(number) for number in range(12)))

    exercise = make_double(
        key="tests.q14",
        inputs=inputs,
        way=Way.STEP,
        solution_code=lambda: double_solution,
        limits=(Limit(Quantity.GROWTH, lambda size: S // 16),),
    )
    result = grade(exercise, answer)
    assert result.status is Status.OVER_BUDGET
    # Each call keeps a batch.
    assert result.figures[0].measured == pytest.approx(S, rel=0.05)
    assert f"`{name}`" in result.message
    assert result.blame is not None
    assert result.blame.text == line
    _everything.clear()


@pytest.mark.parametrize(
    ("held", "per_call"),
    [
        ([10, 20, 30], 10),
        ([10, 20, 30, 40, 50], 10),
        ([10, 20, 30, 40, 50, 60, 70, 80], 10),
        ([10, 11, 10, 11, 10, 11], 0),  # a graph's leavings
        ([10, 10, 10, 10, 10, 99], 0),
        ([99, 10, 10, 10, 10, 10], 0),
        ([60, 50, 40, 30, 20, 10], 0),
        ([10, 20], 0),  # too few to tell
    ],
)
def test_growth_per_call(held: list[int], per_call: int) -> None:
    assert growth_per_call(held) == per_call
