"""Every buffer of an eager operation is tied to the line that made it; watching changes nothing."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import call_watcher, gradient_calls
from lessons_lib.recording.recorder import record
from tests.support.marked_lines import Marked, N, S, big, forward, run

_HERE = Marked(__file__)
line, lines = _HERE.line, _HERE.lines


def helper(x: Any) -> Any:
    return tf.tanh(x)  # here: helper


def test_eager_operations(x: Any) -> None:
    def program() -> Any:
        y = x * x  # here: square
        z = helper(y)
        return tf.matmul(
            z,
            z,  # here: inside_the_call
        )

    found = lines(run(program))
    assert found[:2] == [("Mul", line("square")), ("Tanh", line("helper"))]
    assert found[2][0] == "MatMul"
    # A call over several lines: Python tells the line of the call, not of its last argument.
    assert found[2][1] == line("inside_the_call") - 2
    assert run(program).buffers[0].line.text.startswith("y = x * x")  # type: ignore[union-attr]


def test_the_innermost_line_of_the_users_own_code(x: Any) -> None:
    def program() -> Any:
        # tf.map_fn and sorted are not the user's; the function that they call is.
        rows = sorted([3, 1], key=lambda k: float(tf.reduce_max(x * k)[()]))  # here: key
        return tf.nn.moments(x, axes=[0]), rows  # here: moments

    found = lines(run(program))
    assert ("Mul", line("key")) in found
    assert {number for op, number in found if op == "SquaredDifference"} == {line("moments")}


def test_eager_gradients_have_two_lines(x: Any) -> None:
    def program() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            a = tf.tanh(x)  # here: tanh
            b = tf.matmul(a, x)  # here: product
            loss = tf.reduce_sum(b)
        return tape.gradient(loss, x)  # here: gradient

    recording = run(program)
    made = big(recording)
    at_gradient = [b for b in made if b.line and b.line.number == line("gradient")]
    expected = {"TanhGrad": {line("tanh")}, "MatMul": {line("product")}}
    for op, numbers in expected.items():
        found = {
            b.forward_line.number if b.forward_line else None for b in at_gradient if b.op == op
        }
        assert found == numbers
    ahead = [b for b in made if b.line and b.line.number == line("product")]
    assert [b.forward_line for b in ahead] == [None]


def test_gradients_that_an_addition_hands_on(x: Any) -> None:
    w = tf.fill([N, N], 0.5)

    def program() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            a = tf.negative(x)  # here: negative
            b = tf.nn.relu(w)  # here: relu
            c = a + b
        return tape.gradient(c, [x, w])

    found = forward(run(program))
    assert line("negative") in found["Neg"]
    assert line("relu") not in found["Neg"]
    assert found["ReluGrad"] == {line("relu")}


def test_two_operations_on_one_input_are_told_apart_or_not_named(x: Any) -> None:
    def program() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            a = tf.matmul(x, x)  # here: first_product
            b = tf.matmul(x, x, transpose_b=True)  # here: second_product
            loss = tf.reduce_sum(a * a) + tf.reduce_sum(tf.tanh(b))
        return tape.gradient(loss, x)

    allowed = {line("first_product"), line("second_product"), None}
    assert forward(run(program))["MatMul"] <= allowed


def test_threads_have_their_own_lines(x: Any) -> None:
    together = threading.Barrier(3)

    def one() -> None:
        for _ in range(20):
            _ = x * 2.0  # here: one
        together.wait(60)

    def two() -> None:
        for _ in range(20):
            tf.tanh(x)  # here: two
        together.wait(60)

    def program() -> None:
        workers = [threading.Thread(target=target) for target in (one, two, one)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    found = lines(run(program))
    assert sorted(found) == sorted([("Mul", line("one"))] * 40 + [("Tanh", line("two"))] * 20)


def test_an_exception_leaves_the_lines_before_it(x: Any) -> None:
    def program() -> Any:
        y = tf.tanh(x)  # here: before
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.raw_ops.MatMul(a=x, b=tf.ones([3, 3]))
        return y + x  # here: after

    assert lines(run(program)) == [("Tanh", line("before")), ("AddV2", line("after"))]


def test_a_call_that_no_line_of_the_users_made_has_none() -> None:
    with record() as recording:
        thread = threading.Thread(target=tf.fill, args=([N, N], 1.0))
        thread.start()
        thread.join()
    assert [(b.op, b.line) for b in big(recording)] == [("Fill", None)]


def test_lines_can_be_left_out(x: Any) -> None:
    with record(lines=False) as recording:
        y = tf.tanh(x)
    assert [(b.op, b.line, b.nbytes) for b in recording.buffers] == [("Tanh", None, S)]
    del y


def test_what_is_born_before_the_block_has_no_line(x: Any) -> None:
    old = x + 1.0
    with record() as recording:
        del old
    assert [(b.line, b.op, b.allocated_at) for b in recording.buffers] == [(None, None, None)]


def test_looking_for_lines_keeps_nothing_alive(x: Any) -> None:
    graph = tf.function(lambda a: a + 1.0)
    concrete = graph.get_concrete_function(x)

    concrete(x)

    def program() -> Any:
        a = tf.tanh(x)
        b = concrete(a)
        del a  # the recorder looked at this frame; the tensor must go all the same
        return b, tf.tanh(x)

    with record(lines=False) as plain:
        first = program()
    with record() as watched:
        second = program()
    del first, second
    assert plain.peak_bytes == watched.peak_bytes == 2 * S


def test_lines_cost_no_bytes_under_a_tape(x: Any) -> None:
    graph = tf.function(lambda a: tf.tanh(a) + 1.0)
    graph(x)

    def program() -> Any:
        a = tf.tanh(x)
        with tf.GradientTape() as tape:
            tape.watch(a)
            b = graph(a)
        g = tape.gradient(b, a)
        del a, b, g, tape
        return [tf.tanh(x) for _ in range(3)]

    program()
    peaks = set()
    for watch in (False, True, False, True):
        with record(lines=watch) as recording:
            result = program()
        # Shapes that come from NumPy may or may not be seen: a few bytes.
        peaks.add(recording.peak_bytes // S)
        del result
    assert len(peaks) == 1


def test_marks_are_found() -> None:
    source = inspect.getsource(test_eager_operations).splitlines()
    begin = inspect.getsourcelines(test_eager_operations)[1]
    assert "y = x * x" in source[line("square") - begin]
    with pytest.raises(KeyError):
        line("no_such_mark")


@pytest.mark.parametrize("fails", ["facts_of", "eager_scope", "user_places", "origin_of"])
def test_a_fault_of_ours_costs_a_line(fails: str, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    double = tf.function(lambda a: a * 2.0)
    double(x)

    def fault(*_: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr(call_watcher, fails, fault)
    with record() as recording:
        y = double(tf.tanh(x))
    assert float(y[0, 0]) == pytest.approx(2.0 * np.tanh(0.01))
    assert [b.nbytes for b in big(recording)] == [S, S]
    assert recording.exact
    assert None in {b.line for b in big(recording)}


def test_a_faulty_note_of_gradients_costs_a_line(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: Any) -> Any:
        raise RuntimeError("ours")

    for owner, name in (
        (gradient_calls, "note_gradient"),
        (gradient_calls, "_forward_operation"),
        (gradient_calls.GradientLog, "forward_of"),
        (gradient_calls.GradientLog, "note_operation"),
    ):
        monkeypatch.setattr(owner, name, fault)

    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x)
        return tape.gradient(y, x)

    with record() as recording, tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)
    with record():
        eager = tape.gradient(y, x)
    np.testing.assert_allclose(slope(x), eager)
    assert recording.exact
