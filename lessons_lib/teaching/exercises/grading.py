"""How an answer is graded: right value first, then its promises, at every size.

Each run has fresh inputs.  For each size an answer runs once to warm up, once while TensorFlow's
memory is recorded, once while Python's is; every value is compared.  The reference solution goes
through the same runs, so no figure of it is stored.  Whatever an answer does, what comes back is a
`Result`; only a keyboard interrupt passes through, with everything put back.
"""

from __future__ import annotations

import dis
import inspect
import random
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lessons_lib.common.gc_control import quick_collection
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, is_user_file, line_of
from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching.exercises import compare, measuring
from lessons_lib.teaching.exercises.graph_counter import GraphCounter
from lessons_lib.teaching.exercises.limits import Figure, Quantity, Size
from lessons_lib.teaching.exercises.result import Result, Status
from lessons_lib.teaching.exercises.warnings import without_warnings
from lessons_lib.teaching.exercises.watchdog import Tripped, allocated_now

if TYPE_CHECKING:
    from lessons_lib.teaching.exercises.exercise import Exercise, Inputs

#: An answer may take so many times its budget before it is stopped, and at least so many bytes.
_CEILING_FACTOR: Final = 40
_CEILING_LEAST: Final = 512 * MIB
#: Calls of a step that come before growth is measured: first traces, slots, buffers that fill.
_FIRST_CALLS: Final = 4
_NOTHING_YET: Final = "Your function returns nothing yet: write its body, and return the result."


