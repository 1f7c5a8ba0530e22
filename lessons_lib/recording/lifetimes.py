"""From profiler sessions to buffers: match allocations with releases, and keep what matters.

A `Ledger` takes the sessions of a run one after the other.  Each is folded in at once: what
happened becomes rows of buffers, and the events are forgotten.  When the rows become many, those
that no question needs one by one are folded together (see `Ledger.fold`), so a run may last for
hours.  A recording is a `Window` of the run.  Work is linear in the number of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lessons_lib.recording.attribution import Attribution, SiteTable
from lessons_lib.recording.buffers import BufferStore, Floats, Folded, Ints, Site
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.profile_format import MemoryEvent, Segment
from lessons_lib.recording.purposes import settle
from lessons_lib.recording.session_checks import Change, SessionCheck, checked

PICOSECOND: Final = 1e-12
#: Rows of buffers that are kept one by one; a picture of more is no clearer, and they take 7 MB.
MOST_ROWS: Final = 100_000
#: Points of the curve of live bytes from each session, and in all.
_POINTS: Final = 128
_MOST_POINTS: Final = 16_384


@dataclass(slots=True)
class Window:
    """A recording's part of a run.

    Attributes
    ----------
    mark, end_mark : int
        Numbers of the markers at its begin and at its end; 0 while it is open.
    session : int
        The session in which it began.
    begin, end : int
        The first event in it, and the first one after it; -1 until that is known.
    begin_at, end_at : float
        When it began and ended, in seconds on Python's clock.
    base : int
        Live bytes at its begin, on the ledger's scale.
    peak : int
        Highest live bytes in it, on the same scale.
    peak_event : int
        The event with which they were reached; -1 while nothing grew.
    folded : dict of int to list of int
        By site, how many of its buffers were folded, and their bytes.
    """

    mark: int
    session: int
    end_mark: int = 0
    begin: int = -1
    end: int = -1
    begin_at: float = 0.0
    end_at: float = 0.0
    base: int = 0
    peak: int = 0
    peak_event: int = -1
    folded: dict[int, list[int]] = field(default_factory=dict)

    def follow(self, first: int, live: Ints) -> None:
        """Look for a higher peak in the curve of a session whose first event has a number."""
        begin = max(self.begin, first)
        stop = first + len(live) if self.end < 0 else self.end
        part = live[begin - first : stop - first]
        if len(part) and part.max() > self.peak:
            self.peak_event = begin + int(np.argmax(part))
            self.peak = int(part.max())


@dataclass(slots=True)
class _Rows:
    """Buffers in columns: `born` and `died` are numbers of events, -1 when outside of the run."""

    site: Ints
    nbytes: Ints
    reserved: Ints
    born: Ints
    died: Ints
    born_at: Floats
    died_at: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, float]]) -> _Rows:
        """Make columns of (site, nbytes, reserved, born, born_at); nothing has died yet."""
        columns = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4)
        site, nbytes, reserved, born = columns.T.copy()
        born_at = np.array([row[4] for row in rows], np.float64)
        died = np.full(len(rows), -1, np.int64)
        return cls(site, nbytes, reserved, born, died, born_at, np.zeros(len(rows)))

    def __len__(self) -> int:
        return len(self.site)

    def taken(self, chosen: np.ndarray) -> _Rows:
        """Give some of the rows."""
        return _Rows(*(getattr(self, name)[chosen] for name in _Rows.__slots__))

    def with_more(self, other: _Rows) -> _Rows:
        """Give these rows, and others after them."""
        return _Rows(
            *(np.concatenate((getattr(self, n), getattr(other, n))) for n in _Rows.__slots__)
        )


class Ledger:
    """The buffers of a run of sessions.

    Attributes
    ----------
    table : SiteTable
        Their descriptions.
    checks : list of SessionCheck
        One for each session so far.
    windows : list of Window
        The recordings that still need something of the run.
    """

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self.table = SiteTable()
        self.checks: list[SessionCheck] = []
        self.windows: list[Window] = []
        self._most_rows = most_rows
        self._rows = _Rows.of([])
        self._alive: dict[int, int] = {}
        self._events = 0
        self._live = 0
        # Number, time and live bytes of some events: the highest and the last of each part.
        self._curve = np.zeros((0, 3))

    def begin(self, mark: int) -> Window:
        """Open a window in the session that runs now, whose number is that of the next check."""
        window = Window(mark, len(self.checks))
        self.windows.append(window)
        return window

    def add(
        self,
        segment: Segment,
        log: CallLog,
        start: float,
        change: Change | None = None,
        intact: bool = True,
    ) -> None:
        """Fold a session in.

        Parameters
        ----------
        segment : Segment
            What it saw.
        log : CallLog
            The calls that were logged meanwhile; its graphs are not needed afterwards.
        start : float
            Seconds on Python's clock at which the session's time 0 lies.
        change : Change, optional
            The moment before it.
        intact : bool
            Whether the session is known to be whole.
        """
        attribution = Attribution(segment, log, self.table)
        sites = [attribution.site(event) if event.allocates else -1 for event in segment.memory]
        settle(segment, log, sites, self.table.sites.__getitem__, self.table.number)
        # In TensorFlow 2.16, what a thread did is lost when a later one gets its number.
        intact = intact and set(log.threads) <= set(segment.threads.values())
        first = self._events
        moments, deltas = self._match(segment.memory, sites, start)
        live = self._live + np.cumsum(np.array(deltas, np.int64))
        for window in self.windows:
            self._place(window, segment, np.array(moments), start, first, live)
            window.follow(first, live)
        self.checks.append(checked(segment, change, intact))
        if len(live):
            self._draw(first, np.array(moments), live)
            self._live = int(live[-1])
        if len(self._rows) > self._most_rows:
            self.fold()

    def _match(
        self, events: Sequence[MemoryEvent], sites: Sequence[int], start: float
    ) -> tuple[list[float], list[int]]:
        """Turn events into rows; give when each was and how it changed the live bytes."""
        alive = self._alive
        known = len(self._rows)
        rows: list[tuple[int, int, int, int, float]] = []
        deaths: list[tuple[int, int, float]] = []
        moments: list[float] = []
        deltas: list[int] = []
        sizes = self._rows.nbytes
        number = self._events
        for event, site in zip(events, sites, strict=True):
            moment = start + event.time * PICOSECOND
            row = alive.pop(event.address, None)
            if event.allocates:
                if row is not None:  # its release was not seen: it must have been before
                    deaths.append((row, number, moment))
                    moments.append(moment)
                    deltas.append(-(int(sizes[row]) if row < known else rows[row - known][1]))
                    number += 1
                alive[event.address] = known + len(rows)
                rows.append((site, event.requested, event.reserved, number, moment))
                deltas.append(event.requested)
            else:
                if row is None:  # born before anything was recorded
                    row = known + len(rows)
                    rows.append((-1, event.requested, event.reserved, -1, 0.0))
                deaths.append((row, number, moment))
                deltas.append(-event.requested)
            moments.append(moment)
            number += 1
        self._events = number
        self._rows = self._rows.with_more(_Rows.of(rows))
        if deaths:
            index, died, at = zip(*deaths, strict=True)
            self._rows.died[list(index)] = died
            self._rows.died_at[list(index)] = at
        return moments, deltas

    def _place(
        self,
        window: Window,
        segment: Segment,
        moments: np.ndarray,
        start: float,
        first: int,
        live: Ints,
    ) -> None:
        """Find a window's begin and end, if they lie in this session."""
        if window.begin < 0:
            window.begin_at = start + segment.windows.get(window.mark, 0) * PICOSECOND
            inside = int(np.searchsorted(moments, window.begin_at, "left"))
            window.begin = first + inside
            window.base = window.peak = int(live[inside - 1]) if inside else self._live
        if window.end_mark and window.end < 0:
            end = segment.windows.get(window.end_mark)
            if end is None:
                window.end_at = float(moments[-1]) if len(moments) else start
                window.end = self._events
            else:
                window.end_at = start + end * PICOSECOND
                window.end = first + int(np.searchsorted(moments, window.end_at, "right"))

    def _draw(self, first: int, moments: np.ndarray, live: Ints) -> None:
        """Add a session to the curve, with fewer points than it has events."""
        points = np.stack((first + np.arange(len(live)), moments, live), axis=1)
        self._curve = np.concatenate((self._curve, thinned(points, _POINTS)))
        if len(self._curve) > _MOST_POINTS:
            self._curve = thinned(self._curve, _MOST_POINTS // 2)

    def fold(self) -> None:
        """Fold the buffers together that no question needs one by one.

        What lives, what lived at the highest peak of an open window, and what is older than a
        window and was freed in it stays; of the others, the largest and the longest-lived.  Of
        the rest, its number and its bytes stay, by site.
        """
        rows = self._rows
        needed = rows.died < 0
        for window in self.windows:
            if window.begin >= 0:
                needed |= (rows.born < window.begin) & (rows.died >= window.begin)
                needed |= (rows.born <= window.peak_event) & (rows.died > window.peak_event)
        others = np.flatnonzero(~needed)
        room = max(self._most_rows // 2 - int(needed.sum()), 0) // 2
        for size in (rows.nbytes, rows.died_at - rows.born_at):
            needed[others[np.argsort(-size[others], kind="stable")[:room]]] = True
        gone = rows.taken(~needed)
        for window in self.windows:
            if window.begin >= 0:
                _fold_into(window.folded, gone, window.begin)
        self._rows = rows.taken(needed)
        places = np.cumsum(needed) - 1
        self._alive = {address: int(places[row]) for address, row in self._alive.items()}

    def finish(self, window: Window) -> tuple[BufferStore, float]:
        """Cut a window that has ended out of the run.

        Returns
        -------
        store : BufferStore
            Its times count from the window's begin, in seconds.
        seconds : float
            Length of the window.
        """
        self.windows = [other for other in self.windows if other is not window]
        begin, end = window.begin, window.end
        rows = self._rows
        born = np.where((rows.born >= begin) & (rows.born < end), rows.born, -1)
        died = np.where((rows.died >= begin) & (rows.died < end), rows.died, -1)
        chosen = np.flatnonzero((born >= 0) | (died >= 0))
        chosen = chosen[np.argsort(np.where(born >= 0, born, died)[chosen], kind="stable")]
        rows, born, died = rows.taken(chosen), born[chosen], died[chosen]
        events = np.concatenate((born[born >= 0], died[died >= 0]))
        order = np.argsort(events)
        at = np.concatenate((rows.born_at[born >= 0], rows.died_at[died >= 0]))[order]
        moments = np.maximum(np.maximum.accumulate(at), window.begin_at) - window.begin_at
        numbers, site = np.unique(rows.site, return_inverse=True)
        numbers = np.union1d(numbers, np.array(list(window.folded), np.int64))
        site = np.searchsorted(numbers, rows.site)
        store = BufferStore(
            sites=tuple(self.table.sites[n] if n >= 0 else Site() for n in numbers.tolist()),
            site=site,
            nbytes=rows.nbytes,
            reserved=rows.reserved,
            born=np.where(born >= 0, np.searchsorted(events[order], born), -1),
            died=np.where(died >= 0, np.searchsorted(events[order], died), -1),
            times=moments,
            folded=self._folded(window, numbers) if window.folded else None,
        )
        return store, window.end_at - window.begin_at

    def _folded(self, window: Window, sites: Ints) -> Folded:
        counts = np.array([window.folded.get(int(n), (0, 0)) for n in sites], np.int64)
        number, at, live = self._curve.T
        inside = (number >= window.begin) & (number < window.end)
        moments = np.maximum.accumulate(np.maximum(at[inside] - window.begin_at, 0.0))
        return Folded(
            buffers=counts[:, 0],
            nbytes=counts[:, 1],
            times=moments,
            live=live[inside].astype(np.int64) - window.base,
        )


def _fold_into(folded: dict[int, list[int]], rows: _Rows, begin: int) -> None:
    mine = rows.born >= begin
    sites, place = np.unique(rows.site[mine], return_inverse=True)
    counts = np.bincount(place, minlength=len(sites))
    # Summed as whole numbers: floating point would lose bytes above 2**53.
    nbytes = np.zeros(len(sites), np.int64)
    np.add.at(nbytes, place, rows.nbytes[mine])
    for site, count, size in zip(sites.tolist(), counts.tolist(), nbytes.tolist(), strict=True):
        entry = folded.setdefault(site, [0, 0])
        entry[0] += count
        entry[1] += size


def thinned(points: np.ndarray, most: int) -> np.ndarray:
    """Give fewer points of a curve: of each part of it the highest one and the last one.

    Parameters
    ----------
    points : float array, shape (points, 3)
        Number, time and value.
    most : int
        How many may be left, about.
    """
    if len(points) <= most:
        return points
    parts = np.array_split(np.arange(len(points)), most // 2)
    chosen = {int(place) for p in parts for place in (p[np.argmax(points[p, 2])], p[-1])}
    return points[sorted(chosen)]
