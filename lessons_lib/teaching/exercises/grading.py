"""How an answer is graded: right value first, then what the task asks for, then its limits.

At each size an answer runs twice, on inputs of its own each time, under the same instruments; the
first run warms up.  A failing answer stops at its first failure.  The reference solution goes
through the same, so no figure of it is stored, and its runs tell the right values.  Whatever an
answer does, what comes back is a `CheckResult`; only a keyboard interrupt passes through, with
everything put back.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lessons_lib.common.gc_control import frozen_heap
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, is_user_file
from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.teaching.exercises.exercise import Exercise, function_of
from lessons_lib.teaching.exercises.expected import is_nothing
from lessons_lib.teaching.exercises.faults import EMPTY, GradingStopped, is_unwritten
from lessons_lib.teaching.exercises.graph_counter import GraphCount
from lessons_lib.teaching.exercises.limits import Figure, Limit, Quantity, Size
from lessons_lib.teaching.exercises.measuring import HEAP_FLOOR
from lessons_lib.teaching.exercises.result import CheckResult, Status
from lessons_lib.teaching.exercises.running import Run, expected_values, run_once
from lessons_lib.teaching.exercises.warnings import without_warnings

#: An answer may take so many times its budget before it is stopped, and at least so many bytes.
_CEILING_FACTOR: Final = 40
_CEILING_LEAST: Final = 512 * MIB

_OF_GRAPHS: Final = (Quantity.TRACES, Quantity.OPS, Quantity.GRAPH)

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class _Weighed:
    """Figures of one size, the run that they are from, what limits them, and the reference's."""

    figures: dict[Quantity, int]
    run: Run
    limits: tuple[Limit, ...] = ()
    reference: dict[Quantity, int] = field(default_factory=dict)


def grade(
    exercise: Exercise, answer: Any, seed: int | None = None, report: Report | None = None
) -> CheckResult:
    """Grade an answer; see `Question.check`.

    Parameters
    ----------
    report : callable, optional
        Told before each run: its number from 1, and how many there are.
    """

    def outcome(status: Status, message: str, **rest: Any) -> CheckResult:
        return CheckResult(exercise.key, exercise.title, status, message, **rest)

    if is_nothing(answer):
        return outcome(Status.NOT_ATTEMPTED, "Write the function, then give it to check.")
    if not callable(answer):
        message = f"check needs the function itself: check({exercise.name}), without calling it."
        return outcome(Status.NOT_ATTEMPTED, message)
    if is_unwritten(answer):
        return outcome(Status.NOT_ATTEMPTED, EMPTY)
    if message := _why_not_now():
        return outcome(Status.REFUSED, message)
    chance = random.Random(seed) if seed is not None else random.SystemRandom()
    told = report or (lambda number, all_: None)
    result = None
    try:
        # What is garbage by now stays until the end: to look for it takes as long as a run.
        with without_warnings(), frozen_heap():
            for number in range(len(exercise.graded)):
                shown = result is None
                weighed = _weigh(exercise, answer, number, chance, told, shown)
                result = _judge(exercise, answer, number, weighed, outcome)
                if not result.passed:
                    break
    except GradingStopped as verdict:
        message = f"{verdict.message} {_misordered(exercise, answer)}".strip()
        return outcome(verdict.status, message, blame=verdict.line)
    assert result is not None
    return result


def _why_not_now() -> str:
    """Say why nothing can be measured, if a setting of the program's is in the way."""
    if not tf.executing_eagerly():
        return (
            "Eager execution is off here: call check outside of any graph, or restart the kernel."
        )
    if tf.config.functions_run_eagerly():
        return (
            "tf.config.run_functions_eagerly(True) is in force, so no tf.function makes a graph: "
            "call tf.config.run_functions_eagerly(False), then check again."
        )
    return ""


