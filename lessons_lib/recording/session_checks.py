"""Whether profiler sessions, and a run of them, are known to be whole.

The allocator's own count of what is in use is compared with the events, and with itself on both
sides of a change of sessions.  What cannot be known to be whole is not called so.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lessons_lib.recording.segment import Segment

#: Allocator through which every tensor passes once the BFC setting is on.
_POOL: Final = "bfc_cpu_allocator_for_gpu"

Levels = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Change:
    """What is known of the moment between two sessions.

    Attributes
    ----------
    quiet : bool
        No Python thread was inside of TensorFlow.
    idle : bool or None
        No thread but Python's ran; None where the system does not tell.
    rested : bool
        Nobody watched for a while: that is known, and no event is taken to be missing.
    above : int or None
        Bytes by which more was in use at most, by the allocator's own count, than when the moment
        began; None where that was not read.
    """

    quiet: bool
    idle: bool | None
    rested: bool = False
    above: int | None = None


@dataclass(slots=True)
class SessionCheck:
    """What tells whether all events of a session were seen.

    Attributes
    ----------
    intact : bool
        False when it is known that something is missing.
    levels : (int or None, int or None)
        What the allocator counted as in use, before and after; None where it told nothing.
    missing_bytes : int
        Bytes that it counted, up or down, and that no event explains.
    pipeline : bool
        Whether threads of a data pipeline were at work.
    change : Change or None
        The moment before the session; None for the first one.
    highest : int
        The most that was in use.
    """

    intact: bool = True
    levels: Levels = (None, None)
    missing_bytes: int = 0
    pipeline: bool = False
    change: Change | None = None
    highest: int = 0


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
    above : int or None
        Bytes by which more was in use in these changes, at most, than when they began; None where
        that is not known, or where an event is missing from a session itself.
    """

    whole: bool
    missing_bytes: int
    changes: int
    above: int | None = None


def completeness(checks: Sequence[SessionCheck]) -> Completeness:
    """Tell whether no event is missing from a run of sessions, nor from between them."""
    missing = sum(check.missing_bytes for check in checks)
    above: list[int | None] = []
    for a, b in itertools.pairwise(checks):
        if b.change is not None and b.change.rested:
            continue
        left, right = a.levels[1], b.levels[0]
        unknown = left is None or right is None
        jump = 0 if unknown else abs((right or 0) - (left or 0))
        # A pipeline may free and allocate the same size, which no count shows.
        busy = (a.pipeline or b.pipeline) and not (b.change is not None and b.change.idle)
        if unknown or jump or busy or b.change is None or not b.change.quiet:
            above.append(None if b.change is None else b.change.above)
        missing += jump
    sound = all(check.intact and not check.missing_bytes for check in checks)
    whole = not missing and not above and sound
    known = [count for count in above if count is not None]
    most = max(known) if known and sound and len(known) == len(above) else None
    return Completeness(whole, missing, len(above), most)


def checked(segment: Segment, change: Change | None, intact: bool) -> SessionCheck:
    """Check a session's events against the allocator's own count of what is in use.

    Each event tells what was in use after it, so an event that is missing leaves a gap: between
    two others, or at an end of the session.
    """
    first, last = segment.levels
    check = SessionCheck(intact, (first, last), 0, segment.pipeline, change)
    pool = [event for event in segment.memory if event.allocator == _POOL]
    if not pool:
        check.missing_bytes = 0 if first is None or last is None else abs(last - first)
        return check
    after = [event.in_use for event in pool]
    before = [
        event.in_use + (-event.reserved if event.allocates else event.reserved) for event in pool
    ]
    # The order may be another one where a clock told two threads the same time.
    if after[:-1] != before[1:] and sorted(after[:-1]) != sorted(before[1:]):
        check.missing_bytes = sum(abs(b - a) for a, b in zip(after, before[1:], strict=False))
    check.missing_bytes += 0 if first is None else abs(before[0] - first)
    check.missing_bytes += 0 if last is None else abs(after[-1] - last)
    check.levels = before[0], after[-1]
    check.highest = max(max(after), before[0])
    return check
