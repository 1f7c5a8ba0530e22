"""Every buffer is tied to the line that made it, eager and in graphs, or to none.

A program marks its lines with a comment such as ``# here: product``; the tests look the number up,
so they do not change when a line moves.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import call_watcher, gradient_calls
from lessons_lib.recording.buffers import Buffer
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

N = 64
S = N * N * 4

_MARKS = {
    mark: number
    for number, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
    if (found := re.search(r"# here: (\w+)\b", text)) and (mark := found[1])
}


def line(mark: str) -> int:
    """Give the number of the line that is marked in this file."""
    return _MARKS[mark]


def run(program: Callable[..., Any], *args: Any, warm: bool = True) -> Recording:
    """Record a program, by default after a run that makes its traces."""
    if warm:
        program(*args)
    with record() as recording:
        result = program(*args)
    del result
    return recording


def big(recording: Recording, size: int = S) -> list[Buffer]:
    """Give the buffers of tensors, without shapes and counters."""
    return [b for b in recording.buffers if b.allocated_at is not None and b.nbytes >= size]


def lines(recording: Recording) -> list[tuple[str | None, int | None]]:
    """Give operation and line of each buffer, in birth order."""
    for buffer in big(recording):
        assert buffer.line is None or buffer.line.file == __file__
    return [(b.op, None if b.line is None else b.line.number) for b in big(recording)]


def forward(recording: Recording) -> dict[str | None, set[int | None]]:
    """Give the forward lines of each operation."""
    found: dict[str | None, set[int | None]] = {}
    for b in big(recording):
        number = None if b.forward_line is None else b.forward_line.number
        found.setdefault(b.op, set()).add(number)
    return found


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.fill([N, N], 0.01)


# ---------------------------------------------------------------- eager


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


def test_lines_can_be_left_out(x: Any) -> None:
    with record(lines=False) as recording:
        y = tf.tanh(x)
    assert [(b.op, b.line, b.nbytes) for b in recording.buffers] == [("Tanh", None, S)]
    del y


# ---------------------------------------------------------------- graphs


def test_a_graph_names_the_line_that_made_the_operation(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        y = tf.matmul(x, x)  # here: g_product
        return tf.concat([y, x], 0)  # here: g_concat

    recording = run(program, x)
    assert lines(recording) == [("MatMul", line("g_product")), ("ConcatV2", line("g_concat"))]
    assert {b.function for b in big(recording)} == {"program"}


def test_squares_that_the_optimiser_renames(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        y = tf.matmul(x, x)
        return x * x + tf.transpose(y)  # here: renamed

    found = lines(run(program, x))
    assert ("Square", line("renamed")) in found or ("Mul", line("renamed")) in found
    assert None not in [number for _, number in found]


def test_a_fused_kernel_names_what_it_computes(x: Any) -> None:
    bias = tf.fill([N], 0.1)

    @tf.function
    def program(x: Any) -> Any:
        y = tf.matmul(x, x)
        z = tf.nn.bias_add(y, bias)
        return tf.nn.relu(z)  # here: fused

    made = big(run(program, x))
    product = [b for b in made if b.op == "MatMul"]
    assert len(product) == 1
    assert product[0].nbytes == S
    if product[0].fused:  # where this build of TensorFlow fuses
        assert product[0].fused == ("BiasAdd", "Relu")
        assert len(made) == 1
        assert product[0].line is not None
        assert product[0].line.number in (line("fused") - k for k in range(3))


def test_a_while_loop(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.matmul(y, x)  # here: in_the_loop

        return tf.while_loop(lambda i, y: i < 3, body, [0, x])[1]

    assert set(lines(run(program, x))) == {("MatMul", line("in_the_loop"))}
    assert len(lines(run(program, x))) == 3


def test_an_autograph_loop(x: Any) -> None:
    @tf.function
    def program(x: Any, n: Any) -> Any:
        y = x
        for _ in tf.range(n):
            if tf.reduce_sum(y) > -1.0:
                y = tf.matmul(y, x)  # here: in_autograph
        return y

    assert set(lines(run(program, x, tf.constant(3)))) == {("MatMul", line("in_autograph"))}


def test_branches(x: Any) -> None:
    @tf.function
    def program(condition: Any, x: Any) -> Any:
        def other() -> Any:
            return tf.concat([x, x], 0)  # here: else_branch

        return tf.cond(condition, lambda: tf.matmul(x, x), other)  # here: then_branch

    yes, no = tf.constant(True), tf.constant(False)
    program(no, x)
    assert lines(run(program, yes, x)) == [("MatMul", line("then_branch"))]
    assert lines(run(program, no, x)) == [("ConcatV2", line("else_branch"))]


def test_numbered_branches(x: Any) -> None:
    @tf.function
    def program(k: Any, x: Any) -> Any:
        zero = lambda: tf.matmul(x, x)  # here: case_0  # noqa: E731
        one = lambda: tf.concat([x, x], 0)  # here: case_1  # noqa: E731
        two = lambda: tf.cumsum(x)  # here: case_2  # noqa: E731
        return tf.switch_case(k, [zero, one, two])

    cases = [("MatMul", "case_0"), ("ConcatV2", "case_1"), ("Cumsum", "case_2")]
    for k, (op, mark) in enumerate(cases):
        assert lines(run(program, tf.constant(k), x)) == [(op, line(mark))]


def test_a_statement_over_several_lines(x: Any) -> None:
    # AutoGraph writes a statement anew on one line, so the line within it is lost.
    def both(condition: Any, x: Any) -> Any:
        return tf.cond(  # here: statement
            condition,
            lambda: tf.matmul(x, x),  # here: within_1
            lambda: tf.concat([x, x], 0),  # here: within_2
        )

    yes, no = tf.constant(True), tf.constant(False)
    converted, plain = tf.function(both), tf.function(both, autograph=False)
    assert lines(run(converted, yes, x)) == [("MatMul", line("statement"))]
    assert lines(run(converted, no, x)) == [("ConcatV2", line("statement"))]
    assert lines(run(plain, yes, x)) == [("MatMul", line("within_1"))]
    assert lines(run(plain, no, x)) == [("ConcatV2", line("within_2"))]


def test_nested_functions(x: Any) -> None:
    @tf.function
    def inner(x: Any) -> Any:
        return tf.matmul(x, x)  # here: inner

    @tf.function
    def middle(x: Any) -> Any:
        return tf.concat([inner(x), x], 0)  # here: middle

    @tf.function
    def program(x: Any) -> Any:
        return tf.cumsum(middle(x))  # here: outer

    found = lines(run(program, x))
    assert found[:2] == [("MatMul", line("inner")), ("ConcatV2", line("middle"))]
    assert {number for _, number in found[2:]} <= {line("outer")}


def test_two_functions_whose_operations_share_names(x: Any) -> None:
    @tf.function
    def one(x: Any) -> Any:
        return tf.matmul(x, x, name="product")  # here: shared_1

    @tf.function
    def two(x: Any) -> Any:
        return tf.matmul(x, x, name="product")  # here: shared_2

    def program() -> Any:
        return one(x), two(x), one(x)

    recording = run(program)
    expected = [("MatMul", line(f"shared_{k}")) for k in (1, 2, 1)]
    assert lines(recording) == expected
    assert [b.function for b in big(recording)] == ["one", "two", "one"]
    assert {b.name for b in big(recording)} == {"product"}


def test_gradients_inside_a_function(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            a = tf.tanh(x)  # here: f_tanh
            b = tf.matmul(a, x)  # here: f_product
            loss = tf.reduce_sum(b * b)
        return tape.gradient(loss, x)  # here: f_gradient

    made = big(run(program, x))
    backward = [b for b in made if b.line and b.line.number == line("f_gradient")]
    products = [b for b in backward if b.op == "MatMul"]
    assert len(products) == 2
    assert {b.forward_line.number for b in products if b.forward_line} == {line("f_product")}
    tanh = [b for b in backward if b.op == "TanhGrad"]
    assert all(b.forward_line and b.forward_line.number == line("f_tanh") for b in tanh)


def test_gradients_of_a_function_name_the_call_of_each_step(x: Any) -> None:
    @tf.function
    def layer(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, x))  # here: layer

    def program() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = layer(x)
        one = tape.gradient(y, x)  # here: gradient_1
        two = tape.gradient(y, x)  # here: gradient_2
        return one, two

    made = [b for b in big(run(program)) if b.op == "MatMul" and b.forward_line is not None]
    assert [b.line.number for b in made if b.line] == [
        line("gradient_1"), line("gradient_1"), line("gradient_2"), line("gradient_2"),
    ]  # fmt: skip
    assert {b.forward_line.number for b in made if b.forward_line} == {line("layer")}


def test_gradients_of_a_loop(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            body = lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x)))  # here: loop_body  # noqa: E731
            y = tf.while_loop(lambda i, y: i < 4, body, [0, x], maximum_iterations=4)[1]
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, x)  # here: loop_gradient

    made = big(run(program, x))
    products = {
        (b.line.number if b.line else None, b.forward_line.number if b.forward_line else None)
        for b in made
        if b.op == "MatMul"
    }
    ahead, back = (line("loop_body"), None), (line("loop_gradient"), line("loop_body"))
    assert {ahead, back} <= products
    # Where a name cannot be followed, nothing is said; a wrong line never is.
    assert products <= {ahead, back, (None, None), (line("loop_gradient"), None)}


def test_python_inside_a_graph(x: Any) -> None:
    def inner(a: Any) -> Any:
        return a * 2.0 + 1.0  # here: py_inner

    @tf.function
    def program(x: Any) -> Any:
        return tf.py_function(inner, [x], tf.float32)

    assert lines(run(program, x)) == [("Mul", line("py_inner")), ("AddV2", line("py_inner"))]


def test_xla_names_the_functions_definition(x: Any) -> None:
    @tf.function(jit_compile=True)
    def program(x: Any) -> Any:  # here: compiled
        return tf.tanh(tf.matmul(x, x))

    made = big(run(program, x))
    assert made
    for buffer in made:
        assert (buffer.op, buffer.shape, buffer.dtype) == ("XLA", None, None)
        assert buffer.function == "program"
        assert buffer.line is not None
        # The decorator is where Python says that the function begins.
        assert line("compiled") - 1 <= buffer.line.number <= line("compiled")


def test_xla_in_a_method_and_under_a_decorator(x: Any) -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    class Model(tf.Module):  # type: ignore[misc, unused-ignore]
        @tf.function(jit_compile=True)
        def method(self, x: Any) -> Any:  # here: method
            return tf.tanh(tf.matmul(x, x))

    @tf.function(jit_compile=True)
    @decorated
    def function(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, x))

    (buffer,) = big(run(Model().method, x))
    assert buffer.line is not None
    assert buffer.line.file == __file__
    assert line("method") - 1 <= buffer.line.number <= line("method")
    (buffer,) = big(run(function, x))
    assert buffer.line is not None
    assert buffer.line.file == __file__


def test_a_vectorised_loop_is_no_gradient(x: Any) -> None:
    def program() -> Any:
        return tf.vectorized_map(lambda row: tf.tensordot(row, row, 0), x)  # here: vectorised

    made = big(run(program))
    assert made
    assert {b.line.number for b in made if b.line} == {line("vectorised")}
    assert [b.forward_line for b in made] == [None] * len(made)


def test_what_builds_a_graph_out_of_eager_tensors(x: Any) -> None:
    def jacobian() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x)  # here: jacobian_of
        return tape.batch_jacobian(y, x)  # here: jacobian

    def forward_mode() -> Any:
        with tf.autodiff.ForwardAccumulator(x, x) as accumulator:
            y = tf.tanh(x)  # here: jvp_of
        return accumulator.jvp(y)

    made = [b for b in big(run(jacobian)) if b.line]
    assert ("Tanh", line("jacobian_of")) == (made[0].op, made[0].line and made[0].line.number)
    # One value for each of the N inputs, at each of N * N.
    assert max(b.nbytes for b in made) == N * S
    assert {b.line.number for b in made[1:] if b.line} == {line("jacobian")}
    known = line("jvp_of")
    assert lines(run(forward_mode)) == [("Tanh", known), ("TanhGrad", known)]


def test_keras_layers(x: Any) -> None:
    class Mine(tf.keras.layers.Layer):  # type: ignore[name-defined, misc, unused-ignore]
        def call(self, inputs: Any) -> Any:
            return tf.matmul(inputs, inputs)  # here: own_layer

    mine, library = Mine(), tf.keras.layers.Dense(N, activation="tanh")
    library(x)

    def program() -> Any:
        y = mine(x)
        return library(y)  # here: library_call

    numbers = [number for _, number in lines(run(program))]
    assert numbers[0] == line("own_layer")
    assert set(numbers[1:]) == {line("library_call")}
    graph = tf.function(program)
    found = lines(run(graph))
    assert ("MatMul", line("own_layer")) in found
    assert {number for _, number in found} == {line("own_layer"), line("library_call")}


def test_a_function_that_is_gone_before_the_block_ends(x: Any) -> None:
    def program() -> Any:
        @tf.function
        def short_lived(x: Any) -> Any:
            return tf.matmul(x, x)  # here: short_lived

        return short_lived(x)

    made = lines(run(program, warm=False))
    assert ("MatMul", line("short_lived")) in made


def test_first_call_and_later_calls_are_alike(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        return tf.matmul(x, x)  # here: first_call

    first, second = run(program, x, warm=False), run(program, x, warm=False)
    assert lines(first) == lines(second) == [("MatMul", line("first_call"))]


def test_a_graph_without_python_is_unknown_not_guessed(x: Any) -> None:
    data = tf.data.Dataset.from_tensors(x).repeat(2).batch(2)

    def program() -> Any:
        return [batch + 1.0 for batch in data]  # here: data_loop

    found = lines(run(program))
    assert ("AddV2", line("data_loop")) in found
    assert {number for _, number in found} <= {line("data_loop"), None}


def test_a_sessions_graph() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [N, N])
        loop = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, a: (i + 1, tf.sin(a) @ a),  # here: session_body
            [0, x],
        )
        loss = tf.reduce_sum(loop[1])
        gradient = tf.gradients(loss, x)[0]  # here: session_gradient
        fed = np.ones([N, N], np.float32)
        recording = run(lambda: session.run(gradient, {x: fed}))
    named = [b for b in big(recording) if b.op in ("Sin", "Cos", "MatMul")]
    assert {b.op for b in named} == {"Sin", "Cos", "MatMul"}
    for buffer in named:
        assert buffer.line is not None
        forward = buffer.forward_line
        if forward is None:
            assert buffer.line.number == line("session_body")
        else:
            assert (buffer.line.number, forward.number) == (
                line("session_gradient"),
                line("session_body"),
            )
    assert any(b.forward_line is not None for b in named)


def test_two_sessions_with_the_same_names_are_not_confused() -> None:
    v1 = tf.compat.v1
    fed = np.ones([N, N], np.float32)
    runs = []
    makers = (
        lambda x: tf.sin(x, name="y"),
        lambda x: tf.sin(x, name="y"),
        lambda x: tf.cos(x, name="z"),  # here: of_two_graphs
    )
    for make in (*makers, makers[-1]):
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [N, N], name="x")
            y = make(x)
            runs.append((v1.Session(graph=graph), {x: fed}, y))

    def both() -> None:
        for session, feed, y in runs:
            session.run(y, feed)

    found = lines(run(both))
    # Two graphs have a "y", of two lines, and the profile does not say which of them ran.
    assert [number for op, number in found if op == "Sin"] == [None, None]
    # Two more have a "z", of one line.
    assert [number for op, number in found if op == "Cos"] == [line("of_two_graphs")] * 2
    for session, _, _ in runs:
        session.close()


def test_what_is_born_before_the_block_has_no_line(x: Any) -> None:
    old = x + 1.0
    with record() as recording:
        del old
    assert [(b.line, b.op, b.allocated_at) for b in recording.buffers] == [(None, None, None)]


# ------------------------------------------------- watching must not change what is watched


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


def test_a_librarys_function_counts_for_the_line_that_calls_it_now() -> None:
    class Mine(tf.keras.layers.Layer):  # type: ignore[name-defined, misc, unused-ignore]
        def call(self, x: Any) -> Any:
            return tf.matmul(x, x)  # here: layer_in_fit

    model = tf.keras.Sequential([tf.keras.Input([N]), Mine(), tf.keras.layers.Dense(N)])
    model.compile("sgd", "mse")
    x = tf.ones([N, N])
    model.fit(x, x, batch_size=N, verbose=0)
    with record() as recording:
        model.fit(x, x, batch_size=N, verbose=0)  # here: second_fit
    own, library = line("layer_in_fit"), line("second_fit")
    assert {number for _, number in lines(recording)} - {None} == {own, library}
    assert lines(recording).count(("MatMul", own)) == 1
    # A dense layer's gradient for its weights, [N, N] as all here, is the library's.
    assert lines(recording).count(("MatMul", library)) >= 2
    forward = {b.forward_line.number for b in big(recording) if b.forward_line is not None}
    assert forward <= {own, library}


def test_a_loaded_function_counts_for_the_line_that_calls_it(tmp_path: Path) -> None:
    module = tf.Module()
    signature = [tf.TensorSpec([N, N])]
    module.f = tf.function(lambda x: tf.matmul(x, x), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    x = tf.ones([N, N])
    loaded.f(x)
    with record() as recording:
        loaded.f(x)  # here: loaded
    assert lines(recording) == [("MatMul", line("loaded"))]


def test_marks_are_found() -> None:
    source = inspect.getsource(test_eager_operations).splitlines()
    begin = inspect.getsourcelines(test_eager_operations)[1]
    assert "y = x * x" in source[line("square") - begin]
    with pytest.raises(KeyError):
        line("no_such_mark")


# ------------------------------------------------- code that was generated, edited or copied


@dataclasses.dataclass
class _State:
    made: Any = dataclasses.field(default_factory=lambda: tf.fill([N, N], 1.0))  # here: factory
    zeros: Any = dataclasses.field(default_factory=functools.partial(tf.zeros, [N, N]))


def test_a_dataclass_factory_of_a_library_counts_for_the_line_that_calls_it(x: Any) -> None:
    def program() -> Any:
        return _State()  # here: dataclass

    numbers = [number for _, number in lines(run(program))]
    assert numbers == [line("factory"), line("dataclass")]


def test_a_callback_that_is_defined_in_a_traced_function(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        def callback(a: Any) -> Any:
            b = a * 2.0  # here: callback
            return tf.matmul(
                b,
                b,
            )

        return tf.py_function(callback, [x], tf.float32)

    # AutoGraph writes a statement anew on one line, so its first line is known.
    first = line("callback")
    assert lines(run(program, x)) == [("Mul", first), ("MatMul", first + 1)]


def test_lines_of_replicas_are_the_users(x: Any) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def outside() -> Any:
        return tf.tanh(x)  # here: replica_outside

    @tf.function
    def step() -> Any:
        def inside() -> Any:
            y = tf.matmul(x, x)  # here: replica_inside
            return tf.cumsum(y)  # here: replica_second

        return strategy.run(inside), strategy.run(outside)

    assert set(lines(run(step))) == {
        ("MatMul", line("replica_inside")),
        ("Cumsum", line("replica_second")),
        ("Tanh", line("replica_outside")),
    }
    assert lines(run(lambda: strategy.run(outside))) == [("Tanh", line("replica_outside"))]


def _imported(path: Path, text: str) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def test_two_files_with_the_same_text(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\ndef block(n):\n    return tf.fill([n], 1.0)\n"
    one, two = (_imported(tmp_path / folder / "layers.py", text) for folder in ("one", "two"))
    with record() as recording:
        kept = one.block(S), two.block(2 * S), one.block(3 * S)
    found = [(b.nbytes, Path(b.line.file).parent.name) for b in big(recording) if b.line]
    assert found == [(4 * S, "one"), (8 * S, "two"), (12 * S, "one")]
    del kept


def test_a_file_that_is_edited_and_run_again(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\ndef step(n):\n    return tf.fill([n], 1.0)\n"
    path = tmp_path / "edited.py"
    for lines_more in range(3):
        module = _imported(path, "# more\n" * lines_more + text)
        os.utime(path, ns=(0, lines_more))  # a clock too coarse may not tell the two apart
        with record() as recording:
            module.step(S)
        (line_,) = {b.line for b in big(recording)}
        assert line_ is not None
        assert (line_.number, line_.text) == (4 + lines_more, "return tf.fill([n], 1.0)")


def test_a_project_in_a_folder_that_tensorflow_takes_for_its_own(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\n@tf.function\ndef step(x):\n    return tf.matmul(x, x)\n"
    module = _imported(tmp_path / "tensorflow" / "python" / "step.py", text)
    x = tf.ones([N, N])
    recording = run(module.step, x)
    (found,) = {b.line for b in big(recording)}
    assert found is not None
    assert (Path(found.file).name, found.number) == ("step.py", 5)


# ------------------------------------------------- a fault of ours costs a line, not the run


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
