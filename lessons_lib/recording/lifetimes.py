"""From profiler segments to recordings: match allocations with releases, and name each buffer.

A `Stretch` is one profiler session together with the calls that were logged during it, joined
into a list of steps on one clock.  A recording is a window of one or more stretches.  Work is
linear in the number of events.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line
from lessons_lib.recording import graph_ops
from lessons_lib.recording.buffers import BufferStore, Site
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.profiler import MemoryEvent, Segment

#: Allocator through which every tensor passes once the BFC setting is on.
_POOL: Final = "bfc_cpu_allocator_for_gpu"
#: How the runtime names the gradient of a whole function.
_BACKWARD: Final = "__inference___backward"
# What the optimiser appends to a node whose value it computed.
_FOLDED: Final = re.compile(r"/_\d+__cf__\d+$|-folded.*$")
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


@dataclass(slots=True)
class SiteTable:
    """Descriptions shared by all buffers of a run of stretches."""

    sites: list[Site] = field(default_factory=list)
    _numbers: dict[Site, int] = field(default_factory=dict)

    def number(self, site: Site) -> int:
        """Give the number of a description, adding it when it is new."""
        found = self._numbers.get(site)
        if found is None:
            found = self._numbers[site] = len(self.sites)
            self.sites.append(site)
        return found


class _Spans:
    """The nested calls of one thread, to find the innermost one at a time."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]
        self._parents: list[int] = []
        open_: list[int] = []
        for i, (start, _) in enumerate(spans):
            while open_ and self._ends[open_[-1]] <= start:
                open_.pop()
            self._parents.append(open_[-1] if open_ else -1)
            open_.append(i)

    def at(self, time: int) -> int:
        """Give the index of the innermost span around a time, or -1."""
        i = bisect.bisect_right(self._starts, time) - 1
        while i >= 0 and self._ends[i] < time:
            i = self._parents[i]
        return i


