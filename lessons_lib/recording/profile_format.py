"""What TensorFlow's profiler writes, as plain columns.

One profile becomes one `Segment`: allocations and deallocations, the calls from Python that were
open when they happened, and which function each graph execution ran.  Times are picoseconds on
the profiler's own clock, which starts with the session.  Nothing here knows about source lines or
results.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lessons_lib.common.internals import profile_message
from lessons_lib.common.runtime import tf

#: Names of the markers that this package writes into the profile.
CALL: Final = "lessons_lib.call"
THREAD: Final = "lessons_lib.thread"
WINDOW: Final = "lessons_lib.window"
MOMENT: Final = "lessons_lib.moment"
#: TensorFlow's own marker of each call of ``TFE_Py_FastPathExecute``.
FAST_CALL: Final = "TFE_Py_FastPathExecute_C"

_PIPELINE_THREAD: Final = "tf_data_"
_FUNCTION_CALL: Final = "EagerLocalExecute: __"
_FUNCTION_RUN: Final = "FunctionRun"
_ITERATOR: Final = "Iterator::"
#: A function that some transformation maps.
CAPTURED: Final = f"{_ITERATOR}Map"
#: What a pipeline's own threads run: ``ParallelMapProduce``, and the functions that it maps.
_PIPELINE_WORK: Final = re.compile(r"(?P<name>\w+)Produce|InstantiatedCapturedFunction::Run\w*")
#: What runs after a mapped function: of all transformations only this one allocates in it.
_CALLBACK: Final = "ExecutorDoneCallback"
_CALLING_BACK: Final = f"{_ITERATOR}MapAndBatch"
#: A graph's operation that ran: its name and the type of its kernel.
_KERNEL: Final = re.compile(r"(?P<name>[^:]+):(?P<type>\w+)")
#: How many events before an allocation its kernel's may be.
_NEAR: Final = 32
_ALLOCATION: Final = "MemoryAllocation"
_DEALLOCATION: Final = "MemoryDeallocation"
#: Events that are read, under our own copy of the name, so that they compare by identity.
_WANTED: Final = {
    name: name for name in (_ALLOCATION, _DEALLOCATION, THREAD, WINDOW, MOMENT, _FUNCTION_RUN)
}
_WANTED.update(dict.fromkeys((CALL, FAST_CALL), CALL))
# What is read of a memory event, by the profiler's own names.
_STATS: Final = (
    "addr",
    "requested_bytes",
    "allocation_bytes",
    "bytes_allocated",
    "allocator_name",
    "id",
    "tf_op",
    "region_type",
    "data_type",
    "shape",
)


@dataclass(slots=True)
class MemoryEvent:
    """One allocation or deallocation, as the profile tells it.

    Times are picoseconds from the start of the session; `in_use` is the allocator's own count of
    reserved bytes after the event.
    """

    time: int
    thread: int
    allocates: bool
    address: int
    requested: int
    reserved: int
    in_use: int
    allocator: str
    step: int
    op: str
    kind: str
    dtype: int
    shape: str


@dataclass(slots=True)
class Segment:
    """What one profiler session saw.

    Attributes
    ----------
    memory : list of MemoryEvent
        In the order of time.
    calls : dict of int to list of (start, end)
        Per thread of the profile that `lessons_lib.recording.call_watcher` has marked, the calls
        from then on, by start.
    threads : dict of int to int
        Which Python thread (by the number given in its marker) a thread of the profile is.
    windows : dict of int to int
        Time of each window marker, by its number.
    moments : dict of int to (int, int)
        Thread and time of each moment that `lessons_lib.recording.eager_notes` marked.
    functions : dict of int to str
        Name of the function that each execution step ran.
    started : dict of int to (int, int)
        Thread that started each such step, and when.
    function_calls : dict of int to list of (start, end, name)
        Per thread, when a function was called from Python.
    runs : dict of int to (int, int)
        Thread that started any step of a function, and when.
    iterators : dict of int to list of (start, end, name)
        Per thread, when iterators of a data pipeline were running.
    executed : dict of str to set of str
        Types of kernels that ran under each graph operation's name.
    events : int
        How many events the profile had, of all kinds.
    pipeline : bool
        Whether threads of a data pipeline were at work, which go on when no Python thread does.
    levels : (int or None, int or None)
        What the allocator itself counted as in use when the session began and when it ended; None
        where that is not known for certain.
    """

    memory: list[MemoryEvent] = field(default_factory=list)
    calls: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    moments: dict[int, tuple[int, int]] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    started: dict[int, tuple[int, int]] = field(default_factory=dict)
    function_calls: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    iterators: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    executed: dict[str, set[str]] = field(default_factory=dict)
    events: int = 0
    pipeline: bool = False
    levels: tuple[int | None, int | None] = (None, None)


class ProfileError(RuntimeError):
    """The profiler could not be started, or what it wrote could not be read."""


@functools.cache
def parser() -> Any:
    """Find the profile's message type, whose place differs between TensorFlow versions."""
    message = profile_message()
    if message is None:
        raise ProfileError(
            f"TensorFlow {tf.__version__} does not bring the profile format that this version "
            "of lessons_lib reads: use TensorFlow 2.16 to 2.21, or a newer lessons_lib"
        )
    return message


