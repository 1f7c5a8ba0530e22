"""The ledger of traces: why each was needed, what it holds, and what a block of code traced.

Expected bytes are by hand from shapes and dtypes.  Each class of behaviour has a twin that must
give the opposite answer.
"""

from __future__ import annotations

import functools
import gc
import re
import threading
import weakref

import numpy as np
import pytest

from lessons_lib.common.internals import Function, tracing_compilation
from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import (
    CaptureKind,
    TraceCause,
    TraceCounter,
    count_traces,
    trace_report,
    unobserved,
    watch_retracing,
)
from lessons_lib.instruments.tracing.reasons import Detail
from lessons_lib.plots.traces import describe_traces, describe_watch

MIB = 2**20


@pytest.fixture(autouse=True)
def _quiet():
    """TensorFlow warns of retracing, which is what these tests do on purpose."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    yield
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def _restored():
    """Every test leaves TensorFlow's functions as they were."""
    before = (tracing_compilation._create_concrete_function, Function._call)
    yield
    after = (tracing_compilation._create_concrete_function, Function._call)
    assert after == before


def make():
    return tf.function(lambda x, k=0: x)


def causes(fn):
    return [trace.cause for trace in trace_report(fn).traces]


# --- why: the arguments -------------------------------------------------------------------------


def test_first_trace_is_first_and_a_call_that_fits_makes_none():
    fn = make()
    fn(tf.ones([2]))
    fn(tf.zeros([2]))
    assert causes(fn) == [TraceCause.FIRST]


@pytest.mark.parametrize(
    ("first", "second", "before", "now", "kind"),
    [
        (1, 2, "1", "2", "int"),
        (1.5, 2.5, "1.5", "2.5", "float"),
        (True, False, "True", "False", "bool"),
        ("a", "b", "'a'", "'b'", "str"),
        (None, 3, "None", "3", "int"),
        ((2, 3), (2, 4), "3", "4", "int"),  # a shape tuple is a key as well
    ],
)
def test_python_value(first, second, before, now, kind):
    fn = make()
    x = tf.ones([2])
    fn(x, first)
    fn(x, second)
    (_, trace) = trace_report(fn).traces
    (found,) = trace.reason.differences
    assert trace.cause is TraceCause.VALUE
    assert (found.before, found.now, found.value_type) == (before, now, kind)
    assert found.argument == ("k[1]" if isinstance(first, tuple) else "k")
    assert trace.reason.nearest == 1


def test_every_python_value_is_a_trace_and_a_tensor_is_not():
    fn, x = make(), tf.ones([2])
    for number in range(5):
        fn(x, number)
    assert causes(fn) == [TraceCause.FIRST] + [TraceCause.VALUE] * 4
    assert "tf.constant(k, tf.int32)" in trace_report(fn).advice
    assert "tf.constant(k, tf.int32)" in trace_report(fn).traces[-1].advice
    twin = make()
    for number in range(5):
        twin(x, tf.constant(number))
    assert causes(twin) == [TraceCause.FIRST]
    assert trace_report(twin).advice == ""


def test_numpy_scalars_and_arrays_do_not_retrace():
    fn, x = make(), tf.ones([2])
    for number in range(4):
        fn(x, np.float32(number))
    assert count_traces(fn) == 1
    fn(x, np.float64(1))  # the twin: another dtype does
    assert causes(fn) == [TraceCause.FIRST, TraceCause.DTYPE]


def test_nan_matches_itself():
    fn, x = make(), tf.ones([2])
    fn(x, float("nan"))
    fn(x, float("nan"))
    assert causes(fn) == [TraceCause.FIRST]
    fn(x, 1.0)
    assert trace_report(fn).traces[1].reason.differences[0].before == "nan"


def test_shape_names_the_sizes_and_offers_a_signature():
    fn = make()
    for size in (1, 2, 3):
        fn(tf.ones([size, 64]), tf.constant(1.0))
    report = trace_report(fn)
    assert causes(fn) == [TraceCause.FIRST, TraceCause.SHAPE, TraceCause.SHAPE]
    assert str(report.traces[2].reason) == "x: shape [2, 64] → [3, 64]"
    assert (
        "input_signature=[tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([], tf.float32)]"
        in report.advice
    )


