"""From profiler segments to recordings: match allocations with releases.

A `Stretch` is one profiler session together with the calls that were logged during it, joined
into a list of steps on one clock.  A recording is a window of one or more stretches.  Work is
linear in the number of events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lessons_lib.recording.attribution import Attribution, SiteTable
from lessons_lib.recording.buffers import BufferStore, Site
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.profile_format import MemoryEvent, Segment
from lessons_lib.recording.purposes import settle

#: Allocator through which every tensor passes once the BFC setting is on.
_POOL: Final = "bfc_cpu_allocator_for_gpu"
PICOSECOND: Final = 1e-12

Levels = tuple[int | None, int | None]


@dataclass(slots=True)
class Stretch:
    """One profiler session, with every allocation's description.

    Attributes
    ----------
    memory : list of MemoryEvent
        In the order of time.
    sites : list of int
        For each event, the number of its description; -1 for a deallocation.
    windows : dict of int to int
        Time of each window marker, in picoseconds of this session.
    complete : bool
        False when events of a thread are known to be missing.
    levels : (int or None, int or None)
        What the allocator counted as in use, before and after; None where it told nothing.
    missing_bytes : int
        Bytes that it counted, up or down, and that no event explains.
    pipeline : bool
        Whether threads of a data pipeline were at work.
    change : Change or None
        The moment before the session; None for the first one.
    """

    memory: list[MemoryEvent]
    sites: list[int]
    windows: dict[int, int]
    complete: bool
    levels: Levels = (None, None)
    missing_bytes: int = 0
    pipeline: bool = False
    change: Change | None = None


def join(segment: Segment, log: CallLog, table: SiteTable) -> Stretch:
    """Describe every allocation of a segment; the log's graphs are not needed afterwards."""
    namer = Attribution(segment, log, table)
    sites = [namer.site(event) if event.allocates else -1 for event in segment.memory]
    settle(segment, log, sites, table.sites.__getitem__, table.number)
    levels, missing = _levels(segment)
    # In TensorFlow 2.16, what a thread did is lost when a later one gets its number.
    complete = set(log.threads) <= set(segment.threads.values())
    return Stretch(
        memory=segment.memory,
        sites=sites,
        windows=segment.windows,
        complete=complete,
        levels=levels,
        missing_bytes=missing,
        pipeline=segment.pipeline,
    )


def _levels(segment: Segment) -> tuple[Levels, int]:
    """Read the allocator's own count of what is in use, and check the events against it.

    Each event tells what was in use after it, so an event that is missing leaves a gap: between
    two others, or at an end of the session.  Also gives the bytes that no event explains.
    """
    first, last = segment.levels
    pool = [event for event in segment.memory if event.allocator == _POOL]
    if not pool:
        return (first, last), 0 if None in (first, last) else abs((last or 0) - (first or 0))
    after = [event.in_use for event in pool]
    before = [
        event.in_use + (-event.reserved if event.allocates else event.reserved) for event in pool
    ]
    missing = 0
    # The order may be another one where a clock told two threads the same time.
    if after[:-1] != before[1:] and sorted(after[:-1]) != sorted(before[1:]):
        missing = sum(abs(b - a) for a, b in zip(after, before[1:], strict=False))
    missing += 0 if first is None else abs(before[0] - first)
    missing += 0 if last is None else abs(after[-1] - last)
    return (before[0], after[-1]), missing


@dataclass(frozen=True, slots=True)
class Change:
    """What is known of the moment between two sessions.

    Attributes
    ----------
    quiet : bool
        No Python thread was inside of TensorFlow.
    idle : bool or None
        No thread but Python's ran; None where the system does not tell.
    """

    quiet: bool
    idle: bool | None


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether a run of sessions is known to be whole.

    Attributes
    ----------
    whole : bool
        No event is missing, from no session nor from between them.
    missing_bytes : int
        Bytes that the allocator counted, up or down, and that no event explains.
    changes : int
        In how many changes of sessions something was missed or may have been.
    """

    whole: bool
    missing_bytes: int
    changes: int


def completeness(stretches: Sequence[Stretch]) -> Completeness:
    """Tell whether no event is missing from a run of stretches, nor from between them."""
    missing = sum(stretch.missing_bytes for stretch in stretches)
    changes = 0
    for a, b in itertools.pairwise(stretches):
        left, right = a.levels[1], b.levels[0]
        unknown = left is None or right is None
        jump = 0 if unknown else abs((right or 0) - (left or 0))
        # A pipeline may free and allocate the same size, which no count shows.
        busy = (a.pipeline or b.pipeline) and not (b.change is not None and b.change.idle)
        if unknown or jump or busy or b.change is None or not b.change.quiet:
            changes += 1
        missing += jump
    whole = not missing and not changes and all(stretch.complete for stretch in stretches)
    return Completeness(whole, missing, changes)


@dataclass(slots=True)
class _Life:
    site: int
    nbytes: int
    reserved: int
    born: int = -1
    died: int = -1


def window(
    stretches: Sequence[Stretch],
    table: SiteTable,
    begin: tuple[int, int],
    end: tuple[int, int],
    joints: Sequence[float],
) -> tuple[BufferStore, float]:
    """Cut a recording out of a run of stretches.

    Parameters
    ----------
    stretches : sequence of Stretch
        All sessions so far, in order.
    table : SiteTable
        Their descriptions.
    begin, end : (int, int)
        Stretch and time (picoseconds of that session) where the window begins and ends.
    joints : sequence of float
        Seconds on Python's clock at which each stretch's time 0 lies.

    Returns
    -------
    store : BufferStore
        Its times count from the window's begin, in seconds.
    seconds : float
        Length of the window.
    """
    origin = joints[begin[0]] + begin[1] * PICOSECOND
    unknown = -1
    alive: dict[int, _Life] = {}
    lives: list[_Life] = []
    times: list[float] = []
    for index in range(end[0] + 1):
        stretch = stretches[index]
        offset = joints[index] - origin
        for event, site in zip(stretch.memory, stretch.sites, strict=True):
            inside = (index, event.time) >= begin
            if (index, event.time) > end:
                break
            if event.allocates:
                life = _Life(site, event.requested, event.reserved)
                if inside:
                    life.born = len(times)
                    lives.append(life)
                alive[event.address] = life
            else:
                known = alive.pop(event.address, None)
                if not inside:
                    continue
                if known is None:  # born before anything was recorded
                    known = _Life(unknown, event.requested, event.reserved)
                if known.born < 0:
                    lives.append(known)
                known.died = len(times)
            if inside:
                times.append(offset + event.time * PICOSECOND)
    seconds = joints[end[0]] + end[1] * PICOSECOND - origin
    return _store(lives, times, table), seconds


def _store(lives: list[_Life], times: list[float], table: SiteTable) -> BufferStore:
    used: dict[int, int] = {}
    sites: list[Site] = []
    for life in lives:
        if life.site not in used:
            used[life.site] = len(sites)
            sites.append(table.sites[life.site] if life.site >= 0 else Site())

    def column(value: Callable[[_Life], int]) -> np.ndarray:
        return np.fromiter(map(value, lives), np.int64, len(lives))

    moments = np.maximum.accumulate(np.array(times)) if times else np.zeros(0)
    return BufferStore(
        sites=tuple(sites),
        site=column(lambda life: used[life.site]),
        nbytes=column(lambda life: life.nbytes),
        reserved=column(lambda life: life.reserved),
        born=column(lambda life: life.born),
        died=column(lambda life: life.died),
        times=np.maximum(moments, 0.0),
    )
