"""What the exercises' modules share: inputs from a seed, and sizes in bytes."""

from __future__ import annotations

from typing import Any, Final

from lessons_lib.common.runtime import tf

#: Bytes of one float32.
FLOAT: Final = 4


def normal(seed: int, *shape: int, scale: float = 1.0) -> Any:
    """Give a float32 tensor of normal numbers; the same seed gives the same numbers."""
    return tf.random.stateless_normal(shape, seed=(seed, len(shape)), stddev=scale)


def integers(seed: int, count: int, high: int) -> Any:
    """Give an int32 tensor of whole numbers from 0 to ``high - 1``."""
    return tf.random.stateless_uniform((count,), seed=(seed, 7), maxval=high, dtype=tf.int32)


def floats(*shape: int) -> int:
    """Give the bytes of a float32 tensor of a shape."""
    total = FLOAT
    for side in shape:
        total *= side
    return total