def test_input_signature_cures_shapes():
    fn = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None, 64])])
    for size in (1, 2, 3):
        fn(tf.ones([size, 64]))
    report = trace_report(fn)
    assert [trace.signature for trace in report.traces] == ["x: float32[None, 64]"]
    assert report.advice == ""


def test_reporting_a_signature_does_not_trace():
    fn = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None])])
    assert trace_report(fn).traces == ()
    assert count_traces(fn) == 0
    assert fn.experimental_get_tracing_count() == 0


def test_reduce_retracing_relaxes_and_says_so():
    fn = tf.function(lambda x: x, reduce_retracing=True)
    for size in (1, 2, 3, 4):
        fn(tf.ones([size]))
    (_, relaxed) = trace_report(fn).traces
    assert relaxed.cause is TraceCause.SHAPE
    assert relaxed.reason.differences[0].detail is Detail.RELAXED
    assert "nothing need be done" in relaxed.advice
    ints, x = tf.function(lambda x, k: x, reduce_retracing=True), tf.ones([1])
    for number in range(3):  # the twin: Python values are not relaxed
        ints(x, number)
    assert causes(ints) == [TraceCause.FIRST, TraceCause.VALUE, TraceCause.VALUE]


def test_dtype():
    fn = make()
    fn(tf.ones([2]))
    fn(tf.ones([2], tf.float64))
    assert str(trace_report(fn).traces[1].reason) == "x: dtype float32 → float64"
    fn(tf.ones([2], tf.float16) + 1)
    assert trace_report(fn).traces[2].cause is TraceCause.DTYPE


def test_dtype_and_shape_are_both_told():
    fn = make()
    fn(tf.ones([2]))
    fn(tf.ones([3], tf.int32))
    found = trace_report(fn).traces[1].reason.differences
    assert [difference.cause for difference in found] == [TraceCause.DTYPE, TraceCause.SHAPE]


@pytest.mark.parametrize(
    ("first", "second", "before", "now"),
    [
        ([1.0], [1.0, 2.0], "list of 1", "list of 2"),
        ({"a": 1}, {"b": 1}, "dict with keys {'a'}", "dict with keys {'b'}"),
        ((1,), [1], "tuple of 1", "list of 1"),
    ],
)
def test_structure(first, second, before, now):
    fn = tf.function(lambda x: tf.constant(0))
    fn(first)
    fn(second)
    (_, trace) = trace_report(fn).traces
    (found,) = trace.reason.differences
    assert (found.cause, found.before, found.now) == (TraceCause.STRUCTURE, before, now)


def test_none_against_a_tensor_is_structure():
    fn = make()
    fn(tf.ones([2]), None)
    fn(tf.ones([2]), tf.ones([2]))
    (found,) = trace_report(fn).traces[1].reason.differences
    assert (found.cause, found.before, found.now) == (
        TraceCause.STRUCTURE,
        "None",
        "tensor float32[2]",
    )


def test_the_same_structure_in_another_order_of_keys_does_not_retrace():
    fn = tf.function(lambda x: x["a"])
    fn({"a": tf.ones([1]), "b": tf.ones([2])})
    fn({"b": tf.ones([2]), "a": tf.ones([1])})
    assert causes(fn) == [TraceCause.FIRST]
    fn({"a": tf.ones([1]), "b": tf.ones([3])})
    assert str(trace_report(fn).traces[1].reason) == "x['b']: shape [2] → [3]"


def test_arguments_given_and_left_out():
    @tf.function
    def fn(*xs, **named):
        return xs[0]

    fn(1)
    fn(1, 2)
    fn(1, other=2)
    reasons = [trace.reason for trace in trace_report(fn).traces]
    assert [reason.cause for reason in reasons[1:]] == [TraceCause.STRUCTURE] * 2
    assert str(reasons[1]) == "xs_1: structure not given → Python int 2"
    assert str(reasons[2]) == "other: structure not given → Python int 2"
    assert reasons[2].nearest == 1  # only `other` differs there; from trace 2 two things do


def test_variables_as_arguments():
    fn = tf.function(lambda a, b: a + b)
    one, two = tf.Variable([1.0]), tf.Variable([2.0])
    fn(one, two)
    fn(two, one)
    assert causes(fn) == [TraceCause.FIRST]
    fn(one, one)  # the twin: one variable in both places is another graph
    assert trace_report(fn).traces[1].cause is TraceCause.STRUCTURE


