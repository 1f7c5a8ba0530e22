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
from typing import Any, Final

from lessons_lib.common.arguments import check_function
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.runtime import require_home_process
from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.instruments.measure import name_of
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

_STATUS: Final = "/proc/self/status"
_RESET: Final = "/proc/self/clear_refs"
_LONGEST: Final = 3600  # seconds between samples


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
        Resident set size of the process.  The peak is the kernel's own on Linux, elsewhere the
        highest sample.
    heap_peak_bytes, heap_kept_bytes : int
        Growth of Python's heap over the call's start, at its highest and at its end.
    tensor_peak_bytes, tensor_kept_bytes : int
        The recording's peak and kept bytes.
    samples : tuple of Sample
        Resident set size and growth of Python's heap over time.
    recording : Recording
        What TensorFlow allocated.
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
    return html_table((result.label, "growth at the peak", "growth at the end"), rows)


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


def _reset_peak() -> bool:
    """Make the kernel's record of the highest resident set size start again (Linux)."""
    try:
        with open(_RESET, "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _kernel_peak() -> int | None:
    with contextlib.suppress(OSError), open(_STATUS, encoding="ascii") as file:
        if match := re.search(r"^VmHWM:\s+(\d+) kB", file.read(), re.MULTILINE):
            return int(match[1]) * KIB
    return None


@contextlib.contextmanager
def _python_heap() -> Iterator[None]:
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        yield
    finally:
        if not running:
            tracemalloc.stop()


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

    Notes
    -----
    Python's heap is counted by tracemalloc, which slows Python down; NumPy reports its arrays to
    it.  A sample can only be taken when no thread holds Python's lock for long.
    """
    check_function(fn, "process_memory")
    if isinstance(interval, bool) or not isinstance(interval, (int, float)):
        raise TypeError(f"interval is a number of seconds, not {interval!r}: give one such as 0.01")
    if not 0 < interval <= _LONGEST:
        raise ValueError(
            f"interval is {interval!r}: give seconds above 0 and up to {_LONGEST}, such as 0.01"
        )
    require_home_process()
    gc.collect()
    rows: list[tuple[float, int, int]] = []
    done = threading.Event()

    def look(base: int) -> None:
        resident, moment = _sample()
        heap = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else base
        rows.append((moment, resident, heap - base))

    def sampler(base: int) -> None:
        while not done.wait(interval):
            look(base)

    with _python_heap():
        before, _ = _sample()
        kernel = _reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        start = time.time()
        thread = threading.Thread(target=sampler, args=(base,), name="lessons_lib-sampler")
        thread.daemon = True
        with record(name_of(fn)) as recording:
            look(base)
            thread.start()
            try:
                result = fn()
            finally:
                done.set()
                thread.join()
            look(base)
            # Read here: what the recorder needs to analyse the block is not the call's.
            current, highest = tracemalloc.get_traced_memory()
    del result
    samples = tuple(Sample(max(0.0, moment - start), rss, heap) for moment, rss, heap in rows)
    peak = max(sample.resident_bytes for sample in samples)
    return ProcessMemory(
        label=name_of(fn),
        seconds=recording.seconds,
        resident_before_bytes=before,
        resident_peak_bytes=max(peak, (_kernel_peak() or 0) if kernel else 0),
        resident_after_bytes=samples[-1].resident_bytes,
        heap_peak_bytes=max(0, highest - base),
        heap_kept_bytes=current - base,
        samples=samples,
        recording=recording,
    )