def read_profile(data: bytes) -> Segment:
    """Read a serialised profile.

    Parameters
    ----------
    data : bytes
        Contents of an ``*.xplane.pb`` file.

    Raises
    ------
    ProfileError
        If it is truncated, or not a profile.
    """
    from google.protobuf.message import DecodeError

    space = parser()()
    try:
        space.ParseFromString(data)
    except DecodeError:
        raise ProfileError(
            "TensorFlow's profile is truncated or is not a profile: record again"
        ) from None
    segment = Segment()
    for plane in space.planes:
        if plane.name == "/host:CPU":
            _read_plane(plane, segment)
    segment.memory.sort(key=lambda event: event.time)
    return segment


class _Names(NamedTuple):
    """What a plane's numbers of events stand for."""

    #: Kinds of events that are read.
    wanted: dict[int, str]
    #: Functions that are called, and iterators.
    named: dict[int, str]
    #: Operations of graphs.
    kernels: dict[int, str]


def _names(plane: Any, segment: Segment) -> _Names:
    names = _Names({}, {}, {})
    for key, meta in plane.event_metadata.items():
        name = meta.name
        if name in _WANTED:
            names.wanted[key] = _WANTED[name]
        elif name.startswith(_FUNCTION_CALL):
            names.wanted[key] = _FUNCTION_CALL
            names.named[key] = name.partition(": ")[2]
        elif name.startswith(_ITERATOR):
            names.wanted[key] = _ITERATOR
            names.named[key] = name
        elif name == _CALLBACK:
            names.wanted[key] = _CALLBACK
        elif match := _PIPELINE_WORK.fullmatch(name):
            names.wanted[key] = _ITERATOR
            names.named[key] = f"{_ITERATOR}{match['name']}" if match["name"] else CAPTURED
        elif match := _KERNEL.fullmatch(name):
            names.kernels[key] = match["name"]
            segment.executed.setdefault(match["name"], set()).add(match["type"])
    return names


def _read_plane(plane: Any, segment: Segment) -> None:
    stats = {key: meta.name for key, meta in plane.stat_metadata.items()}
    wanted, named, kernels = _names(plane, segment)
    reader = _StatReader(stats)
    begun: dict[int, int] = {}  # when the first call of a thread was logged
    for thread, line in enumerate(plane.lines):
        segment.pipeline = segment.pipeline or line.name.startswith(_PIPELINE_THREAD)
        base = line.timestamp_ns * 1000
        segment.events += len(line.events)
        for place, event in enumerate(line.events):
            kind = wanted.get(event.metadata_id)
            if kind is None:
                continue
            start = base + event.offset_ps
            if kind is _ALLOCATION or kind is _DEALLOCATION:
                memory = reader.memory(event, start, thread, kind is _ALLOCATION)
                if memory.allocates and not memory.op:
                    before = line.events[max(place - _NEAR, 0) : place]
                    _name(memory, before, base, kernels, segment)
                segment.memory.append(memory)
            elif kind is CALL:
                spans = segment.calls.setdefault(thread, [])
                spans.append((start, start + event.duration_ps))
            elif kind is THREAD:
                segment.threads[thread] = reader.number(event, "number")
                begun[thread] = start
            elif kind is WINDOW:
                segment.windows[reader.number(event, "number")] = start
            elif kind is MOMENT:
                segment.moments[reader.number(event, "number")] = (thread, start)
            elif kind is _FUNCTION_RUN:
                step = reader.number(event, "id")
                segment.runs[step] = (thread, start)
                name = _caller(segment.function_calls.get(thread, ()), start)
                if name is not None:
                    segment.functions[step] = name
                    segment.started[step] = (thread, start)
            elif kind is _CALLBACK:
                if line.name.startswith(_PIPELINE_THREAD):
                    spans_of_thread = segment.iterators.setdefault(thread, [])
                    spans_of_thread.append((start, start + event.duration_ps, _CALLING_BACK))
            else:
                named_spans = segment.iterators if kind is _ITERATOR else segment.function_calls
                runs = named_spans.setdefault(thread, [])
                end = start + event.duration_ps
                runs.append((start, end, named[event.metadata_id]))
    for thread, calls in segment.calls.items():
        first = begun.get(thread, math.inf)
        segment.calls[thread] = sorted(call for call in calls if call[0] >= first)
    for iterators in segment.iterators.values():
        iterators.sort()