def _misordered(exercise: Exercise, answer: Any) -> str:
    """Say so if an answer has the exercise's arguments in another order; else nothing."""
    wanted = list(inspect.signature(exercise.starter).parameters)
    code = getattr(function_of(answer), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else wanted
    if names == wanted or sorted(names) != sorted(wanted):
        return ""
    call = f"{exercise.name}({', '.join(wanted)})"
    return f"A check calls {call}, and your function has the order ({', '.join(names)})."


def _weigh(
    exercise: Exercise, answer: Any, number: int, chance: random.Random, told: Report, shown: bool
) -> _Weighed:
    """Run an answer at one size, twice if need be."""
    runs: list[Run] = []
    reference: list[Run] = []
    broken: tuple[Limit, ...] = ()
    while len(runs) < 2 and not broken:
        told(2 * number + len(runs) + 1, 2 * len(exercise.graded))
        draw = chance.randrange(1, 2**31)
        runs.append(_compared_run(exercise, answer, number, draw, shown and not runs, reference))
        broken = _broken_for_good(exercise, number, runs)
    weighed = _combine(runs)
    if answer is exercise.solution_code:
        _references[exercise.key, number] = weighed.figures
    known = _references.get((exercise.key, number)) or _combine(reference).figures
    return replace(weighed, limits=broken or exercise.limits, reference=known)


def _compared_run(
    exercise: Exercise, answer: Any, number: int, seed: int, shown: bool, reference: list[Run]
) -> Run:
    """Run an answer, and before it the reference, where its figures are not known yet."""
    size = exercise.graded[number]
    ceiling = _ceiling(exercise, size)
    if answer is exercise.solution_code or (exercise.key, number) in _references:
        expected = expected_values(exercise, size, seed)
    else:
        solution = exercise.solution_code
        run = run_once(exercise, solution, size, seed, ceiling=ceiling, expected=None)
        reference.append(run)
        expected = run.right
    run = run_once(exercise, answer, size, seed, ceiling=ceiling, expected=expected, shown=shown)
    if len(reference) == 2:
        _references[exercise.key, number] = _combine(reference).figures
    return run


def _broken_for_good(exercise: Exercise, number: int, runs: list[Run]) -> tuple[Limit, ...]:
    """Give a limit that runs broke so that no other run could mend it, if there is one.

    What graphs were made of stays made.  Bytes may be fewer in a second run only where a graph ran,
    which is optimized at first, or where Python took some, which may be an import.
    """
    figures, usage = _combine(runs).figures, runs[-1].usage
    plain = not (usage.graphs.calls or usage.heap_peak_bytes or usage.numpy_bytes)
    for limit in exercise.limits:
        over = figures[limit.quantity] - limit.budget(exercise.graded[number])
        if over > (0 if limit.quantity in _OF_GRAPHS else HEAP_FLOOR if plain else math.inf):
            return (limit,)
    return ()


def _ceiling(exercise: Exercise, size: Size) -> int:
    budgets = [limit.budget(size) for limit in exercise.limits if limit.quantity.in_bytes]
    return max([_CEILING_LEAST, *(_CEILING_FACTOR * budget for budget in budgets)])


def _combine(runs: list[Run]) -> _Weighed:
    first, last = runs[0], runs[-1]
    graphs = [run.usage.graphs for run in runs]
    return _Weighed(
        {
            Quantity.PEAK: last.usage.peak_bytes,
            Quantity.KEPT: last.usage.kept_bytes,
            Quantity.ALLOCATED: last.usage.allocated_bytes,
            # What grows does so in every run.
            Quantity.GROWTH: min(first.growth_bytes, last.growth_bytes),
            Quantity.TRACES: max(count.traces for count in graphs),
            Quantity.OPS: max(count.ops for count in graphs),
            Quantity.GRAPH: max(count.nbytes for count in graphs),
        },
        last,
    )


#: Figures of the reference solutions, by exercise and size; they don't change within a process.
_references: Final[dict[tuple[str, int], dict[Quantity, int]]] = {}


def _judge(
    exercise: Exercise,
    answer: Any,
    number: int,
    weighed: _Weighed,
    outcome: Callable[..., CheckResult],
) -> CheckResult:
    size = exercise.graded[number]
    own = answer is exercise.solution_code
    figures = [
        Figure(
            limit.quantity,
            weighed.figures[limit.quantity],
            limit.budget(size),
            # What the reference traced is known to TensorFlow from its first run on.
            weighed.reference[limit.quantity] if limit.quantity.in_bytes else None,
            limit.floor(size) if limit.floor is not None else None,
        )
        for limit in weighed.limits
    ]
    figures.sort(key=lambda figure: figure.kept)
    first = figures[0]
    usage = weighed.run.usage
    rest: dict[str, Any] = {
        "figures": tuple(figures),
        "peak_bytes": usage.peak_bytes,
        "heap_bytes": usage.heap_peak_bytes,
        "recording": usage.recording,
    }
    for figure in figures:
        slack = HEAP_FLOOR if figure.quantity.in_bytes else 0
        if figure.floor is not None and figure.measured < figure.floor - slack:
            write = figure.quantity.write
            message = (
                f"{write(figure.measured)} were measured, and this can't be had below "
                f"{write(figure.floor)}: the result was there before, or was made where no meter "
                "looks. Compute it from the arguments, in the call."
            )
            return outcome(Status.REFUSED, message, **rest)
    if not first.kept:
        users = is_user_file(_file_of(answer))
        blame, more = _blame(first.quantity, weighed.run) if users else (None, "")
        message = f"{_excess(first, weighed, size)} {more}".strip()
        return outcome(Status.OVER_BUDGET, message, blame=blame, **rest)
    return outcome(Status.PASSED, _praise(first, own), **rest)


def _praise(figure: Figure, own: bool) -> str:
    write = figure.quantity.write
    parts = [f"the budget is {write(figure.budget)}"]
    if figure.reference is not None and not own:
        parts.append(f"the reference needs {write(figure.reference)}")
    if figure.floor is not None:
        parts.append(f"the least possible is {write(figure.floor)}")
    said = f"{figure.quantity.told(figure.measured)}; {', '.join(parts)}."
    if own:
        return f"This is the reference solution: {said}"
    return f"Right: {said}" + (
        " It needs less than the reference." if figure.beats_reference else ""
    )


def _excess(figure: Figure, weighed: _Weighed, size: Size) -> str:
    sizes = ", ".join(f"{name} = {value}" for name, value in size.items())
    message = f"The value is right, but with {sizes} it is over the budget ({figure.sentence()})."
    usage = weighed.run.usage
    match figure.quantity:
        case Quantity.PEAK:
            heap = usage.heap_peak_bytes
        case Quantity.KEPT | Quantity.GROWTH:
            heap = usage.heap_kept_bytes
        case Quantity.ALLOCATED:
            heap = usage.numpy_bytes
        case _:
            heap = 0
    if heap:
        message += f" {format_bytes(heap)} of it are NumPy's and Python's: they count, too."
    return message


def _file_of(answer: Any) -> str:
    code = getattr(function_of(answer), "__code__", None)
    return "" if code is None else str(code.co_filename)


def _blame(quantity: Quantity, run: Run) -> tuple[Line | None, str]:
    """Give the learner's line that is at fault, and a sentence about it."""
    if quantity in (Quantity.KEPT, Quantity.GROWTH) and run.holder is not None:
        return run.holder.line, f"{run.holder}."
    usage = run.usage
    by: Callable[[Any], int]
    match quantity:
        case Quantity.PEAK:
            by = lambda row: int(row.peak_bytes)  # noqa: E731
            heap = 2 * usage.heap_peak_bytes > usage.peak_bytes
        case Quantity.KEPT | Quantity.GROWTH:
            by = lambda row: int(row.kept_bytes)  # noqa: E731
            heap = 2 * usage.heap_kept_bytes > usage.kept_bytes
        case Quantity.ALLOCATED:
            by = lambda row: int(row.allocated_bytes)  # noqa: E731
            heap = 2 * usage.numpy_bytes > usage.allocated_bytes
        case _:
            return _blame_in_graphs(quantity, usage.graphs)
    if heap and usage.arrays:
        line = max(usage.arrays, key=lambda line: usage.arrays[line])
        return line, f"Most of NumPy's arrays were made at {line.described}."
    if heap:
        return None, "Most of it is taken by Python's own objects, such as the numbers of a list."
    rows = [row for row in usage.recording.by_line().rows if row.line is not None and by(row) > 0]
    top = max(rows, key=by, default=None)
    if top is None or top.line is None:
        return None, ""
    return top.line, f"Most of it was made at {top.line.described}."


def _blame_in_graphs(quantity: Quantity, graphs: GraphCount) -> tuple[Line | None, str]:
    match quantity:
        case Quantity.TRACES:
            times, line = graphs.most_traced()
            said = f"The same code was traced {times} times; look at"
        case Quantity.OPS:
            line, said = graphs.line_of_ops(), "Most operations come from"
        case _:
            line, said = graphs.line_of_constant(), "The largest constant in a graph comes from"
    return (None, "") if line is None else (line, f"{said} {line.described}.")
