"""Grading: what passes, what does not, and in which words.

Peaks are hand arithmetic: S is the bytes of a float32 tensor.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common import results
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, Way
from lessons_lib.teaching.exercises.inputs import normal
from lessons_lib.teaching.exercises.limits import Figure, Limit, Quantity
from lessons_lib.teaching.exercises.requirements import in_graph, is_variable
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.graded import S, double_solution, grade, make_double

pytestmark = pytest.mark.usefixtures("quick")


# --- figures ------------------------------------------------------------------------------------


def test_peaks_are_exact(double: Exercise) -> None:
    def wasteful(x: Any) -> Any:
        a = x + 1.0
        b = a - 1.0
        return b * 2.0  # a, b and the product are alive: 3 S

    result = grade(double, wasteful)
    assert result.status is Status.OVER_BUDGET
    assert (result.peak_bytes, result.budget_bytes) == (3 * S, 3 * S // 2)
    assert result.heap_bytes == 0
    figure = result.figures[0]
    assert (figure.reference, figure.floor) == (S, S)
    # Each of the three lines holds S at the peak; one of them is named, with its text.
    assert result.blame is not None
    assert result.blame.file == __file__
    assert result.blame.text in (
        "a = x + 1.0",
        "b = a - 1.0",
        "return b * 2.0  # a, b and the product are alive: 3 S",
    )
    assert result.blame.text in result.message


def test_numpy_is_counted_and_its_line_named(double: Exercise) -> None:
    def hidden(x: Any) -> Any:
        copy = x.numpy()
        total = np.add(copy, copy)
        return tf.constant(total)  # three arrays, or two and TensorFlow's own buffer

    result = grade(double, hidden)
    assert result.status is Status.OVER_BUDGET
    assert result.peak_bytes is not None
    assert 3 * S <= result.peak_bytes <= 4 * S + S // 4
    assert "NumPy" in result.message
    assert result.blame is not None
    assert result.blame.file == __file__


def test_a_passing_answer_says_all_its_figures(double: Exercise) -> None:
    result = grade(double, lambda x: x + x)
    assert result.passed
    for words in (
        "peak 1 MiB",
        "the budget is 1.5 MiB",
        "the reference needs 1 MiB",
        "the least possible is 1 MiB",
    ):
        assert words in result.message


def test_beating_the_reference_is_said() -> None:
    def wasteful_solution(x: Any) -> Any:
        y = x + x
        return y * 1.0

    exercise = make_double(
        key="tests.q2",
        solution_code=wasteful_solution,
        limits=(Limit(Quantity.PEAK, lambda size: 2 * S),),
    )
    result = grade(exercise, lambda x: x + x)
    assert result.passed
    assert result.beats_reference
    assert "less than the reference" in result.message
    assert "beats the reference" in results.alt_text(result)
    assert not grade(exercise, wasteful_solution).beats_reference


def test_numpys_total_counts_where_totals_do() -> None:
    exercise = make_double(key="tests.q6", limits=(Limit(Quantity.ALLOCATED, lambda size: 5 * S),))

    def again_and_again(x: Any) -> Any:
        for _ in range(8):
            copy = x.numpy()
        return tf.constant(copy + copy)

    result = grade(exercise, again_and_again)
    assert result.status is Status.OVER_BUDGET
    assert result.blame is not None
    assert result.blame.text == "copy = x.numpy()"
    assert grade(exercise, lambda x: tf.constant(2 * x.numpy())).passed


def test_a_failing_answer_stops_at_its_first_size() -> None:
    seen = []

    def wasteful(x: Any) -> Any:
        seen.append(x.shape[0])
        return (x + 1.0 - 1.0 + (x * 1.0)) * 1.0

    exercise = make_double(key="tests.q7", graded=({"rows": 256}, {"rows": 512}))
    assert grade(exercise, wasteful).status is Status.OVER_BUDGET
    assert seen == [256]  # nor is it run again where no graph may need less the second time
    through_numpy = grade(exercise, lambda x: tf.constant(wasteful(x).numpy()))
    assert through_numpy.status is Status.OVER_BUDGET
    assert seen == [256] * 3


# --- no honest mistake passes -------------------------------------------------------------------


class _Lazy:
    """Computes only when somebody looks."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def numpy(self) -> Any:
        return (2.0 * self.x).numpy()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()


