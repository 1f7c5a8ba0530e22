"""Bytes and addresses of what has none, or none that are certain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.holders.heap import with_subclasses
from lessons_lib.instruments.holders.object_types import (
    address_of,
    tensor_bytes,
    variable_bytes,
    variable_tensor,
)
from lessons_lib.instruments.holders.reachability import LONG_TEXT, array_bytes, is_note


def test_a_variable_whose_shape_can_change_has_no_certain_bytes() -> None:
    open_, closed = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None)), tf.Variable([1.0, 2.0])
    assert (variable_bytes(open_), variable_bytes(closed)) == (None, 8)
    assert (tensor_bytes(closed.handle), tensor_bytes(tf.ones([3]))) == (0, 12)


def test_a_variable_is_not_read_into_a_graph() -> None:
    variable = tf.Variable([1.0, 2.0])
    assert variable_tensor(variable).numpy().tolist() == [1.0, 2.0]
    with tf.Graph().as_default():
        assert variable_tensor(variable) is None


def test_a_class_that_derives_twice_from_another_is_one() -> None:
    one = type("One", (), {})
    two, three = type("Two", (one,), {}), type("Three", (one,), {})
    both = type("Both", (two, three), {})
    assert with_subclasses(one) == {one, two, three, both}


@pytest.mark.parametrize(
    ("thing", "note"),
    [
        (dict.fromkeys(range(64), "text"), True),
        (dict.fromkeys(range(65), "text"), False),
        ({"loss": [1.0, None]}, True),
        ({"loss": "x" * LONG_TEXT}, False),
        ([1.0] * 65, False),
        (lambda: None, False),
    ],
)
def test_numbers_and_short_texts_are_notes(thing: Any, note: bool) -> None:
    assert is_note(thing) is note


def test_a_view_keeps_the_whole_array_alive() -> None:
    class Named(np.ndarray):
        pass

    whole = np.zeros(100, np.float32)
    for view in (whole, whole[10:20], whole.view(Named)[10:20]):
        assert array_bytes(view) == (whole.ctypes.data, 100 * 4)


def test_only_numbers_in_the_processors_memory_have_an_address() -> None:
    variable, numbers = tf.Variable([1.0]), tf.ones([100])
    assert [address_of(thing) for thing in (tf.constant("text"), variable.handle)] == [None, None]
    assert address_of(numbers) == numbers.__array__().ctypes.data
