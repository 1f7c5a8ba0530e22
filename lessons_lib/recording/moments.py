"""Marked moments of a run: the bytes that were live then, and the most since the moment before.

They are noted while a session is folded in, when all of its events are at hand: a long recording
keeps fewer points of its curve than it has steps.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lessons_lib.recording.buffers import Floats, Ints
from lessons_lib.recording.pacing import Rest


class MarkedMoment(NamedTuple):
    """A marked moment.

    Attributes
    ----------
    at : float
        When it was, in seconds.
    live, peak : int
        Live bytes, and the most since the moment before.
    exact : bool
        False once the profiler has rested: from then on bytes are from the allocator's counters,
        which round up.
    """

    at: float
    live: int
    peak: int
    exact: bool


class Moments:
    """All marked moments of a run, by the numbers of their markers."""

    def __init__(self) -> None:
        self._rows = array("d")
        self._peak = -math.inf  # since the last moment
        self._exact = True

    def follow(self, marks: Mapping[int, float], times: Floats, live: Ints, before: int) -> None:
        """Note the moments of a session.

        Parameters
        ----------
        marks : mapping of int to float
            When its markers were, by number, in seconds.
        times : float array, shape (events,)
            In the same seconds.
        live : int array, shape (events,)
            Live bytes after each event.
        before : int
            Live bytes at the session's begin.
        """
        levels = np.concatenate(([before], live))
        begin = 0
        for number, at in sorted(marks.items(), key=lambda mark: mark[1]):
            end = int(np.searchsorted(times, at, "right"))
            self._note(number, at, int(levels[end]), int(levels[begin : end + 1].max()))
            begin = end
        self._peak = max(self._peak, int(levels[begin:].max()))

    def pass_over(self, rest: Rest, offset: int) -> None:
        """Note the moments of a time that nobody watched; `offset` leads to the run's scale."""
        self._exact = False
        for number, at, current, peak in np.array(rest.marks).reshape(-1, 4).tolist():
            self._note(number, at, current + offset, peak + offset)
        self._peak = max(self._peak, rest.since + offset)

    def _note(self, number: float, at: float, live: float, peak: float) -> None:
        self._rows.extend((number, at, live, max(peak, self._peak), self._exact))
        self._peak = live

    def between(self, first: int, last: int, start: float, base: int) -> dict[int, MarkedMoment]:
        """Give the moments between two markers, in order of time.

        Parameters
        ----------
        first, last : int
            The markers' numbers.
        start : float
            What their seconds are to count from.
        base : int
            What their bytes are to count from.
        """
        rows = np.array(self._rows).reshape(-1, 5)
        rows = rows[(rows[:, 0] > first) & (rows[:, 0] < last)]
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        return {
            int(number): MarkedMoment(at - start, int(live) - base, int(peak) - base, bool(exact))
            for number, at, live, peak, exact in rows.tolist()
        }
