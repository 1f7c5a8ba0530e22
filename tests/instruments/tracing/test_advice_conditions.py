"""What advice depends on beyond the arguments: how the code uses them, tested by doing it.

Beside each use to which the advice applies stands one that it excepts, and that would break.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import first_difference
from lessons_lib.instruments.tracing import trace_report
from tests.support.advised import Body, advice_of, followed, traced
from tests.support.cases import or_further


def breaks(body: Body, calls: list[tuple[Any, ...]], results: list[Any], **options: Any) -> bool:
    """Whether a call raises, or gives something else."""
    try:
        return first_difference(results, traced(body, calls, **options)[1]) is not None
    except (TypeError, ValueError, tf.errors.OpError):
        return True


# --- sizes ----------------------------------------------------------------------------------------


def by_static_size(x: Any) -> Any:
    return tf.zeros([x.shape[0], 2]) + tf.reduce_sum(x)


def by_size(x: Any) -> Any:
    return tf.zeros([tf.shape(x)[0], 2]) + tf.reduce_sum(x)


def mean_by_len(x: Any) -> Any:
    return tf.reduce_sum(x) / len(x)


def mean_by_size(x: Any) -> Any:
    return tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], x.dtype)


def flat_by_static_size(x: Any) -> Any:
    return tf.reshape(x, [x.shape[0], -1])


def flat_by_size(x: Any) -> Any:
    return tf.reshape(x, [tf.shape(x)[0], -1])


def positions_by_static_size(x: Any) -> Any:
    return tf.cast(tf.range(x.shape[0]), x.dtype)[:, None] + x


def positions_by_size(x: Any) -> Any:
    return tf.cast(tf.range(tf.shape(x)[0]), x.dtype)[:, None] + x


STATIC: dict[str, tuple[Body, Body]] = {
    "zeros": (by_static_size, by_size),
    "len": (mean_by_len, mean_by_size),
    "reshape": (flat_by_static_size, flat_by_size),
    "range": (positions_by_static_size, positions_by_size),
}


@pytest.mark.parametrize("name", or_further(STATIC, {"zeros", "len"}))
def test_a_size_that_the_code_reads_is_taken_from_tf_shape_first(name: str) -> None:
    body, changed = STATIC[name]
    calls = [(tf.ones([n, 3]),) for n in (2, 3, 5)]
    advice, results = advice_of(body, calls, 3)
    assert "Where the code reads .shape or len as a number, first take tf.shape there" in advice
    assert breaks(body, calls, results, reduce_retracing=True)  # without it
    written = re.search(r"input_signature=(\[.*\]), or", advice)
    assert written is not None
    followed(changed, calls, results, 1, input_signature=eval(written[1]))
    followed(changed, calls, results, 2, reduce_retracing=True)


PLAIN: dict[str, Body] = {
    "unstack": lambda x: tf.add_n(tf.unstack(x, axis=0)),
    "if": lambda x: x * 2 if x.shape[0] > 2 else x,
}


@pytest.mark.parametrize("name", or_further(PLAIN, {"unstack"}))
def test_where_a_size_must_be_a_number_each_shape_keeps_its_trace(name: str) -> None:
    calls = [(tf.ones([n, 3]),) for n in (2, 3, 5)]
    advice, results = advice_of(PLAIN[name], calls, 3)
    assert "a plain number (lists, if, tf.unstack), keep the shapes few" in advice
    assert breaks(PLAIN[name], calls, results, reduce_retracing=True)
    few = [calls[i] for i in (0, 1, 0, 1)]
    followed(PLAIN[name], few, [results[i] for i in (0, 1, 0, 1)], 2)


def test_arguments_that_vary_together_are_told_together() -> None:
    def body(p: Any, y: Any) -> Any:
        return tf.reduce_mean((p - y) ** 2)

    calls = [(tf.ones([n]), tf.zeros([n])) for n in (2, 3, 4)]
    fn, results = traced(body, calls)
    report = trace_report(fn)
    for advice in (report.advice, report.traces[-1].advice):
        assert "Each new shape of p or y is a trace" in advice
        assert advice.count("reduce_retracing") == 1
    followed(body, calls, results, 2, reduce_retracing=True)
    # Where only one varies, the other is not named.
    calls = [(tf.ones([n]), tf.zeros([1])) for n in (2, 3, 4)]
    assert "Each new shape of p is a trace" in advice_of(body, calls, 3)[0]


# --- numbers --------------------------------------------------------------------------------------


def looped(x: Any, n: Any) -> Any:
    for _ in tf.range(n):
        x = x * 1.5
    return x


MEETS_TENSORS: dict[str, tuple[Body, Body]] = {
    "arithmetic": (lambda x, n: x / n, lambda x, n: x / tf.cast(n, x.dtype)),
    "slices": (lambda x, n: x[n:] - x[:-n], lambda x, n: x[n:] - x[:-n]),
    "tf.range": (looped, looped),
}


@pytest.mark.parametrize("name", or_further(MEETS_TENSORS, {"arithmetic", "slices"}))
def test_a_number_that_only_meets_tensors_can_be_one(name: str) -> None:
    body, cast = MEETS_TENSORS[name]
    calls = [(tf.ones([4]), n) for n in (1, 2, 3)]
    advice, results = advice_of(body, calls, 3)
    assert "where it only meets tensors (arithmetic, slices, tf.range), pass a tensor" in advice
    assert "tf.constant(n, tf.int32), and tf.cast it where it meets another dtype" in advice
    followed(cast, [(x, tf.constant(n, tf.int32)) for x, n in calls], results, 1)


def rollout(x: Any, n: Any) -> Any:
    states = []
    for _ in range(n):
        x = x * 0.5
        states.append(x)
    return tf.stack(states)


WEIGHTS = [tf.ones([4]) * k for k in range(4)]

NEEDS_A_NUMBER: dict[str, tuple[Body, Callable[[int], Any]]] = {
    "index of a list": (lambda x, n: x * WEIGHTS[n], int),
    "length of a list": (lambda x, n: tf.concat([x] * n, 0), int),  # of a tensor: x * n, in silence
    "a loop that appends": (rollout, int),
    "tf.split": (lambda x, n: tf.stack(tf.split(x, n)), lambda n: 2**n),
    "if": (lambda x, n: x / n if n else x, float),
}


@pytest.mark.parametrize("name", or_further(NEEDS_A_NUMBER, {"length of a list"}))
def test_where_a_plain_number_is_needed_its_values_are_kept_few(name: str) -> None:
    body, make = NEEDS_A_NUMBER[name]
    calls = [(tf.ones([8 if name == "tf.split" else 4]), make(n)) for n in (1, 2, 3)]
    advice, results = advice_of(body, calls, 3)
    assert "(lists, if, tf.split, a loop that appends), keep its values few" in advice
    assert breaks(body, [(x, tf.constant(n)) for x, n in calls], results)
    few = [calls[i] for i in (0, 1, 0, 1)]
    followed(body, few, [results[i] for i in (0, 1, 0, 1)], 2)


# --- dtypes ---------------------------------------------------------------------------------------


def test_a_result_that_depends_on_the_dtype_needs_a_trace_for_each() -> None:
    def prepared(image: Any) -> Any:
        return tf.reduce_mean(tf.image.convert_image_dtype(image, tf.float32))

    calls = [(tf.constant([255, 255], tf.uint8),), (tf.ones([2]),)]
    advice, results = advice_of(prepared, calls, 2)
    assert "where the result does not depend on it, convert to one dtype, such as float" in advice
    assert "where it does (tf.image.convert_image_dtype, means of integers), each" in advice
    assert breaks(prepared, [(tf.cast(x, tf.float32),) for (x,) in calls], results)
    followed(prepared, [*calls, *calls], [*results, *results], 2)
