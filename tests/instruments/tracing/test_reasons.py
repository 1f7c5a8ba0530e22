"""Why each trace was needed.

Each class of behaviour has a twin that must give the opposite answer.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import (
    TraceCause,
    count_traces,
    trace_report,
    watch_retracing,
)
from lessons_lib.instruments.tracing.reasons import Detail
from tests.support.traced import causes, make

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
    assert found.now.startswith("<lambda> (test_reasons.py:")
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


@pytest.mark.slow
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


def test_of_equally_near_traces_one_of_the_same_form_is_compared_with():
    fn = tf.function(lambda x: x)
    fn(tf.ones([3]))
    fn([1.0, 2.0])
    fn(tf.ones([3], tf.int32))  # a tensor in place of the list would still have another dtype
    fn([1.0, 2.0, 3.0])
    reasons = [trace.reason for trace in trace_report(fn).traces]
    assert [reason.nearest for reason in reasons] == [None, 1, 1, 3]
    assert [reason.cause for reason in reasons[1:3]] == [TraceCause.STRUCTURE, TraceCause.DTYPE]


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
