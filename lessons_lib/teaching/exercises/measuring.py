"""How an answer is weighed: TensorFlow's bytes, NumPy's and Python's bytes, and graphs.

An answer runs twice, on different inputs: once while TensorFlow's memory is recorded, once while
Python's allocations (NumPy's arrays among them) are counted.  Their peaks are added, so work that
moves to NumPy is still paid for.  Python objects below `HEAP_FLOOR` are not counted: the
interpreter's own small change would make figures differ from run to run.  All figures are bytes
but traces and operations.

The instruments are the ones that this module found when it was imported; `disturbed` tells
whether somebody has replaced or stopped them since.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lessons_lib
from lessons_lib.common.runtime import tf
from lessons_lib.recording import recorder
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching.exercises.graph_counter import GraphCount, GraphCounter
from lessons_lib.teaching.exercises.watchdog import Watchdog, allocated_now

#: Python and NumPy bytes up to here count as none.
HEAP_FLOOR: Final = 256 * 2**10

_record: Final = recorder.record
_TRACER: Final = (
    "start",
    "stop",
    "get_traced_memory",
    "reset_peak",
    "is_tracing",
    "clear_traces",
)
_ORIGINALS: Final = (
    (recorder, "record", recorder.record),
    (tf.profiler.experimental, "start", tf.profiler.experimental.start),
    (tf.profiler.experimental, "stop", tf.profiler.experimental.stop),
    *((tracemalloc, name, getattr(tracemalloc, name)) for name in _TRACER),
)

Call = Callable[[], Any]


class Disturbed(Exception):
    """The instruments were replaced, stopped or reset while an answer ran."""


@dataclass(frozen=True)
class TensorPass:
    """One run under the recorder: its value, its recording and what it traced."""

    value: Any
    recording: Recording
    graphs: GraphCount


@dataclass(frozen=True)
class HeapPass:
    """One run under Python's allocation tracer: its value, and bytes at the peak and kept."""

    value: Any
    peak_bytes: int
    kept_bytes: int


def disturbed() -> str:
    """Name an instrument that is not the one it was; empty when all are."""
    for module, name, original in _ORIGINALS:
        if getattr(module, name) is not original:
            return f"{module.__name__.removeprefix('tensorflow._api.v2.')}.{name}"
    exported = getattr(lessons_lib, "record", None)
    if exported is not None and exported is not _record:
        return "lessons_lib.record"
    return ""


def plain_pass(call: Call, *, seconds: float, ceiling: int | None) -> Any:
    """Run an answer without instruments, but within its limits; gives its value."""
    with Watchdog(seconds, ceiling):
        return call()


def tensor_pass(call: Call, *, seconds: float, ceiling: int | None) -> TensorPass:
    """Run an answer while TensorFlow's memory is recorded.

    Raises
    ------
    Tripped
        If it takes longer than `seconds` or more than `ceiling` bytes.
    Disturbed
        If the recorder and the allocator's own counter contradict each other.
    """
    gc.collect()
    ran = False
    try:
        with GraphCounter() as graphs, _record(lines=True) as recording:
            before = _reset_allocator_peak()
            with Watchdog(seconds, ceiling):
                value = call()
            ran = True
            peak = _allocator_peak()
            gc.collect()
    except ProfileError as error:
        if ran:
            raise Disturbed(str(error)) from None
        raise
    # The allocator counts whole chunks, up to twice the bytes that were asked for.
    grown = 0 if before is None or peak is None or not recording.exact else peak - before
    if grown > 2 * recording.peak_bytes + HEAP_FLOOR:
        raise Disturbed("the recorder did not see all of TensorFlow's memory")
    return TensorPass(value, recording, graphs)


def heap_pass(call: Call, *, seconds: float, ceiling: int | None) -> HeapPass:
    """Run an answer while Python's and NumPy's allocations are counted; raises as `tensor_pass`."""
    gc.collect()
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start(1)
    try:
        # A block that is made and freed sets the peak; if that is lost, somebody reset it.
        witness = bytearray(1)
        base, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        primer = bytearray(HEAP_FLOOR)
        del primer
        with Watchdog(seconds, ceiling):
            value = call()
        if not tracemalloc.is_tracing():
            raise Disturbed("Python's allocation tracer was stopped")
        gc.collect()
        now, peak = tracemalloc.get_traced_memory()
        if peak < base + HEAP_FLOOR or tracemalloc.get_object_traceback(witness) is None:
            raise Disturbed("Python's allocation tracer was reset")
    finally:
        if started:
            tracemalloc.stop()
    return HeapPass(value, _counted(peak - base), _counted(now - base))


def _counted(size: int) -> int:
    # The primer itself, and objects of a few bytes that live beside it, are below the floor.
    return size if size > HEAP_FLOOR + HEAP_FLOOR // 8 else 0


def _reset_allocator_peak() -> int | None:
    before = allocated_now()
    if before is not None:
        tf.config.experimental.reset_memory_stats("CPU:0")
    return before


def _allocator_peak() -> int | None:
    try:
        return int(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    except (ValueError, KeyError, tf.errors.OpError):
        return None
