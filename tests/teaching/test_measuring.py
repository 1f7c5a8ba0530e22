"""One run under both meters: every byte once, at the moment when it is there.

Peaks are hand arithmetic: S is the bytes of a float32 tensor.  Python's own small change is below
S / 16.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import GIB
from lessons_lib.teaching.exercises.measuring import Meter, Usage
from lessons_lib.teaching.exercises.numpy_allocations import NumpyWatch
from lessons_lib.teaching.exercises.shared_tracer import SharedTracer
from lessons_lib.teaching.exercises.watchdog import Limited, Tripped

ROWS, WIDTH = 1024, 1024
S = 4 * ROWS * WIDTH
HEAVY = 3 * GIB

pytestmark = pytest.mark.usefixtures("quick")


def weigh(call: Callable[[], Any], ceiling: int = GIB) -> Usage:
    """Weigh one call, with its value alive at the end."""
    call()
    with Meter(seconds=60, ceiling=ceiling) as meter:
        value = call()
    del value
    return meter.usage()


def near(measured: int, units: float) -> bool:
    return abs(measured - units * S) < S / 16


def ones() -> Any:
    return tf.ones([ROWS, WIDTH])


def test_tensors_alone_are_exact() -> None:
    usage = weigh(lambda: ones() + 1.0)
    assert usage.heap_peak_bytes == usage.heap_kept_bytes == usage.numpy_bytes == 0
    # The two numbers of the shape, and the number 1, are gone or small.
    assert 2 * S <= usage.peak_bytes < 2 * S + 64
    assert usage.kept_bytes == S


def test_what_passes_from_numpy_to_tensorflow_counts_once() -> None:
    rows = [np.ones(WIDTH) for _ in range(ROWS)]
    usage = weigh(lambda: tf.constant(np.array(rows, np.float32)))
    assert near(usage.kept_bytes, 1)
    # The array, TensorFlow's copy of it, and where that does not suit, a copy of the copy.
    assert near(usage.peak_bytes, 2) or near(usage.peak_bytes, 3)


def test_peaks_at_different_moments_are_not_added() -> None:
    def one_after_the_other() -> None:
        for _ in range(3):
            x = ones()
            y = x.numpy()
            del x
            y *= 2
            del y

    usage = weigh(one_after_the_other)
    assert near(usage.peak_bytes, 2)  # x and its copy
    assert near(usage.heap_peak_bytes, 1)
    assert near(usage.numpy_bytes, 3)


def test_arrays_that_live_beside_tensors_are_added() -> None:
    def side_by_side() -> Any:
        x = np.ones((ROWS, WIDTH), np.float32)
        y = ones()
        z = y + 1.0
        return x, y, z

    usage = weigh(side_by_side)
    assert near(usage.peak_bytes, 3)
    assert near(usage.kept_bytes, 3)


def test_the_total_of_arrays_is_exact() -> None:
    def concatenated() -> Any:
        table = np.zeros((0, ROWS, WIDTH), np.float32)
        part = np.ones((1, ROWS, WIDTH), np.float32)
        for _ in range(4):
            table = np.concatenate([table, part])
        return table

    usage = weigh(concatenated)
    assert near(usage.numpy_bytes, 1 + 1 + 2 + 3 + 4)
    (line,) = [line for line, made in usage.arrays.items() if made > 9 * S]
    assert line.text == "table = np.concatenate([table, part])"


def test_python_objects_count() -> None:
    usage = weigh(lambda: [float(i) for i in range(S // 32)])
    # A float takes 24 bytes, and its place in the list 8; the list has some room to grow.
    assert S <= usage.kept_bytes < 1.3 * S
    assert usage.allocated_bytes == 0


def test_what_is_done_outside_does_not_count() -> None:
    with Meter(seconds=60, ceiling=GIB) as meter:
        ones()
        with meter.outside():
            ours = np.ones((2, ROWS, WIDTH), np.float32)
            sum_ = float((ours + 1.0).sum())
    usage = meter.usage()
    assert sum_ == 4 * ROWS * WIDTH
    assert usage.heap_peak_bytes == usage.heap_kept_bytes == usage.numpy_bytes == 0


def _heavy_ones() -> Any:
    return np.ones(HEAVY // 8)


def _heavy_zeros() -> Any:
    return np.zeros(HEAVY // 8)


def _heavy_in_pieces() -> Any:
    return [np.ones(2**25) for _ in range(12)]


def _swallowed() -> Any:
    try:
        return np.ones(HEAVY // 8)
    except MemoryError:
        return None


@pytest.mark.parametrize("call", [_heavy_ones, _heavy_zeros, _heavy_in_pieces, _swallowed])
def test_the_ceiling_covers_numpy_before_the_bytes_are_taken(call: Callable[[], Any]) -> None:
    with pytest.raises(Tripped, match=r"asked NumPy for .* and a check stops at 512 MiB") as caught:
        with Meter(seconds=60, ceiling=512 * 2**20):
            call()
    assert caught.value.by is Limited.MEMORY


@pytest.mark.slow
def test_the_ceiling_covers_python_objects() -> None:
    with pytest.raises(Tripped, match="more than 32 MiB of memory"):
        with Meter(seconds=60, ceiling=32 * 2**20):
            kept = []
            while True:
                kept.append(float(len(kept)))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind(error: type[BaseException]) -> None:
    before = [getattr(tracemalloc, name) for name in ("start", "stop", "reset_peak")]
    with pytest.raises(error):
        with Meter(seconds=60, ceiling=GIB):
            np.ones(5000)
            raise error
    assert [getattr(tracemalloc, name) for name in ("start", "stop", "reset_peak")] == before
    assert not tracemalloc.is_tracing()
    with ll.record() as recording:
        tf.fill([64, 64], 1.0)
    assert recording.peak_bytes == 4 * 64 * 64 + 2 * 4  # with the shape, two int32


# --- the parts ----------------------------------------------------------------------------------


def test_arrays_are_noted_in_the_block_only() -> None:
    with NumpyWatch() as watch:
        kept = np.empty(10_000)
        watch.pause(True)
        np.ones(10_000)
        watch.pause(False)
        np.zeros(20_000)
    np.empty(30_000)
    assert watch.total_bytes == 240_000
    assert [array.nbytes for array in watch.made] == [80_000, 160_000]
    line = watch.made[0].line
    assert line is not None
    assert line.text == "kept = np.empty(10_000)"
    assert kept.size == 10_000


def test_watches_nest() -> None:
    with NumpyWatch() as outer:
        np.empty(1000)
        with NumpyWatch() as inner:
            np.empty(2000)
        np.empty(4000)
    assert (outer.total_bytes, inner.total_bytes) == (40_000, 16_000)


def test_an_array_is_freed_while_an_error_is_raised() -> None:
    # Freeing runs where no Python code may run.
    with NumpyWatch(), pytest.raises(ZeroDivisionError):
        print(np.ones(5000), 1 / 0)


def test_an_interrupt_in_the_watch_comes_out_of_the_block() -> None:
    def admits(nbytes: int) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), NumpyWatch(admits):
        np.ones(10_000)


@pytest.mark.slow
@pytest.mark.child
def test_arrays_may_outlive_the_watch_and_the_process() -> None:
    code = """