class _Verdict(Exception):
    """Ends a grading early."""

    def __init__(self, status: Status, message: str, line: Line | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.line = line


@dataclass(frozen=True)
class _Weighed:
    """Figures of one size."""

    figures: dict[Quantity, int]
    heap_peak: int
    recording: Recording
    values: tuple[Any, ...]


def grade(exercise: Exercise, answer: Any, seed: int | None = None) -> Result:
    """Grade an answer; see `Exercise.check`."""

    def outcome(status: Status, message: str, **rest: Any) -> Result:
        return Result(exercise.key, exercise.title, status, message, **rest)

    if compare.is_nothing(answer):
        return outcome(Status.NOT_ATTEMPTED, "Write the function, then give it to check.")
    if not callable(answer):
        message = f"check needs the function itself: check({exercise.name}), without calling it."
        return outcome(Status.NOT_ATTEMPTED, message)
    if _is_unwritten(answer):
        return outcome(Status.NOT_ATTEMPTED, _NOTHING_YET)
    if tampered := measuring.disturbed():
        message = f"{tampered} was replaced in this kernel: restart it, then check again."
        return outcome(Status.REFUSED, message)
    chance = random.Random(seed) if seed is not None else random.SystemRandom()
    results = []
    try:
        with without_warnings(), quick_collection():
            for number, size in enumerate(exercise.graded):
                weighed = _weigh(exercise, answer, size, lambda: chance.randrange(1, 2**31))
                reference = _reference(exercise, number)
                results.append(_judge(exercise, answer, size, weighed, reference, outcome))
    except _Verdict as verdict:
        return outcome(verdict.status, verdict.message, blame=verdict.line)
    # The first size that goes wrong, or the largest.
    return next((result for result in results if not result.passed), results[-1])


def _is_unwritten(answer: Any) -> bool:
    """Tell whether a function has no body yet, without the cost of running it."""
    code = getattr(answer, "__code__", None)
    return isinstance(code, types.CodeType) and all(
        step.opname in ("RESUME", "NOP", "RETURN_VALUE")
        or (step.opname in ("LOAD_CONST", "RETURN_CONST") and step.argval is None)
        for step in dis.get_instructions(code)
    )


def _judge(
    exercise: Exercise,
    answer: Any,
    size: Size,
    weighed: _Weighed,
    reference: _Weighed,
    outcome: Callable[..., Result],
) -> Result:
    figures = [
        Figure(
            promise.quantity,
            weighed.figures[promise.quantity],
            promise.budget(size),
            reference.figures[promise.quantity],
            promise.floor(size) if promise.floor is not None else None,
        )
        for promise in exercise.promises
    ]
    figures.sort(key=lambda figure: figure.kept)
    first = figures[0]
    sizes = ", ".join(f"{name} = {value}" for name, value in size.items())
    rest: dict[str, Any] = {
        "figures": tuple(figures),
        "peak_bytes": weighed.figures[Quantity.PEAK],
        "heap_bytes": weighed.heap_peak,
        "recording": weighed.recording,
    }
    for figure in figures:
        slack = measuring.HEAP_FLOOR if figure.quantity.in_bytes else 0
        if figure.floor is not None and figure.measured < figure.floor - slack:
            write = figure.quantity.write
            message = (
                f"{write(figure.measured)}, and this can't be had below {write(figure.floor)}: "
            )
            message += (
                "some of its memory was hidden from the instruments."
                if figure.quantity.in_bytes
                else "compute it in a graph, as the task says."
            )
            return outcome(Status.REFUSED, message, **rest)
    if not first.kept:
        blame = _blame(weighed, first.quantity) if _is_users(answer) else None
        return outcome(
            Status.OVER_BUDGET, _excess(first, weighed, sizes, blame), blame=blame, **rest
        )
    message = f"Right, and within the budget with {sizes}."
    if answer is exercise.solution_code:
        message += " This is the reference solution."
    elif first.beats_reference:
        message += " It needs less than the reference solution: well done!"
    return outcome(Status.PASSED, message, **rest)


def _excess(figure: Figure, weighed: _Weighed, sizes: str, blame: Line | None) -> str:
    message = f"The value is right, but with {sizes} it is over the budget ({figure.sentence()})."
    if weighed.heap_peak and figure.quantity in (Quantity.PEAK, Quantity.KEPT, Quantity.GROWTH):
        message += (
            f" NumPy and Python take {format_bytes(weighed.heap_peak)} of the peak: "
            "their memory counts too."
        )
    if blame is not None:
        message += f" Most of it was made at {blame.described}."
    return message


def _is_users(answer: Any) -> bool:
    """Tell whether an answer is defined in the user's own code, so that its lines are known."""
    function = inspect.unwrap(getattr(answer, "python_function", answer))
    code = getattr(function, "__code__", None)
    return code is None or is_user_file(code.co_filename)


def _blame(weighed: _Weighed, quantity: Quantity) -> Line | None:
    if 2 * weighed.heap_peak > weighed.figures[Quantity.PEAK]:
        return None  # lines are known for tensors only
    by: Callable[[Any], int]
    match quantity:
        case Quantity.PEAK:
            by = lambda row: int(row.peak_bytes)  # noqa: E731
        case Quantity.KEPT | Quantity.GROWTH:
            by = lambda row: int(row.kept_bytes)  # noqa: E731
        case Quantity.ALLOCATED:
            by = lambda row: int(row.allocated_bytes)  # noqa: E731
        case _:
            return None
    rows = [row for row in weighed.recording.by_line().rows if row.line is not None and by(row) > 0]
    return max(rows, key=by).line if rows else None


def _weigh(
    exercise: Exercise, answer: Any, size: Size, fresh: Callable[[], int], *, compared: bool = True
) -> _Weighed:
    """Run an answer three times at one size, and compare its values."""
    budgets = [p.budget(size) for p in exercise.promises if p.quantity.in_bytes]
    ceiling = max([_CEILING_LEAST, *(_CEILING_FACTOR * budget for budget in budgets)])
    limits: dict[str, Any] = {"seconds": exercise.seconds, "ceiling": ceiling}
    values: list[Any] = []

    def value_of(run: Any, inputs: Inputs) -> None:
        value = run[0] if exercise.steps else run
        if compare.is_nothing(value) or (
            isinstance(value, list) and value and all(map(compare.is_nothing, value))
        ):
            raise _Verdict(Status.NOT_ATTEMPTED, _NOTHING_YET)
        if compared:
            expected = _expected(exercise, inputs)
            if where := compare.difference(value, expected, tolerance=exercise.tolerance):
                raise _Verdict(Status.WRONG_VALUE, f"{where[0].upper()}{where[1:]}.")
        values.append(compare.snapshot(value))

    def prepared() -> tuple[Inputs, Callable[[], Any]]:
        inputs = exercise.inputs(size, fresh())
        return inputs, lambda: _run(exercise, answer, inputs)

    inputs, call = prepared()
    with GraphCounter() as first_graphs:
        warm = _guarded(exercise, lambda: measuring.plain_pass(call, **limits))
    value_of(warm, inputs)
    growths = [warm[1]] if exercise.steps else [0]
    del warm

    inputs, call = prepared()
    tensors = _guarded(exercise, lambda: measuring.tensor_pass(call, **limits))
    value_of(tensors.value, inputs)
    kept, allocated = tensors.recording.kept_bytes, tensors.recording.allocated_bytes
    growths.append(tensors.value[1] if exercise.steps else 0)
    recording, graphs = tensors.recording, tensors.graphs
    del tensors

    inputs, call = prepared()
    heap = _guarded(exercise, lambda: measuring.heap_pass(call, **limits))
    value_of(heap.value, inputs)

    if compared and compare.same(values[0], values[1]) and compare.same(values[1], values[2]):
        _refuse_constants(exercise, size, fresh)
    figures = {
        Quantity.PEAK: recording.peak_bytes + heap.peak_bytes,
        Quantity.KEPT: kept + heap.kept_bytes,
        Quantity.ALLOCATED: allocated + heap.peak_bytes,
        # What grows does so in every run.
        Quantity.GROWTH: min(growths) + heap.kept_bytes // max(1, len(inputs.calls)),
        Quantity.TRACES: first_graphs.traces + graphs.traces,
        Quantity.OPS: max(first_graphs.ops, graphs.ops),
        Quantity.GRAPH: max(first_graphs.nbytes, graphs.nbytes),
    }
    return _Weighed(figures, heap.peak_bytes, recording, tuple(values))


def _refuse_constants(exercise: Exercise, size: Size, fresh: Callable[[], int]) -> None:
    first, second = (_expected(exercise, exercise.inputs(size, fresh())) for _ in range(2))
    if not compare.same(compare.snapshot(first), compare.snapshot(second)):
        raise _Verdict(
            Status.REFUSED, "Different inputs gave the very same result: it was not computed."
        )


def _run(exercise: Exercise, answer: Any, inputs: Inputs) -> Any:
    if not exercise.steps:
        return exercise.run(answer, inputs)
    step = answer(*inputs.arguments)
    if not callable(step):
        return step, 0
    values, held = [], []
    for make in inputs.calls:
        values.append(compare.snapshot(step(*make())))
        held.append(allocated_now() or 0)
    return values, _growth(held[_FIRST_CALLS:]), step


def _growth(held: list[int]) -> int:
    """Give the growth per call in bytes, from the bytes held after each of at least three calls.

    What a graph leaves behind until its next call differs from call to call, by about a state.
    So the lowest figure of the last third is compared with the highest of the first: where each
    call adds the same, this gives just that.
    """
    third = len(held) // 3
    calls = len(held) - 2 * third + 1
    return max(0, (min(held[-third:]) - max(held[:third])) // calls)


def _expected(exercise: Exercise, inputs: Inputs) -> Any:
    if exercise.expected is not None:
        return exercise.expected(inputs)
    value = _run(exercise, exercise.solution_code, inputs)
    return value[0] if exercise.steps else value


#: Figures of the reference solutions, by exercise and size; they don't change within a process.
_references: Final[dict[tuple[str, int], _Weighed]] = {}


def _reference(exercise: Exercise, number: int) -> _Weighed:
    found = _references.get((exercise.key, number))
    if found is None:
        seeds = iter(range(101, 200))
        found = _weigh(
            exercise,
            exercise.solution_code,
            exercise.graded[number],
            lambda: next(seeds),
            compared=False,
        )
        _references[exercise.key, number] = found
    return found


def _guarded(exercise: Exercise, run: Callable[[], Any]) -> Any:
    """Turn whatever an answer does into a verdict."""
    try:
        return run()
    except (KeyboardInterrupt, _Verdict):
        raise
    except Tripped as stopped:
        memory = "memory" in str(stopped)
        status = Status.OVER_BUDGET if memory else Status.WRONG_VALUE
        raise _Verdict(status, f"Your answer gave no result: {stopped}.") from None
    except measuring.Disturbed as reason:
        raise _Verdict(Status.REFUSED, f"This run can't be graded: {reason}.") from None
    except ProfileError:
        raise
    except NotImplementedError as error:
        if str(error):
            raise _crash(error) from None
        raise _Verdict(
            Status.NOT_ATTEMPTED, "Your function raises NotImplementedError: write its body."
        ) from None
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        verdict = _crash(error)
        verdict.status = Status.OVER_BUDGET
        raise verdict from None
    except BaseException as error:
        raise _crash(error) from None


def _crash(error: BaseException) -> _Verdict:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_file(f.filename)]
    line = line_of(frames[-1].filename, frames[-1].lineno or 0) if frames else None
    text = next((t.strip() for t in str(error).splitlines() if t.strip()), "")
    text = text if len(text) <= 200 else text[:199] + "…"
    where = f" at {line.described}" if line is not None else ""
    said = f": {text}" if text else ""
    return _Verdict(Status.WRONG_VALUE, f"It raised {type(error).__name__}{said}{where}.", line)
