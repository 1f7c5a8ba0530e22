"""Every buffer in a graph is tied to the line that made its operation, or to none."""

from __future__ import annotations

import functools
from typing import Any

from lessons_lib.common.runtime import tf
from tests.support.marked_lines import Marked, N, S, big, run

_HERE = Marked(__file__)


line, lines = _HERE.line, _HERE.lines


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
