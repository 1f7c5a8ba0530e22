"""How an answer is weighed: TensorFlow's bytes, NumPy's and Python's bytes, and graphs, in one run.

Every run of an answer is under the same instruments, so none can be told from another.  A recording
sees TensorFlow's buffers.  Python's allocation tracer, whose level is read before each TensorFlow
operation and at each array that NumPy makes, sees arrays and objects.  Both lie on one clock, so
the peak is the highest sum at one moment, and memory that passes from NumPy to TensorFlow counts
once.  Python's level counts only above `HEAP_FLOOR`: the interpreter's own small change would make
figures differ from run to run.  All figures are bytes but traces and operations.
"""

from __future__ import annotations

import functools
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from lessons_lib.common.internals import constant_op, func_graph, pywrap_tfe
from lessons_lib.common.patching import patched
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line
from lessons_lib.common.system import allocator_bytes
from lessons_lib.common.units import format_bytes
from lessons_lib.recording import recorder, session
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching.exercises.graph_counter import GraphCount, GraphCounter
from lessons_lib.teaching.exercises.numpy_allocations import NumpyWatch
from lessons_lib.teaching.exercises.shared_tracer import SharedTracer
from lessons_lib.teaching.exercises.watchdog import Watchdog

#: Bytes of Python and NumPy up to here count as none.
HEAP_FLOOR: Final = 256 * 2**10
#: What the recorder's own notes of an operation may take of Python's memory.
_NOTES_BYTES: Final = 512
#: Smaller changes of Python's level are not noted.
_STEP_BYTES: Final = 16 * 2**10
#: Clocks agree to some microseconds: what one meter sees to be freed was not there at the same
#: moment as what the other sees to be made within this time.
_CLOCK_SECONDS: Final = 10e-6
_NO_NUMBERS: Final = np.zeros(0, np.float32)
#: Through these functions all of eager TensorFlow passes.
_ENTRANCES: Final = (
    (pywrap_tfe, "TFE_Py_FastPathExecute"),
    (pywrap_tfe, "TFE_Py_Execute"),
    (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
    (constant_op, "convert_to_eager_tensor"),
)


@dataclass(frozen=True)
class Usage:
    """What one run took.

    Attributes
    ----------
    peak_bytes, kept_bytes, allocated_bytes : int
        Of TensorFlow, NumPy and Python together; NumPy's arrays, but no Python objects, are in
        the last one.
    heap_peak_bytes, heap_kept_bytes, numpy_bytes : int
        The part of NumPy and Python in each of them.
    recording : Recording
        TensorFlow's part.
    graphs : GraphCount
    arrays : dict of Line to int
        Bytes of the arrays that each line made.
    largest_bytes : int
        Of the largest buffer of TensorFlow's or array of NumPy's.
    """

    peak_bytes: int
    kept_bytes: int
    allocated_bytes: int
    heap_peak_bytes: int
    heap_kept_bytes: int
    numpy_bytes: int
    recording: Recording
    graphs: GraphCount
    arrays: dict[Line, int]
    largest_bytes: int


class Meter:
    """Context manager: weighs its block, and stops it when it takes too long or too much.

    Parameters
    ----------
    seconds : float
        Wall-clock limit.
    ceiling : int
        Bytes of TensorFlow, NumPy and Python together that the block may take.

    Raises
    ------
    lessons_lib.teaching.exercises.watchdog.Tripped
        From the block's end, if it was stopped.
    lessons_lib.recording.profile_format.ProfileError
        If the block stopped TensorFlow's profiler.
    """

    def __init__(self, *, seconds: float, ceiling: int) -> None:
        self._tracer = SharedTracer()
        self._numpy = NumpyWatch(self._admits)
        self._counter = GraphCounter()
        self._record = recorder.record(lines=True)
        self._dog = Watchdog(seconds, ceiling, self.used)
        self._ceiling = ceiling
        self._stack = ExitStack()
        self._levels: list[tuple[float, int]] = [(0.0, 0)]
        self._ops = self._foreign = self._heap_peak = self._tf_base = 0
        self._tracing = False
        self._marks: list[tuple[int, int]] = []
        self._recording: Recording | None = None

    def __enter__(self) -> Self:
        gc.collect()
        self._tf_base = allocator_bytes() or 0
        with ExitStack() as stack:
            stack.enter_context(self._tracer)
            stack.enter_context(self._numpy)
            self._graphs = stack.enter_context(self._counter)
            # Inside the recorder's own wrappers, which look at TensorFlow's frames around them.
            for module, name in _ENTRANCES:
                stack.enter_context(patched(module, name, self._noting_levels))
            stack.enter_context(patched(func_graph, "func_graph_from_py_func", self._noting_traces))
            stack.enter_context(patched(session.Session, "_next", self._not_counting))
            self._recording = stack.enter_context(self._record)
            stack.enter_context(self._dog)
            self._stack = stack.pop_all()
        # What a first recording loads is not the block's.
        self._foreign = self._tracer.level()
        self._tracer.forget_peak()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._stack:
                self._heap_peak = self._tracer.peak() - self._foreign
                # TensorFlow releases arrays that it has copied at its next call only.
                tf.convert_to_tensor(_NO_NUMBERS)
                gc.collect()
                self._note(self._level(), always=True)
        else:
            self._stack.__exit__(kind, error, trace)

    # --- while the block runs -------------------------------------------------------------------

    def used(self) -> int:
        """Give the bytes that the block holds now, those of TensorFlow rounded as it does."""
        return (allocator_bytes() or 0) - self._tf_base + self._level()

    def mark(self) -> None:
        """Remember this moment; `held` tells afterwards what was held then."""
        assert self._recording is not None
        self._marks.append((self._recording.step(), self._level()))

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Do something in the block that is not the answer's, such as to compare a result."""
        outer = self._numpy.pause(True)
        before = self._tracer.level()
        self._tracer.reset_peak()
        try:
            yield
        finally:
            self._foreign += self._tracer.level() - before
            self._tracer.forget_peak()
            self._numpy.pause(outer)

    def _level(self) -> int:
        return self._tracer.level() - self._foreign

    def _note(self, level: int, *, always: bool = False) -> None:
        if self._tracing:
            return
        if always or abs(level - self._levels[-1][1]) >= _STEP_BYTES:
            self._levels.append((time.perf_counter(), level))

    def _admits(self, nbytes: int) -> bool:
        """Note an array that NumPy is about to make; refuse one that passes the ceiling."""
        self._note(self._level() + nbytes)
        if nbytes >= HEAP_FLOOR and self.used() + nbytes > self._ceiling:
            self._dog.refuse(
                f"it asked NumPy for {format_bytes(nbytes)}, and a check stops at "
                f"{format_bytes(self._ceiling)} of memory"
            )
            return False
        return True

    def _noting_levels(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def entrance(*args: Any, **kwargs: Any) -> Any:
            self._ops += 1
            self._note(self._level())
            return original(*args, **kwargs)

        return entrance

    def _not_counting(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Leave out what the recorder makes of a profile that it reads while the block runs."""

        @functools.wraps(read)
        def reading(*args: Any, **kwargs: Any) -> Any:
            with self.outside():
                return read(*args, **kwargs)

        return reading

    def _noting_traces(self, trace: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(trace)
        def traced(*args: Any, **kwargs: Any) -> Any:
            if self._tracing:
                return trace(*args, **kwargs)
            before, arrays = self._tracer.level(), self._numpy.total_bytes
            self._tracer.reset_peak()
            self._tracing = True
            try:
                return trace(*args, **kwargs)
            finally:
                self._tracing = False
                # What a graph takes of Python's heap is limited by its size, not here; arrays that
                # the traced code makes count.
                grown = self._tracer.level() - before - (self._numpy.total_bytes - arrays)
                self._foreign += max(0, grown)
                self._tracer.forget_peak()

        return traced

    # --- afterwards -----------------------------------------------------------------------------

    def held(self) -> list[int]:
        """Give the bytes that were held at each mark, exact for TensorFlow."""
        assert self._recording is not None
        marks = self._recording.step_marks
        return [marks[place].live + level for place, level in self._marks]

    def usage(self) -> Usage:
        """Give what the block took."""
        assert self._recording is not None
        recording, floor = self._recording, HEAP_FLOOR + _NOTES_BYTES * self._ops
        peak, heap_peak = _highest_sum(recording, self._levels, floor)
        # A peak of Python objects between two readings; when TensorFlow's was is not known.
        between = self._heap_peak - max(level for _, level in self._levels)
        if between > floor:
            peak, heap_peak = peak + between, heap_peak + between
        kept = _counted(self._levels[-1][1], floor)
        made = self._numpy.total_bytes if self._numpy.total_bytes > HEAP_FLOOR else 0
        arrays: Counter[Line] = Counter()
        for array in self._numpy.made:
            if array.line is not None:
                arrays[array.line] += array.nbytes
        return Usage(
            peak_bytes=peak,
            kept_bytes=recording.kept_bytes + kept,
            allocated_bytes=recording.allocated_bytes + made,
            heap_peak_bytes=heap_peak,
            heap_kept_bytes=kept,
            numpy_bytes=made,
            recording=recording,
            graphs=self._graphs,
            arrays=dict(arrays),
            largest_bytes=max(
                [int(n) for n in recording.buffers.nbytes[recording.buffers.born >= 0]]
                + [array.nbytes for array in self._numpy.made],
                default=0,
            ),
        )


def _counted(level: int, floor: int) -> int:
    return level if level > floor else 0


def _highest_sum(
    recording: Recording, levels: list[tuple[float, int]], floor: int
) -> tuple[int, int]:
    """Give the highest sum of TensorFlow's and Python's bytes at one moment, and Python's part."""
    tf_times, tf_live = recording.timeline()
    tf_times = tf_times + recording.started_at
    heap = np.array([level for _, level in levels], np.int64)
    moments = np.array([at for at, _ in levels])
    rises = np.diff(heap, prepend=0) > 0
    moments = np.maximum.accumulate(moments + np.where(rises, 1, -1) * _CLOCK_SECONDS)
    heap = np.where(heap > floor, heap, 0)
    moments[0] = 0.0
    both = np.sort(np.concatenate((tf_times, moments)))
    at_tf = np.searchsorted(tf_times, both, side="right") - 1
    at_heap = np.searchsorted(moments, both, side="right") - 1
    sums = np.where(at_tf < 0, 0, tf_live[at_tf]) + heap[at_heap]
    top = int(np.argmax(sums))
    return max(0, int(sums[top])), int(heap[at_heap[top]])
