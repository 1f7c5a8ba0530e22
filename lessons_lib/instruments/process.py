"""`process_memory`: the process's view of a call, beside Python's heap and TensorFlow's bytes.

Three numbers that disagree, and each is right about something else: the resident set size (what
the operating system has given the process, sampled with memory_profiler), Python's heap (what
tracemalloc sees, NumPy arrays included) and the tensor bytes (what a recording sees).  The first
one is noisy and stays high once it was high; never grade anything on it.  Bytes and seconds.
"""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from lessons_lib.common.arguments import check_function, check_runs
from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process
from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.instruments.measure import name_of
from lessons_lib.instruments.python_heap import PythonHeap
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

_STATUS: Final = "/proc/self/status"
_LONGEST: Final = 3600  # seconds between samples
_WORTH_A_NOTE: Final = 8 * MIB  # of tracemalloc's own memory: the resident set is as noisy


@dataclass(frozen=True)
class Sample:
    """One look at the process: seconds from the start of the call, and bytes."""

    at: float
    resident_bytes: int
    heap_bytes: int


@dataclass(frozen=True, repr=False)
class ProcessMemory(Result):
    """A call as the operating system, Python and TensorFlow saw it.

    Attributes
    ----------
    label : str
        The function's name.
    seconds : float
        Time of the call, which sampling and tracemalloc make longer.
    resident_before_bytes, resident_peak_bytes, resident_after_bytes : int
        Resident set size of the process.  The peak is the kernel's own where the call took the
        process higher than it ever was (Linux), else the highest sample.
    heap_peak_bytes, heap_kept_bytes : int
        Growth of Python's heap over the call's start, at its highest and at its end.
    tensor_peak_bytes, tensor_kept_bytes : int
        The recording's peak and kept bytes.
    samples : tuple of Sample
        Resident set size and growth of Python's heap over time.
    recording : Recording
        What TensorFlow allocated.
    notes : tuple of str
        What a reader must know, in sentences.
    """

    label: str
    seconds: float
    resident_before_bytes: int
    resident_peak_bytes: int
    resident_after_bytes: int
    heap_peak_bytes: int
    heap_kept_bytes: int
    samples: tuple[Sample, ...]
    recording: Recording
    notes: tuple[str, ...] = ()

    @property
    def tensor_peak_bytes(self) -> int:
        """Peak of the tensor bytes, exact."""
        return self.recording.peak_bytes

    @property
    def tensor_kept_bytes(self) -> int:
        """Tensor bytes kept at the end of the call, exact."""
        return self.recording.kept_bytes

    @property
    def resident_growth_bytes(self) -> int:
        """Growth of the resident set size at its highest."""
        return self.resident_peak_bytes - self.resident_before_bytes

    def __repr__(self) -> str:
        resident = f"≈ +{self.resident_growth_bytes / MIB:.0f} MiB"
        heap = f"≈ +{self.heap_peak_bytes / MIB:.2f} MiB"
        return (
            f"<ProcessMemory {self.label!r}: resident set {resident}, Python heap {heap}, "
            f"tensors {format_bytes(self.tensor_peak_bytes)}>"
        )


@summary_html.register
def _(result: ProcessMemory) -> str:
    def noisy(n: int) -> str:
        return f"≈ {n / MIB:.1f} MiB"

    rows = [
        (
            "resident set size (noisy)",
            noisy(result.resident_growth_bytes),
            noisy(result.resident_after_bytes - result.resident_before_bytes),
        ),
        ("Python's heap", noisy(result.heap_peak_bytes), noisy(result.heap_kept_bytes)),
        (
            "tensors (exact)",
            format_bytes(result.tensor_peak_bytes),
            format_bytes(result.tensor_kept_bytes),
        ),
    ]
    headers = (result.label, "growth at the peak", "growth at the end")
    return html_table(headers, rows) + notes_table(result.notes)


def resident_bytes() -> int:
    """Give the resident set size of this process now."""
    return _sample()[0]


def _sample() -> tuple[int, float]:
    from memory_profiler import memory_usage

    # One reading; memory_profiler's MB are 2**20 bytes.
    ((mebibytes, moment),) = memory_usage(
        -1, interval=1e-4, max_iterations=1, timestamps=True, include_children=False
    )
    return int(mebibytes * MIB), moment


def _kernel_peak() -> int | None:
    with contextlib.suppress(OSError), open(_STATUS, encoding="ascii") as file:
        if match := re.search(r"^VmHWM:\s+(\d+) kB", file.read(), re.MULTILINE):
            return int(match[1]) * KIB
    return None


