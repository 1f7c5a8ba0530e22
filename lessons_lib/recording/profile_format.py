"""What TensorFlow's profiler writes, as plain columns.

One profile becomes one `Segment`: allocations and deallocations, the calls from Python that were
open when they happened, and which function each graph execution ran.  Times are picoseconds on
the profiler's own clock, which starts with the session.  Nothing here knows about source lines or
results.
"""

from __future__ import annotations

import math
import re
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lessons_lib.common.runtime import tf
from lessons_lib.recording.profile_wire import (
    KEPT_TEXT,
    TEXT,
    WHOLE,
    Events,
    Ints,
    Places,
    profile_message,
)
from lessons_lib.recording.segment import MemoryEvent, Segment

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
#: What a thread of the pipeline's pool runs of such a function.
_LENT: Final = "ExecutorState::Process"
#: What runs after a mapped function: of all transformations only this one allocates in it.
_CALLBACK: Final = "ExecutorDoneCallback"
_CALLING_BACK: Final = f"{_ITERATOR}MapAndBatch"
_KERNEL_RUN: Final = "kernel"
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
# What is read of events, by the profiler's own names: of memory, of allocations, of our markers.
_ID: Final = "id"
_NUMBER: Final = "number"
_NEEDED: Final = (
    *("addr", "requested_bytes", "allocation_bytes", "bytes_allocated"),
    "allocator_name",
)
_STATS: Final = (*_NEEDED, _ID, "tf_op", "region_type", "data_type", "shape", _NUMBER)
_TEXTS: Final = frozenset(("allocator_name", "tf_op", "region_type", "shape"))
_IS_TEXT: Final = np.array([name in _TEXTS for name in (*_STATS, "")])

Codes = npt.NDArray[np.int8]


class ProfileError(RuntimeError):
    """The profiler could not be started, or what it wrote could not be read."""


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

    space = profile_message()()
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
    segment.memory.sort(key=attrgetter("time"))
    return segment


#: What is read of events: those of memory, those that are read one by one, and the others.
_KINDS: Final = (
    *("", _ALLOCATION, _DEALLOCATION),
    *(THREAD, WINDOW, MOMENT, _FUNCTION_RUN, _FUNCTION_CALL, _ITERATOR, _LENT, _CALLBACK),
    *(CALL, _KERNEL_RUN),
)
_CODES: Final = {kind: code for code, kind in enumerate(_KINDS)}


class _Names:
    """What a plane's numbers of events, statistics and texts stand for.

    Attributes
    ----------
    codes : int array
        For each number of an event, its place in `_KINDS`.
    columns : int array
        For each number of a statistic, its place in `_STATS`.
    named : dict of int to str
        Functions that are called, and iterators.
    kernels : dict of int to str
        Operations of graphs.
    texts : dict of int to str
    """

    def __init__(self, plane: Any, executed: dict[str, set[str]]) -> None:
        self.texts = {pair.key: _text(pair.value.name) for pair in plane.stat_metadata}
        columns = {k: _STATS.index(name) for k, name in self.texts.items() if name in _STATS}
        self.columns = _table(columns, len(_STATS))
        self.named: dict[int, str] = {}
        self.kernels: dict[int, str] = {}
        codes: dict[int, int] = {}
        for pair in plane.event_metadata:
            key, name = pair.key, pair.value.name
            if name in _WANTED:
                kind = _WANTED[name]
            elif name.startswith(_FUNCTION_CALL):
                kind, self.named[key] = _FUNCTION_CALL, name.partition(": ")[2]
            elif name.startswith(_ITERATOR):
                kind, self.named[key] = _ITERATOR, name
            elif name in (_LENT, _CALLBACK):
                kind = _LENT if name == _LENT else _CALLBACK
            elif match := _PIPELINE_WORK.fullmatch(name):
                kind = _ITERATOR
                self.named[key] = f"{_ITERATOR}{match['name']}" if match["name"] else CAPTURED
            elif match := _KERNEL.fullmatch(name):
                kind, self.kernels[key] = _KERNEL_RUN, match["name"]
                executed.setdefault(match["name"], set()).add(match["type"])
            else:
                continue
            codes[key] = _CODES[kind]
        self.codes = _table(codes, 0)


def _table(known: dict[int, int], other: int) -> Codes:
    """Make an array of a dictionary; its last entry is for numbers that are not in there."""
    table = np.full(max(known, default=0) + 2, other, np.int8)
    table[list(known)] = list(known.values())
    return table


def _looked_up(table: Codes, numbers: Ints) -> Codes:
    return table[np.minimum(numbers, len(table) - 1)]


