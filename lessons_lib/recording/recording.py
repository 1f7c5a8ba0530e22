"""`Recording`: what happened to TensorFlow's memory during a block of code.

All bytes are requested bytes, exact, and are differences from the start of the block; seconds
count from its start.  A recording only holds numbers and names: it keeps no tensor alive.
What no meter of TensorFlow's allocator can see is not in it: NumPy's own arrays, tensors that
adopted a NumPy array's memory, strings' characters, Python objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.source import Line
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.recording import recording_file
from lessons_lib.recording.buffers import Buffer, BufferStore, Floats, Ints, empty_store

UNKNOWN = "unknown"


class BufferList(tuple[Buffer, ...]):
    """A tuple of buffers that shows itself as a table."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Requested bytes of all of them together."""
        return sum(buffer.nbytes for buffer in self)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'buffer')}, {format_bytes(self.nbytes)}>"

    def _repr_html_(self) -> str:
        return buffers_html(self)


def buffers_html(buffers: Sequence[Buffer], *, most: int = 12, caption: str = "") -> str:
    """Make a table of buffers, with a row for those beyond the first `most`."""
    rows = [
        (
            buffer.op or UNKNOWN,
            "" if buffer.shape is None else list(buffer.shape),
            buffer.dtype or "",
            format_bytes(buffer.nbytes),
            UNKNOWN if buffer.line is None else buffer.line.described,
        )
        for buffer in buffers[:most]
    ]
    if rest := buffers[most:]:
        size = format_bytes(sum(buffer.nbytes for buffer in rest))
        rows.append((f"… {len(rest)} more", "", "", size, ""))
    headers = ("op", "shape", "dtype", "size", "line")
    return html_table(headers, rows, caption=caption, align="lllrl")


@dataclass(frozen=True)
class Row:
    """One row of a `Breakdown`: bytes of all buffers that share a key.

    Attributes
    ----------
    key : str
        What the buffers share: an operation type or a source line.
    line : Line or None
        The line, in a breakdown by line.
    buffers : int
        How many were allocated in the block.
    allocated_bytes, peak_bytes, kept_bytes : int
        Bytes allocated in all, alive at the peak, and alive at the end.
    """

    key: str
    line: Line | None
    buffers: int
    allocated_bytes: int
    peak_bytes: int
    kept_bytes: int


@dataclass(frozen=True, repr=False)
class Breakdown(Result):
    """Bytes of a recording by operation or by line, most at the peak first.

    Attributes
    ----------
    by : str
        ``"op"`` or ``"line"``.
    rows : tuple of Row
        Their bytes add up to the recording's allocated bytes, exactly.
    """

    by: str
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        shown = ", ".join(f"{row.key} {format_bytes(row.peak_bytes)}" for row in self.rows[:4])
        return f"<by {self.by} at the peak: {shown}{', …' if len(self.rows) > 4 else ''}>"


@summary_html.register
def _(result: Breakdown) -> str:
    rows = [
        (
            row.line.described if row.line is not None else row.key,
            row.buffers,
            format_bytes(row.peak_bytes),
            format_bytes(row.kept_bytes),
            format_bytes(row.allocated_bytes),
        )
        for row in result.rows
    ]
    return html_table((result.by, "buffers", "at the peak", "kept", "allocated in all"), rows)


