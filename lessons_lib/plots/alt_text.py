"""Alternative texts: what a picture shows, in sentences made from its data.

The texts are the same each time that the bytes are; what changes from run to run comes after "≈",
rounded: times, and the bytes of graphs, which depend on the order of execution.
Nothing here needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lessons_lib.common.units import KIB, counted, format_bytes
from lessons_lib.instruments.measure import Measurement
from lessons_lib.instruments.peak import Peak
from lessons_lib.recording.breakdown import Breakdown, RecordingDiff, Row
from lessons_lib.recording.buffers import UNKNOWN
from lessons_lib.recording.recording import Recording


def exact_bytes(n: int) -> str:
    """Write bytes for people and, where that hides digits, to the byte as well."""
    if abs(n) < 1024:
        return f"{n} bytes" if abs(n) != 1 else f"{n} byte"
    return f"{format_bytes(n)} ({n:,} bytes)"


def varies(recording: Recording) -> bool:
    """Tell whether a graph ran in a recording, so that its figures may differ on the next run."""
    return any(site.function is not None for site in recording.buffers.sites)


def _large(rows: Iterable[Row], whole: int) -> str:
    """Name what is at least a fifth of the whole, in an order that does not depend on sizes."""
    large = sorted((row for row in rows if row.peak_bytes * 5 >= whole), key=lambda row: row.key)
    return ", ".join(f"{row.key} ≈ {format_bytes(row.peak_bytes)}" for row in large)


def _title(label: str) -> str:
    return f"“{label}”" if label else "a block of code"


def _shares(rows: Iterable[Row], whole: int, most: int) -> str:
    rows = [row for row in rows if row.peak_bytes]
    said = [
        f"{row.key} {format_bytes(row.peak_bytes)} ({row.peak_bytes / whole:.0%})"
        for row in rows[:most]
    ]
    if rest := rows[most:]:
        size = format_bytes(sum(row.peak_bytes for row in rest))
        said.append(f"{len(rest)} more together {size}")
    return ", ".join(said)


def describe_recording(recording: Recording, *, limit: int | None = None, label: str = "") -> str:
    """Say what the timeline of a recording shows."""
    label = label or recording.label
    head = f"TensorFlow memory over time during {_title(label)}: "
    store = recording.buffers
    if not len(store):
        return head + "nothing was allocated."
    early = int((store.born < 0).sum())
    allocated = len(store) - early
    peak = recording.peak_bytes
    parts: list[str] = []
    if peak and varies(recording):
        by_op, by_line = recording.by_op().rows, recording.by_line().rows
        parts.append(
            f"≈ {allocated:,} buffers, peak ≈ {format_bytes(peak)}, "
            f"≈ {format_bytes(recording.kept_bytes)} kept at its end; a graph ran, and its figures "
            "depend on the order of execution."
        )
        if large := _large(by_op, peak):
            parts.append(f"Largest operations at the peak: {large}.")
        if large := _large((row for row in by_line if row.line is not None), peak):
            parts.append(f"Largest lines: {large}.")
    elif peak:
        # Whether a scalar's constant is made anew or found in a cache differs between runs.
        sized = int(((store.nbytes >= KIB) & (store.born >= 0)).sum())
        many = (
            f"{counted(sized, 'buffer')} of 1 KiB or more"
            if sized
            else counted(allocated, "buffer")
        )
        share = recording.peak_at / recording.seconds if recording.seconds > 0 else 0.0
        parts.append(
            f"{many}, peak {exact_bytes(peak)} "
            f"at ≈ {share:.0%} of the block's time, "
            f"{exact_bytes(recording.kept_bytes)} kept at its end."
        )
        parts.append(f"At the peak by operation: {_shares(recording.by_op().rows, peak, 4)}.")
        lines = recording.by_line().rows
        if any(row.line is not None for row in lines):
            parts.append(f"By line: {_shares(lines, peak, 3)}.")
    else:
        parts.append(
            f"{counted(allocated, 'buffer')}, never above the start (peak 0 bytes), "
            f"{exact_bytes(recording.kept_bytes)} kept at its end."
        )
    if early and not varies(recording):
        size = exact_bytes(int(store.nbytes[store.born < 0].sum()))
        parts.append(f"{counted(early, 'buffer')} from before the block, {size}, freed in it.")
    if limit is not None:
        where = "within" if peak <= limit else f"{exact_bytes(peak - limit)} over"
        parts.append(f"The peak is {where} the limit of {format_bytes(limit)}.")
    if rested := sum(end - begin for begin, end in recording.unwatched):
        share = rested / recording.seconds
        parts.append(
            f"Not watched: ≈ {share:.0%} of the time, in which the allocator's count reached "
            f"≈ {format_bytes(recording.counted_bytes)}."
        )
    if not recording.exact:
        parts.append("The figures are not exact in this process.")
    return head + " ".join(parts)


def describe_measured(result: Measurement | Peak, **options: Any) -> str:
    """Say what the timeline of what was measured shows."""
    return describe_recording(result.recording, **options)


def describe_breakdown(result: Breakdown) -> str:
    """Say what the bars of a breakdown show."""
    what = {"op": "operation", "line": "line"}.get(result.by, result.by)
    head = f"TensorFlow memory by {what}: "
    if not result.rows:
        return head + "nothing was allocated."
    whole = sum(row.peak_bytes for row in result.rows)
    kept = sum(row.kept_bytes for row in result.rows)
    allocated = sum(row.allocated_bytes for row in result.rows)
    at_peak = f"{exact_bytes(whole)}: {_shares(result.rows, whole, 5)}" if whole else "nothing"
    return (
        f"{head}at the peak {at_peak}. Kept at the end: {exact_bytes(kept)}. "
        f"Allocated in all: {exact_bytes(allocated)} in "
        f"{counted(sum(row.buffers for row in result.rows), 'buffer')}."
    )


def signed_bytes(n: int) -> str:
    """Write a difference: ``+4 MiB``, ``−1 KiB``, ``0``."""
    if n == 0:
        return "0"
    return f"{'+' if n > 0 else '−'}{format_bytes(abs(n))}"


def describe_diff(result: RecordingDiff) -> str:
    """Say what the bars of a comparison show."""
    before, after = (_title(r.label) for r in (result.before, result.after))
    head = f"Change in TensorFlow memory from {before} to {after}: "
    whole = (
        f"peak {signed_bytes(result.peak_bytes)} "
        f"({result.before.peak_bytes:,} to {result.after.peak_bytes:,} bytes), "
        f"kept {signed_bytes(result.kept_bytes)}, "
        f"allocated in all {signed_bytes(result.allocated_bytes)}."
    )
    if not result.rows:
        return f"{head}{whole} No operation or line differs."
    places = (
        f"{row.op} at {UNKNOWN + ' line' if row.line is None else row.line} "
        f"{signed_bytes(row.peak_bytes)}"
        for row in result.rows[:4]
        if row.peak_bytes
    )
    said = ", ".join(places) or "none"
    return f"{head}{whole} Largest changes at the peak: {said}."