class _Namer:
    """Describes the allocations of one segment."""

    def __init__(self, segment: Segment, log: CallLog, table: SiteTable) -> None:
        self._segment = segment
        self._log = log
        self._table = table
        self._spans = {thread: _Spans(spans) for thread, spans in segment.calls.items()}
        self._functions = {
            thread: _Spans([(start, end) for start, end, _ in runs])
            for thread, runs in segment.function_calls.items()
        }
        self._runs: dict[int, list[int]] = {}
        for thread, time in sorted(segment.started.values()):
            self._runs.setdefault(thread, []).append(time)
        self._resolvers: dict[str, graph_ops.Resolver | None] = {}
        self._sessions: list[graph_ops.Resolver] | None = None
        self._cache: dict[object, int] = {}
        self._lines: dict[object, Line] = {}
        # A thread whose calls do not pair with their marks is not attributed: never a guess.
        self._calls: dict[int, list[Call]] = {}
        for thread, spans in segment.calls.items():
            number = segment.threads.get(thread)
            calls = log.threads.get(number) if number is not None else None
            if calls is not None and len(calls) == len(spans):
                self._calls[thread] = calls

    def site(self, event: MemoryEvent) -> int:
        """Give the number of an allocation's description."""
        call = self._call(event)
        function = self._segment.functions.get(event.step) if event.step else None
        folded = False
        if function is None and (run := self._run(event)) is not None:
            function, folded = run
        started = None
        if function is not None and (
            function.startswith(_BACKWARD) or function not in self._log.definitions
        ):
            started = self._started(event)
        # Calls from one place are one object, so its address tells them apart.
        places = (id(call), id(started))
        key = (event.op, event.shape, event.dtype, event.kind, function, folded, places)
        number = self._cache.get(key)
        if number is None:
            if folded:
                site = self._describe_folded(event, function or "")
            else:
                site = self._describe(event, function, call, started)
            number = self._cache[key] = self._table.number(site)
        return number

    def _call(self, event: MemoryEvent) -> Call | None:
        spans, calls = self._spans.get(event.thread), self._calls.get(event.thread)
        if spans is None or calls is None:
            # A graph runs on threads of its own; the call that waits for it is looked up by step.
            return None
        i = spans.at(event.time)
        return None if i < 0 else calls[i]

    def _run(self, event: MemoryEvent) -> tuple[str, bool] | None:
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

    def _describe_folded(self, event: MemoryEvent, function: str) -> Site:
        name = _FOLDED.sub("", event.op) if event.op != function else ""
        resolver = self._resolver(function)
        origin = resolver.find(name) if resolver is not None and name else None
        return Site(
            op=None if origin is None else origin.op.type,
            name=name or None,
            shape=_shape(event.shape),
            dtype=_dtype(event.dtype),
            kind="constant folding",
            line=self._definition(function) if origin is None else origin.line,
            function=_readable(function),
        )

    def _line(self, call: Call | None, forward: bool = False) -> Line | None:
        place = None if call is None else call.forward if forward else call.place
        if place is None:
            return None
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = place.line()
        return line

    def _describe(
        self, event: MemoryEvent, function: str | None, call: Call | None, started: Call | None
    ) -> Site:
        shape, dtype = _shape(event.shape), _dtype(event.dtype)
        kind = event.kind or None
        if function is not None:
            if event.op == function:  # a cluster that XLA compiled: nothing inside is named
                return Site(
                    op="XLA",
                    kind=kind,
                    line=self._definition(function),
                    function=_readable(function),
                )
            return self._describe_graph(event, function, shape, dtype, started)
        kernels = self._segment.executed.get(event.op, set())
        if call is None and kernels:  # a graph that was not called from Python, such as tf.data's
            if (origin := self._in_sessions(event.op)) is not None:
                return self._describe_operation(event, origin, shape, dtype, None, None)
            op = graph_ops.kernel_type(next(iter(kernels))) if len(kernels) == 1 else None
            return Site(op=op, name=event.op, shape=shape, dtype=dtype, kind=kind)
        op = graph_ops.kernel_type(event.op) if event.op else None
        if op is None and call is not None and call.kind == "convert_to_eager_tensor":
            op = "Const"
        line, forward = self._line(call), self._line(call, forward=True)
        return Site(op, None, shape, dtype, kind, line, forward)

    def _describe_graph(
        self,
        event: MemoryEvent,
        function: str,
        shape: tuple[int, ...] | None,
        dtype: str | None,
        started: Call | None,
    ) -> Site:
        resolver = self._resolver(function)
        origin = resolver.find(event.op) if resolver is not None else None
        return self._describe_operation(event, origin, shape, dtype, function, started)

    def _describe_operation(
        self,
        event: MemoryEvent,
        origin: graph_ops.Origin | None,
        shape: tuple[int, ...] | None,
        dtype: str | None,
        function: str | None,
        started: Call | None,
    ) -> Site:
        kernels = self._segment.executed.get(event.op, set())
        op = graph_ops.kernel_type(next(iter(kernels))) if len(kernels) == 1 else None
        fused: tuple[str, ...] = ()
        line = forward_line = None
        if origin is not None:
            if op is None:
                op = origin.op.type
            if (chain := graph_ops.fused_operations(origin.op, op)) is not None:
                op, fused = chain
            line, forward_line = origin.line, origin.forward_line
            # A library's own operation counts for the line that calls its function now.
            now = self._line(started)
            if function is not None:
                if function.startswith(_BACKWARD) or not graph_ops.made_by_user(origin.op):
                    line = now or line
                # Made on another thread, as MirroredStrategy does, it has no line of the user's.
                line = line or self._definition(function)
            if forward_line is not None and not graph_ops.made_by_user(origin.forward):
                forward_line = now or forward_line
        return Site(
            op=op,
            name=event.op or None,
            shape=shape,
            dtype=dtype,
            kind=event.kind or None,
            line=line,
            forward_line=forward_line,
            function=None if function is None else _readable(function),
            fused=fused,
        )

    def _started(self, event: MemoryEvent) -> Call | None:
        # The gradient of a whole function runs as a function of its own, called by the tape: its
        # threads are others, but its step tells which call it was.
        thread, time = self._segment.started.get(event.step, (-1, 0))
        if thread not in self._calls:
            return None
        i = self._spans[thread].at(time)
        return None if i < 0 else self._calls[thread][i]

    def _in_sessions(self, name: str) -> graph_ops.Origin | None:
        """Find an operation that a session ran; None when two sessions' graphs have the name."""
        if self._sessions is None:
            self._sessions = [graph_ops.Resolver(graph) for graph in self._log.sessions]
        found = [origin for r in self._sessions if (origin := r.find(name)) is not None]
        return found[0] if len(found) == 1 else None

    def _resolver(self, function: str) -> graph_ops.Resolver | None:
        if function not in self._resolvers:
            graph = self._log.graphs.get(function)
            self._resolvers[function] = None if graph is None else graph_ops.Resolver(graph)
        return self._resolvers[function]

    def _definition(self, function: str) -> Line | None:
        place = self._log.definitions.get(function)
        return None if place is None else place.line()


def _shape(text: str) -> tuple[int, ...] | None:
    if not text.startswith("["):
        return None
    inner = text.strip("[]")
    try:
        return tuple(int(size) for size in inner.split(",")) if inner else ()
    except ValueError:  # an unknown dimension
        return None


def _dtype(number: int) -> str | None:
    try:
        return str(tf.dtypes.as_dtype(number).name) if number else None
    except TypeError:
        return None


def _readable(function: str) -> str:
    """Turn the runtime's ``__inference_step_42`` into the user's ``step``."""
    name = function
    for prefix in ("__inference_", "__forward_", "__backward_"):
        while name.startswith(prefix):
            name = name.removeprefix(prefix)
    # One number was added for the function, and another one for its gradient.
    for _ in range(2 if "__backward_" in function or "__forward_" in function else 1):
        stem, _, number = name.rpartition("_")
        name = stem if stem and number.isdigit() else name
    return name


def join(segment: Segment, log: CallLog, table: SiteTable) -> Stretch:
    """Describe every allocation of a segment; the log's graphs are not needed afterwards."""
    namer = _Namer(segment, log, table)
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
