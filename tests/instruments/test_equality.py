"""Results of every kind: where two differ first, and what of one cannot be compared."""

from __future__ import annotations

import collections
import types
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import first_difference, snapshot, uncompared

Point = collections.namedtuple("Point", "x y")


class Attrs:
    """As a class that the attrs library has made."""

    __attrs_attrs__ = (types.SimpleNamespace(name="x"),)

    def __init__(self, x: int) -> None:
        self.x = x


def sparse(value: float) -> Any:
    return tf.SparseTensor([[0, 1]], [value], [2, 2])


def rows(last: float) -> Any:
    """Make the slices of a gradient, of which nobody knows how many rows the whole has."""
    return tf.IndexedSlices(tf.constant([[1.0, 1.0, last]]), tf.constant([4]))


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (Point(1, 2), Point(1, 3), "['y']"),
        (Attrs(1), Attrs(2), "['x']"),
        (np.array([1, 2], object), np.array([1, 3], object), "[1]"),
        ({(1, 2)}, {(1, 3)}, ""),
        ({frozenset([1])}, {frozenset([2])}, ""),
        (sparse(1.0), sparse(2.0), "['values'][0]"),
        (sparse(1.0), tf.ragged.constant([[1.0]]), ""),
        (rows(1.0), rows(2.0), "['values'][0, 2]"),
        ({1}, [1], ""),
        (1, None, ""),
        ([1], "a text", ""),
        (object(), 1.0, ""),
        ({"a": 1}, [1], ""),
    ],
)
def test_where_results_differ_is_said(one: Any, other: Any, path: str) -> None:
    found = first_difference(snapshot(one), snapshot(other))
    assert found is not None
    assert found.path == path
    for same in (one, other):
        assert first_difference(snapshot(same), snapshot(same)) is None or type(same) is object


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("places", [(1.0,), (1.0, 1.0), (1.0, -1.0)], ids=["one", "two", "signs"])
def test_a_mask_hides_no_difference_and_accuses_no_rounding(
    dtype: str, places: tuple[float, ...]
) -> None:
    mask = -6e4 if dtype == "float16" else -1e9

    def masked(*numbers: float) -> Any:
        at_first, *others = (mask * sign for sign in places)
        return snapshot(np.array([at_first, *numbers, *others], dtype))

    assert first_difference(masked(1.0, 2.0), masked(1.0, 2.2)) is not None
    assert first_difference(masked(1.0, 2.0), masked(1.1, 2.0)) is not None
    little = float(np.finfo(dtype).eps) / 8
    assert first_difference(masked(little, 1.0), masked(0.0, 1.0)) is None
    assert first_difference(masked(1.0), masked(1.1)) is not None


@pytest.mark.parametrize("mask", [None, -1e9])
def test_sums_in_another_order_agree_beside_a_mask_or_none(mask: float | None) -> None:
    terms = np.random.default_rng(0).normal(size=[1000, 50]).astype("float32")
    terms[500:, 1] = -terms[:500, 1]  # cancel out
    one, other = terms.sum(0), np.cumsum(terms[::-1], 0)[-1]
    wrong = one.copy()
    wrong[2] *= 1.1
    for sums in (one, other, wrong):
        sums[0] = mask or sums[0]
    assert not np.array_equal(one, other)
    assert first_difference(snapshot(one), snapshot(other)) is None
    assert first_difference(snapshot(one), snapshot(wrong)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Large numbers that are no mask's tell how exact a sum is that has cancelled out: several
        # that are not the same ones, one that differs by rounding, and one that is not so large.
        ([1e6, 0.5, 1e6 + 1], [1e6, 1.0, 1e6 + 1]),
        ([1e6, 0.5], [1e6 + 0.0625, 1.0]),
        ([1.0, 0.0, 1e-7], [1.0, 1e-8, 0.0]),
        ([5e3, 60.0, 0.01], [5e3, 60.0, 0.0]),
    ],
)
def test_what_has_cancelled_out_agrees(one: list[float], other: list[float]) -> None:
    a, b = (snapshot(np.array(numbers, "float32")) for numbers in (one, other))
    assert first_difference(a, b) is None


def test_what_lies_too_deep_or_holds_no_numbers_is_not_compared() -> None:
    nest: list[Any] = [1]
    for _ in range(50):
        nest = [nest]
    (text,) = uncompared(snapshot(nest))
    assert text.endswith("[0] (list)")
    assert uncompared(snapshot({object()})) == ["result (a set of object)"]
    assert uncompared(snapshot({"a": [object(), 1]})) == ["result['a'][0] (object)"]
