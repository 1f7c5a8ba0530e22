"""Bytes and addresses of what has none, or none that are certain."""

from __future__ import annotations

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.holders.object_types import (
    address_of,
    tensor_bytes,
    variable_bytes,
    variable_tensor,
)


def test_a_variable_whose_shape_can_change_has_no_certain_bytes() -> None:
    open_, closed = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None)), tf.Variable([1.0, 2.0])
    assert (variable_bytes(open_), variable_bytes(closed)) == (None, 8)
    assert (tensor_bytes(closed.handle), tensor_bytes(tf.ones([3]))) == (0, 12)


def test_a_variable_is_not_read_into_a_graph() -> None:
    variable = tf.Variable([1.0, 2.0])
    assert variable_tensor(variable).numpy().tolist() == [1.0, 2.0]
    with tf.Graph().as_default():
        assert variable_tensor(variable) is None


def test_only_numbers_in_the_processors_memory_have_an_address() -> None:
    variable, numbers = tf.Variable([1.0]), tf.ones([100])
    assert [address_of(thing) for thing in (tf.constant("text"), variable.handle)] == [None, None]
    assert address_of(numbers) == numbers.__array__().ctypes.data
