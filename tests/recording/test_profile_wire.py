"""Reading a profile's bytes: numbers of every length, texts, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lessons_lib.recording.profile_format import ProfileError, read_profile
from lessons_lib.recording.profile_wire import Events, profile_message
from lessons_lib.recording.segment import Segment

_STATISTICS = (
    *("addr", "requested_bytes", "allocation_bytes", "bytes_allocated", "allocator_name"),
    *("id", "tf_op", "region_type", "data_type", "shape"),
)
#: Numbers of those that are texts.
_TEXTS = (5, 7, 8, 10)
#: Lengths of numbers: from one byte to ten, which negative ones take.
NUMBERS = [0, *(2**bits + change for bits in range(7, 63, 7) for change in (-1, 0)), 2**63 - 1, -1]


def varint(number: int) -> bytes:
    number %= 2**64
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def event(name: int, offset: int, duration: int, statistics: Mapping[int, int | str]) -> bytes:
    """Write an event as TensorFlow does; a text that the plane keeps is given as its number."""
    out = b"\x08" + varint(name) + b"\x10" + varint(offset)
    out += b"\x18" + varint(duration) if duration else b""
    for key, value in statistics.items():
        if isinstance(value, str):
            inside = b"\x2a" + varint(len(value)) + value.encode()
        else:
            inside = (b"\x38" if key in _TEXTS else b"\x20") + varint(value)
        inside = b"\x08" + varint(key) + inside
        out += b"\x22" + varint(len(inside)) + inside
    return out


def profile(names: Mapping[int, str], texts: Mapping[int, str], *events: bytes) -> Segment:
    message: Any = profile_message()()
    plane = message.planes.add(name="/host:CPU")
    for pairs, known in ((plane.event_metadata, names), (plane.stat_metadata, texts)):
        for key, name in known.items():
            pairs.add(key=key).value.name = name
    plane.lines.add(timestamp_ns=1, events=events)
    return read_profile(message.SerializeToString())


TEXTS = dict(enumerate(_STATISTICS, 1)) | {200: "pool", 300: "MatMul"}
MEMORY = {1: "MemoryAllocation", 1000: "MemoryDeallocation", 129: "scope/MatMul:MatMul"}


def statistics(**changed: int | str) -> dict[int, int | str]:
    values: dict[str, int | str] = {"addr": 64, "requested_bytes": 36, "allocation_bytes": 256}
    values |= {"bytes_allocated": 256, "allocator_name": 200, "id": 7, "tf_op": 300, **changed}
    return {_STATISTICS.index(name) + 1: value for name, value in values.items()}


def test_numbers_of_every_length() -> None:
    written = [event(1, max(n, 0), max(n, 0), {6: n, 300: n}) for n in NUMBERS]
    events = Events(written)
    assert events.ids.tolist() == [1] * len(NUMBERS)
    assert events.offsets.tolist() == events.durations.tolist() == [max(n, 0) for n in NUMBERS]
    (found,) = events.statistics(np.arange(len(NUMBERS)))
    by_key = {int(key): found.values[found.keys == key].tolist() for key in (6, 300)}
    assert by_key == {6: NUMBERS, 300: NUMBERS}


def test_memory_with_numbers_and_texts() -> None:
    words = statistics(id=-(2**62), tf_op="a text of its own", shape=999)
    segment = profile(
        MEMORY, TEXTS, event(1, 5, 0, words), event(1000, 9, 0, statistics(addr=2**50))
    )
    made, freed = segment.memory
    assert (made.time, made.allocates, made.address, made.requested) == (1005, True, 64, 36)
    assert (made.step, made.op, made.shape) == (-(2**62), "a text of its own", "")
    assert (made.reserved, made.in_use, made.allocator) == (256, 256, "pool")
    # What a release says of its operation is that of another time.
    assert (freed.allocates, freed.address, freed.step, freed.op) == (False, 2**50, 0, "")
    assert segment.events == 2


def test_what_a_kernel_does_not_name_is_its_own() -> None:
    told = statistics(tf_op="scope/MatMul")
    untold = {key: value for key, value in statistics(id=0).items() if key != 7}
    events = [event(129, 10, 90, {}), event(1, 20, 0, told), event(1, 30, 0, untold)]
    later = [event(1, 200, 0, untold)]  # when the kernel has ended
    memory = profile(MEMORY, TEXTS, *events, *later).memory
    assert [(e.op, e.step) for e in memory] == [("scope/MatMul", 7)] * 2 + [("", 0)]


@pytest.mark.parametrize(
    "before",
    [
        [],  # nothing tells of which step
        [event(1, 5, 0, statistics(tf_op="scope/MatMul"))],  # before the kernel began
        [event(1, 20, 0, statistics(tf_op="another"))],
    ],
)
def test_what_no_kernel_names_for_certain_has_no_name(before: list[bytes]) -> None:
    untold = {key: value for key, value in statistics(id=0).items() if key != 7}
    memory = profile(MEMORY, TEXTS, event(129, 10, 90, {}), *before, event(1, 30, 0, untold)).memory
    assert (memory[-1].op, memory[-1].step) == ("", 0)


@pytest.mark.parametrize("name", _STATISTICS[:5])
def test_memory_without_what_is_needed(name: str) -> None:
    lacking = {k: v for k, v in statistics().items() if _STATISTICS[k - 1] != name}
    with pytest.raises(ProfileError, match=f"without {name}"):
        profile(MEMORY, TEXTS, event(1, 0, 0, statistics()), event(1, 1, 0, lacking))