def _in_turns() -> Callable[[Any], Any]:
    """NumPy in one run, TensorFlow in the next, wasteful in both."""
    calls: list[int] = []

    def answer(x: Any) -> Any:
        calls.append(1)
        if len(calls) % 2:
            copies = [x.numpy() for _ in range(4)]
            return tf.constant(copies[0] * np.float32(2.0))
        copies = [x * 1.0 for _ in range(4)]
        return copies[0] * 2.0

    return answer


def _where_nobody_traces(x: Any) -> Any:
    if tracemalloc.is_tracing():
        return (x * 1.0) * 2.0
    copies = [x.numpy() for _ in range(4)]
    return tf.constant(copies[0] * np.float32(2.0))


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (_Lazy, Status.WRONG_VALUE, "is a _Lazy, one tensor of shape [256, 1024] was expected"),
        (lambda x: list(2.0 * x), Status.WRONG_VALUE, "a list of 256, one tensor of shape"),
        (lambda x: (2.0 * x).numpy(), Status.WRONG_VALUE, "a NumPy array of shape [256, 1024]"),
        (lambda x: tf.cast(2.0 * x, tf.float64), Status.WRONG_VALUE, "dtype float64, expected"),
        (lambda x: tf.cast(2.0 * x, tf.float16), Status.WRONG_VALUE, "dtype float16, expected"),
        (lambda x: tf.fill(x.shape, 2.0 * tf.reduce_mean(x)), Status.WRONG_VALUE, "differ"),
        (lambda x: 2.0 * x[:-1], Status.WRONG_VALUE, "shape [255, 1024], expected [256, 1024]"),
        (_in_turns(), Status.OVER_BUDGET, "over the budget"),
        (_where_nobody_traces, Status.OVER_BUDGET, "NumPy"),
    ],
)
def test_it_is_refused(double: Exercise, answer: Any, status: Status, says: str) -> None:
    result = grade(double, answer)
    assert (result.status, says in result.message) == (status, True), str(result)


def test_every_element_counts(double: Exercise) -> None:
    def one_off(x: Any) -> Any:
        return tf.tensor_scatter_nd_add(2.0 * x, [[3, 5]], [7.0])

    result = grade(double, one_off)
    assert result.status is Status.WRONG_VALUE
    assert "[3, 5]" in result.message
    assert "1 of 262144" in result.message


def test_changed_inputs_neither_change_what_is_expected_nor_pass() -> None:
    exercise = make_double(
        key="tests.q8",
        inputs=lambda size, seed: Inputs((normal(seed, size["rows"], 1024).numpy(),)),
        solution_code=lambda x: tf.constant(x * np.float32(2.0)),
        limits=(Limit(Quantity.PEAK, lambda size: 9 * S),),
    )

    def in_place(x: Any) -> Any:
        x *= 2.0
        return tf.constant(x)

    result = grade(exercise, in_place)
    assert result.status is Status.NOT_AS_ASKED
    assert "changed its input `x`" in result.message

    def zeroed(x: Any) -> Any:
        x *= 0.0
        return tf.constant(x)

    assert grade(exercise, zeroed).status is Status.WRONG_VALUE
    assert grade(exercise, lambda x: tf.constant(x) * 2.0).passed


def test_memory_that_was_there_before_is_noticed() -> None:
    right = {}

    def inputs(size: Any, seed: int) -> Inputs:
        x = normal(seed, size["rows"], 1024)
        right["value"] = 2.0 * x
        return Inputs((x,))

    exercise = make_double(key="tests.q4", inputs=inputs)
    result = grade(exercise, lambda x: right["value"])
    assert result.status is Status.REFUSED, str(result)
    assert "can't be had below 1 MiB" in result.message