# --- why: objects -------------------------------------------------------------------------------


def test_a_lambda_made_for_each_call():
    @tf.function
    def fn(x, activation):
        return activation(x)

    kept = []
    for _ in range(3):
        kept.append(lambda x: x + 1)
        fn(tf.ones([2]), kept[-1])
    report = trace_report(fn)
    assert causes(fn) == [TraceCause.FIRST] + [TraceCause.OBJECT] * 2
    (found,) = report.traces[1].reason.differences
    assert found.argument == "activation"
    assert found.detail is Detail.MADE_AGAIN
    assert found.now.startswith("<lambda> (test_tracing.py:")
    assert "make it once" in report.advice
    fn(tf.ones([2]), kept[0])  # the twin: the same object again
    assert count_traces(fn) == 3


def test_another_function_is_not_called_made_again():
    fn = tf.function(lambda x, activation: activation(x))
    fn(tf.ones([2]), tf.nn.relu)
    fn(tf.ones([2]), tf.nn.tanh)
    (found,) = trace_report(fn).traces[1].reason.differences
    assert (found.cause, found.detail) == (TraceCause.OBJECT, Detail.NONE)
    assert "made anew" not in trace_report(fn).advice


class Scale:
    def __init__(self):
        self.factor = tf.ones([4])

    def apply(self, x):
        return x * self.factor


def test_a_bound_method_is_new_each_time_that_it_is_fetched():
    fn, scale, x = tf.function(lambda x, action: action(x)), Scale(), tf.ones([4])
    for _ in range(3):
        fn(x, scale.apply)
    assert causes(fn) == [TraceCause.FIRST] + [TraceCause.OBJECT] * 2
    assert "instance.method" in trace_report(fn).advice
    twin, once = tf.function(lambda x, action: action(x)), scale.apply
    for _ in range(3):
        twin(x, once)
    assert causes(twin) == [TraceCause.FIRST]


def test_a_watch_describes_objects_that_die():
    fn, scale, x = tf.function(lambda x, action: action(x)), Scale(), tf.ones([4])
    with watch_retracing() as watch:
        for _ in range(2):
            fn(x, scale.apply)
    assert "bound method Scale.apply" in watch.rows[1].trace.signature
    assert watch.rows[1].reason.differences[0].detail is Detail.MADE_AGAIN
    # What was seen helps a later report as well.
    assert "bound method Scale.apply" in trace_report(fn).traces[1].signature


def test_an_object_kept_in_both_traces_is_not_blamed():
    fn, scale = tf.function(lambda owner, k: tf.constant(k)), Scale()
    fn(scale, 1)
    fn(scale, 2)
    del scale
    gc.collect()
    (found,) = trace_report(fn).traces[1].reason.differences
    assert (found.argument, found.cause) == ("k", TraceCause.VALUE)


# --- why: the nearest trace, and context ----------------------------------------------------


def test_the_nearest_earlier_trace_is_compared_with():
    fn = tf.function(lambda a, b, c: a)
    fn(1, 1, 1)
    fn(2, 2, 2)
    fn(1, 1, 5)
    reason = trace_report(fn).traces[2].reason
    assert reason.nearest == 1
    assert [difference.argument for difference in reason.differences] == ["c"]
    fn(2, 2, 7)
    assert trace_report(fn).traces[3].reason.nearest == 2


def test_variables_made_in_the_first_call():
    made = []

    @tf.function
    def fn(x):
        if not made:
            made.append(tf.Variable(1.0))
        return x * made[0]

    fn(tf.constant(2.0))
    assert causes(fn) == [TraceCause.FIRST, TraceCause.VARIABLES]
    assert trace_report(fn).traces[1].reason.nearest == 1
    variable = tf.Variable(1.0)
    twin = tf.function(lambda x: x * variable)
    twin(tf.constant(2.0))
    assert causes(twin) == [TraceCause.FIRST]


def test_the_same_arguments_in_another_graph():
    fn = make()
    fn(tf.ones([2]))
    with tf.Graph().as_default():
        fn(tf.ones([2]))
    (_, trace) = trace_report(fn).traces
    assert trace.cause is TraceCause.CONTEXT
    assert "another graph" in str(trace.reason)


