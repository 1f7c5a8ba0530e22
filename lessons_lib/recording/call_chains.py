"""A recording's bytes by call chain: the user's lines, from the outermost inwards, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.source import Line
from lessons_lib.common.units import format_bytes
from lessons_lib.recording.buffers import BufferStore


@dataclass(frozen=True)
class ChainRow:
    """A line that was called from the lines above it: bytes of all that it led to.

    Attributes
    ----------
    depth : int
        How many lines are around it.
    line : Line or None
        None: not known.
    buffers : int
        How many were allocated in the block.
    allocated_bytes, peak_bytes, kept_bytes : int
        Bytes allocated in all, alive at the peak, and alive at the end; those of the rows below it,
        one deeper, are in them.
    own_peak_bytes : int
        What is alive at the peak by the line itself.
    """

    depth: int
    line: Line | None
    buffers: int
    allocated_bytes: int
    peak_bytes: int
    kept_bytes: int
    own_peak_bytes: int


@dataclass(frozen=True, repr=False)
class ChainTree(Result):
    """Bytes by call chain.

    Attributes
    ----------
    rows : tuple of ChainRow
        Each line after the one that called it, the one with most at the peak first.
    """

    rows: tuple[ChainRow, ...]

    def __repr__(self) -> str:
        tops = [row for row in self.rows if row.depth == 0]
        shown = ", ".join(f"{row.line or 'unknown'} {format_bytes(row.peak_bytes)}" for row in tops)
        return f"<by call chain at the peak: {shown}>"


@summary_html.register
def _(result: ChainTree) -> str:
    rows = [
        (
            "\u2003" * row.depth + ("unknown" if row.line is None else row.line.described),
            row.buffers,
            format_bytes(row.peak_bytes),
            format_bytes(row.kept_bytes),
            format_bytes(row.allocated_bytes),
        )
        for row in result.rows
    ]
    return html_table(("called from", "buffers", "at the peak", "kept", "allocated in all"), rows)


@dataclass
class _Node:
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    own_peak: int = 0
    inner: dict[Line | None, _Node] = field(default_factory=dict)


def by_chain(store: BufferStore, peak_event: int | None) -> ChainTree:
    """Fold a store's bytes into a tree of lines; see `Recording.by_line`."""
    peak = np.zeros(len(store), bool)
    if peak_event is not None:
        peak[store.alive_after(peak_event)] = True
    born = store.born >= 0
    # By site: buffers, allocated, at the peak, kept.
    totals = np.zeros((4, len(store.sites)), np.int64)
    for row, chosen in enumerate((born, born, peak, born & (store.died < 0))):
        weights = np.ones(len(store), np.int64) if row == 0 else store.nbytes
        np.add.at(totals[row], store.site[chosen], weights[chosen])
    if store.folded is not None:
        totals[0] += store.folded.buffers
        totals[1] += store.folded.nbytes
    root = _Node()
    for numbers, site in zip(totals.T, store.sites, strict=True):
        if not numbers[0]:
            continue
        node = root
        for line in _outermost_first(site.chain or (site.line,)):
            node = node.inner.setdefault(line, _Node())
            node.numbers = node.numbers + numbers
        node.own_peak += int(numbers[2])
    return ChainTree(tuple(_rows(root, 0)))


def _outermost_first(chain: Iterable[Line | None]) -> Iterator[Line | None]:
    yield from reversed(tuple(chain))


def _rows(node: _Node, depth: int) -> Iterator[ChainRow]:
    most_first = sorted(
        node.inner.items(), key=lambda pair: (-pair[1].numbers[2], -pair[1].numbers[1])
    )
    for line, inner in most_first:
        count, allocated, peak, kept = inner.numbers.tolist()
        yield ChainRow(depth, line, count, allocated, peak, kept, inner.own_peak)
        yield from _rows(inner, depth + 1)
