"""What kept tensors cost this process beside their elements: measured, not known.

A step that keeps one scalar a call gives a figure that is mostly noise, so some are made here.
What the allocator sets aside for a buffer may be twice as much as it was asked for, so only a
recording tells that rounding from a kept slice of a larger tensor.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable
from typing import Any, Final

from lessons_lib.common import system
from lessons_lib.common.internals import stop_recording
from lessons_lib.common.runtime import tf
from lessons_lib.recording.recorder import record

_BATCHES: Final = 9  # the middle one counts: a pool may be extended during one of them
_BATCH: Final = 64
_CALLS: Final = 3


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


def requested_bytes(call: Callable[[], None]) -> float | None:
    """Record a few calls; give the requested bytes that stay of each, or None if that is unsure."""
    try:
        with record(lines=False, share=1) as recording:
            for _ in range(_CALLS):
                call()
    except Exception:  # a step that runs out of data; another profiler
        return None
    return recording.kept_bytes / _CALLS if recording.exact else None


def _taken() -> float:
    pool = system.allocator_bytes() or 0
    # A chunk of fewer bytes than the least of the pool's own was taken from the C heap.
    return float(system.c_heap_bytes() or 0) + (pool if pool % system.LEAST_CHUNK == 0 else 0)


def _own(tensor: Any) -> list[object]:
    return [part for part in gc.get_referents(tensor) if type(part) is dict]
