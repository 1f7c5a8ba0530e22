"""A recording's part of a run of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lessons_lib.recording.buffers import Floats, Ints
from lessons_lib.recording.moments import MarkedMoment
from lessons_lib.recording.pacing import Rest


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
    rests : list of Rest
        When it was not watched.
    newest_tensor : int
        The number that all tensors made after its end exceed.
    moments : dict of int to MarkedMoment
        The marked moments in it by number, from its begin on; known once it has ended.
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
    rests: list[Rest] = field(default_factory=list)
    newest_tensor: int = -1
    moments: dict[int, MarkedMoment] = field(default_factory=dict)

    def place(
        self,
        marks: Mapping[int, float],
        start: float,
        moments: Floats,
        first: int,
        live: Ints,
        before: int,
    ) -> None:
        """Find the begin and the end, if they lie in a session that is folded in.

        Parameters
        ----------
        marks : dict of int to float
            When its markers ran, by number, in seconds on Python's clock.
        start : float
            When it began.
        moments, live : array
            Of each of its events: when it was, and the live bytes after it.
        first : int
            Number of the first event.
        before : int
            Live bytes before it.
        """
        if self.begin < 0:
            self.begin_at = marks.get(self.mark, start)
            inside = int(np.searchsorted(moments, self.begin_at, "left"))
            self.begin = first + inside
            self.base = self.peak = int(live[inside - 1]) if inside else before
        if self.end_mark and self.end < 0:
            last = float(moments[-1]) if len(moments) else start
            self.end_at = marks.get(self.end_mark, last)
            self.end = first + int(np.searchsorted(moments, self.end_at, "right"))

    def follow(self, first: int, live: Ints) -> None:
        """Look for a higher peak in the curve of a session whose first event has a number."""
        begin = max(self.begin, first)
        stop = first + len(live) if self.end < 0 else self.end
        part = live[begin - first : stop - first]
        if len(part) and part.max() > self.peak:
            self.peak_event = begin + int(np.argmax(part))
            self.peak = int(part.max())
