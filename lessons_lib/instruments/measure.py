"""`measure`: peak, kept bytes and time of a function, over several calls.

Each call is recorded on its own.  Peaks of eager code repeat exactly; peaks of graphs depend on
the order in which the executor runs operations, so a range is given beside the worst one.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lessons_lib.common.arguments import check_count, check_function, check_runs
from lessons_lib.common.gc_control import full_collection, is_set_aside, quick_collection
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.units import about_seconds, byte_range, format_bytes
from lessons_lib.instruments.tracing import TraceCounter
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording


@dataclass(frozen=True, repr=False)
class Measurement(Result):
    """What calls of a function needed.

    Attributes
    ----------
    label : str
        The function's name.
    peak_bytes : int
        Highest peak of all measured calls.
    peak_range : tuple of int
        Lowest and highest peak.
    kept_bytes : int
        What the function's result keeps alive: the bytes that are freed when it is dropped.  The
        most that any call kept.
    seconds : float
        Median time of a call.
    new_traces : int
        Traces of ``tf.function`` that the measured calls made (those of the warm-up not counted).
    repeats, warmup : int
        How often it was called.
    recording : Recording
        Of the call with the highest peak.
    """

    label: str
    peak_bytes: int
    peak_range: tuple[int, int]
    kept_bytes: int
    seconds: float
    new_traces: int
    repeats: int
    warmup: int
    recording: Recording

    def __repr__(self) -> str:
        return (
            f"<Measurement {self.label!r}: peak {byte_range(*self.peak_range)}, "
            f"kept {format_bytes(self.kept_bytes)}, {about_seconds(self.seconds)}>"
        )


@summary_html.register
def _(result: Measurement) -> str:
    return html_table(
        ("measured", "peak", "kept by the result", "new traces", "time", "calls"),
        [
            (
                result.label,
                byte_range(*result.peak_range),
                format_bytes(result.kept_bytes),
                result.new_traces,
                about_seconds(result.seconds),
                f"{result.warmup} + {result.repeats}",
            )
        ],
    )


def name_of(fn: Any) -> str:
    """Give a function's name for labels."""
    name = getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
    return str(name)


def set_aside(warmup: int) -> AbstractContextManager[None]:
    """Make the garbage collections of `run_once` quick, after a warm-up that did what it does once.

    Without a warm-up the first measured call may drop what was there before, in cycles; so that
    all of it is freed in that call, nothing is set aside then.
    """
    return quick_collection() if warmup else contextlib.nullcontext()


def run_once(
    fn: Callable[[], Any], label: str = "", look: Callable[[Any], None] | None = None
) -> tuple[Recording, int]:
    """Call a function once, recorded; give the bytes that dropping its result freed, too.

    `look` is shown the result in between, unrecorded; it must not keep it.
    """
    gc.collect()  # garbage of earlier work must not be freed, and so counted, in this call
    with record(label) as recording:
        result = fn()
    if look is not None:
        look(result)
    in_cycles = not _is_plain(result)
    if in_cycles:
        collect = full_collection if is_set_aside(result) else gc.collect
        collect()  # what the call itself left behind is not kept by its result
    with record(lines=False) as dropped:
        del result
        if in_cycles:
            collect()
    return recording, max(0, -dropped.kept_bytes)


def _is_plain(result: Any, depth: int = 6) -> bool:
    """Tell whether dropping a result frees it at once, because nothing in it can be in a cycle."""
    match result:
        case list() | tuple():
            inside: Any = result
        case dict():
            inside = result.values()
        case _:
            return result is None or isinstance(result, (int, float, str, bytes, tf.Tensor))
    return depth > 0 and all(_is_plain(value, depth - 1) for value in inside)


def measure(
    fn: Callable[[], Any], repeats: int = 3, warmup: int = 1, *, label: str = ""
) -> Measurement:
    """Measure a function that takes no arguments.

    Parameters
    ----------
    fn : callable
        Called exactly ``warmup + repeats`` times.
    repeats : int
        How many calls are measured, at least 1.
    warmup : int
        How many calls come first, unmeasured, so that traces and caches are in place.
    label : str
        A name; by default the function's own.

    Returns
    -------
    Measurement

    Raises
    ------
    TypeError, ValueError
        If an argument is unusable; then nothing was called.
    Exception
        Whatever `fn` raises.
    """
    check_function(fn, "measure")
    repeats = check_count(repeats, "repeats", 1)
    warmup = check_count(warmup, "warmup", 0)
    if not isinstance(label, str):
        raise TypeError(f"label is text, not {label!r}: give text, or nothing")
    require_home_process()
    check_runs("measure is called", "call it outside of the function")
    label = label or name_of(fn)
    with set_aside(warmup):
        for _ in range(warmup):
            fn()
        with TraceCounter() as traces:
            runs = [run_once(fn, label) for _ in range(repeats)]
    return summarise(label, runs, traces.count, warmup)


def summarise(
    label: str, runs: list[tuple[Recording, int]], new_traces: int, warmup: int
) -> Measurement:
    """Make a `Measurement` of recorded calls; each with the bytes that its result kept."""
    peaks = [recording.peak_bytes for recording, _ in runs]
    worst = max(range(len(runs)), key=peaks.__getitem__)
    return Measurement(
        label=label,
        peak_bytes=max(peaks),
        peak_range=(min(peaks), max(peaks)),
        kept_bytes=max(kept for _, kept in runs),
        seconds=statistics.median(recording.seconds for recording, _ in runs),
        new_traces=new_traces,
        repeats=len(runs),
        warmup=warmup,
        recording=runs[worst][0],
    )