# --- what a graph holds ---------------------------------------------------------------------------


def table():
    return np.random.default_rng(0).random((512, 512), np.float32)  # 512 · 512 · 4 = 1 MiB


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
    assert f"test_tracing.py:{constant.line.number}" in trace.advice


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
    assert "its own copy of 1 MiB from test_tracing.py:" in report.advice


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


# --- what is accepted -----------------------------------------------------------------------------


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.ones([8, 8])

    @tf.function
    def step(self, x):
        return x @ self.table


def test_methods_have_traces_for_each_instance():
    one, two = Model(), Model()
    one.step(tf.ones([1, 8]))
    one.step(tf.ones([2, 8]))
    two.step(tf.ones([1, 8]))
    report = trace_report(one.step)
    assert (count_traces(one.step), count_traces(two.step)) == (2, 1)
    assert report.name == "Model.step"
    assert report.line.text == "@tf.function"
    assert "self" not in report.traces[0].signature
    (note,) = trace_report(Model.step).notes
    assert trace_report(Model.step).traces == ()
    assert "3 in all" in note
    # 64 values are few enough for TensorFlow to write into the graph: 8 · 8 · 4 bytes.
    assert report.traces[0].constant_bytes == 256


def test_a_concrete_function_is_one_trace():
    fn = make()
    fn(tf.ones([2]))
    concrete = fn.get_concrete_function(tf.ones([3]))
    report = trace_report(concrete)
    assert [trace.cause for trace in report.traces] == [TraceCause.FIRST]
    assert "float32[3]" in report.traces[0].signature
    assert count_traces(fn) == 2


def test_partials_and_wrappers_lead_to_the_function():
    fn = make()
    fn(tf.ones([2]), 1)

    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)

    assert count_traces(functools.partial(fn, k=2)) == count_traces(wrapper) == 1


def test_a_function_that_was_not_called_says_so():
    report = trace_report(make())
    assert report.traces == ()
    assert report.seconds is None
    assert "not traced yet" in repr(report)
    assert "not traced yet" in report._repr_html_()
    assert alt_text(report).endswith("none yet.")


def test_functions_run_eagerly_are_explained():
    fn = make()
    tf.config.run_functions_eagerly(True)
    try:
        fn(tf.ones([2]))
        (note,) = trace_report(fn).notes
    finally:
        tf.config.run_functions_eagerly(False)
    assert "run_functions_eagerly(True)" in note
    assert trace_report(fn).notes == ()


def plain(x):
    return x


def uses_another():
    return _global_function(tf.ones([1]))


_global_function = tf.function(plain)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (plain, "decorate it with @tf.function"),
        (uses_another, "the tf.function plain that it uses"),
        (None, "make_train_function"),
        (3, "not to int"),
        (len, "plain Python function"),
    ],
)
def test_what_is_not_traced_gives_one_sentence(thing, words):
    for ask in (trace_report, count_traces):
        with pytest.raises(TypeError, match=re.escape(words)) as caught:
            ask(thing)
        assert "\n" not in str(caught.value)


def test_a_loaded_function_is_read(tmp_path):
    module = tf.Module()
    module.fn = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    report = trace_report(loaded.fn)
    assert len(report.traces) >= 1
    assert "float32[None]" in report.traces[0].signature


# --- watching -------------------------------------------------------------------------------------


def test_a_watch_tells_function_reason_seconds_and_line():
    fn = tf.function(plain)
    fn(tf.ones([1]))
    with watch_retracing() as watch:
        assert not watch.finished
        fn(tf.ones([1]))  # fits: no trace
        fn(tf.ones([2]))  # the call that traces
    (report,) = watch.reports
    (row,) = watch.rows
    assert (report.name, report.earlier, len(report.traces)) == ("plain", 1, 1)
    assert row.trace.number == 2
    assert row.line.text == "fn(tf.ones([2]))  # the call that traces"
    assert str(row.reason) == "x: shape [1] → [2]"
    assert row.seconds == row.trace.first_call_seconds > row.trace.trace_seconds > 0
    assert watch.retraces == 1
    assert watch.finished
    assert trace_report(fn).traces[0].first_call_seconds is None  # made before the block
    assert trace_report(fn).traces[1].first_call_seconds == row.seconds


