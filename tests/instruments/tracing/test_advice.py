"""Advice on traces, tested by doing what it says: fewer traces, as promised, and equal results.

Beside each mistake stands its twin, of which nothing may be said.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import first_difference
from lessons_lib.instruments.tracing import trace_report, watch_retracing
from lessons_lib.instruments.tracing.reasons import Detail, TraceCause
from tests.support.advised import Body, advice_of, followed, traced


def total(x: Any) -> Any:
    return tf.reduce_sum(x)


class Pair(tf.experimental.ExtensionType):
    values: tf.Tensor
    scale: int


class Tensors(tf.experimental.ExtensionType):
    values: tf.Tensor
    scale: tf.Tensor


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


def test_input_signature_is_one_that_can_be_copied() -> None:
    def body(x: Any, k: Any) -> Any:
        return tf.reduce_sum(x) * k

    calls = [(tf.ones([n, 3]), tf.constant(2.0)) for n in (2, 3, 4)]
    advice, results = advice_of(body, calls, 3)
    written = re.search(r"input_signature=(\[.*\]), or", advice)
    assert written is not None
    followed(body, calls, results, 1, input_signature=eval(written[1]))
    followed(body, calls, results, 2, reduce_retracing=True)


def test_a_signature_is_not_offered_where_it_cannot_be_given() -> None:
    for body in (lambda *, x: x, lambda **given: given["x"]):
        fn = tf.function(body)
        for size in (2, 3, 4):
            fn(x=tf.ones([size]))
        advice = trace_report(fn).advice
        assert "input_signature" not in advice
        relaxed = tf.function(body, reduce_retracing=True)
        for size in (2, 3, 4):
            relaxed(x=tf.ones([size]))
        assert relaxed.experimental_get_tracing_count() == 2
    calls = [(tf.ones([n]), tf.ones([2])) for n in (2, 3)]
    advice, results = advice_of(lambda *xs: xs[0], calls, 2)
    written = re.search(r"input_signature=(\[.*\]), or", advice)
    assert written is not None
    followed(lambda *xs: xs[0], calls, results, 1, input_signature=eval(written[1]))


def test_all_that_has_to_change_is_told() -> None:
    calls = [(tf.ones([n]), n) for n in (1, 2, 3, 4)]
    advice, results = advice_of(scaled, calls, 4)
    assert "tf.constant(k, tf.int32)" in advice
    assert "shape of x" in advice
    again = [(x, tf.constant(k, tf.int32)) for x, k in calls]
    followed(scaled, again, results, 2, reduce_retracing=True)
    # Where one of them differs in some calls only, to change the other one helps.
    some = [(tf.ones([2]), 1), (tf.ones([2]), 2), (tf.ones([3]), 3)]
    assert "shape of x" not in advice_of(scaled, some, 3)[0]


SIZES: dict[str, tuple[Body, Callable[[int], Any]]] = {
    "rows": (total, lambda n: tf.ones([n, 2])),
    "ranks": (total, lambda n: tf.ones([1] * n)),
    "ragged": (total, lambda n: tf.ragged.constant([[1.0]] * n)),
    "sparse": (lambda x: tf.sparse.reduce_sum(x), lambda n: tf.sparse.from_dense(tf.ones([n]))),
    "indexed slices": (
        lambda s: s.values * 2,
        lambda n: tf.IndexedSlices(tf.ones([n]), tf.range(n)),
    ),
    "extension type": (lambda m: m.values * 2, lambda n: Pair(tf.ones([n]), 1)),
    "iterator": (lambda it: next(it), lambda n: iter(tf.data.Dataset.from_tensors(tf.ones([n])))),
    "in a dict": (lambda d: d["a"] * 2, lambda n: {"a": tf.ones([n]), "b": 3}),
}


@pytest.mark.parametrize("name", SIZES)
def test_shapes_of_all_kinds_can_be_relaxed(name: str) -> None:
    body, make = SIZES[name]
    advice, results = advice_of(body, [(make(n),) for n in (2, 3, 4, 5)], 4)
    assert "reduce_retracing=True" in advice
    assert "nothing need be done" not in advice
    followed(body, [(make(n),) for n in (2, 3, 4, 5)], results, 2, reduce_retracing=True)


def sizes(x: Any, v: Any) -> Any:
    return tf.shape(x), tf.size(v), tf.reduce_sum(v)


def test_variables_of_several_shapes_are_read_before_they_are_relaxed() -> None:
    def calls(make: Callable[[int], Any], times: int = 1) -> list[tuple[Any, ...]]:
        return [(tf.ones([n * times]), make(n)) for n in (2, 3, 4, 5)]

    def variable(n: int) -> Any:
        return tf.Variable(tf.ones([n]))

    for times in (0, 1):  # only the variable varies; both do
        advice, results = advice_of(sizes, calls(variable, times), 4)
        assert "where v is only read, pass tf.convert_to_tensor(v)" in advice
        read = calls(lambda n: tf.convert_to_tensor(variable(n)), times)
        followed(sizes, read, results, 2, reduce_retracing=True)
    # What it warns of: equally few traces, and sizes of another variable.
    fn, wrong = traced(sizes, calls(variable), reduce_retracing=True)
    assert fn.experimental_get_tracing_count() == 2
    assert first_difference(results, wrong) is not None
    assert "is only read" in trace_report(fn).advice
    same = [(x, variable(2)) for x, _ in calls(variable)]
    advice, results = advice_of(sizes, same, 4)
    assert "only read" not in advice
    followed(sizes, same, results, 2, reduce_retracing=True)


def test_ragged_tensors_that_no_trace_can_share_are_of_different_forms() -> None:
    flat, nested = [[1.0, 2.0], [3.0]], [[[1.0], [2.0]], [[3.0]]]
    by_32 = tf.ragged.constant(flat, row_splits_dtype=tf.int32)
    calls = [(tf.ragged.constant(flat),), (tf.ragged.constant(nested),), (by_32,)]
    for some in (calls, calls[:2], [calls[0], calls[2]]):
        fn, _ = traced(lambda x: x.flat_values, some, reduce_retracing=True)
        report = trace_report(fn)
        assert [t.cause for t in report.traces[1:]] == [TraceCause.STRUCTURE] * (len(some) - 1)
        assert "comes in different forms" in report.advice
        assert "reduce_retracing" not in report.advice
        assert "nothing need be done" not in report.advice


def test_sizes_that_are_not_known_are_not_called_relaxed() -> None:
    fn = tf.function(total)
    for columns in (3, 4, 5):
        data = tf.data.Dataset.from_tensor_slices(tf.ones([4, columns])).batch(2)
        list(data.map(lambda x: fn(x)))  # [None, columns]
    report = trace_report(fn)
    assert [t.reason.differences[0].detail for t in report.traces[1:]] == [Detail.NONE] * 2
    assert "[tf.TensorSpec([None, None], tf.float32)]" in report.advice


def test_a_relaxed_shape_needs_nothing() -> None:
    fn, _ = traced(total, [(tf.ones([n, 3]),) for n in (2, 3, 4)], reduce_retracing=True)
    report = trace_report(fn)
    assert report.traces[1].reason.differences[0].detail is Detail.RELAXED
    assert "nothing need be done" in report.advice
    fn(tf.ones([2, 5]))
    assert trace_report(fn).traces[2].reason.differences[0].detail is Detail.RELAXED


def scaled(x: Any, k: Any) -> Any:
    return x * tf.cast(k, x.dtype)


NUMBERS: dict[str, tuple[Any, list[Any], str]] = {
    "small": (tf.ones([2]), [1, 2, 3], "tf.int32"),
    "beyond 31 bits": (tf.ones([2], tf.int64), [3, 2**31, 2**40 + 7], "tf.int64"),
    "negative, at the edge": (tf.ones([2], tf.int64), [-(2**31), -5], "tf.int32"),
    "fractions": (tf.ones([2]), [0.1, 0.2], "tf.float32"),
    "fractions of 64 bits": (tf.ones([2], tf.float64), [0.1, 0.2], "tf.float64"),
    "both": (tf.ones([2]), [1, 0.5], "tf.float32"),
    "complex": (tf.ones([2], tf.complex64), [1j, 2j], "tf.complex64"),
    "complex of 128 bits": (tf.ones([2], tf.complex128), [1j, 2j], "tf.complex128"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_can_be_passed_as_the_tensors_that_are_named(name: str) -> None:
    x, values, dtype = NUMBERS[name]
    advice, results = advice_of(scaled, [(x, k) for k in values], len(values))
    written = re.search(r"tf\.constant\(k, (tf\.\w+)\)", advice)
    assert written is not None
    assert written[1] == dtype
    calls = [(x, eval(written[0], {"tf": tf, "k": k})) for k in values]
    followed(scaled, calls, results, 1)


def test_a_number_alone_keeps_its_dtype_and_values_are_counted() -> None:
    for values, dtype in (
        ([1j, 2j, 3j], "complex128"),
        ([1, 2, 3], "int32"),
        ([0.5, 1.5, 2.5], "float32"),
    ):
        fn, _ = traced(lambda x: x, [(x,) for x in values])
        advice = trace_report(fn).advice
        assert "is a trace, 3 here: where it only meets tensors" in advice
        assert f"pass a tensor, tf.constant(x, tf.{dtype}), and tf.cast it" in advice
        assert fn(values[0]).dtype.name == dtype


FEW: dict[str, tuple[list[Any], str]] = {
    "text": (["mean", "sum", "none"], "(str)"),
    "text and a number": (["mean", "sum", 0.5], "(str, float)"),
    "enum members": (list(Mode), "(Mode)"),
    "dtypes": ([tf.float32, tf.float64], "(DType)"),
    "shapes": ([tf.TensorShape([2]), tf.TensorShape([3])], "(TensorShape)"),
    "more than 64 bits": ([2**64, 2**65], "(int)"),
}


@pytest.mark.parametrize("name", FEW)
def test_values_that_no_tensor_holds_make_a_trace_each(name: str) -> None:
    values, kinds = FEW[name]
    advice, _ = advice_of(
        lambda x, k: x, [(tf.ones([2]), k) for k in [*values, *values]], len(values)
    )
    assert kinds in advice
    assert "keep its values few" in advice
    assert "anew" not in advice
    assert "tensor" not in advice


def test_a_field_of_an_extension_type_is_declared_as_a_tensor() -> None:
    def body(m: Any) -> Any:
        return m.values * tf.cast(m.scale, tf.float32)

    advice, results = advice_of(body, [(Pair(tf.ones([2]), n),) for n in (1, 2, 3)], 3)
    assert "m.scale (int)" in advice
    assert "declare it as a tf.Tensor in Pair" in advice
    calls = [(Tensors(tf.ones([2]), tf.constant(n)),) for n in (1, 2, 3)]
    followed(body, calls, results, 1)


def test_iterators_are_told_apart_by_what_they_give() -> None:
    def reason(one: Any, other: Any) -> str:
        fn, _ = traced(lambda it: 0, [(iter(one),), (iter(other),)])
        return str(trace_report(fn).traces[1].reason)

    numbers = tf.data.Dataset.range(3)
    assert reason(numbers, numbers.batch(2)) == "next(it): shape [] → [None]"
    pairs = tf.data.Dataset.zip((numbers, numbers))
    assert reason(numbers, pairs) == "next(it): structure tensor int64[] → tuple of 2"
    fn, _ = traced(lambda it: 0, [(iter(numbers),), (iter(numbers.take(1)),)])
    assert fn.experimental_get_tracing_count() == 1


def test_what_nothing_tells_apart_is_another_object() -> None:
    arrays = [tf.TensorArray(tf.float32, 2) for _ in range(2)]
    fn, _ = traced(lambda a: 0, [(array,) for array in arrays])
    report = trace_report(fn)
    assert len(report.traces) == 2
    assert str(report.traces[1].reason) == "a: new object, TensorArray"
    assert "0x" not in report.advice
    fn, _ = traced(lambda a: 0, [(arrays[0],), (arrays[0],)])
    assert fn.experimental_get_tracing_count() == 1


def test_the_same_variable_twice() -> None:
    one, two, fixed = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0, trainable=False)
    fn, _ = traced(lambda a, b: a + b, [(one, two), (one, one)])
    (found,) = trace_report(fn).traces[1].reason.differences
    assert found.detail is Detail.SAME_VARIABLE
    assert (found.before, found.now) == (
        "a variable of its own",
        "the variable that is also a",
    )
    fn, _ = traced(lambda a, b: a + b, [(one, two), (one, fixed)])
    (found,) = trace_report(fn).traces[1].reason.differences
    assert found.detail is Detail.TRAINABLE
    assert found.before != found.now
    fn, _ = traced(lambda a, b: a + b, [(one, two), (two, one)])
    assert len(trace_report(fn).traces) == 1


def test_none_in_some_calls_becomes_a_tensor_in_all() -> None:
    def body(x: Any, mask: Any = None) -> Any:
        return x if mask is None else x * mask

    x, ones = tf.ones([2]), tf.ones([2])
    advice, results = advice_of(body, [(x, None), (x, ones)], 2)
    assert "stack" not in advice
    assert "in every call" in advice
    followed(body, [(x, ones), (x, ones)], results, 1)


def test_lists_of_several_lengths_become_a_stacked_tensor() -> None:
    calls = [([tf.ones([3])] * n,) for n in (2, 3, 4)]
    advice, results = advice_of(lambda parts: tf.add_n(parts), calls, 3)
    assert "one stacked tensor to a tf.function with reduce_retracing=True" in advice

    def stacked(x: Any) -> Any:
        return tf.reduce_sum(x, axis=0)

    followed(stacked, [(tf.stack(parts),) for (parts,) in calls], results, 2, reduce_retracing=True)


def test_dtypes_are_converted_to_one_that_holds_all() -> None:
    calls = [(tf.constant([n], dtype),) for n, dtype in ((2**20 + 1, tf.int32), (1.5, tf.float32))]
    advice, results = advice_of(lambda x: x * 2, calls, 2)
    assert "such as float64" in advice
    again = [(tf.cast(x, tf.float64),) for (x,) in calls]
    fn, wide = traced(lambda x: x * 2, again)
    assert fn.experimental_get_tracing_count() == 1
    assert [shot.values.tolist() for shot in wide] == [shot.values.tolist() for shot in results]


@pytest.mark.slow
def test_pipelines_that_keras_makes_of_arrays_are_told_once_for_each_function():
    model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(2)])
    x = np.ones([4, 3], np.float32)
    model.predict(x, verbose=0)
    with watch_retracing() as watch:
        results = [model.predict(x, verbose=0) for _ in range(3)]
    assert watch.new_traces >= 3
    names = [text.partition(": ")[0] for text in watch.advice]
    assert len(set(names)) == len(names) > 0
    assert all("give them a tf.data set, made once" in text for text in watch.advice)
    batches = tf.data.Dataset.from_tensors(x)
    for call in (lambda: model.predict(batches, verbose=0), lambda: model.predict_on_batch(x)):
        call()
        with watch_retracing() as later:
            again = [call() for _ in range(3)]
        assert later.new_traces == 0
        assert all(np.array_equal(a, b) for a, b in zip(results, again, strict=True))
