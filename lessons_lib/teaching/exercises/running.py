"""One run of an answer under the instruments, with its values compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Attempt, Exercise, Inputs, Way, function_of
from lessons_lib.teaching.exercises.expected import difference, expect, form_of, with_article
from lessons_lib.teaching.exercises.faults import (
    EMPTY,
    GradingStopped,
    guarded,
    is_unwritten,
    why_none,
)
from lessons_lib.teaching.exercises.holding import Holder, find_holder
from lessons_lib.teaching.exercises.limits import Size
from lessons_lib.teaching.exercises.measuring import Meter, Usage
from lessons_lib.teaching.exercises.output import limited_output
from lessons_lib.teaching.exercises.result import Status

#: Calls of a step that come before growth is measured: first traces, slots, buffers that fill.
_FIRST_CALLS: Final = 4

_LONGEST: Final = 200  # characters of an error's text


@dataclass(frozen=True)
class Run:
    """What one run took, who holds what stays after it, and what its inputs' right values are.

    These are what the run itself gave, where it was compared with nothing.
    """

    usage: Usage
    right: list[Any]
    growth_bytes: int = 0
    holder: Holder | None = None


def expected_values(exercise: Exercise, size: Size, seed: int) -> list[Any]:
    """Compute the right values, on inputs of their own; they hold nothing of TensorFlow's."""
    inputs = exercise.inputs(size, seed)
    if inputs.right is not None:
        return _told(inputs)
    solution = exercise.solution_code
    if exercise.way is Way.ONCE:
        return [expect(solution(*inputs.arguments))]
    step = solution(*inputs.arguments) if exercise.way is Way.STEP else solution
    return [expect(step(*make())) for make in inputs.calls]


def _told(inputs: Inputs) -> list[Any]:
    return [expect(v) for v in (inputs.right if inputs.calls else [inputs.right])]


