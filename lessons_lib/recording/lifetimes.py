"""From profiler sessions to buffers: match allocations with releases, and keep what matters.

A `Ledger` takes the sessions of a run one after the other.  Each is folded in at once: what
happened becomes rows of buffers, and the events are forgotten.  When the rows become many, those
that no question needs one by one are folded together (see `Ledger.fold`), so a run may last for
hours.  A recording is a `Window` of the run.  Work is linear in the number of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lessons_lib.recording.attribution import Attribution, SiteTable
from lessons_lib.recording.buffers import NOT_WATCHED, BufferStore, Folded, Ints, Purpose, Site
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.categories import Category
from lessons_lib.recording.moments import Moments
from lessons_lib.recording.pacing import Rest
from lessons_lib.recording.purposes import Earlier, settle
from lessons_lib.recording.rows import Rows, fold_into, freed_first, thinned
from lessons_lib.recording.segment import MemoryEvent, Segment
from lessons_lib.recording.session_checks import Change, SessionCheck, checked
from lessons_lib.recording.takeovers import Takeovers, is_certain
from lessons_lib.recording.variables import lives
from lessons_lib.recording.window import Window

PICOSECOND: Final = 1e-12
#: Rows of buffers that are kept one by one; a picture of more is no clearer, and they take 7 MB.
MOST_ROWS: Final = 100_000
#: Numbers of events that are free for what is found out later of a rest.
_REST_NUMBERS: Final = 2**30
#: Rank of what surely was not freed.
_STAYS: Final = 3
#: Points of the curve of live bytes from each session, and in all.
_POINTS: Final = 128
_MOST_POINTS: Final = 16_384


def _lasting(purpose: Purpose) -> int:
    """Rank what a variable held that is gone, what passes with a step, batches, and the rest."""
    if purpose.of_variable:
        held = [purpose.held, *(sharer.held for sharer in purpose.sharers)]
        return _STAYS if any(map(lives, held)) else -1
    return {Category.INPUTS: 1, Category.OTHER: 2}.get(purpose.category, 0)


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
        self._rows = Rows.of([])
        self._alive: dict[int, int] = {}
        self._events = 0
        self._live = 0
        self._takeovers = Takeovers(self.table)
        # Number, time and live bytes of some events: the highest and the last of each part.
        self._curve = np.zeros((0, 3))
        self._moments = Moments()
        # The next free number in the last rest, and when that ended.
        self._gap: tuple[int, float] | None = None

    def begin(self, mark: int) -> Window:
        """Open a window in the session that runs now, whose number is that of the next check."""
        window = Window(mark, len(self.checks))
        self.windows.append(window)
        return window

    def rest(self, rest: Rest) -> None:
        """Pass over a time that nobody watched; what was allocated in it has no rows.

        The curve goes on by the allocator's counters, whose bytes are rounded up.  What lived
        before is taken to live on, as far as the counters have room for it.
        """
        self._takeovers.forget()
        for window in self.windows:
            window.rests.append(rest)
        self._moments.pass_over(rest, self._live - rest.level)
        at, current, peak = np.array(rest.readings, np.float64).reshape(-1, 3).T
        # A reading's peak was reached at some time since the reading before.
        at = np.concatenate(([rest.begin], at))
        level = np.concatenate((peak, current[-1:] if len(current) else [rest.level]))
        points = np.stack((np.full(len(at), self._events), at, level - rest.level + self._live), 1)
        self._curve = np.concatenate((self._curve, thinned(points, _POINTS)))
        self._live = int(points[-1, 2])
        self._gap = self._events + 1, rest.end
        self._events += _REST_NUMBERS
        if len(current) and (base := self.checks[0].levels[0]) is not None:
            grown = int(current[-1]) - base
            self._forget(grown)
            self._unseen(max(grown - self._standing(self._rows.reserved), 0))
        rest.drop_readings()

    def _standing(self, sizes: Ints) -> int:
        """Add up what is alive, less what was older than the run and was freed in it."""
        return int(sizes[list(self._alive.values())].sum() - sizes[self._rows.born < 0].sum())

    def _unseen(self, more: int) -> None:
        """Have rows for so many bytes more, or less, that are there and were made unwatched."""
        assert self._gap is not None
        number, moment = self._gap
        if more > 0:
            self._alive[-number] = len(self._rows)  # at no address, so that no event frees it
            row = self.table.number(Site(kind=NOT_WATCHED)), more, more, number, moment
            self._rows = self._rows.with_more(Rows.of([row]))
            self._gap = number + 1, moment
        unseen = (place for place in self._alive if place < 0) if more < 0 else ()
        for place in sorted(unseen):  # the latest first
            row_number = self._alive[place]
            part = min(-more, int(self._rows.reserved[row_number]))
            self._rows.nbytes[row_number] -= part
            self._rows.reserved[row_number] -= part
            more += part
        self._live = self._standing(self._rows.nbytes)

    def _forget(self, grown: int) -> None:
        """Take for freed what cannot be there any more, as so many bytes more are in use.

        If what is known here does not account for it, something older than the run was freed.
        """
        assert self._gap is not None
        number, moment = self._gap
        rows = self._rows
        lasting = np.array([_lasting(site.purpose) for site in self.table.sites] + [0])
        ranks = np.where(rows.born < 0, _STAYS, lasting[rows.site])
        living = [(place, row) for place, row in self._alive.items() if ranks[row] < _STAYS]
        excess = self._standing(rows.reserved) - grown
        index = np.array([row for _, row in living], np.int64)
        for chosen in freed_first(ranks[index], rows.born[index], rows.reserved[index], excess):
            place, row = living[chosen]
            rows.died[row], rows.died_at[row] = number, moment
            excess -= int(rows.reserved[row])
            number += 1
            del self._alive[place]
        if excess > 0:
            older = Rows.of([(-1, excess, excess, -1, 0.0)])
            older.died[:], older.died_at[:] = number, moment
            self._rows = rows.with_more(older)
            number += 1
        self._gap = number, moment

    def _found_late(self, events: Sequence[MemoryEvent], sites: Sequence[int]) -> None:
        """Add what was born or freed in the last rest, as the first event at an address tells.

        A variable that gets a buffer while another one is still there was given one in the rest.
        """
        if self._gap is None:
            return
        number, moment = self._gap
        old, known, unseen = self._rows, len(self._rows), self.table.number(Site(kind=NOT_WATCHED))
        told: set[int] = set()
        rows: list[tuple[int, int, int, int, float]] = []
        more = 0
        for event in events:
            if event.address in told:
                continue
            told.add(event.address)
            row = self._alive.get(event.address)
            if row is not None:
                same = not event.allocates and old.nbytes[row] == event.requested
                if same or old.born[row] > number:  # or it was born in the sessions since
                    continue
                old.died[row], old.died_at[row] = number, moment
                number += 1
                more += int(old.reserved[row])
                del self._alive[event.address]
            if not event.allocates:
                self._alive[event.address] = known + len(rows)
                rows.append((unseen, event.requested, event.reserved, number, moment))
                number += 1
                more -= event.reserved
        for address in self._replaced(told, sites, number):
            row = self._alive.pop(address)
            old.died[row], old.died_at[row] = number, moment
            number += 1
            more += int(old.reserved[row])
        self._rows = old.with_more(Rows.of(rows))
        self._gap = number, moment
        self._unseen(more)

    def _replaced(self, told: set[int], sites: Sequence[int], number: int) -> list[int]:
        """List where variables' buffers were that nothing tells of, and that have others now."""
        made = [self.table.sites[site] for site in set(sites) - {-1}]
        given = {site.purpose.held for site in made if is_certain(site)} - {0}
        if not given:
            return []
        held = [site.purpose.held for site in self.table.sites] + [0]
        rows = self._rows
        before = [(at, i) for at, i in self._alive.items() if at not in told]
        return [at for at, i in before if rows.born[i] <= number and held[rows.site[i]] in given]

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
        settle(segment, log, sites, self.table, Earlier(self._alive, self._rows.site))
        # In TensorFlow 2.16, what a thread did is lost when a later one gets its number.
        intact = intact and set(log.threads) <= set(segment.threads.values())
        self._found_late(segment.memory, sites)
        first = self._events
        times, deltas, missed = self._match(segment.memory, sites, start)
        moments, live = np.array(times), self._live + np.cumsum(np.array(deltas, np.int64))
        marks = {n: start + at * PICOSECOND for n, at in segment.windows.items()}
        self._moments.follow(marks, moments, live, self._live)
        for window in self.windows:
            window.place(marks, start, moments, first, live, self._live)
            window.follow(first, live)
        self.checks.append(checked(segment, change, intact and not missed))
        if len(live):
            self._draw(first, moments, live)
            self._live = int(live[-1])
        if len(self._rows) > self._most_rows:
            self.fold()

    def _match(
        self, events: Sequence[MemoryEvent], sites: Sequence[int], start: float
    ) -> tuple[list[float], list[int], bool]:
        """Turn events into rows; give when each was and how it changed the live bytes.

        Last, whether the release of a buffer was missed earlier: it then counts here.
        """
        alive, takeovers, before = self._alive, self._takeovers, self._rows
        settled: dict[int, int] = {}
        known = len(before)
        rows: list[tuple[int, int, int, int, float]] = []
        deaths: list[tuple[int, int, float]] = []
        moments: list[float] = []
        deltas: list[int] = []
        number, missed = self._events, False
        # Most are no variable's; the last one is for what has no description.
        of_variable = [site.purpose.of_variable for site in self.table.sites] + [False]

        def free(row: int, address: int) -> int:
            made, nbytes = before.described(row) if row < known else rows[row - known][:2]
            if of_variable[made]:
                settled[row] = takeovers.freed(made, address)
            return nbytes

        for event, site in zip(events, sites, strict=True):
            moment = start + event.time * PICOSECOND
            row = alive.pop(event.address, None)
            if event.allocates:
                if row is not None:  # its release was not seen: it must have been before
                    missed = True
                    deltas.append(-free(row, event.address))
                    deaths.append((row, number, moment))
                    moments.append(moment)
                    number += 1
                alive[event.address] = known + len(rows)
                rows.append((site, event.requested, event.reserved, number, moment))
                deltas.append(event.requested)
                if of_variable[site]:
                    takeovers.born(site, event.address, event.step)
            else:
                if row is None:  # born before anything was recorded
                    row = known + len(rows)
                    rows.append((-1, event.requested, event.reserved, -1, 0.0))
                free(row, event.address)
                deaths.append((row, number, moment))
                deltas.append(-event.requested)
            moments.append(moment)
            number += 1
        for address, site in takeovers.shared():
            settled[alive[address]] = site
        self._events = number
        self._rows = self._rows.with_more(Rows.of(rows))
        self._rows.site[list(settled)] = list(settled.values())
        if deaths:
            index, died, at = zip(*deaths, strict=True)
            self._rows.died[list(index)] = died
            self._rows.died_at[list(index)] = at
        return moments, deltas, missed

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
        needed = (rows.died < 0) | (rows.born < 0)
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
                fold_into(window.folded, gone, window.begin)
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
        marks = window.mark, window.end_mark
        window.moments = self._moments.between(*marks, window.begin_at, window.base)
        rows = self._rows
        born = np.where((rows.born >= begin) & (rows.born < end), rows.born, -1)
        died = np.where((rows.died >= begin) & (rows.died < end), rows.died, -1)
        chosen = np.flatnonzero((born >= 0) | (died >= 0))
        chosen = chosen[np.argsort(np.where(born >= 0, born, died)[chosen], kind="stable")]
        places = np.full(len(rows.nbytes), -1)
        places[chosen] = np.arange(len(chosen))
        rows, born, died = rows.taken(chosen), born[chosen], died[chosen]
        events = np.concatenate((born[born >= 0], died[died >= 0]))
        order = np.argsort(events)
        at = np.concatenate((rows.born_at[born >= 0], rows.died_at[died >= 0]))[order]
        moments = np.maximum(np.maximum.accumulate(at), window.begin_at) - window.begin_at
        numbers, site = np.unique(rows.site, return_inverse=True)
        numbers = np.union1d(numbers, np.array(list(window.folded), np.int64))
        site = np.searchsorted(numbers, rows.site)
        store = BufferStore(
            sites=tuple(map(self.table.known, numbers.tolist())),
            site=site,
            nbytes=rows.nbytes,
            reserved=rows.reserved,
            born=np.where(born >= 0, np.searchsorted(events[order], born), -1),
            died=np.where(died >= 0, np.searchsorted(events[order], died), -1),
            times=moments,
            folded=self._folded(window, numbers) if window.folded or window.rests else None,
            addresses={at: int(places[row]) for at, row in self._alive.items() if places[row] >= 0},
            newest_tensor=window.newest_tensor,
        )
        return store, window.end_at - window.begin_at

    def _folded(self, window: Window, sites: Ints) -> Folded:
        counts = np.array([window.folded.get(int(n), (0, 0)) for n in sites], np.int64)
        number, at, live = self._curve.T
        inside = (number >= window.begin) & (number < window.end)
        moments = np.maximum.accumulate(np.maximum(at[inside] - window.begin_at, 0.0))
        counts = counts.reshape(-1, 2)
        return Folded(
            buffers=counts[:, 0],
            nbytes=counts[:, 1],
            times=moments,
            live=live[inside].astype(np.int64) - window.base,
        )