def test_a_block_that_traces_nothing():
    fn = make()
    fn(tf.ones([1]))
    with watch_retracing() as watch:
        fn(tf.ones([1]))
    assert (watch.new_traces, watch.reports, watch.advice) == (0, (), ())
    assert "no function was traced" in repr(watch)
    with pytest.raises(KeyError, match="no function named fn"):
        watch.report("fn")


def test_a_trace_without_a_run_has_no_first_call():
    fn = make()
    with watch_retracing() as watch:
        fn.get_concrete_function(tf.ones([1]))
    (row,) = watch.rows
    assert row.trace.first_call_seconds is None
    assert row.seconds == row.trace.trace_seconds


def test_an_inner_function_is_seen_with_its_own_line():
    @tf.function
    def inner(x):
        return x * 2

    @tf.function
    def outer(x):
        return inner(x) + 1  # calls the inner one

    with watch_retracing() as watch:
        outer(tf.ones([2]))  # calls the outer one
    assert [row.function for row in watch.rows] == ["inner", "outer"]  # as they were finished
    assert watch.rows[0].line.text == "return inner(x) + 1  # calls the inner one"
    assert watch.rows[1].line.text == "outer(tf.ones([2]))  # calls the outer one"
    assert watch.rows[0].trace.first_call_seconds is None
    assert watch.rows[1].trace.trace_seconds > watch.rows[0].trace.trace_seconds


def test_the_cost_of_watching_is_not_in_the_seconds(monkeypatch):
    from lessons_lib.instruments.tracing import hooks
    from lessons_lib.instruments.tracing import retracing as module

    class Clock:
        now = 0.0

        def perf_counter(self):
            self.now += 1e-6
            return self.now

    clock, read = Clock(), module.contents_of

    def slowly(*args):
        clock.now += 100.0
        return read(*args)

    monkeypatch.setattr(hooks, "time", clock)
    monkeypatch.setattr(module, "contents_of", slowly)
    inner = tf.function(plain)
    outer = tf.function(lambda x: inner(x))
    with watch_retracing() as watch:
        outer(tf.ones([1]))
    assert len(watch.rows) == 2
    assert clock.now > 200
    assert all(0 < row.seconds < 1 for row in watch.rows)


def test_same_name_and_shape_are_told_apart():
    one, two = tf.function(plain), tf.function(plain)
    with watch_retracing() as watch:
        one(tf.ones([1]))
        two(tf.ones([1]))
        one(tf.ones([2]))
    assert [len(report.traces) for report in watch.reports] == [2, 1]
    assert [report.name for report in watch.reports] == ["plain", "plain"]


def test_a_function_made_in_a_loop_is_named_as_the_cause():
    with watch_retracing() as watch:
        for _ in range(4):
            tf.function(plain)(tf.ones([1]))
    assert [report.remade for report in watch.reports] == [4] * 4
    assert "4 functions were made from the same code" in watch.advice[0]
    fn = tf.function(plain)
    with watch_retracing() as twin:
        for _ in range(4):
            fn(tf.ones([1]))
    assert [report.remade for report in twin.reports] == [1]
    assert twin.advice == ()


def test_an_instance_for_each_call_is_advised_on():
    with watch_retracing() as watch:
        for _ in range(3):
            model = Model()
            model.step(tf.ones([1, 8]))
    assert "Each instance traces Model.step for itself, 3 here" in watch.advice[0]


def call_and_drop():
    tensor = tf.ones([1000])
    fn = tf.function(lambda x: x + tensor)
    fn(tf.ones([1000]))
    return weakref.ref(fn), weakref.ref(tensor)


def test_watching_keeps_nothing_alive():
    with watch_retracing() as watch:
        gone, held = call_and_drop()
        gc.collect()
        assert gone() is None
        assert held() is None
    (report,) = watch.reports
    assert report.traces[0].captures[0].nbytes == 4000
    assert report.traces[0].ops > 0


