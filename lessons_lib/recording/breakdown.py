"""A recording's bytes, broken down and compared: by operation, by line, or by any other key.

All rows of a breakdown add up to the recording's figures, exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.source import Line
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.recording.buffers import FOLDED, UNKNOWN, Buffer, BufferStore, Ints, Site
from lessons_lib.recording.categories import Category

#: A convolution's temporary buffer is no tensor of the program: images laid out for a product, some
#: of a batch at a time.
_CONVOLUTION: Final = re.compile(r"(?:Depthwise)?Conv[123][Dd]\w*")


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
    """Make a table of buffers, alike ones in one row, and a row for those beyond the first."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for buffer in buffers:
        key = (
            buffer.site.told_op,
            "" if buffer.shape is None else str(list(buffer.shape)),
            buffer.dtype or "",
            _purpose(buffer),
            buffer.site.untold if buffer.line is None else buffer.line.described,
        )
        alike.setdefault(key, []).append(buffer.nbytes)
    groups = sorted(alike.items(), key=lambda group: -sum(group[1]))
    rows = [
        (*key[:3], str(len(sizes)), format_bytes(sum(sizes)), *key[3:])
        for key, sizes in groups[:most]
    ]
    if rest := groups[most:]:
        count = sum(len(sizes) for _, sizes in rest)
        size = format_bytes(sum(sum(sizes) for _, sizes in rest))
        rows.append((f"… {count} more", "", "", str(count), size, "", ""))
    headers = ("op", "shape", "dtype", "buffers", "size", "for", "line")
    return html_table(headers, rows, caption=caption, align="lllrrll")


def _purpose(buffer: Buffer) -> str:
    """Say what a buffer is for, as far as that is known."""
    purpose = buffer.purpose
    told = str(purpose.category)
    if purpose.category is Category.OTHER:
        told = FOLDED if buffer.kind == FOLDED else ""
    if buffer.kind == "temp" and _CONVOLUTION.fullmatch(buffer.op or ""):
        told = "the kernel's workspace"
    return ", ".join(part for part in (told, purpose.variable or purpose.layer) if part)


@dataclass(frozen=True)
class Row:
    """One row of a `Breakdown`: bytes of all buffers that share a key.

    Attributes
    ----------
    key : str
        What the buffers share: an operation type, a source line, a category, a layer.
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
    """Bytes of a recording by operation, line, category or layer, most at the peak first.

    Attributes
    ----------
    by : str
        ``"op"``, ``"line"``, ``"category"`` or ``"layer"``.
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


def broken_down(
    store: BufferStore,
    peak_event: int | None,
    by: str,
    key: Callable[[Site], tuple[str, Line | None]],
) -> Breakdown:
    """Add a store's bytes up by what a key makes of each buffer's site."""
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
    if peak_event is not None:
        peak[store.alive_after(peak_event)] = True

    def total(chosen: Any, weights: Any) -> Ints:
        # Summed as whole numbers: floating point would lose bytes above 2**53.
        out = np.zeros(len(keys), np.int64)
        np.add.at(out, group[chosen], weights[chosen])
        return out

    counts = total(born, np.ones(len(store), np.int64))
    allocated = total(born, store.nbytes)
    if store.folded is not None:
        np.add.at(counts, index, store.folded.buffers)
        np.add.at(allocated, index, store.folded.nbytes)
    columns = zip(
        keys,
        counts,
        allocated,
        total(peak, store.nbytes),
        total(born & (store.died < 0), store.nbytes),
        strict=True,
    )
    rows = [Row(k, line, int(n), int(a), int(p), int(e)) for (k, line), n, a, p, e in columns]
    rows = [row for row in rows if row.buffers]
    rows.sort(key=lambda row: (-row.peak_bytes, -row.allocated_bytes, row.key))
    return Breakdown(by, tuple(rows))


class Totals(Protocol):
    """What `difference` needs of a recording."""

    @property
    def label(self) -> str:
        """The name it was given."""

    @property
    def peak_bytes(self) -> int:
        """Highest growth of live bytes."""

    @property
    def kept_bytes(self) -> int:
        """Growth of live bytes at the end."""

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all allocations together."""

    def breakdown(self, by: str, key: Callable[[Site], tuple[str, Line | None]]) -> Breakdown:
        """Break the bytes down by what a key makes of each buffer's site; see `Recording`."""


@dataclass(frozen=True)
class DiffRow:
    """Difference of two recordings at one operation and line.

    Attributes
    ----------
    op : str
    line : Line or None
        None where it is not known.
    peak_bytes, kept_bytes, allocated_bytes : int
        Second minus first: alive at the peak, alive at the end, allocated in all.
    """

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

    before: Totals
    after: Totals
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


def _places(recording: Totals) -> dict[tuple[str, Line | None], Row]:
    merged = recording.breakdown(  # the same grouping as by_op and by_line, by both
        "place", lambda site: (site.told_op, site.line)
    )
    return {(row.key, row.line): row for row in merged.rows}


def difference(before: Totals, after: Totals) -> RecordingDiff:
    """Compare two recordings; see `Recording.diff`."""
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