@dataclass(frozen=True, repr=False)
class Recording(Result):
    """Every buffer that TensorFlow allocated or freed during a block.

    Attributes
    ----------
    label : str
        The name it was given.
    seconds : float
        How long the block took.
    buffers : sequence of Buffer
        In birth order; buffers born before the block are listed when they were freed in it.
    exact : bool
        False when the allocator does not report every buffer in this process.
    notes : tuple of str
        What a reader must know about this recording, in sentences.
    versions : dict of str to str
        Versions of what it was made with.
    started_at : float
        Python's ``time.perf_counter()`` at the start of the block; 0 when loaded from a file.
    """

    label: str = ""
    seconds: float = 0.0
    buffers: BufferStore = field(default_factory=empty_store)
    exact: bool = True
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    started_at: float = field(default=0.0, compare=False)

    @classmethod
    def open(cls, label: str) -> Recording:
        """Make a recording whose block is still running; `close` finishes it."""
        recording = cls(label=label)
        object.__delattr__(recording, "buffers")
        return recording

    def close(self, **fields: Any) -> None:
        """Finish a recording that `open` made; afterwards it does not change any more."""
        if "buffers" in vars(self):
            raise RuntimeError("this recording is finished: make a new one with ll.record()")
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "buffers":
            raise RuntimeError(
                "this recording is still running: read it after the end of its `with` block"
            )
        raise AttributeError(f"a Recording has no attribute {name!r}")

    @cached_property
    def _live(self) -> Ints:
        return np.cumsum(self.buffers.changes())

    @cached_property
    def _peak_event(self) -> int | None:
        live = self._live
        if not len(live):
            return None
        highest = int(np.argmax(live))
        return highest if live[highest] > 0 else None

    @cached_property
    def peak_bytes(self) -> int:
        """Highest growth of live bytes over the block's start; never below 0."""
        return 0 if self._peak_event is None else int(self._live[self._peak_event])

    @cached_property
    def peak_at(self) -> float:
        """Seconds from the block's start to its peak; 0 when nothing grew."""
        return 0.0 if self._peak_event is None else float(self.buffers.times[self._peak_event])

    @cached_property
    def kept_bytes(self) -> int:
        """Growth of live bytes at the end of the block; negative when more was freed."""
        return int(self._live[-1]) if len(self._live) else 0

    @cached_property
    def allocated_bytes(self) -> int:
        """Bytes of all allocations in the block together."""
        return int(self.buffers.nbytes[self.buffers.born >= 0].sum())

    def timeline(self) -> tuple[Floats, Ints]:
        """Give live bytes over time as a step function.

        Returns
        -------
        times : float array, shape (events + 2,)
            Seconds from the start; begins with 0 and ends with the end of the block.
        live : int array, shape (events + 2,)
            Growth in bytes from each time on.
        """
        times = np.concatenate(([0.0], self.buffers.times, [self.seconds]))
        live = np.concatenate(([0], self._live, [self.kept_bytes]))
        return times, live

    def at_peak(self) -> BufferList:
        """List the buffers born in the block that were alive at its peak, largest first."""
        if self._peak_event is None:
            return BufferList()
        alive = self.buffers.alive_after(self._peak_event)
        order = np.argsort(-self.buffers.nbytes[alive], kind="stable")
        return BufferList(self.buffers[int(i)] for i in alive[order])

    def by_op(self) -> Breakdown:
        """Break the bytes down by operation."""
        return self._breakdown("op", lambda site: (site.op or UNKNOWN, None))

    def by_line(self) -> Breakdown:
        """Break the bytes down by source line."""
        return self._breakdown(
            "line",
            lambda site: (UNKNOWN, None) if site.line is None else (str(site.line), site.line),
        )

    def _breakdown(self, by: str, key: Callable[[Any], tuple[str, Line | None]]) -> Breakdown:
        store = self.buffers
        groups: dict[Hashable, list[int]] = {}
        index = np.zeros(len(store.sites), np.int64)
        keys: list[tuple[str, Line | None]] = []
        for i, site in enumerate(store.sites):
            found = key(site)
            members = groups.setdefault(found, [])
            if not members:
                members.append(len(keys))
                keys.append(found)
            index[i] = members[0]
        born = store.born >= 0
        group = index[store.site] if len(store.sites) else np.zeros(len(store), np.int64)
        peak = np.zeros(len(store), bool)
        if self._peak_event is not None:
            peak[store.alive_after(self._peak_event)] = True

        def total(chosen: Any, weights: Any) -> Ints:
            # Summed as whole numbers: floating point would lose bytes above 2**53.
            out = np.zeros(len(keys), np.int64)
            np.add.at(out, group[chosen], weights[chosen])
            return out

        counts = total(born, np.ones(len(store), np.int64))
        columns = zip(
            keys,
            counts,
            total(born, store.nbytes),
            total(peak, store.nbytes),
            total(born & (store.died < 0), store.nbytes),
            strict=True,
        )
        rows = [Row(k, line, int(n), int(a), int(p), int(e)) for (k, line), n, a, p, e in columns]
        rows = [row for row in rows if row.buffers]
        rows.sort(key=lambda row: (-row.peak_bytes, -row.allocated_bytes, row.key))
        return Breakdown(by, tuple(rows))

    def diff(self, other: Recording) -> RecordingDiff:
        """Compare with another recording, line by line (``other`` minus this one)."""
        return difference(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to a JSON file; the file appears whole or not at all."""
        recording_file.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a recording that `save` wrote.

        Raises
        ------
        ValueError
            If the file is not a recording, is damaged, or was written by a newer version.
        """
        return cls(**recording_file.read(path))

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        if "buffers" not in vars(self):
            return f"<Recording{label}: still running>"
        inexact = "" if self.exact else ", not exact: see .notes"
        return (
            f"<Recording{label}: peak {format_bytes(self.peak_bytes)}, "
            f"kept {format_bytes(self.kept_bytes)}, {counted(len(self.buffers), 'buffer')}, "
            f"≈ {self.seconds * 1e3:.3g} ms{inexact}>"
        )


@summary_html.register
def _(result: Recording) -> str:
    head = html_table(
        ("recording", "peak", "kept", "allocated in all", "buffers", "time"),
        [
            (
                result.label or "",
                format_bytes(result.peak_bytes),
                format_bytes(result.kept_bytes),
                format_bytes(result.allocated_bytes),
                len(result.buffers),
                f"≈ {result.seconds * 1e3:.3g} ms",
            )
        ],
    )
    notes = html_table(("note",), [(note,) for note in result.notes]) if result.notes else ""
    return head + buffers_html(result.at_peak(), most=8, caption="alive at the peak") + notes


@dataclass(frozen=True)
class DiffRow:
    """Difference of two recordings at one operation and line (second minus first), in bytes."""

    op: str
    line: Line | None
    peak_bytes: int
    kept_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, repr=False)
