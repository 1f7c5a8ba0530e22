"""Answers that are empty, crash, hang, take too much or print without end."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from lessons_lib.common import gc_control
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.exercise import Exercise
from lessons_lib.teaching.exercises.result import CheckResult, Status
from tests.support.cases import or_further
from tests.teaching.graded import double_solution, grade, make_double

pytestmark = pytest.mark.usefixtures("quick")


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
    "answer",
    or_further(
        [_hang_in_python, _hang_asleep, _hang_catching_all, _hang_in_a_graph],
        {_hang_catching_all, _hang_in_a_graph},
    ),
)
def test_hanging_answers_are_stopped(answer: Any) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    result = grade(make_double(key="tests.q13", seconds=1.0), answer)
    assert result.status is Status.STOPPED
    assert "longer than 1 s" in result.message
    assert signal.getsignal(signal.SIGALRM) is handler
    # The process is as usable as before.
    assert grade(make_double(key="tests.q13"), double_solution).passed


@pytest.mark.slow
def test_hanging_in_another_thread_is_stopped() -> None:
    found: list[CheckResult] = []
    hasty = make_double(key="tests.q13", seconds=1.0)
    thread = threading.Thread(target=lambda: found.append(grade(hasty, _hang_in_python)))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "longer than 1 s" in found[0].message
    # Nothing is on its way to a thread any more: Python 3.11 would not get past a traced call.
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    before = sys.gettrace()
    signal.alarm(20)
    try:
        sys.settrace(lambda *_: None)
        (lambda: None)()
    finally:
        sys.settrace(before)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


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
