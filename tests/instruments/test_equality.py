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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_mask_hides_no_difference_and_accuses_no_rounding(dtype: str) -> None:
    mask = -1e9 if dtype == "float32" else -6e4

    def masked(*numbers: float) -> Any:
        return snapshot(np.array([mask, *numbers, mask], dtype))

    assert first_difference(masked(1.0, 2.0), masked(1.0, 3.0)) is not None
    assert first_difference(masked(1e-9, 1.0), masked(0.0, 1.0)) is None
    # Without a mask the largest number says how exact a sum can be that has cancelled out.
    one, other = (snapshot(np.array([1e6, x, 1e6 + 1], "float32")) for x in (0.5, 1.0))
    assert first_difference(one, other) is None


def test_what_lies_too_deep_or_holds_no_numbers_is_not_compared() -> None:
    nest: list[Any] = [1]
    for _ in range(50):
        nest = [nest]
    (text,) = uncompared(snapshot(nest))
    assert text.endswith("[0] (list)")
    assert uncompared(snapshot({object()})) == ["result (a set of object)"]
    assert uncompared(snapshot({"a": [object(), 1]})) == ["result['a'][0] (object)"]
