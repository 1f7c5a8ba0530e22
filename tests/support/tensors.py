"""Tensors made with a single allocation: shapes, axes and scalars are there beforehand."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from lessons_lib.common.runtime import tf

#: Bytes of one element, as the data types' names say.
ITEM = {
    "bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "int16": 2, "int32": 4,
    "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


def nbytes(shape: tuple[int, ...], dtype: str = "float32") -> int:
    """Bytes of a tensor: the product of its dimensions times the size of an element."""
    return prod(shape) * ITEM[dtype]


@cache
def ints(*values: int) -> Any:
    """Make a vector of int32 once and for all: shapes and axes for the programs below."""
    return tf.constant(values, tf.int32, shape=[len(values)])


@cache
def scalar(value: float = 1.0, dtype: str = "float32") -> Any:
    """Make a scalar once and for all."""
    return tf.cast(tf.constant(value), dtype)


def new(*shape: int, dtype: str = "float32") -> Any:
    """Make a tensor with a single allocation: the shape and the value are there already."""
    return tf.raw_ops.Fill(dims=ints(*shape), value=scalar(1.0, dtype))


def ready(*tensors: Any) -> None:
    """Take the helper tensors of a program, so that they are there before its block."""
    assert all(map(tf.is_tensor, tensors))
