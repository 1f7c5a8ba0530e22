"""In which call, function or iterator an allocation lies, by the marks of the profile.

It lies in the innermost mark around its time on its own thread.  A graph runs on threads of its
own; its step tells which call waits for it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final

from lessons_lib.recording import profile_format
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.segment import MemoryEvent, Segment

#: How the path of a pipeline's iterator begins.
_ROOT: Final = "Iterator::Root"


class _Nested:
    """The nested calls of one thread, to find the innermost one at a time."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]
        self.parents: list[int] = []
        open_: list[int] = []
        for i, (start, _) in enumerate(spans):
            while open_ and self._ends[open_[-1]] <= start:
                open_.pop()
            self.parents.append(open_[-1] if open_ else -1)
            open_.append(i)

    def at(self, time: int) -> int:
        """Give the index of the innermost span around a time, or -1."""
        i = bisect.bisect_right(self._starts, time) - 1
        while i >= 0 and self._ends[i] < time:
            i = self.parents[i]
        return i


def _add_unmade(segment: Segment, log: CallLog) -> None:
    """Add spans of no length for calls that an interrupt kept from being made."""
    for thread, number in segment.threads.items():
        spans, doubtful = segment.calls.get(thread, []), log.doubtful.get(number, [])
        if doubtful and len(log.threads.get(number, ())) == len(spans) + len(doubtful):
            for place in doubtful:
                start = spans[place - 1][0] if place else 0
                spans.insert(place, (start, start))


def _whole(spans: Sequence[tuple[int, int, str]], i: int) -> str:
    """Give an iterator's whole path.

    What a pipeline's own thread produces is marked by the transformation's name alone.  It gets its
    element from the one below, whose mark has the path of both.
    """
    _, end, name = spans[i]
    while not name.startswith(_ROOT):
        i += 1
        if i == len(spans) or spans[i][0] > end:
            return name
        if spans[i][2].startswith(_ROOT):
            return spans[i][2].rpartition("::")[0]
    return name


class CallSpans:
    """The calls, functions and iterators of one segment, to be found by an event in them."""

    def __init__(self, segment: Segment, log: CallLog) -> None:
        self._segment = segment
        _add_unmade(segment, log)
        self._spans = {thread: _Nested(spans) for thread, spans in segment.calls.items()}
        self._functions = {
            thread: _Nested([(start, end) for start, end, _ in runs])
            for thread, runs in segment.function_calls.items()
        }
        self._runs: dict[int, list[int]] = {}
        for thread, time in sorted(segment.started.values()):
            self._runs.setdefault(thread, []).append(time)
        self._iterators = {
            thread: _Nested([(start, end) for start, end, _ in spans])
            for thread, spans in segment.iterators.items()
        }
        self._lenders = {
            thread: _Nested([(start, end) for start, end, _ in spans])
            for thread, spans in segment.lent.items()
        }
        # By operation: the iterators for which it was seen to run, in order of time.
        self._iterators_of: dict[str, set[str]] = {}
        self._started: dict[int, Call | None] = {}
        # A thread whose calls do not pair with their marks is not attributed: never a guess.
        self._calls: dict[int, list[Call]] = {}
        for thread, spans in segment.calls.items():
            number = segment.threads.get(thread)
            calls = log.threads.get(number) if number is not None else None
            if calls is not None and len(calls) == len(spans):
                self._calls[thread] = calls

    def call(self, event: MemoryEvent) -> Call | None:
        """Give the call in which an event lies; of a graph's threads, none."""
        spans, calls = self._spans.get(event.thread), self._calls.get(event.thread)
        if spans is None or calls is None:
            return None
        i = spans.at(event.time)
        return None if i < 0 else calls[i]

    def started(self, step: int) -> Call | None:
        """Give the call that started a graph's step.

        The gradient of a whole function runs as a function of its own, called by the tape: its
        threads are others, but its step tells which call it was.
        """
        if step not in self._started:
            thread, time = self._segment.started.get(step, (-1, 0))
            i = self._spans[thread].at(time) if thread in self._calls else -1
            self._started[step] = None if i < 0 else self._calls[thread][i]
        return self._started[step]

    def function(self, event: MemoryEvent) -> tuple[str, bool] | None:
        """Tell which function was being called from Python, and whether it was being prepared.

        At its first call the optimiser computes what does not depend on the inputs, before the
        graph runs.  A function that XLA compiled has no such run.
        """
        spans = self._functions.get(event.thread)
        i = -1 if spans is None else spans.at(event.time)
        if i < 0:
            return None
        start, end, name = self._segment.function_calls[event.thread][i]
        runs = self._runs.get(event.thread, [])
        following = bisect.bisect_right(runs, event.time)
        return name, following < len(runs) and start <= runs[following] <= end

    def iterator(self, event: MemoryEvent) -> str:
        """Give the iterator of a data pipeline that was running, or that called a function."""
        runs = self._segment.runs
        own = runs.get(event.step, (event.thread, event.time))
        thread, time = runs.get(self._lent(event), own)
        found = self._iterator_at(thread, time)
        if not found and thread in self._segment.pool:
            # The mark of what a session's end cut off is not in the profile.
            waiting = self._waiting(event.time)
            found = self._iterator_at(waiting[0], event.time) if len(waiting) == 1 else ""
            others = self._iterators_of.get(event.op, ())
            if not found and len(others) == 1:
                (found,) = others
        elif found:
            self._iterators_of.setdefault(event.op, set()).add(found)
        return found

    def _waiting(self, time: int) -> list[int]:
        """List the threads whose iterators waited for a function at a time."""
        inner = ((thread, spans.at(time)) for thread, spans in self._iterators.items())
        names = self._segment.iterators
        return [t for t, i in inner if i >= 0 and names[t][i][2] == profile_format.CAPTURED]

    def _iterator_at(self, thread: int, time: int) -> str:
        """Give the iterator that was running on a thread, or for which a function was."""
        spans = self._iterators.get(thread)
        i = -1 if spans is None else spans.at(time)
        if spans is None or i < 0:
            return ""
        names = self._segment.iterators[thread]
        if names[i][2] == profile_format.CAPTURED and (outer := spans.parents[i]) >= 0:
            i = outer
        return _whole(names, i)

    def _lent(self, event: MemoryEvent) -> int:
        """Give the step for which a pipeline's pool lent its thread; eager calls have their own."""
        spans = self._lenders.get(event.thread)
        i = -1 if spans is None else spans.at(event.time)
        return -1 if i < 0 else self._segment.lent[event.thread][i][2]
