"""What a trace's graph holds.  Expected bytes are by hand from shapes and dtypes."""

from __future__ import annotations

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import MIB
from lessons_lib.instruments.tracing import (
    CaptureKind,
    count_traces,
    trace_report,
    watch_retracing,
)
from tests.support.traced import table


def test_a_baked_array_is_counted_to_the_byte_with_its_line():
    array = table()

    @tf.function
    def fn(x):
        return array * x  # the array is written into the graph here

    fn(tf.constant(1.0))
    (trace,) = trace_report(fn).traces
    assert trace.constant_bytes == 1 * MIB
    (constant,) = trace.constants
    assert (constant.shape, constant.dtype, constant.nbytes) == ((512, 512), "float32", MIB)
    assert constant.line.text == "return array * x  # the array is written into the graph here"
    assert constant.line.file == __file__
    assert MIB < trace.graph_bytes < MIB + 4096
    assert trace.captures == ()
    assert f"test_graph_contents.py:{constant.line.number}" in trace.advice


def test_a_captured_tensor_is_not_a_constant():
    tensor = tf.constant(table())

    @tf.function
    def fn(x):
        return tensor * x

    fn(tf.constant(1.0))
    (trace,) = trace_report(fn).traces
    assert trace.constant_bytes == 0
    assert trace.graph_bytes < 4096
    (capture,) = trace.captures
    assert (capture.name, capture.kind) == ("tensor", CaptureKind.TENSOR)
    assert (capture.shape, capture.dtype, capture.nbytes) == ((512, 512), "float32", MIB)
    assert trace.captured_bytes == MIB
    assert trace.advice == ""


def test_each_trace_bakes_its_own_copy():
    array = table()
    fn = tf.function(lambda x, k: array * x)
    for number in range(3):
        fn(tf.constant(1.0), number)
    report = trace_report(fn)
    assert report.constant_bytes == 3 * MIB
    assert "its own copy of 1 MiB from test_graph_contents.py:" in report.advice


def test_variables_are_told_apart_from_tensors():
    variable, tensor = tf.Variable(tf.ones([16, 16])), tf.ones([1000])
    fn = tf.function(lambda: tf.reduce_sum(variable) + tf.reduce_sum(tensor))
    fn()
    found = {capture.name: capture for capture in trace_report(fn).traces[0].captures}
    assert found["variable"].kind is CaptureKind.VARIABLE
    assert found["variable"].nbytes == 16 * 16 * 4
    assert found["variable"].dtype == "float32"
    assert found["tensor"].kind is CaptureKind.TENSOR
    assert found["tensor"].nbytes == 4000


def test_a_resource_that_is_no_variable():
    keys = tf.lookup.KeyValueTensorInitializer(tf.constant(["a"]), tf.constant([1]))
    lookup = tf.lookup.StaticHashTable(keys, -1)
    fn = tf.function(lambda x: lookup.lookup(x))
    fn(tf.constant(["a"]))
    kinds = {capture.kind: capture for capture in trace_report(fn).traces[0].captures}
    assert kinds[CaptureKind.RESOURCE].nbytes is None
    assert CaptureKind.VARIABLE not in kinds


def test_strings_count_their_text():
    fn = tf.function(lambda: tf.constant(["ab", "cde"]))
    fn()
    assert trace_report(fn).traces[0].constant_bytes == 5


def test_a_constant_in_a_branch_is_found_with_its_line():
    array = table()

    @tf.function
    def fn(x):
        if tf.reduce_sum(x) > 0:
            y = array * x  # in the branch
        else:
            y = x + tf.zeros([512, 512])
        return y

    fn(tf.constant(1.0))
    trace = trace_report(fn).traces[0]
    constant = trace.constants[0]
    assert constant.nbytes == MIB
    assert constant.line.text == "y = array * x  # in the branch"
    assert constant.function != ""
    assert trace.contents.own_ops < trace.ops


def test_a_constant_in_a_loop_is_found_once_however_many_steps():
    array = table()

    @tf.function
    def fn(x):
        for _ in tf.range(50):
            x = array * x  # in the loop
        return x

    fn(tf.ones([512, 512]))
    trace = trace_report(fn).traces[0]
    assert trace.constants[0].line.text == "x = array * x  # in the loop"
    assert [c.nbytes for c in trace.constants if c.nbytes >= 1024] == [MIB]
    assert trace.unrolled is None


def test_a_nested_function_is_counted_once():
    array = table()
    inner = tf.function(lambda x: array * x)

    @tf.function
    def outer(x):
        return inner(x) + inner(x) + inner(x)

    outer(tf.constant(1.0))
    trace = trace_report(outer).traces[0]
    # x, three calls, two additions, Identity; the inner graph: Const, Mul, Identity.
    assert trace.contents.own_ops == 1 + 3 + 2 + 1
    assert trace.ops == trace.contents.own_ops + 3
    assert trace.constant_bytes == MIB
    assert trace.constants[0].line.text == "inner = tf.function(lambda x: array * x)"
    assert count_traces(inner) == 1


