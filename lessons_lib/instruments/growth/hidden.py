"""Tensor bytes beside living tensors and variables: recorded, with the place of each buffer.

What the allocator sets aside may be twice as much as it was asked for, and a sum does not tell a
tensor that was cut from a larger one from a tensor that only TensorFlow holds.  The addresses of
the buffers that recorded calls leave do: some living tensor lies in a buffer, or none.
"""

from __future__ import annotations

import bisect
import gc
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from lessons_lib.common import system
from lessons_lib.common.gc_control import HeapBaseline
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth.observation import HiddenBytes
from lessons_lib.instruments.holders.object_types import (
    Kind,
    Kinds,
    extent,
    lies_within,
    union_bytes,
)
from lessons_lib.recording.categories import Category
from lessons_lib.recording.recorder import record

_CALLS: Final = 3
_MORE_CALLS: Final = 12  # more than most pipelines make ahead
_STILL, _LONGEST_WAIT, _PAUSE = 4, 40, 0.005  # looks, and seconds between them
_HOLDERS: Final = frozenset({Kind.TENSOR, Kind.VARIABLE})
#: These only point at something; what they point at has buffers of its own.
_HANDLES: Final = (tf.resource.name, tf.variant.name)
Extent = tuple[int, int]


def hidden_bytes(
    call: Callable[[], None], baseline: HeapBaseline, *, collect: bool, pipelines: bool
) -> HiddenBytes | None:
    """Record a few calls; give the bytes that stay of each, or None if that is unsure.

    Parameters
    ----------
    call : callable
    baseline : HeapBaseline
        It is moved, and lifted.
    collect : bool
        Whether garbage is collected at the end.
    pipelines : bool
        Whether data pipelines are alive, which work on by themselves, and ahead.
    """
    for calls in (_CALLS, _MORE_CALLS):
        left = _left(partial(_calls, call, calls, pipelines), baseline, collect=collect)
        if left is None or left.parts or not (pipelines and left.elsewhere):
            break
    return None if left is None else left.a_call(calls)


def _calls(call: Callable[[], None], calls: int, pipelines: bool) -> None:
    for _ in range(calls):
        call()
        if pipelines:
            _wait_until_still()


def _wait_until_still() -> None:
    """Wait, but not long, until pipelines have made ahead what they make."""
    before, still = -1, 0
    for _ in range(_LONGEST_WAIT):
        now = system.allocator_bytes() or 0
        still = still + 1 if now == before else 0
        if still == _STILL:
            break
        before = now
        time.sleep(_PAUSE)


@dataclass
class Left:
    """What recorded calls left: addresses and bytes.

    Attributes
    ----------
    piped, others : list of (int, int)
        Buffers of data pipelines, and all others.
    placed : list of (int, int)
        Living tensors and variables in them.
    parts : list of (int, int)
        Of these, the new ones in buffers of pipelines.
    elsewhere : list of (int, int)
        New tensors that lie neither in these buffers nor in older tensors.
    unplaced : int
        Bytes of new tensors and variables that are at no address.
    """

    piped: list[Extent]
    others: list[Extent]
    placed: list[Extent]
    parts: list[Extent]
    elsewhere: list[Extent]
    unplaced: int

    def a_call(self, calls: int) -> HiddenBytes:
        """Give what one of so many calls left."""
        cut, lost = divided(self.others, self.placed)
        cut_here, waiting = divided(self.piped, self.placed)
        cut_before, ahead = self._made_before(cut_here, waiting)
        none = max(0, sum(n for _, n in lost) - self.unplaced)
        piped = sum(n for _, n in waiting) - ahead
        parted = cut_here + cut_before
        return HiddenBytes(*(part / calls for part in (cut, none, piped, parted)))

    def _made_before(self, cut: int, waiting: list[Extent]) -> tuple[float, int]:
        """Give what parts of elements keep that were made before the calls.

        A pipeline makes as many elements ahead as were taken of those that it had: that many
        are waiting at the end, and are no growth.  Their bytes are given, too.
        """
        if not self.parts:  # they are all as large as those that wait
            lent = [n for _, n in waiting][: len(self.elsewhere)]
            return max(0, sum(lent) - sum(n for _, n in self.elsewhere[: len(lent)])), sum(lent)
        sizes = {n for _, n in self.parts}
        share = sum(n in sizes for _, n in self.elsewhere) / len(self.parts)
        taken = set(self.piped).difference(waiting)
        alike = {n for _, n in taken}
        lent = [n for _, n in waiting if n in alike][: round(share * len(taken))]
        return share * cut, sum(lent)


def _left(call: Callable[[], None], baseline: HeapBaseline, *, collect: bool) -> Left | None:
    """Record what is called; give what it left, or None if that is unsure."""
    baseline.move()
    try:
        with record(lines=False, share=1) as recording:
            call()
            if collect:
                gc.collect()
    except Exception:  # a step that runs out of data; another profiler
        return None
    if not recording.exact:
        return None
    kinds = Kinds()
    new = {id(thing) for thing in baseline.new_objects()}
    baseline.lift()
    store = recording.buffers
    piped, others = list[Extent](), list[Extent]()
    for at, i in sorted(store.addresses.items()):
        site = store.sites[store.site[i]]
        if store.born[i] >= 0 and site.dtype not in _HANDLES:
            of_pipeline = site.purpose.category is Category.INPUTS
            (piped if of_pipeline else others).append((at, int(store.nbytes[i])))
    left = Left(piped, others, [], [], [], 0)
    old = list[Extent]()
    for kind, things in kinds.choose(gc.get_objects(), _HOLDERS).items():
        for thing in things:
            address, nbytes = here = extent(thing, kind)
            is_new = id(thing) in new
            if nbytes and _place(piped, address) is not None:
                left.placed.append(here)
                left.parts += [here] * is_new
            elif nbytes and _place(others, address) is not None:
                left.placed.append(here)
            elif not is_new:
                old.append(here)
            elif address < 0 or kind is Kind.VARIABLE:
                left.unplaced += nbytes  # texts, and variables that are copied when they are read
            elif nbytes:
                left.elsewhere.append(here)
    within = lies_within([*old, *left.elsewhere])[len(old) :]
    left.elsewhere = [
        e for e, is_within in zip(left.elsewhere, within, strict=True) if not is_within
    ]
    return left


def divided(buffers: list[Extent], tensors: list[Extent]) -> tuple[int, list[Extent]]:
    """Give the bytes of buffers beside the tensors in them, and the buffers in which none lies.

    Parameters
    ----------
    buffers : list of (int, int)
        Addresses and bytes, sorted.
    tensors : list of (int, int)
        Those that lie in these buffers.
    """
    within = defaultdict[int | None, list[Extent]](list)
    for tensor in tensors:
        within[_place(buffers, tensor[0])].append(tensor)
    cut, nobodys = 0, list[Extent]()
    for place, buffer in enumerate(buffers):
        if place in within:
            cut += buffer[1] - union_bytes(within[place])
        else:
            nobodys.append(buffer)
    return cut, nobodys


def _place(buffers: list[Extent], address: int) -> int | None:
    """Find the buffer in which an address lies."""
    place = bisect.bisect_right(buffers, address, key=lambda buffer: buffer[0]) - 1
    return place if place >= 0 and address < sum(buffers[place]) else None
