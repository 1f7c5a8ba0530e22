"""Geometry of the stacked picture: where each buffer's band lies at each moment.

A buffer is a band as high as its bytes.  Bands lie on each other in the order in which their
buffers were born, so a new one lies on top, and those above sink when one is freed.  Buffers born
before the block lie below zero, since the block's start is zero.  Bands too low to be seen are
added up on top of the others: one layer an operation where that matters, one for the rest.

Whole bytes throughout: at every moment that is drawn the heights add up to the live bytes, exactly.
With many more events than the picture has room
for, the time axis is divided into columns that show their highest moment.  Time and memory are
linear in the number of events.  Nothing here draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lessons_lib.recording.buffers import BufferStore, Floats, Ints
from lessons_lib.recording.recording import Recording

#: A buffer has a band of its own from this share of the picture's whole height on.
SMALLEST: Final = 1 / 120
#: Small buffers of one operation have a layer of their own from this share on.
LAYER: Final = 1 / 25


@dataclass(frozen=True, eq=False)
class Layer:
    """Small buffers, added up.

    Attributes
    ----------
    op : str or None
        Their operation type, or what stands for it; None when they come from several operations.
    count : int
        How many there are.
    most_bytes : int
        The most that they take together at any moment of the block.
    bottom, height : int array, shape (moments,)
        Where the layer lies, in bytes.
    """

    op: str | None
    count: int
    most_bytes: int
    bottom: Ints
    height: Ints


@dataclass(frozen=True, eq=False)
class Bands:
    """The stack at each moment that is drawn.

    Attributes
    ----------
    times : float array, shape (moments + 1,)
        When each moment begins, in seconds, and when the last one ends.
    live : int array, shape (moments,)
        Live bytes, relative to the block's start.
    floor : int
        Lowest edge of the stack: minus the bytes of the buffers from before the block; at most 0.
    before : int array, shape (moments,)
        Bytes of those buffers that are still alive.
    before_count : int
        How many of them there are.
    index : int array, shape (bands,)
        The buffer of each band, in birth order.
    first, last : int array, shape (bands,)
        The moments in which it lives: from `first` up to, without, `last`.
    bottoms : tuple of int arrays, each of shape (last - first,)
        Lower edge of each band at its moments.
    layers : tuple of Layer
        Small buffers, from below to the top.
    dense : bool
        True when moments are columns of the picture, not single events.
    """

    times: Floats
    live: Ints
    floor: int
    before: Ints
    before_count: int
    index: Ints
    first: Ints
    last: Ints
    bottoms: tuple[Ints, ...]
    layers: tuple[Layer, ...]
    dense: bool

    @property
    def top(self) -> int:
        """Highest edge of the stack; at least 0."""
        return max(0, int(self.live.max()))


def stack(recording: Recording, columns: int = 500) -> Bands:
    """Work out the bands of a recording.

    Parameters
    ----------
    recording : Recording
        What to draw.
    columns : int
        Beyond four times so many events, the time axis is divided into so many columns.
    """
    store = recording.buffers
    change = store.changes()
    live = np.concatenate(([0], np.cumsum(change)))
    events, starts = _moments(store.times, live, max(recording.seconds, 0.0), columns)
    end = max(recording.seconds, float(starts[-1]))
    early = store.born < 0
    floor = -int(store.nbytes[early].sum())
    span = max(int(live.max()), 0) - floor

    first = np.searchsorted(events, store.born, side="left")
    last = np.where(
        store.died < 0, len(events), np.searchsorted(events, store.died, side="left")
    ).astype(np.int64)
    big = ~early & (store.nbytes > 0) & (store.nbytes >= span * SMALLEST)
    seen = big & (last > first)
    index = np.flatnonzero(seen)
    index = index[np.argsort(store.born[index], kind="stable")]

    before = _sum_at(store, early, events) - floor
    base = floor + before
    bottoms, top = _pile(store.nbytes[index], first[index], last[index], base)
    layers = _layers(store, ~early & ~big, events, top, span)
    return Bands(
        times=np.append(starts, end),
        live=live[events + 1],
        floor=floor,
        before=before,
        before_count=int(early.sum()),
        index=index,
        first=first[index],
        last=last[index],
        bottoms=bottoms,
        layers=layers,
        dense=len(events) != len(store.times) + 1,
    )


def _moments(times: Floats, live: Ints, seconds: float, columns: int) -> tuple[Ints, Floats]:
    """Choose the events after which the stack is drawn (-1: the start), and when each begins."""
    count = len(times)
    if count <= 4 * columns or seconds <= 0:
        return np.arange(-1, count), np.concatenate(([0.0], times))
    column = np.minimum((times / seconds * columns).astype(np.int64), columns - 1)
    begin = np.flatnonzero(np.diff(column, prepend=-1))
    end = np.append(begin[1:], count) - 1
    after = live[1:]
    highest = np.maximum.reduceat(after, begin)
    at_highest = np.flatnonzero(after == np.repeat(highest, end - begin + 1))
    _, one_each = np.unique(column[at_highest], return_index=True)
    peak = at_highest[one_each]
    # A column that is followed by a pause leaves the stack as its last event made it.
    pause = np.append(np.diff(column[begin]) > 1, True)
    events = np.concatenate(([-1], peak, end[pause]))
    left = column[begin]
    starts = np.concatenate(([0], left, left[pause] + 1)) * (seconds / columns)
    order = np.argsort(starts, kind="stable")
    return events[order], starts[order]


def _sum_at(store: BufferStore, chosen: npt.NDArray[np.bool_], events: Ints) -> Ints:
    """Give the growth of the chosen buffers' live bytes after each of the events."""
    return _growth(store, chosen)[events + 1]