class RecordingDiff(Result):
    """What changed from one recording to another.

    Attributes
    ----------
    before, after : Recording
        The two recordings.
    peak_bytes, kept_bytes, allocated_bytes : int
        Differences, second minus first.
    rows : tuple of DiffRow
        The operations and lines that differ, largest change at the peak first.
    """

    before: Recording
    after: Recording
    rows: tuple[DiffRow, ...]

    @property
    def peak_bytes(self) -> int:
        """Difference of the peaks."""
        return self.after.peak_bytes - self.before.peak_bytes

    @property
    def kept_bytes(self) -> int:
        """Difference of the bytes kept."""
        return self.after.kept_bytes - self.before.kept_bytes

    @property
    def allocated_bytes(self) -> int:
        """Difference of the bytes allocated in all."""
        return self.after.allocated_bytes - self.before.allocated_bytes

    def __repr__(self) -> str:
        return (
            f"<RecordingDiff: peak {format_bytes(self.peak_bytes)}, "
            f"kept {format_bytes(self.kept_bytes)}, {len(self.rows)} places differ>"
        )


def _places(recording: Recording) -> dict[tuple[str, Line | None], Row]:
    merged = recording._breakdown(  # the same grouping as by_op and by_line, by both
        "place", lambda site: (site.op or UNKNOWN, site.line)
    )
    return {(row.key, row.line): row for row in merged.rows}


def difference(before: Recording, after: Recording) -> RecordingDiff:
    """Compare two recordings; see `Recording.diff`."""
    if not isinstance(after, Recording):
        raise TypeError(f"diff compares with another Recording, not with {after!r}: give one")
    first, second = _places(before), _places(after)
    nothing = Row("", None, 0, 0, 0, 0)
    rows: list[DiffRow] = []
    for place in {**first, **second}:
        a, b = first.get(place, nothing), second.get(place, nothing)
        row = DiffRow(
            place[0],
            place[1],
            b.peak_bytes - a.peak_bytes,
            b.kept_bytes - a.kept_bytes,
            b.allocated_bytes - a.allocated_bytes,
        )
        if row.peak_bytes or row.kept_bytes or row.allocated_bytes:
            rows.append(row)
    rows.sort(key=lambda r: (-abs(r.peak_bytes), -abs(r.allocated_bytes), r.op, str(r.line)))
    return RecordingDiff(before, after, tuple(rows))


@summary_html.register
def _(result: RecordingDiff) -> str:
    def signed(n: int) -> str:
        return f"+{format_bytes(n)}" if n > 0 else format_bytes(n)

    def rows() -> Iterable[tuple[str, ...]]:
        yield (
            "all",
            f"{result.before.label or 'before'} → {result.after.label or 'after'}",
            *map(signed, (result.peak_bytes, result.kept_bytes, result.allocated_bytes)),
        )
        for row in result.rows:
            line = UNKNOWN if row.line is None else row.line.described
            sizes = map(signed, (row.peak_bytes, row.kept_bytes, row.allocated_bytes))
            yield (row.op, line, *sizes)

    return html_table(("op", "line", "peak", "kept", "allocated in all"), rows(), align="llrrr")