def test_a_graph_is_asked_for() -> None:
    exercise = make_double(key="tests.q9", requires=(in_graph("Mul"),))
    graphs = tf.function(lambda x: 2.0 * x)
    assert grade(exercise, graphs).passed
    assert grade(exercise, graphs).passed  # traced before
    assert "no graph ran" in grade(exercise, lambda x: 2.0 * x).message

    @tf.function
    def half(x: Any) -> Any:
        return 1.0 + x

    elsewhere = grade(exercise, lambda x: 2.0 * (half(x) - 1.0))
    assert elsewhere.status is Status.NOT_AS_ASKED
    assert "a graph with Mul in it" in elsewhere.message


def test_a_variable_is_asked_for() -> None:
    exercise = make_double(key="tests.q10", requires=(is_variable,))
    assert grade(exercise, lambda x: tf.Variable(x + x)).passed
    assert grade(exercise, lambda x: x + x).status is Status.NOT_AS_ASKED


def test_each_call_is_compared_and_released() -> None:
    def inputs(size: Any, seed: int) -> Inputs:
        def call(number: int) -> Any:
            return lambda: (normal(seed + number, size["rows"], 1024),)

        return Inputs((), tuple(call(number) for number in range(5)))

    # A batch and its double; the last batch goes when the next one is there.
    limits = (Limit(Quantity.PEAK, lambda size: 7 * S // 2),)
    exercise = make_double(key="tests.q11", inputs=inputs, way=Way.EACH, limits=limits)
    assert grade(exercise, lambda x: x + x).passed
    calls: list[int] = []

    def third_is_wrong(x: Any) -> Any:
        calls.append(1)
        return x + x if len(calls) != 3 else x

    assert "(call 3)" in grade(exercise, third_is_wrong).message


# --- instruments that the lessons teach ---------------------------------------------------------


def _with_measure(x: Any) -> Any:
    assert ll.measure(lambda: tf.fill([64, 64], 1.0), repeats=1).peak_bytes == 4 * 64 * 64 + 8
    return x + x


def _with_record(x: Any) -> Any:
    with ll.record() as recording:
        y = x + x
    assert recording.kept_bytes == S
    return y


def _with_process_memory(x: Any) -> Any:
    found = ll.process_memory(lambda: x + x)
    assert found.tensor_peak_bytes == S
    return x + x


def _with_tracemalloc(x: Any) -> Any:
    tracemalloc.start()
    kept = np.ones(10_000)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 80_000 <= size < 100_000
    del kept
    return x + x


def _with_everything_reset(x: Any) -> Any:
    tracemalloc.clear_traces()
    tracemalloc.reset_peak()
    tf.config.experimental.reset_memory_stats("CPU:0")
    return x + x


@pytest.mark.parametrize(
    "answer",
    [_with_measure, _with_record, _with_process_memory, _with_tracemalloc, _with_everything_reset],
)
def test_instruments_work_in_answers(answer: Callable[[Any], Any]) -> None:
    exercise = make_double(key="tests.q12", limits=(Limit(Quantity.PEAK, lambda size: 2 * S),))
    assert grade(exercise, answer).passed


def test_instruments_hide_nothing(double: Exercise) -> None:
    def hiding(x: Any) -> Any:
        copies = [x.numpy() for _ in range(4)]
        tracemalloc.clear_traces()
        tracemalloc.stop()
        del copies
        return x + x

    assert grade(double, hiding).status is Status.OVER_BUDGET


def test_another_profiler_is_said(double: Exercise) -> None:
    def stops(x: Any) -> Any:
        tf.profiler.experimental.stop()
        return x + x

    result = grade(double, stops)
    assert result.status is Status.REFUSED
    assert "stopped TensorFlow's profiler" in result.message
    assert grade(double, double_solution).passed


@pytest.mark.parametrize(
    ("figure", "kept", "ratio"),
    [
        (Figure(Quantity.PEAK, 10, 20), True, 0.5),
        (Figure(Quantity.PEAK, 20, 20), True, 1.0),
        (Figure(Quantity.TRACES, 3, 2), False, 1.5),
        (Figure(Quantity.KEPT, 0, 0), True, 0.0),
    ],
)
def test_figures(figure: Figure, kept: bool, ratio: float) -> None:
    assert (figure.kept, figure.ratio) == (kept, ratio)