def _growth(store: BufferStore, chosen: npt.NDArray[np.bool_]) -> Ints:
    delta = np.zeros(len(store.times) + 1, np.int64)
    born, died = chosen & (store.born >= 0), chosen & (store.died >= 0)
    np.add.at(delta, store.born[born] + 1, store.nbytes[born])
    np.subtract.at(delta, store.died[died] + 1, store.nbytes[died])
    return np.cumsum(delta)


def _pile(sizes: Ints, first: Ints, last: Ints, base: Ints) -> tuple[tuple[Ints, ...], Ints]:
    """Pile bands up on a base; give each one's lower edges, and the top of the whole pile."""
    lengths = last - first
    cells = int(lengths.sum())
    offset = np.cumsum(lengths) - lengths
    band = np.repeat(np.arange(len(sizes)), lengths)
    moment = np.arange(cells) - np.repeat(offset, lengths) + np.repeat(first, lengths)
    order = np.argsort(moment, kind="stable")  # by moment, and within one in birth order
    height = sizes[band[order]]
    total = np.cumsum(height)
    per_moment = np.bincount(moment, minlength=len(base))
    ends = np.cumsum(per_moment)
    padded = np.concatenate(([0], total))
    start = padded[ends - per_moment]
    bottom = np.empty(cells, np.int64)
    bottom[order] = total - height - np.repeat(start, per_moment) + base[moment[order]]
    return tuple(np.split(bottom, offset[1:])) if len(sizes) else (), base + padded[ends] - start


def _layers(
    store: BufferStore, small: npt.NDArray[np.bool_], events: Ints, top: Ints, span: int
) -> tuple[Layer, ...]:
    small = small & (store.nbytes > 0)
    if not small.any():
        return ()
    ops = [site.told_op for site in store.sites]
    known = sorted(set(ops))
    number = {op: i for i, op in enumerate(known)}
    group = np.array([number[op] for op in ops])[store.site]
    own: list[tuple[int, str, npt.NDArray[np.bool_]]] = []
    rest = small.copy()
    # Only a group with enough bytes in all can reach the share; so few are looked at.
    totals = np.zeros(len(known), np.int64)
    np.add.at(totals, group[small], store.nbytes[small])
    for g in np.flatnonzero(totals >= span * LAYER):
        members = small & (group == g)
        most = int(_growth(store, members).max())
        if most >= span * LAYER:
            own.append((most, known[g], members))
            rest &= ~members
    own.sort(key=lambda item: -item[0])
    layers: list[Layer] = []

    def add(op: str | None, members: Any) -> None:
        nonlocal top
        growth = _growth(store, members)
        height = growth[events + 1]
        layers.append(Layer(op, int(members.sum()), int(growth.max()), top, height))
        top = top + height

    for _, op, members in own:
        add(op, members)
    if rest.any():
        add(None, rest)
    return tuple(layers)
