"""How much of a long recording is watched: all of its beginning, then windows.

To write, read and fold a profile takes longer than a small step does, so hours cannot be watched
whole for nothing.  After the beginning the profiler runs for a moment, rests until the time that
it has cost is a small share of all time, and runs again.  While it rests, the allocator's own
counters are read at every call of a function.  At first the rests are twice as long, until they
have made up for the beginning.  Seconds are on Python's clock.
"""

from __future__ import annotations

import math
import time
from array import array
from dataclasses import dataclass, field
from typing import Final

#: The share of the time that watching may take, after the beginning: with what it costs besides,
#: such as caches that it has emptied, a long training stays below 5 %.
SHARE: Final = 0.03
#: Events that are watched whole unless a share is asked for: a thousand small steps or more.  They
#: cost some ten seconds, which ten minutes of a training make up for.
WHOLE_EVENTS: Final = 700_000
#: A window is shorter than a session of the beginning, so that windows are more.
WINDOW_EVENTS: Final = 15_000
#: Readings of the counters that are kept while the profiler rests.
_MOST_READINGS: Final = 2048
# Until the time of a call without the profiler is known: what watching is taken to add.
_ADDED: Final = 0.7
# What the beginning is taken to cost: calls become slower by as much as reading them takes, about.
_BEGINNING: Final = 2.0
# A window costs more than what is counted: to start the profiler, and caches that it has emptied.
_UNCOUNTED: Final = 1.3


@dataclass(slots=True)
class Rest:
    """A time in which the profiler did not run.

    Attributes
    ----------
    begin, end : float
        When it was.
    level : int
        Bytes in use when it began.
    readings : list of (float, int, int)
        When the counters were read, bytes in use, and their peak since the reading before.
    until : float
        When the profiler is to run again.
    marks : array of float
        Number, time, bytes in use, and their peak since the mark before, of each marked moment.
    since : float
        The peak since the last of them.
    """

    begin: float
    level: int
    until: float = 0.0
    end: float = 0.0
    readings: list[tuple[float, int, int]] = field(default_factory=list)
    marks: array[float] = field(default_factory=lambda: array("d"))
    since: float = -math.inf

    def mark(self, number: int, moment: float, current: int, peak: int) -> None:
        """Add a reading at a marked moment; none of these is dropped."""
        self.note(moment, current, peak)
        self.marks.extend((number, moment, current, self.since))
        self.since = current

    def note(self, moment: float, current: int, peak: int) -> None:
        """Add a reading; when there are many, of each two neighbours the higher one stays."""
        self.since = max(self.since, peak)
        self.readings.append((moment, current, peak))
        if len(self.readings) > _MOST_READINGS:
            pairs = zip(self.readings[::2], self.readings[1::2], strict=False)
            last = self.readings[-1]
            self.readings = [max(pair, key=lambda reading: reading[2]) for pair in pairs]
            if self.readings[-1] != last:
                self.readings.append(last)

    @property
    def peak(self) -> int:
        """The highest count of bytes in use."""
        return max((peak for _, _, peak in self.readings), default=self.level)

    def drop_readings(self) -> None:
        """Keep the highest reading alone, once all of them have been used."""
        del self.marks[:]
        self.readings = sorted(self.readings, key=lambda reading: reading[2])[-1:]


class Pacing:
    """Decides when the profiler rests, and for how long."""

    def __init__(self) -> None:
        self.watched_events = 0
        #: The highest count of bytes in use that was seen, by the profiler or by the counters.
        self.highest = 0
        #: The highest that the profiler saw.
        self.seen = 0
        self.began = time.perf_counter()
        self._call_seconds: float | None = None
        # Seconds that the beginning has cost, and that longer rests are to make up for.
        self._owed = 0.0

    def saw(self, level: int) -> None:
        """Hear of the highest count of bytes in use in a session."""
        self.seen = max(self.seen, level)
        self.highest = max(self.highest, level)

    def may_rest(self, share: float | None) -> bool:
        """Tell whether the profiler may rest after what it has watched."""
        enough = WHOLE_EVENTS if share is None else 1
        return (share is None or share < 1) and self.watched_events >= enough

    def rest_until(self, share: float | None, functions: int, stopped: float) -> float:
        """Tell when to go on, after a window with so many calls that was stopped at a time."""
        now = time.perf_counter()
        window = stopped - self.began
        if functions and self._call_seconds is not None:
            added = max(window - functions * self._call_seconds, 0.0)
        else:
            added = window * _ADDED
        cost = (now - stopped + added) * _UNCOUNTED
        paid = min(self._owed, cost)
        self._owed -= paid
        return now + (cost + paid) * (1 / (share or SHARE) - 1)

    def watched_whole(self, stopped: float) -> None:
        """Hear that a session of the beginning, which was stopped at a time, has been read."""
        self._owed += _BEGINNING * (time.perf_counter() - stopped)

    def rested(self, seconds: float, functions: int) -> None:
        """Learn how long a call takes while nobody watches."""
        if functions:
            self._call_seconds = seconds / functions
