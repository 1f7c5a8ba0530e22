"""The profile's wire format: many events read at once, as columns of numbers.

A profile has tens of thousands of events, and to make a Python object of each, and of each of its
statistics, takes far longer than all the rest of the reading.  So the messages are read down to
the events, which stay bytes; the numbers in them (Protocol Buffers' "varints") are then decoded
for all events together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

#: Field, number and type of what is read of TensorFlow's ``xplane.proto``; a map is a list of
#: pairs there.
_MESSAGES: Final[dict[str, tuple[tuple[str, int, type | str], ...]]] = {
    "Space": (("planes", 1, "Plane"),),
    "Plane": (
        ("name", 2, str),
        ("lines", 3, "Line"),
        ("event_metadata", 4, "Pair"),
        ("stat_metadata", 5, "Pair"),
    ),
    "Pair": (("key", 1, int), ("value", 2, "Metadata")),
    "Metadata": (("name", 2, str),),
    "Line": (("name", 2, str), ("timestamp_ns", 3, int), ("events", 4, bytes)),
}
_LISTS: Final = frozenset(("planes", "lines", "event_metadata", "stat_metadata", "events"))
# What stands before a field's value: eight times its number, and how it is written.
_ID, _OFFSET, _DURATION, _STATISTIC = 0x08, 0x10, 0x18, 0x22
#: Of a statistic's value: whole numbers, text, and text that the plane keeps.
WHOLE: Final = (0x18, 0x20)
TEXT: Final = 0x2A
KEPT_TEXT: Final = 0x38

_HIGHEST: Final = np.uint64(0x8080808080808080)
_SEVEN: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
# How seven bits of each byte come together: groups of 7, 14 and 28 bits are moved to their
# neighbours.
_JOINED: Final = tuple(
    (np.uint64(shift), np.uint64(low << by), np.uint64(low))
    for shift, by, low in (
        (1, 8, 0x007F007F007F007F),
        (2, 16, 0x00003FFF00003FFF),
        (4, 32, 0x000000000FFFFFFF),
    )
)
#: How many statistics are decoded at once: few calls of NumPy, and no arrays that have to be asked
#: of the system anew each time.
_AT_ONCE: Final = 8192
#: More than the longest number has bytes, so that no look goes past the end.
_PADDING: Final = bytes(24)


@functools.cache
def profile_message() -> Any:
    """Make the class of a profile's message, whose events are bytes."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    types = {str: field.TYPE_STRING, int: field.TYPE_INT64, bytes: field.TYPE_BYTES}
    package = "lessons_lib"
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}/profile.proto", package=package, syntax="proto3"
    )
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            label = field.LABEL_REPEATED if name in _LISTS else field.LABEL_OPTIONAL
            one = made.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = field.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                one.type = types[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    space = pool.FindMessageTypeByName(f"{package}.Space")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(space)
    return message_factory.MessageFactory(pool).GetPrototype(space)  # before version 4.22


class Statistics(NamedTuple):
    """Statistics of some events: of which one, its number, and its value.

    Where the value is text, `values` are its lengths, and `places` where it begins.
    """

    rows: Places
    keys: Ints
    tags: npt.NDArray[np.uint8]
    values: Ints
    places: Ints


class Events:
    """Events that stand one after the other.

    Attributes
    ----------
    ids, offsets, durations : int array, shape (events,)
        Numbers of their names, and picoseconds.
    """

    def __init__(self, events: list[bytes]) -> None:
        self.data = b"".join(events) + _PADDING
        self._bytes = np.frombuffer(self.data, np.uint8)
        # The eight bytes from each byte on, as a number.
        self._words = np.ndarray(len(self.data) - 7, "<u8", self.data, strides=(1,))
        lengths = np.fromiter(map(len, events), np.int64, len(events))
        self._ends = np.cumsum(lengths)
        at = self._ends - lengths
        self.ids, at = self._field(_ID, at, self._ends)
        self.offsets, at = self._field(_OFFSET, at, self._ends)
        self.durations, self._rest = self._field(_DURATION, at, self._ends)

    def statistics(self, chosen: Places) -> Iterator[Statistics]:
        """Give all statistics of some events, in parts: the first ones of all, then the next."""
        rows, at, ends = np.arange(len(chosen)), self._rest[chosen], self._ends[chosen]
        found: list[tuple[Places, Ints, Ints]] = []
        while True:
            more = (at < ends) & (self._bytes[at] == _STATISTIC)
            if not more.all():
                rows, at, ends = rows[more], at[more], ends[more]
            if found and (not len(rows) or sum(len(part[0]) for part in found) > _AT_ONCE):
                yield self._decoded(*map(np.concatenate, zip(*found, strict=True)))
                found = []
            if not len(rows):
                return
            size, begin = self._numbers(at + 1)
            at = np.minimum(begin + size, ends)
            found.append((rows, begin, at))

    def _decoded(self, rows: Places, begin: Ints, end: Ints) -> Statistics:
        keys, value = self._field(_ID, begin, end)
        values, places = self._numbers(value + 1)
        return Statistics(rows, keys, self._bytes[value], values, places)

    def text(self, begin: int, size: int) -> str:
        """Give a text that is in an event."""
        return self.data[begin : begin + size].decode(errors="replace")

    def _field(self, tag: int, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Read a field: its numbers, 0 where it is missing, and the places after it."""
        here = (at < ends) & (self._bytes[at] == tag)
        values, after = self._numbers(at + 1)
        return values * here, np.where(here, after, at)

    def _numbers(self, at: Ints) -> tuple[Ints, Ints]:
        """Read the number at each place; give the places after them, too."""
        first = self._bytes[at]
        if not (first & 0x80).any():
            return first.astype(np.int64), at + 1
        words = self._words[at]
        # A number's last byte is the first one whose highest bit is 0.
        last = ~words & _HIGHEST
        last &= ~last + np.uint64(1)
        words &= (last - np.uint64(1)) & _SEVEN
        for shift, high, low in _JOINED:
            words = (words & low) | ((words & high) >> shift)
        values = words.view(np.int64)
        after = at + (np.frexp(last.astype(np.float64))[1] >> 3)
        long = np.flatnonzero(last == 0)  # of 9 bytes, or of 10 where it is negative
        if len(long):
            ninth = self._bytes[at[long] + 8].astype(np.int64)
            tenth = self._bytes[at[long] + 9].astype(np.int64) * (ninth >= 0x80)
            values[long] |= (ninth & 0x7F) << 56 | tenth << 63
            after[long] = at[long] + 9 + (ninth >= 0x80)
        return values, after
