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

#: Allocator through which every tensor passes once the BFC setting is on.
_POOL: Final = "bfc_cpu_allocator_for_gpu"
PICOSECOND: Final = 1e-12


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
        False when the allocator's own count shows that events are missing.
    levels : (int, int) or None
        What the allocator counted as in use, before and after; None when it told nothing.
    """

    memory: list[MemoryEvent]
    sites: list[int]
    windows: dict[int, int]
    complete: bool
    levels: tuple[int, int] | None = None


def join(segment: Segment, log: CallLog, table: SiteTable) -> Stretch:
    """Describe every allocation of a segment; the log's graphs are not needed afterwards."""
    namer = Attribution(segment, log, table)
    sites = [namer.site(event) if event.allocates else -1 for event in segment.memory]
    levels, complete = _levels(segment)
    # In TensorFlow 2.16, what a thread did is lost when a later one gets its number.
    complete = complete and set(log.threads) <= set(segment.threads.values())
    return Stretch(segment.memory, sites, segment.windows, complete, levels)


def _levels(segment: Segment) -> tuple[tuple[int, int] | None, bool]:
    """Read the allocator's own count of what is in use, and check the events against it.

    Each event tells what was in use after it, so an event that is missing leaves a gap: between
    two others, or at an end of the session.
    """
    pool = [event for event in segment.memory if event.allocator == _POOL]
    if not pool:
        return None, True
    after = [event.in_use for event in pool]
    before = [
        event.in_use + (-event.reserved if event.allocates else event.reserved) for event in pool
    ]
    # The order may be another one where a clock told two threads the same time.
    joined = after[:-1] == before[1:] or sorted(after[:-1]) == sorted(before[1:])
    first, last = segment.levels
    begun, ended = first in (None, before[0]), last in (None, after[-1])
    return (before[0], after[-1]), joined and begun and ended


def is_complete(stretches: Sequence[Stretch]) -> bool:
    """Tell whether no event is missing from a run of stretches, nor from between them."""
    levels = [stretch.levels for stretch in stretches if stretch.levels is not None]
    joined = all(a[1] == b[0] for a, b in itertools.pairwise(levels))
    return joined and all(stretch.complete for stretch in stretches)


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
