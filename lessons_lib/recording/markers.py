"""Markers in the profile: what they stand beside happened before or after them, to the event.

Python's clock and the profiler's are tied together once a session, and a thread may be put off
between a look at the one and a look at the other.  A marker is an event among the others.
"""

from __future__ import annotations

import itertools
import time
from typing import Final

from lessons_lib.common import internals
from lessons_lib.recording.profile_format import WINDOW

_numbers: Final = itertools.count(1)
#: Between two looks at Python's clock, one before and one after a marker, pass some microseconds;
#: more where the thread was put off in between.
_CLOSE_SECONDS: Final = 50e-6
_TRIES: Final = 5


def mark(name: str, number: int) -> None:
    """Write a marker with a number at the present moment on the present thread."""
    marker = internals.TraceMe(name, number=number)
    marker.Stop()


def mark_moment() -> int:
    """Mark the present moment; give the marker's number, which no other has in this process."""
    number = next(_numbers)
    mark(WINDOW, number)
    return number


def mark_with_clock() -> tuple[int, float]:
    """Mark the present moment; give the marker's number, and ``time.perf_counter()`` at it."""
    closest, found = float("inf"), (0, 0.0)
    for _ in range(_TRIES):
        before = time.perf_counter()
        number = mark_moment()
        after = time.perf_counter()
        if after - before < closest:
            closest, found = after - before, (number, (before + after) / 2)
        if closest <= _CLOSE_SECONDS:
            break
    return found
