"""The tools that are compared: how each measures the peak of a call, and how each is switched on.

A tool that is not installed is left out.  scalene is not among them: it watches whole programs
that were started with it, and cannot be switched on around a call.  All but ours run with
TensorFlow as it comes, without the allocator setting.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

Call = Callable[[], Any]


def ours(call: Call) -> int:
    """Give the recording's peak."""
    import lessons_lib as ll

    with ll.record() as recording:
        result = call()
    del result
    return recording.peak_bytes


def by_memory_profiler(call: Call) -> int:
    """Highest sample of memory_profiler's ``memory_usage``, over one taken just before."""
    from memory_profiler import memory_usage

    before = memory_usage(-1, max_iterations=1)[0]
    highest = memory_usage((call, (), {}), interval=0.005, max_usage=True, max_iterations=1)
    return int((highest - before) * 2**20)


def by_polling(call: Call) -> int:
    """Highest resident set size, read every 5 ms by a thread."""
    import psutil

    process = psutil.Process()
    before = process.memory_info().rss
    highest, done = before, threading.Event()

    def poll() -> None:
        nonlocal highest
        while not done.wait(0.005):
            highest = max(highest, process.memory_info().rss)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        result = call()
        highest = max(highest, process.memory_info().rss)
    finally:
        done.set()
        thread.join()
    del result
    return highest - before


def by_tracemalloc(call: Call) -> int:
    """Highest growth of Python's heap."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del result
    return highest - before


def by_memray(call: Call) -> int:
    """High-water mark of memray, native allocations included."""
    import memray

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "memray.bin")
        with memray.Tracker(path):
            result = call()
        del result
        with memray.FileReader(path) as reader:
            return sum(r.size for r in reader.get_high_watermark_allocation_records())


#: Name, module that it needs, how it measures a peak.
TOOLS: dict[str, tuple[str, Callable[[Call], int]]] = {
    "lessons_lib": ("lessons_lib", ours),
    "memory_profiler": ("memory_profiler", by_memory_profiler),
    "memray": ("memray", by_memray),
    "tracemalloc": ("tracemalloc", by_tracemalloc),
    "RSS polling": ("psutil", by_polling),
}


def installed() -> list[str]:
    """Name the tools that can be tried here."""
    return [name for name, (module, _) in TOOLS.items() if importlib.util.find_spec(module)]


# ---------------------------------------------------------------- switched on, for the cost


@contextlib.contextmanager
def _profiler_alone() -> Iterator[None]:
    import tensorflow as tf

    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=options)
        try:
            yield
        finally:
            tf.profiler.experimental.stop()


@contextlib.contextmanager
def _recorded(lines: bool) -> Iterator[None]:
    import lessons_lib as ll

    with ll.record(lines=lines):
        yield


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextlib.contextmanager
def _memray() -> Iterator[None]:
    import memray

    with (
        tempfile.TemporaryDirectory() as folder,
        memray.Tracker(os.path.join(folder, "memray.bin")),
    ):
        yield


@contextlib.contextmanager
def _polled(read: Callable[[], Any]) -> Iterator[None]:
    done = threading.Event()

    def poll() -> None:
        while not done.wait(0.005):
            read()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _memory_profiler() -> Any:
    from memory_profiler import memory_usage

    return _polled(lambda: memory_usage(-1, interval=1e-4, max_iterations=1))


def _rss() -> Any:
    import psutil

    return _polled(psutil.Process().memory_info)


ALLOCATOR_ALONE = "the profiler alone, with the allocator that reports"

#: Name, module that it needs, and what switches it on around a run.
SWITCHES: dict[str, tuple[str, Callable[[], Any]]] = {
    "TensorFlow's profiler alone": ("tensorflow", _profiler_alone),
    # The same with the allocator setting that ours needs: the profile then has memory events.
    ALLOCATOR_ALONE: ("tensorflow", _profiler_alone),
    "lessons_lib, without lines": ("lessons_lib", lambda: _recorded(False)),
    "lessons_lib": ("lessons_lib", lambda: _recorded(True)),
    "memory_profiler": ("memory_profiler", _memory_profiler),
    "memray": ("memray", _memray),
    "tracemalloc": ("tracemalloc", _traced),
    "RSS polling": ("psutil", _rss),
}


def interleaved(call: Call, switch: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Time a call bare and with a tool on, in turns; give the best seconds of each.

    Switching on and off is not in the time; `cost.py` tells it by itself.
    """
    bare, with_tool = [], []
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            begun = time.perf_counter()
            call()
            bare.append(time.perf_counter() - begun)
            with switch():
                begun = time.perf_counter()
                call()
                with_tool.append(time.perf_counter() - begun)
    finally:
        gc.enable()
    return min(bare), min(with_tool)