import builtins, numpy as np
from lessons_lib.teaching.exercises.numpy_allocations import NumpyWatch
with NumpyWatch() as watch:
    builtins.kept = [np.empty(5000), np.empty(3)]
print(watch.total_bytes)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.split()) == (0, ["40024"]), ended.stderr


def test_the_tracer_is_shared() -> None:
    with SharedTracer() as shared:
        assert not tracemalloc.is_tracing()
        assert tracemalloc.get_traced_memory() == (0, 0)
        first = bytearray(1_000_000)
        tracemalloc.start()
        assert tracemalloc.is_tracing()
        second = bytearray(500_000)
        now, peak = tracemalloc.get_traced_memory()
        assert 500_000 <= now <= peak < 510_000
        del second
        tracemalloc.reset_peak()
        assert tracemalloc.get_traced_memory()[1] < 10_000
        tracemalloc.stop()
        assert not tracemalloc.is_tracing()
        assert 1_000_000 <= shared.level() < 1_010_000
        assert 1_500_000 <= shared.peak() < 1_510_000
        assert not shared.lost
    assert len(first) == 1_000_000
    assert not tracemalloc.is_tracing()


def test_the_users_own_tracing_goes_on() -> None:
    tracemalloc.start()
    try:
        with SharedTracer():
            assert tracemalloc.is_tracing()
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    gc.collect()