class _Columns:
    """The events of a plane, line by line, in columns."""

    def __init__(self, plane: Any, names: _Names) -> None:
        lines = list(plane.lines)
        self.events = Events([event for line in lines for event in line.events])
        counts = [len(line.events) for line in lines]
        begins = np.array([line.timestamp_ns * 1000 for line in lines], np.int64)
        self.threads = np.repeat(np.arange(len(lines)), counts)
        self.codes = _looked_up(names.codes, self.events.ids)
        self.starts = np.repeat(begins, counts) + self.events.offsets
        self.ends = self.starts + self.events.durations

    def statistics(self, chosen: Places, names: _Names) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Read statistics of some events: their values, or the numbers of their texts.

        Returns
        -------
        values : int array, shape (statistics, chosen)
            In the order of `_STATS`; 0 where there is none.
        seen : bool array, of the same shape
            Whether there is one.
        """
        values = np.zeros((len(_STATS) + 1, len(chosen)), np.int64)  # the last are not wanted
        seen = np.zeros(values.shape, bool)
        for found in self.events.statistics(chosen):
            column = _looked_up(names.columns, found.keys)
            tags, of_text = found.tags, _IS_TEXT[column]
            right = np.where(of_text, tags == KEPT_TEXT, (tags == WHOLE[0]) | (tags == WHOLE[1]))
            values[column, found.rows] = found.values * right
            seen[column, found.rows] = True
            for i in np.flatnonzero(of_text & (tags == TEXT)).tolist():
                text = self.events.text(int(found.places[i]), int(found.values[i]))
                number = -1 - len(names.texts)
                names.texts[number] = _text(text)
                values[column[i], found.rows[i]] = number
        return values[:-1], seen[:-1]


def _read_plane(plane: Any, segment: Segment) -> None:
    names = _Names(plane, segment.executed)
    columns = _Columns(plane, names)
    segment.events += len(columns.codes)
    pipelines = np.array([line.name.startswith(_PIPELINE_THREAD) for line in plane.lines], bool)
    wanted = (columns.codes > 0) & (columns.codes <= _CODES[_CALLBACK])
    wanted &= (columns.codes < _CODES[_LENT]) | pipelines[columns.threads]
    chosen = np.flatnonzero(wanted)
    values, seen = columns.statistics(chosen, names)
    of_memory = columns.codes[chosen] <= _CODES[_DEALLOCATION]
    for missing in np.flatnonzero(~seen[: len(_NEEDED), of_memory].all(axis=1)).tolist():
        raise ProfileError(
            f"TensorFlow {tf.__version__} writes memory events without {_NEEDED[missing]}, which "
            "this version of lessons_lib cannot read: use TensorFlow 2.16 to 2.21"
        )
    segment.memory += _memory(columns, chosen[of_memory], values[:, of_memory], names)
    segment.pool.update(np.flatnonzero(pipelines).tolist())
    numbers = values[_STATS.index(_NUMBER)] + values[_STATS.index(_ID)]  # one of them, or none
    begun: dict[int, int] = {}  # when the first call of a thread was logged
    for place, number in zip(
        chosen[~of_memory].tolist(), numbers[~of_memory].tolist(), strict=True
    ):
        kind, thread = _KINDS[columns.codes[place]], int(columns.threads[place])
        start, end = int(columns.starts[place]), int(columns.ends[place])
        if kind is THREAD:
            segment.threads[thread] = number
            begun[thread] = start
        elif kind is WINDOW:
            segment.windows[number] = start
        elif kind is MOMENT:
            segment.moments[number] = (thread, start)
        elif kind is _FUNCTION_RUN:
            segment.runs[number] = (thread, start)
            name = _caller(segment.function_calls.get(thread, ()), start)
            if name is not None:
                segment.functions[number] = name
                segment.started[number] = (thread, start)
        elif kind is _CALLBACK:
            segment.iterators.setdefault(thread, []).append((start, end, _CALLING_BACK))
        elif kind is _LENT:
            segment.lent.setdefault(thread, []).append((start, end, number))
        else:
            spans = segment.iterators if kind is _ITERATOR else segment.function_calls
            name = names.named[int(columns.events.ids[place])]
            spans.setdefault(thread, []).append((start, end, name))
            if name == CAPTURED and number:
                segment.runs[number] = (thread, start)
    calls = np.flatnonzero(columns.codes == _CODES[CALL])
    for thread in np.unique(columns.threads[calls]).tolist():
        mine = calls[columns.threads[calls] == thread]
        spans_of_calls = zip(
            columns.starts[mine].tolist(), columns.ends[mine].tolist(), strict=True
        )
        first = begun.get(thread, math.inf)
        segment.calls[thread] = sorted(call for call in spans_of_calls if call[0] >= first)
    for iterators in segment.iterators.values():
        iterators.sort()
    for lent in segment.lent.values():
        lent.sort()


def _memory(columns: _Columns, chosen: Places, values: Ints, names: _Names) -> list[MemoryEvent]:
    """Read the events of memory."""
    made = columns.codes[chosen] == _CODES[_ALLOCATION]
    values[len(_NEEDED) :] *= made
    texts = names.texts
    read = [
        [texts.get(number, "") for number in column.tolist()] if of_text else column.tolist()
        for column, of_text in zip(values, _IS_TEXT, strict=False)
    ]
    times, threads = columns.starts[chosen].tolist(), columns.threads[chosen].tolist()
    memory = list(map(MemoryEvent, times, threads, made.tolist(), *read[:-1]))
    for i, event in enumerate(memory):
        if event.allocates and not event.op:
            _name(memory, i, int(chosen[i]), columns, names)
    return memory


def _name(
    memory: list[MemoryEvent], number: int, place: int, columns: _Columns, names: _Names
) -> None:
    """Say which graph operation allocated what its kernel did not say, as Eigen's functions do.

    It is the kernel that runs on the thread; another allocation of its own tells of which step.
    """
    event, first = memory[number], max(place - _NEAR, 0)
    near = slice(first, place)
    running = np.flatnonzero(
        (columns.codes[near] == _CODES[_KERNEL_RUN])
        & (columns.threads[near] == event.thread)
        & (columns.ends[near] >= event.time)
    )
    if not len(running):
        return
    kernel = first + int(running[-1])
    begun, op = columns.starts[kernel], names.kernels[int(columns.events.ids[kernel])]
    for i in range(number - 1, -1, -1):
        other = memory[i]
        if other.thread != event.thread or other.time < begun:
            return
        if other.step and other.op == op:
            event.op, event.step = other.op, other.step
            return


def _caller(runs: Any, time: int) -> str | None:
    # Events of a thread are in the order of their start, so the innermost call is the latest.
    for start, end, name in reversed(runs):
        if start <= time <= end:
            return str(name)
    return None


def _text(value: str) -> str:
    # 2.16 and 2.18 write "(null)" where nothing was known.
    return "" if value == "(null)" else value
