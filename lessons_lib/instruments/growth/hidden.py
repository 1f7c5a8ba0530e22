"""Tensor bytes beside living tensors and variables: recorded, with the place of each buffer.

What the allocator sets aside may be twice as much as it was asked for, and a sum does not tell a
tensor that was cut from a larger one from a tensor that only TensorFlow holds.  The addresses of
the buffers that recorded calls leave do: some living tensor lies in a buffer, or none.
"""

from __future__ import annotations

import bisect
import gc
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from lessons_lib.common.gc_control import HeapBaseline
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth.observation import HiddenBytes
from lessons_lib.instruments.holders.object_types import Kind, Kinds, extent, union_bytes
from lessons_lib.recording.categories import Category
from lessons_lib.recording.recorder import record

_CALLS: Final = 3
_HOLDERS: Final = frozenset({Kind.TENSOR, Kind.VARIABLE})
#: These only point at something; what they point at has buffers of its own.
_HANDLES: Final = (tf.resource.name, tf.variant.name)
Extent = tuple[int, int]


def hidden_bytes(
    call: Callable[[], None], baseline: HeapBaseline, *, collect: bool
) -> HiddenBytes | None:
    """Record a few calls; give the bytes that stay of each, or None if that is unsure.

    Parameters
    ----------
    call : callable
    baseline : HeapBaseline
        It is moved, and lifted.
    collect : bool
        Whether garbage is collected at the end.
    """
    baseline.move()
    try:
        with record(lines=False, share=1) as recording:
            for _ in range(_CALLS):
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
    sites = {
        at: store.sites[store.site[i]] for at, i in store.addresses.items() if store.born[i] >= 0
    }
    buffers = sorted(
        (at, int(store.nbytes[store.addresses[at]]))
        for at, site in sites.items()
        if site.dtype not in _HANDLES
    )
    placed, unplaced = list[Extent](), 0
    for kind, things in kinds.choose(gc.get_objects(), _HOLDERS).items():
        for thing in things:
            address, nbytes = extent(thing, kind)
            if nbytes and _place(buffers, address) is not None:
                placed.append((address, nbytes))
            elif id(thing) in new and (address < 0 or kind is Kind.VARIABLE):
                unplaced += nbytes  # texts, and variables that are copied when they are read
    cut, nobodys = divided(buffers, placed)
    piped = sum(n for at, n in nobodys if sites[at].purpose.category is Category.INPUTS)
    lost = max(0, sum(n for _, n in nobodys) - piped - unplaced)
    return HiddenBytes(cut / _CALLS, lost / _CALLS, piped / _CALLS)


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
