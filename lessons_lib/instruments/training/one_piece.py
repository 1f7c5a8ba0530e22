"""Free memory in one piece, as a new process has it.

The allocator hands out the smallest free piece that is large enough, and splits it only where it
has twice the size or more.  So what it sets aside depends on the gaps that earlier work has left:
the same step may get a fifth more or nothing.  With the gaps taken, it does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf

#: Gaps under this part of the whole are left: what they add is lost in the last digits.
_SMALLEST: Final = 1024
#: So many gaps are taken at most, in some 50 milliseconds.
_MOST: Final = 1000


@contextlib.contextmanager
def one_piece(nbytes: int) -> Iterator[None]:
    """Take the gaps in free memory during a block, but for a piece of so many bytes.

    Nothing is written to what is taken, so it costs no resident memory.  Where the memory does not
    do, some gaps are left.
    """
    gaps: list[Any] = []
    try:
        with tf.device("CPU:0"), contextlib.suppress(tf.errors.ResourceExhaustedError):
            _take(gaps, nbytes)
        yield
    finally:
        gaps.clear()


def _take(gaps: list[Any], nbytes: int) -> None:
    if nbytes < _SMALLEST:
        return
    piece = _address(_empty(nbytes))  # is free again, and larger than the gaps
    part = nbytes // 2
    while part >= nbytes // _SMALLEST and len(gaps) < _MOST:
        gap = _empty(part)
        # The smallest piece that does was taken: no gap is left that does.
        if piece <= _address(gap) < piece + nbytes:
            part //= 2
        else:
            gaps.append(gap)


def _empty(nbytes: int) -> Any:
    return tf.raw_ops.Empty(shape=[nbytes], dtype=tf.uint8, init=False)


def _address(tensor: Any) -> int:
    return int(np.frombuffer(memoryview(tensor), np.uint8).__array_interface__["data"][0])
