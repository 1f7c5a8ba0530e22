"""Grading: what passes, what does not, and in which words.

Peaks are hand arithmetic: S is the bytes of a float32 tensor.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common import gc_control, results
from lessons_lib.common.runtime import tf
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, Way
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Figure, Limit, Quantity
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.requirements import in_graph, is_variable
from lessons_lib.teaching.exercises.result import CheckResult, Status
from lessons_lib.teaching.exercises.running import growth_per_call
from tests.teaching.graded import S, double_solution, make_double

pytestmark = pytest.mark.usefixtures("quick")


def grade(exercise: Exercise, answer: Any) -> CheckResult:
    return grading.grade(exercise, answer, seed=1)


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


# --- nothing, crashes, hangs --------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, ..., NotImplemented])
def test_nothing_is_not_attempted(double: Exercise, answer: Any) -> None:
    assert grade(double, answer).status is Status.NOT_ATTEMPTED


def test_an_empty_body_is_known_without_running_it(
    double: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RunError(Exception):
        pass

    def run(*given: Any) -> Any:
        raise RunError

    monkeypatch.setattr(grading, "_compared_run", run)

    def empty(x: Any) -> Any:
        """Say what is wanted, and no more."""
        ...

    for unwritten in (empty, tf.function(empty)):
        result = grade(double, unwritten)
        assert result.status is Status.NOT_ATTEMPTED
        assert "no body yet" in result.message
    # A constant is a body; so is a call without a result.
    for written in (lambda x: 5, lambda x: print(end="")):
        with pytest.raises(RunError):
            grade(double, written)


def test_unwritten_functions_are_not_attempted(double: Exercise) -> None:
    def unwritten(x: Any) -> Any:
        raise NotImplementedError

    assert grade(double, unwritten).status is Status.NOT_ATTEMPTED
    assert grade(double, lambda x: ...).status is Status.NOT_ATTEMPTED
    called = grade(double, tf.ones(3))
    assert called.status is Status.NOT_ATTEMPTED
    assert "check(double)" in called.message


def test_a_missing_return_a_gradient_and_a_none_are_told_apart(double: Exercise) -> None:
    def forgets(x: Any) -> Any:
        y = x + x  # noqa: F841

    def unwatched(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x * x
        return tape.gradient(y, x)

    def looked_up(x: Any) -> Any:
        return dict[str, Any]().get("result")

    for answer, words in (
        (forgets, "`forgets` computes, but ends without `return`"),
        (tf.function(forgets), "`forgets` computes, but ends without `return`"),
        (unwatched, "did not watch"),
        (looked_up, "what is returned has no value"),
    ):
        result = grade(double, answer)
        assert result.status is Status.WRONG_VALUE
        assert words in result.message


def test_crashes_say_where(double: Exercise) -> None:
    def broken(x: Any) -> Any:
        return x.no_such_thing

    result = grade(double, broken)
    assert result.status is Status.ERROR
    assert "AttributeError" in result.message
    assert "return x.no_such_thing" in result.message
    assert result.blame is not None


@tf.function
def _unknown_name(x: Any) -> Any:
    y = x + 1.0
    return y + no_such_name  # type: ignore[name-defined]  # noqa: F821


@tf.function
def _wrong_shape(x: Any) -> Any:
    return tf.reshape(x, [7])


@tf.function
def _out_of_range(x: Any) -> Any:
    row = tf.shape(x)[0] + tf.cast(tf.reduce_max(x), tf.int32)
    return tf.gather(x, row + 10)


def _eager_shapes(x: Any) -> Any:
    return tf.matmul(x, x)


@pytest.mark.parametrize(
    ("answer", "kind", "words", "line"),
    [
        (_unknown_name, "NameError", "'no_such_name' is not defined", "return y + no_such_name"),
        (_wrong_shape, "ValueError", "Cannot reshape", "return tf.reshape(x, [7])"),
        (_out_of_range, "InvalidArgumentError", "is not in [0, 256)", "return tf.gather("),
        (_eager_shapes, "InvalidArgumentError", "Matrix size-incompatible", "tf.matmul(x, x)"),
    ],
)
def test_errors_of_tensorflow_say_what_and_where(
    double: Exercise, answer: Any, kind: str, words: str, line: str
) -> None:
    result = grade(double, answer)
    assert result.status is Status.ERROR
    assert result.message.startswith(f"It raised {kind}: ")
    assert words in result.message
    assert "user code" not in result.message
    assert result.blame is not None
    assert line in result.blame.text


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, RecursionError, MemoryError])
def test_whatever_is_raised_becomes_a_result(double: Exercise, kind: type[BaseException]) -> None:
    def broken(x: Any) -> Any:
        raise kind("enough")

    result = grade(double, broken)
    assert result.status is (Status.OVER_BUDGET if kind is MemoryError else Status.ERROR)
    assert kind.__name__ in result.message


def _hang_in_python(x: Any) -> Any:
    while True:
        pass


def _hang_asleep(x: Any) -> Any:
    time.sleep(3600)


def _hang_catching_all(x: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass


@tf.function
def _hang_in_a_graph(x: Any) -> Any:
    while tf.reduce_sum(tf.abs(x)) >= 0.0:
        x = 1.0 * x
    return x


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", [_hang_in_python, _hang_asleep, _hang_catching_all, _hang_in_a_graph]
)
def test_hanging_answers_are_stopped(answer: Any) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    result = grade(make_double(key="tests.q13", seconds=1.0), answer)
    assert result.status is Status.STOPPED
    assert "longer than 1 s" in result.message
    assert signal.getsignal(signal.SIGALRM) is handler
    # The process is as usable as before.
    assert grade(make_double(key="tests.q13"), double_solution).passed


def test_hanging_in_another_thread_is_stopped() -> None:
    found: list[CheckResult] = []
    hasty = make_double(key="tests.q13", seconds=1.0)
    thread = threading.Thread(target=lambda: found.append(grade(hasty, _hang_in_python)))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "longer than 1 s" in found[0].message


def test_greedy_answers_are_stopped(double: Exercise) -> None:
    def tensors(x: Any) -> Any:
        kept = []
        while True:
            kept.append(tf.fill([4096, 1024], 1.0))

    def arrays(x: Any) -> Any:
        return tf.constant(np.ones((3 * 2**10, 2**18), np.float32)[:256, :1024])

    for answer, words in ((tensors, "more than 512 MiB"), (arrays, "asked NumPy for 3 GiB")):
        result = grade(double, answer)
        assert result.status is Status.OVER_BUDGET
        assert words in result.message


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_without_end_is_cut(
    double: Exercise, capsys: pytest.CaptureFixture[str], stream: str
) -> None:
    def loud(x: Any) -> Any:
        for number in range(3_000):
            print(number, "of 3000", file=getattr(sys, stream))
        return x + x

    assert grade(double, loud).passed
    printed = getattr(capsys.readouterr(), stream.removeprefix("std"))
    assert printed.startswith("0 of 3000\n1 of 3000\n")
    assert len(printed) < 11_000
    assert printed.endswith("your answer printed more than 10,000 characters.\n")


def test_what_is_printed_is_shown_once(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    def talks(x: Any) -> Any:
        print("looking")
        return x + x

    assert grade(double, talks).passed
    assert capsys.readouterr().out == "looking\n"


@pytest.mark.parametrize("run", [1, 2])
def test_an_interrupt_passes_through_and_leaves_nothing(
    double: Exercise, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def interrupted(x: Any) -> Any:
        calls.append(1)
        if len(calls) == run:
            raise KeyboardInterrupt
        return 2.0 * x

    # As in a program: nothing is set aside around the check.
    gc.unfreeze()
    monkeypatch.setattr(gc_control._SetAside, "ours", False)
    handler, level = signal.getsignal(signal.SIGALRM), logging.getLogger("tensorflow").level
    with pytest.raises(KeyboardInterrupt):
        grade(double, interrupted)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert logging.getLogger("tensorflow").level == level
    assert not tracemalloc.is_tracing()
    assert gc.get_freeze_count() == 0
    assert not gc_control._SetAside.ours
    assert grade(double, double_solution).passed


# --- what stays, and who holds it ---------------------------------------------------------------


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


# --- what a learner sees ------------------------------------------------------------------------


def test_check_shows_and_returns(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(double)
    result = question.check(double_solution)
    assert isinstance(result, CheckResult)
    printed = capsys.readouterr().out
    assert "tests.q1: passed" in printed
    assert "1 MiB" in printed
    assert result._ipython_display_() is None  # shown once, not twice
    assert progress.load().exercises["tests.q1"]["solution_seen"]
    question.check(lambda x: x + x)
    assert progress.load().exercises["tests.q1"]["best"] == S


def test_settings_that_hide_graphs_or_eager_tensors_are_named(double: Exercise) -> None:
    tf.config.run_functions_eagerly(True)
    try:
        result = grade(double, double_solution)
    finally:
        tf.config.run_functions_eagerly(False)
    assert result.status is Status.REFUSED
    assert "run_functions_eagerly(False)" in result.message
    with tf.Graph().as_default():
        result = grade(double, double_solution)
    assert result.status is Status.REFUSED
    assert "Eager execution is off" in result.message
    assert grade(double, double_solution).passed


def test_not_attempted_leaves_no_trace(double: Exercise) -> None:
    Question(double).check()
    assert progress.load().exercises == {}


def test_each_failure_ends_with_the_next_step(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    question = Question(double)

    def next_step() -> str:
        shown = question.check(lambda x: x)
        assert shown.next_step in shown._repr_html_()
        return shown.next_step

    assert next_step() == "Next: tests.q1.hint() gives hint 1 of 2."
    question.hint()
    assert next_step() == "Next: tests.q1.hint() gives hint 2 of 2."
    question.hint()
    assert next_step() == "Next: tests.q1.solution() shows the reference solution."
    assert question.check(lambda x: x + x).next_step == ""
    assert "Next: tests.q1.hint() gives hint 1 of 2." in capsys.readouterr().out


def test_hints_get_stronger(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(double)
    for expected in ("Think of +.", "x + x.", "x + x."):
        question.hint()
        assert expected in capsys.readouterr().out


def test_solution_shows_code_and_returns_it(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Question(double).solution() is double_solution
    shown = capsys.readouterr().out
    assert shown.startswith("def double(x):")
    assert "return 2.0 * x" in shown


def test_a_long_check_says_how_far_it_is(
    double: Exercise, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = "lessons_lib.teaching.exercises.question._SILENT_SECONDS"
    monkeypatch.setattr(silent, 3600.0)
    Question(double).check(double_solution)
    assert "checking" not in capsys.readouterr().out
    monkeypatch.setattr(silent, 0.0)
    Question(double).check(double_solution)
    assert "checking tests.q1: run 2 of 2" in capsys.readouterr().out


def test_pictures_and_their_words(double: Exercise) -> None:
    passed = grade(double, double_solution)
    axes = passed.plot()
    assert sorted({round(bar.get_width()) for bar in axes.patches}) == [S, 3 * S // 2]
    assert "yours 1 MiB, budget 1.5 MiB" in results.alt_text(passed)

    def wasteful(x: Any) -> Any:
        y = x + x
        return y * 1.0

    over = grade(double, wasteful)
    assert "512 KiB (524,288 bytes) over the limit of 1.5 MiB" in results.alt_text(over)
    assert max(np.max(line.get_ydata()) for line in over.plot().lines) >= 2 * S
    html = over._repr_html_()
    assert "<img alt=" in html
    assert 'role="status"' in html
    with pytest.raises(ValueError, match="not measured"):
        grade(double, None).plot()


def test_results_escape_what_comes_from_code(double: Exercise) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("<script>alert(1)</script>")

    html = grade(double, broken)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_budgets_are_of_the_size(double: Exercise) -> None:
    assert double.limits[0].budget({"rows": 2}) == 3 * floats(2, 1024) // 2
