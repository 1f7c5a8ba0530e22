"""What kept tensors cost this process beside their elements: measured, not known.

A step that keeps one scalar a call gives a figure that is mostly noise, so some are made here.
"""

from __future__ import annotations

import gc
import statistics
import sys
from typing import Any, Final

from lessons_lib.common import system
from lessons_lib.common.internals import stop_recording
from lessons_lib.common.runtime import tf

_BATCHES: Final = 9  # the middle one counts: a pool may be extended during one of them
_BATCH: Final = 64


def tensor_cost() -> float:
    """Measure what a scalar takes: Python's object, TensorFlow's handle, the allocator's chunk.

    Returns
    -------
    float
        Bytes; 0 where the C heap has no figure, or nothing can be made now.
    """
    with tf.init_scope(), stop_recording():
        if not tf.executing_eagerly() or system.c_heap_bytes() is None:
            return 0.0
        zero = tf.zeros([])
        kept = [tf.add(zero, zero)]
        python = sum(map(sys.getsizeof, [kept[0], *_own(kept[0])]))
        costs = []
        for _ in range(_BATCHES):
            before = _taken()
            kept += [tf.add(zero, zero) for _ in range(_BATCH)]
            costs.append((_taken() - before) / _BATCH)
    return max(0.0, statistics.median(costs)) + python


def _taken() -> float:
    pool = system.allocator_bytes() or 0
    # A chunk of fewer bytes than the least of the pool's own was taken from the C heap.
    return float(system.c_heap_bytes() or 0) + (pool if pool % system.LEAST_CHUNK == 0 else 0)


def _own(tensor: Any) -> list[object]:
    return [part for part in gc.get_referents(tensor) if type(part) is dict]