class _Sampler:
    """Looks at the process again and again, in a thread of its own."""

    def __init__(self, heap: PythonHeap, interval: float) -> None:
        self._heap = heap
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lessons_lib-sampler", daemon=True)
        self._rows: list[tuple[float, int, int]] = []
        self._own_before = tracemalloc.get_tracemalloc_memory()
        self.own_bytes = 0  # what tracemalloc's notes took, at most: the call would not need it

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            self.look()

    def look(self) -> None:
        resident, moment = _sample()
        own = tracemalloc.get_tracemalloc_memory() - self._own_before
        self.own_bytes = max(self.own_bytes, own)
        self._rows.append((moment, resident, self._heap.look()))

    def samples(self, start: float) -> tuple[Sample, ...]:
        return tuple(Sample(max(0.0, at - start), rss, heap) for at, rss, heap in self._rows)


def process_memory(fn: Callable[[], Any], interval: float = 0.005) -> ProcessMemory:
    """Call a function once and watch the process, Python's heap and TensorFlow together.

    Parameters
    ----------
    fn : callable
        Takes no arguments; called once.  Its result is kept until the end of the measurement.
    interval : float
        Seconds between samples, more than 0.

    Returns
    -------
    ProcessMemory

    Raises
    ------
    TypeError, ValueError
        If an argument is unusable; then nothing was called.
    RuntimeError
        Inside a function that TensorFlow traces.
    Exception
        Whatever the function raises.

    Notes
    -----
    Python's heap is counted by tracemalloc, which slows Python down; NumPy reports its arrays to
    it.  What it notes of each object is a part of the resident set; `notes` says how much where
    there are very many objects.  The program may use tracemalloc and the kernel's peak itself:
    neither is reset.  A sample can only be taken when no thread holds Python's lock for long.
    """
    check_function(fn, "process_memory")
    _check_interval(interval)
    require_home_process()
    check_runs("process_memory is called", "call it outside of the function")
    gc.collect()
    before, _ = _sample()
    highest_before, start = _kernel_peak(), time.time()
    with PythonHeap() as heap, record(name_of(fn)) as recording:
        sampler = _Sampler(heap, interval)
        with sampler:
            result = fn()
        sampler.look()
        # Read here: what the recorder needs to analyse the block is not the call's.
        heap_peak, heap_kept = heap.peak_bytes, heap.kept_bytes
    highest = _kernel_peak()
    del result
    samples = sampler.samples(start)
    return ProcessMemory(
        label=name_of(fn),
        seconds=recording.seconds,
        resident_before_bytes=before,
        resident_peak_bytes=_resident_peak(highest_before, highest, samples),
        resident_after_bytes=samples[-1].resident_bytes,
        heap_peak_bytes=heap_peak,
        heap_kept_bytes=heap_kept,
        samples=samples,
        recording=recording,
        notes=tuple(_notes(heap, sampler.own_bytes)),
    )


def _check_interval(interval: object) -> None:
    if isinstance(interval, bool) or not isinstance(interval, (int, float)):
        raise TypeError(f"interval is a number of seconds, not {interval!r}: give one such as 0.01")
    if not 0 < interval <= _LONGEST:
        raise ValueError(
            f"interval is {interval!r}: give seconds above 0 and up to {_LONGEST}, such as 0.01"
        )


def _resident_peak(before: int | None, after: int | None, samples: tuple[Sample, ...]) -> int:
    """Give the highest sample, or the kernel's record where that is higher and the call's own.

    It is the call's where the call has raised it.  It is never reset: the program may read it, too.
    """
    highest = max(sample.resident_bytes for sample in samples)
    if before is None or after is None or after <= before:
        return highest
    return max(highest, after)


def _notes(heap: PythonHeap, own_bytes: int) -> Iterator[str]:
    if own_bytes > _WORTH_A_NOTE:
        yield (
            "The resident set holds what tracemalloc notes of each object, "
            f"≈ {own_bytes / MIB:.0f} MiB or more, which the call alone does not need: to see what "
            "it leaves, call it between two ll.resident_bytes()."
        )
    if heap.blind:
        yield "The function ended tracemalloc, so Python's heap was not seen from there on."
    if heap.sampled:
        yield (
            "The program counts with tracemalloc itself, and its peak is left alone: a peak of "
            "Python's heap below an earlier one is the highest sample."
        )
