"""What diagnoses show besides recordings: tables of readings, and of traces by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import MIB
from lessons_lib.instruments.process import ProcessMemory
from lessons_lib.instruments.tracing.hooks import Listener, listening
from lessons_lib.plots.alt_text import varies
from lessons_lib.recording.breakdown import Breakdown
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording


@dataclass(frozen=True, repr=False)
class Table(Result):
    """A table to read: its headers and rows of text."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return "\n".join(" | ".join(row) for row in (self.headers, *self.rows))


@summary_html.register
def _(result: Table) -> str:
    return html_table(result.headers, result.rows)


def meters_table(readings: dict[str, ProcessMemory]) -> Table:
    """Set side by side what three meters said of some programs, at the peak and at the end."""

    def mib(nbytes: int) -> str:
        return f"≈ {nbytes / MIB:.0f}"

    rows = [
        (
            name,
            mib(m.resident_growth_bytes),
            mib(m.resident_after_bytes - m.resident_before_bytes),
            mib(m.heap_peak_bytes),
            mib(m.heap_kept_bytes),
            mib(m.tensor_peak_bytes),
            mib(m.tensor_kept_bytes),
        )
        for name, m in readings.items()
    ]
    headers = ["program"]
    for meter in ("resident set", "Python's heap", "tensors"):
        headers += [f"{meter}, peak in MiB", "end"]
    return Table(tuple(headers), tuple(rows))


def recorded_by_line(
    label: str, program: Callable[..., Any], *arguments: Any, keep: bool = False
) -> tuple[Recording, Breakdown]:
    """Record a call of a program, and sum it by line.

    It is called once before: TensorFlow keeps small constants of its own from a first call.

    Parameters
    ----------
    label : str
        Of the recording.
    program : callable
    *arguments
        What it is called with.
    keep : bool
        Whether its result is still alive when the recording ends.
    """
    program(*arguments)
    with record(label) as recording:
        result = program(*arguments)
        if not keep:
            del result
    return recording, recording.by_line()


def lines_table(recording: Recording) -> Table:
    """Say what each line made, in MiB, in the order of the lines.

    Bytes are rounded, and small lines left out: TensorFlow takes over the memory of some small
    arrays, others in each run, and that can be neither seen nor counted.
    """
    sign = "≈ " if varies(recording) else ""
    rows = []
    for row in recording.by_line().rows:
        sizes = [
            f"{sign}{nbytes / MIB:.2f}"
            for nbytes in (row.peak_bytes, row.kept_bytes, row.allocated_bytes)
        ]
        if row.line is not None and set(sizes) != {f"{sign}0.00"}:
            rows.append((row.line.number, (f"line {row.line.number}", *sizes)))
    headers = ("made at", "MiB at the peak", "at the end", "allocated in all")
    return Table(headers, tuple(texts for _, texts in sorted(rows)))


class _Traces(Listener):
    """Counts traces by the line that called for them."""

    def __init__(self) -> None:
        self.count: Counter[tuple[int, str]] = Counter()

    def made(self, concrete: Any, options: Any, sighting: Any) -> None:
        line = None if sighting is None else sighting.line
        number = 0 if line is None else line.number
        self.count[number, str(concrete.graph.name)] += 1


def traces_by_line(run: Callable[[], Any]) -> tuple[Any, Table]:
    """Run something, and count its traces by the line that called for them."""
    traces = _Traces()
    with listening(traces, timing=False):
        value = run()
    rows = tuple(
        (f"line {number}", name, str(times))
        for (number, name), times in sorted(traces.count.items())
    )
    return value, Table(("called at", "function", "times traced"), rows)