def test_while_loop_keeps_its_size_and_an_unrolled_one_grows():
    weight = tf.Variable(tf.ones([4, 4]))

    def rollout(steps):
        def body(x, n):
            for _ in steps(n):
                x = tf.nn.tanh(x @ weight)
            return x

        return tf.function(body)

    unrolled, looped = rollout(range), rollout(tf.range)
    for n in (20, 40):
        unrolled(tf.ones([2, 4]), n)
        looped(tf.ones([2, 4]), tf.constant(n))
    few, many = trace_report(unrolled).traces
    assert many.ops - few.ops == 20 * 3  # MatMul, its variable read, Tanh
    assert (few.unrolled.times, many.unrolled.times) == (20, 40)
    assert many.unrolled.line.text == "for _ in steps(n):"
    assert "tf.range" in few.advice
    (loop,) = trace_report(looped).traces
    assert loop.unrolled is None
    assert loop.ops < few.ops
    assert loop.advice == ""


def test_a_loop_is_called_unrolled_from_as_many_copies_on_as_is_said():
    @tf.function
    def body(x, n):
        for _ in range(n):
            x = tf.nn.tanh(x)
        return x

    for n in (15, 16):
        body(tf.ones([2]), n)
    short, long = trace_report(body).traces
    assert (short.unrolled, long.unrolled.times) == (None, 16)
    assert "16" in type(short).unrolled.__doc__
    assert "16" in type(long.unrolled).__doc__


@pytest.mark.parametrize(("steps", "told"), [(10, None), (17, 17)])
@pytest.mark.parametrize("name", ["products", "chain", "helper", "listed"])
def test_copies_are_steps_also_where_a_line_makes_several_alike(
    name: str, steps: int, told: int | None
) -> None:
    def twice(x):
        return tf.tanh(tf.tanh(x))

    @tf.function
    def products(x, y):
        for _ in range(steps):
            x = 0.9 * x + 0.1 * y  # not 0.5 * x * y
        return x

    @tf.function
    def chain(x, y):
        for _ in range(steps):
            x = x + y + y
        return x

    @tf.function
    def helper(x, y):
        for _ in range(steps):
            x = twice(x) - y
        return x

    @tf.function
    def listed(x, y):
        for _ in range(steps):
            x = tf.add_n([x * n for n in (1.0, 2.0, 3.0)])
            y = tf.sin(x)
        return y

    fn = {"products": products, "chain": chain, "helper": helper, "listed": listed}[name]
    fn(tf.ones([2]), tf.ones([2]))
    unrolled = trace_report(fn).traces[0].unrolled
    assert (unrolled and unrolled.times) == told


def test_a_repeated_helper_is_not_an_unrolled_loop():
    def helper(x):
        return tf.tanh(x)

    @tf.function
    def fn(x):
        x = helper(helper(helper(helper(helper(x)))))
        x = helper(helper(helper(helper(helper(x)))))
        x = helper(helper(helper(helper(helper(x)))))
        return helper(helper(helper(helper(helper(x)))))

    fn(tf.ones([2]))
    assert trace_report(fn).traces[0].unrolled is None


def test_gradients_and_case_are_read():
    array = table()

    @tf.function
    def fn(x, k):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.switch_case(k, [lambda: x * array, lambda: x, lambda: -x])
        return tape.gradient(y, x)

    fn(tf.ones([512, 512]), tf.constant(0))
    trace = trace_report(fn).traces[0]
    assert trace.constants[0].nbytes == MIB
    assert trace.constants[0].line.text.startswith("y = tf.switch_case")


@pytest.mark.slow
def test_a_compiled_function_is_read_alike():
    array = table()
    plain, compiled = (tf.function(lambda x: array * x, jit_compile=jit) for jit in (None, True))
    for fn in (plain, compiled):
        with watch_retracing() as watch:
            fn(tf.constant(1.0))
        assert watch.new_traces == 1
    (first,), (second,) = trace_report(plain).traces, trace_report(compiled).traces
    assert first.constant_bytes == second.constant_bytes == MIB
    assert second.first_call_seconds > second.trace_seconds > 0
    assert first.ops == second.ops


def test_a_captured_variable_whose_shape_can_change_has_no_certain_bytes():
    variable = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None))
    fn = tf.function(lambda x: x + variable)
    fn(tf.constant(1.0))
    (capture,) = trace_report(fn).traces[0].captures
    assert (capture.kind, capture.shape, capture.nbytes) == (CaptureKind.VARIABLE, None, None)