def _name(
    memory: MemoryEvent, before: Any, base: int, kernels: dict[int, str], segment: Segment
) -> None:
    """Say which graph operation allocated what its kernel did not say, as Eigen's functions do.

    It is the kernel that runs on the thread; another allocation of its own tells of which step.
    """
    for event in reversed(before):
        start = base + event.offset_ps
        if event.metadata_id in kernels and start + event.duration_ps >= memory.time:
            for other in reversed(segment.memory):
                if other.thread != memory.thread or other.time < start:
                    return
                if other.step and other.op == kernels[event.metadata_id]:
                    memory.op, memory.step = other.op, other.step
                    return


def _caller(runs: Any, time: int) -> str | None:
    # Events of a thread are in the order of their start, so the innermost call is the latest.
    for start, end, name in reversed(runs):
        if start <= time <= end:
            return str(name)
    return None


class _StatReader:
    """Reads the statistics of events, by position where that has held so far.

    Looking at every statistic's number costs more than all the rest of the reading, and their
    order is the same for all events of a kind.
    """

    def __init__(self, stats: dict[int, str]) -> None:
        self._names = {key: _text(name) for key, name in stats.items()}
        self._address = next((key for key, name in stats.items() if name == "addr"), None)
        self._stats = stats
        self._layouts: dict[tuple[bool, int], list[int]] = {}

    def number(self, event: Any, name: str) -> int:
        for stat in event.stats:
            if self._stats.get(stat.metadata_id) == name:
                return int(stat.int64_value or stat.uint64_value)
        return 0

    def memory(self, event: Any, time: int, thread: int, allocates: bool) -> MemoryEvent:
        stats = event.stats
        form = (allocates, len(stats))
        places = self._layouts.get(form)
        if places is None or stats[places[0]].metadata_id != self._address:
            places = self._layouts[form] = self._layout(stats)
        # Written out: this runs for every event, and most of its time is access to the message.
        stat = stats[places[0]]
        address = stat.int64_value or stat.uint64_value
        stat = stats[places[1]]
        requested = stat.int64_value or stat.uint64_value
        stat = stats[places[2]]
        reserved = stat.int64_value or stat.uint64_value
        stat = stats[places[3]]
        in_use = stat.int64_value or stat.uint64_value
        allocator = self._word(stats, places[4])
        step, dtype = 0, 0
        op = kind = shape = ""
        if allocates:
            if (place := places[5]) >= 0:
                step = stats[place].int64_value or stats[place].uint64_value
            op, kind = self._word(stats, places[6]), self._word(stats, places[7])
            if (place := places[8]) >= 0:
                dtype = stats[place].int64_value or stats[place].uint64_value
            shape = self._word(stats, places[9])
        return MemoryEvent(
            time,
            thread,
            allocates,
            address,
            requested,
            reserved,
            in_use,
            allocator,
            step,
            op,
            kind,
            dtype,
            shape,
        )

    def _word(self, stats: Any, place: int) -> str:
        if place < 0:
            return ""
        stat = stats[place]
        reference = stat.ref_value
        return self._names.get(reference, "") if reference else _text(stat.str_value)

    def _layout(self, stats: Any) -> list[int]:
        found = {self._stats.get(stat.metadata_id): i for i, stat in enumerate(stats)}
        if missing := [name for name in _STATS[:5] if name not in found]:
            raise ProfileError(
                f"TensorFlow {tf.__version__} writes memory events without {missing[0]}, which "
                "this version of lessons_lib cannot read: use TensorFlow 2.16 to 2.21"
            )
        return [found.get(name, -1) for name in _STATS]


def _text(value: str) -> str:
    # 2.16 and 2.18 write "(null)" where nothing was known.
    return "" if value == "(null)" else value