def test_an_exception_in_the_block_and_in_the_function():
    fn = make()

    @tf.function
    def broken(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        with watch_retracing() as watch:
            fn(tf.ones([1]))
            broken(tf.ones([1]))
    assert watch.finished
    assert watch.new_traces == 1
    with watch_retracing() as again:
        fn(tf.ones([2]))
    assert again.new_traces == 1


def test_blocks_nest():
    fn = make()
    with watch_retracing() as outer:
        fn(tf.ones([1]))
        with watch_retracing() as inner:
            fn(tf.ones([2]))
        fn(tf.ones([3]))
    assert (outer.new_traces, inner.new_traces) == (3, 1)
    assert inner.reports[0].earlier == 1


def test_all_threads_are_watched():
    functions = [tf.function(plain) for _ in range(4)]

    def work(fn):
        for size in range(1, 6):
            fn(tf.ones([size]))

    with watch_retracing() as watch:
        threads = [threading.Thread(target=work, args=(fn,)) for fn in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watch.new_traces == 20
    assert [len(report.traces) for report in watch.reports] == [5] * 4
    assert [t.number for t in watch.reports[0].traces] == [1, 2, 3, 4, 5]
    assert watch.notes == ()


def test_keras_fit_is_seen():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones([8, 4], np.float32), np.ones([8, 1], np.float32)
    with watch_retracing() as first:
        model.fit(x, y, batch_size=4, verbose=0)  # the line that trains
    names = [report.name for report in first.reports]
    assert any("step" in name for name in names)
    kernel = [
        capture
        for row in first.rows
        for capture in row.trace.captures
        if capture.kind is CaptureKind.VARIABLE and capture.shape == (4, 1)
    ]
    assert kernel[0].nbytes == 4 * 1 * 4
    assert {row.line.text for row in first.rows} == {
        "model.fit(x, y, batch_size=4, verbose=0)  # the line that trains"
    }
    assert count_traces(model.train_function) >= 1
    assert all(report.line is None for report in first.reports)
    with watch_retracing() as second:
        model.fit(x, y, batch_size=4, verbose=0)
    assert not [report for report in second.reports if "one_step" in report.name]


def test_keras_models_made_in_a_loop_are_named_as_the_cause():
    def build():
        model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    x, y = np.ones([8, 4], np.float32), np.ones([8, 1], np.float32)
    with watch_retracing() as watch:
        for _ in range(2):
            build().fit(x, y, verbose=0)
    assert any("Each Keras model traces its own" in advice for advice in watch.advice)
    model = build()
    with watch_retracing() as twin:
        for _ in range(2):
            model.fit(x, y, verbose=0)
    assert not any("Keras model" in advice for advice in twin.advice)


def test_a_model_that_was_not_fitted():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    with pytest.raises(TypeError, match="train_function"):
        trace_report(model)
    with pytest.raises(TypeError, match="make_train_function"):
        trace_report(model.train_function)


def test_a_pipelines_functions_carry_the_users_name():
    def double(x):
        return x * 2

    with watch_retracing() as watch:
        for _ in range(2):
            list(tf.data.Dataset.range(3).map(double))
    assert [report.name for report in watch.reports] == ["double", "double"]
    assert watch.reports[0].line.text == "def double(x):"
    assert watch.reports[0].remade == 2


# --- counting, hiding, other people's hooks -------------------------------------------------------


def test_the_counter_counts_every_function_and_only_new_traces():
    one, two = make(), make()
    with TraceCounter() as traces:
        one(tf.ones([1]))
        one(tf.ones([1]))
        two(tf.ones([1]))
    assert traces.count == 2
    with TraceCounter() as traces:
        one(tf.ones([1]))
    assert traces.count == 0


def test_a_counter_inside_itself_and_used_again():
    fn, counter = make(), TraceCounter()
    with counter:
        with counter:
            fn(tf.ones([1]))
        fn(tf.ones([2]))
    fn(tf.ones([3]))
    with counter:
        fn(tf.ones([4]))
    assert counter.count == 4  # the first was made in two blocks at once


def test_own_traces_can_be_hidden():
    fn = make()
    with TraceCounter() as traces, watch_retracing() as watch:
        with unobserved():
            fn(tf.ones([1]))
        fn(tf.ones([2]))
    assert traces.count == watch.new_traces == 1
    assert watch.reports[0].earlier == 1


def test_somebody_elses_wrapper_is_left_in_place(monkeypatch):
    fn, calls = make(), []
    with TraceCounter() as traces:
        ours = tracing_compilation._create_concrete_function

        def theirs(*args, **kwargs):
            calls.append(1)
            return ours(*args, **kwargs)

        monkeypatch.setattr(tracing_compilation, "_create_concrete_function", theirs)
        fn(tf.ones([1]))
    assert tracing_compilation._create_concrete_function is theirs
    with TraceCounter() as again:
        fn(tf.ones([2]))
    assert (traces.count, again.count, len(calls)) == (1, 1, 2)
    monkeypatch.undo()
    assert tracing_compilation._create_concrete_function is ours
    with TraceCounter() as last:
        fn(tf.ones([3]))
    assert last.count == 1


@pytest.mark.parametrize("name", ["contents_of", "signature_of", "calling_line"])
def test_a_fault_of_ours_breaks_nothing(monkeypatch, name):
    from lessons_lib.instruments.tracing import hooks, retracing

    def fail(*args):
        raise RuntimeError("not readable")

    monkeypatch.setattr(retracing if name == "contents_of" else hooks, name, fail)
    fn = make()
    with watch_retracing() as watch, TraceCounter() as traces:
        assert fn(tf.constant([3.0])).numpy().tolist() == [3.0]
    assert traces.count == 1
    if name == "calling_line":
        assert [(row.function, row.line) for row in watch.rows] == [("<lambda>", None)]
    else:
        assert watch.notes == ("1 further trace could not be read.",)


# --- the report as a thing ------------------------------------------------------------------------


def test_results_are_frozen():
    fn = make()
    with watch_retracing() as watch:
        fn(tf.ones([1]))
    report = trace_report(fn)
    for thing, name in ((report, "name"), (report.traces[0], "number"), (watch, "reports")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


def test_the_table_folds_alike_traces_and_escapes():
    fn = tf.function(lambda x, text: x)
    for number in range(30):
        fn(tf.ones([1]), f"<b>{number}</b>")
    page = trace_report(fn)._repr_html_()
    assert page.count("<tr>") == 1 + 1 + 2 + 1 + 1  # head, first, two, folded, last
    assert "… 26 more" in page
    assert "<b>" not in page


def test_the_picture_adds_up_and_says_what_it_shows():
    from lessons_lib.plots.theme import get_alt

    array = table()
    fn = tf.function(lambda x, k: array * x)
    for number in range(4):
        fn(tf.constant(1.0), number)
    fn(tf.constant(1.0, tf.float32), 0.5)
    report = trace_report(fn)
    text = alt_text(report)
    ax = report.plot()
    assert sum(bar.get_width() for bar in ax.patches) == report.graph_bytes
    hatched = [bar for bar in ax.patches if bar.get_hatch()]
    assert sum(bar.get_width() for bar in hatched) == report.constant_bytes == 5 * MIB
    assert len(ax.get_yticklabels()) == 2  # the four that follow are alike
    assert get_alt(ax) == text
    assert "5 traces" in text
    assert "traces 2–5: k: Python value" in text
    assert text == describe_traces(report)
    assert 'alt="Traces of' in ax._repr_html_()


def test_few_traces_have_a_row_each():
    fn = make()
    for size in range(1, 5):
        fn(tf.ones([size]))
    assert len(trace_report(fn).plot().get_yticklabels()) == 4
    fn(tf.ones([5]))
    assert len(trace_report(fn).plot().get_yticklabels()) == 2


def test_the_picture_of_a_block_counts_traces():
    fn, other = make(), tf.function(plain)
    with watch_retracing() as watch:
        for size in range(1, 5):
            fn(tf.ones([size]))
        other(tf.ones([1]))
    ax = watch.plot()
    assert sum(bar.get_width() for bar in ax.patches) == watch.new_traces == 5
    text = alt_text(watch)
    assert text == describe_watch(watch)
    assert "3 shape" in text
    assert all("≈" in part for part in text.split(". ")[1:])


@pytest.mark.slow
def test_a_thousand_traces_are_reported():
    fn = tf.function(lambda a, b: tf.constant(0), autograph=False)
    for number in range(300):
        fn(number, number % 7)
    report = trace_report(fn)
    assert len(report.traces) == 300
    assert report.traces[299].reason.nearest == 293  # the latest with the same b: 299 − 7 + 1
    assert {trace.cause for trace in report.traces[1:]} == {TraceCause.VALUE}
