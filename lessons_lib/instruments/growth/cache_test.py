"""Do the eager runtime's caches hold what grows?  They are emptied, to see what that gives back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

import numpy as np

from lessons_lib.common import system
from lessons_lib.common.internals import cache_cleaners
from lessons_lib.instruments.growth.case import CacheTest

_TEST_CALLS: Final = 3


def empty_caches(call: Callable[[], None]) -> tuple[CacheTest, list[str]]:
    """Empty the eager runtime's caches after a few calls and see what that gives back."""

    def heap() -> np.ndarray:
        gc.collect()
        return np.array([system.c_heap_bytes() or 0, system.allocator_bytes() or 0], np.float64)

    for name, empty in cache_cleaners():

        def given_back(calls: int, empty: Callable[[], None] = empty) -> np.ndarray:
            for _ in range(calls):
                call()
            full = heap()
            empty()
            return full - heap()

        try:
            # What one call fills again after emptying is no growth: what more calls add to it is.
            empty()
            before = heap()
            once = given_back(1)
            more = given_back(1 + _TEST_CALLS) - once
        except Exception as error:
            return CacheTest(), [f"The caches could not be tested: {type(error).__name__}."]
        rest = heap() - before
        if more[1] <= 0:  # tensors of which emptying gives nothing back are none of the cache's
            more[1] = rest[1] = 0.0
        left, grown = float(rest.sum()), float(more.sum())
        if grown > 0 and grown >= left:
            said = (
                ["The kernel cache was emptied, which restarts the counters of stateful random "
                 "operations."]
                if name == "kernel"
                else []
            )  # fmt: skip
            share = grown / (grown + max(0.0, left))
            per_call = grown / _TEST_CALLS, float(more[1]) / _TEST_CALLS
            return CacheTest(name, share, *per_call), said
    return CacheTest(), []
