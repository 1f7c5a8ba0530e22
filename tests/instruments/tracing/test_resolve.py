"""What may be asked for its traces, and what is said of the rest."""

from __future__ import annotations

import functools
import re
import types

import pytest

from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import (
    TraceCause,
    count_traces,
    resolve,
    trace_report,
    watch_retracing,
)
from lessons_lib.instruments.tracing.signatures import describe_object
from tests.support.traced import Model, make, plain


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


class Called:
    def __call__(self):
        return None


def test_code_is_found_under_what_wraps_it():
    part = plain
    for _ in range(3):
        part = functools.partial(part)
    assert resolve.code_of(part) is plain.__code__
    assert resolve.code_of(Called()) is Called.__call__.__code__
    assert resolve.unwrapped(Called().__call__)[0] is Called.__call__
    assert list(resolve.outside_values(len)) == []


def test_a_name_that_is_not_bound_yet_is_nothing_outside():
    def uses():
        return later

    assert dict(resolve.outside_values(uses)).get("later") is None
    later = 3
    assert dict(resolve.outside_values(uses))["later"] == 3


def test_objects_are_described():
    assert describe_object(None) == ("an object that is gone", None)
    assert describe_object(int) == ("class int", None)
    text, origin = describe_object(functools.partial(max, 3, key=abs))
    assert text.startswith("partial of ")
    assert origin == describe_object(functools.partial(max, 3, key=abs))[1]
    assert origin != describe_object(functools.partial(max, 3))[1]


def test_a_function_that_was_bound_by_hand_is_found_and_one_too_deep_is_not():
    fn = tf.function(lambda self, x: x)
    bound = types.MethodType(fn, 3)
    bound(tf.ones([2]))
    assert count_traces(bound) == count_traces(fn) == 1
    assert repr(trace_report(make())).endswith("not traced yet>")

    def wrapped(times):
        outer = fn
        for _ in range(times):
            inner, outer = outer, lambda: None
            outer.__wrapped__ = inner
        return outer

    assert count_traces(wrapped(resolve._DEPTH)) == 1
    with pytest.raises(TypeError):
        count_traces(wrapped(resolve._DEPTH + 1))


@pytest.mark.parametrize("autograph", [True, False])
def test_a_function_defined_in_a_traced_one_is_the_users(autograph):
    @tf.function(autograph=autograph)
    def outer(x, n):
        @tf.function
        def helper(z):
            return z * n

        return helper(x)

    with watch_retracing() as watch:
        for n in (1, 2, 3):
            outer(tf.ones([2]), n)
    report = watch.report("helper")
    assert report.remade == 3
    assert report.line.text in ("@tf.function", "def helper(z):")
    assert f"made from the same code at {report.line}" in report.advice

    @tf.function
    def helper(z, n):
        return z * n

    # What it says: defined once, outside, with a tensor.
    outer = tf.function(lambda x, n: helper(x, n), autograph=autograph)
    with watch_retracing() as followed:
        for n in (1, 2, 3):
            outer(tf.ones([2]), tf.constant(float(n)))
    assert [(r.name, len(r.traces)) for r in followed.reports if "helper" in r.name] == [
        ("helper", 1)
    ]