def run_once(
    exercise: Exercise,
    answer: Any,
    size: Size,
    seed: int,
    *,
    ceiling: int,
    expected: list[Any] | None,
    shown: bool = False,
) -> Run:
    """Run an answer on fresh inputs.

    Parameters
    ----------
    expected : list or None
        The right values; None compares nothing: the answer is the reference.
    shown : bool
        Whether what it prints is shown.

    Raises
    ------
    GradingStopped
        If it raises, is stopped, gives a wrong value or not what was asked for.
    """
    inputs = exercise.inputs(size, seed)
    before = [expect(argument) if _mutable(argument) else None for argument in inputs.arguments]
    calling = _Calling(exercise, answer, inputs, expected)
    meter = Meter(seconds=exercise.seconds, ceiling=ceiling)

    def run() -> Any:
        with limited_output(shown=shown), meter:
            return calling.run(meter)

    value = guarded(run)
    calling.judge(value)
    usage = meter.usage()
    if expected is not None:
        _check_inputs(answer, inputs, before)
        for requirement in exercise.requires:
            if missing := requirement(Attempt(value, inputs, usage.graphs, usage.largest_bytes)):
                raise GradingStopped(Status.NOT_AS_ASKED, missing)
    holder = None
    if exercise.way is Way.STEP:
        holder = find_holder(value, len(inputs.calls) // 2)
    right = calling.right if inputs.right is None else _told(inputs)
    return Run(usage, right, growth_per_call(meter.held()[_FIRST_CALLS:]), holder)


class _Calling:
    """Calls an answer as its exercise says, and compares what it gives."""

    def __init__(
        self, exercise: Exercise, answer: Any, inputs: Inputs, expected: list[Any] | None
    ) -> None:
        self._exercise, self._answer = exercise, answer
        self._inputs, self._expected = inputs, expected
        self.right: list[Any] = expected or []

    def run(self, meter: Meter) -> Any:
        """Run the answer; gives its value, or the step that it made."""
        inputs = self._inputs
        if self._exercise.way is Way.ONCE:
            return self._answer(*inputs.arguments)
        step = self._answer
        if self._exercise.way is Way.STEP:
            step = self._answer(*inputs.arguments)
            self._check_step(step)
        for number, make in enumerate(inputs.calls):
            value = step(*make())
            # A value is released before the next call, as a loop would.
            with meter.outside():
                self._compare(value, number)
            del value
            meter.mark()
        return step

    def judge(self, value: Any) -> None:
        """Compare the value of an answer that is called once."""
        if self._exercise.way is Way.ONCE:
            self._compare(value, 0)

    def _check_step(self, step: Any) -> None:
        if step is None:
            raise why_none(self._answer)
        if not callable(step):
            kind = with_article(type(step).__name__)
            raise GradingStopped(
                Status.WRONG_VALUE, f"It returned {kind}; a function was expected."
            )
        if is_unwritten(step):
            raise GradingStopped(Status.NOT_ATTEMPTED, EMPTY.replace("Your", "The inner"))

    def _compare(self, value: Any, number: int) -> None:
        if self._expected is None:
            self.right.append(expect(value))
            return
        inner = self._exercise.way is Way.STEP
        expected = self._expected[number]
        if value is Ellipsis or value is NotImplemented:
            raise GradingStopped(Status.NOT_ATTEMPTED, EMPTY)
        if value is None or (isinstance(value, (list, tuple)) and any(v is None for v in value)):
            verdict = why_none(self._answer)
            if inner and verdict.line is None:
                verdict.message = verdict.message.replace("The result", "The step's result")
            raise verdict
        try:
            wrong = difference(value, expected, tolerance=self._exercise.tolerance)
        except Exception as error:  # such as sparse rows that no tensor has
            words = f"{type(error).__name__}: {error}".splitlines()[0][:_LONGEST]
            raise GradingStopped(
                Status.WRONG_VALUE, f"Your result cannot be read. {words}"
            ) from None
        if wrong:
            where = self._which_call(number) if self._inputs.calls else ""
            explained = self._exercise.explain
            more = ""
            if explained is not None and form_of(value) is not None:
                more = explained(self._inputs, value, expected)
            message = f"{wrong[0].upper()}{wrong[1:]}{where}."
            raise GradingStopped(Status.WRONG_VALUE, f"{message} {more}".strip())

    def _which_call(self, number: int) -> str:
        """Name a call: by its arguments where they are numbers and texts, which can be read."""
        arguments = self._inputs.calls[number]()
        if not all(isinstance(argument, (int, float, str, tuple)) for argument in arguments):
            return f" (call {number + 1})"
        return f" for {self._exercise.name}({', '.join(map(repr, arguments))})"


def _mutable(argument: Any) -> bool:
    return isinstance(argument, (np.ndarray, list, dict, tf.Variable))


def _check_inputs(answer: Callable[..., Any], inputs: Inputs, before: list[Any]) -> None:
    code = getattr(function_of(answer), "__code__", None)
    names = code.co_varnames if code is not None else ()
    for number, (argument, old) in enumerate(zip(inputs.arguments, before, strict=True)):
        if old is None or not difference(argument, old, tolerance=0.0):
            continue
        name = f"`{names[number]}`" if number < len(names) else f"argument {number + 1}"
        raise GradingStopped(
            Status.NOT_AS_ASKED,
            f"The result is right, but your function changed its input {name}, which its caller "
            "goes on using: leave inputs as they are.",
        )


def growth_per_call(held: list[int]) -> int:
    """Give the growth per call in bytes, from the bytes held after each of at least three calls.

    What a graph leaves behind until its next call differs from call to call, by about a state.
    So the lowest figure of the last third is compared with the highest of the first: where each
    call adds the same, this gives just that.
    """
    third = len(held) // 3
    if not third:
        return 0
    calls = len(held) - 2 * third + 1
    return max(0, (min(held[-third:]) - max(held[:third])) // calls)
