"""The references between all objects of the process, indexed once, so that climbing costs nothing.

``gc.get_referrers`` looks through the whole heap at each question.  `Heap` does it once: objects
lie in blocks, and of each block only the addresses are noted that it refers to.  Who holds an
object is then read from the few blocks that have its address.  Two million objects take some
seconds and about 100 MB, for as long as the index lives.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from enum import Flag, auto
from itertools import chain, compress, filterfalse
from typing import Any, Final

import numpy as np

from lessons_lib.common.gc_control import program_has_frozen
from lessons_lib.common.internals import EagerTensor, addresses
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.names import contents, namespaces, user_locals
from lessons_lib.instruments.holders.object_types import is_native

_BLOCK: Final = 512  # objects: looked at one by one where an address is found
_CHUNK: Final = 4096
_BLOCKS: Final = 8  # between two looks at the clock
LONG_TEXT: Final = 200  # a shorter one is a note, as in a log
_TEXTS: Final = frozenset({str, bytes})


class Heap:
    """Who refers to what, among all objects that are alive now; holds them, so `close` it soon.

    The collector tracks neither dictionaries and tuples without containers in them nor NumPy's
    arrays of objects, and does not list what is frozen: both are found through what holds them.

    Parameters
    ----------
    budget : SearchBudget
        The index is not whole when it runs out.

    Attributes
    ----------
    complete : bool
        Whether every object was looked at.
    """

    def __init__(self, budget: SearchBudget) -> None:
        self.complete = True
        self._blocks: list[list[Any]] = []
        sizes: list[int] = []
        parts: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        walk = _Walk(gc.get_objects())
        several: list[Any] = []  # to ask for very many addresses at once is quicker
        for block, held in walk.blocks(_BLOCK):
            self._blocks.append(block)
            sizes.append(len(held))
            several += held
            if len(sizes) % _BLOCKS == 0:
                parts.append(addresses(several))
                several.clear()
                if budget.is_over():
                    self.complete = False
                    break
        parts.append(addresses(several))
        several.clear()
        held_at = np.concatenate(parts)
        order = np.argsort(held_at, kind="stable")
        self._addresses = held_at[order]
        self._objects = np.sort(addresses(list(chain.from_iterable(self._blocks))))
        self._block_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order]

    def holders(self, wanted: Iterable[int]) -> Iterator[tuple[Any, Any]]:
        """Give each object that refers to one of some, with that one, in the heap's order.

        Parameters
        ----------
        wanted : iterable of int
            As `id` gives them, of objects that were alive when the index was made.
        """
        wanted = set(wanted)
        asked = np.fromiter(wanted, np.int64, len(wanted))
        first = np.searchsorted(self._addresses, asked, "left")
        last = np.searchsorted(self._addresses, asked, "right")
        spans = [self._block_of[a:b] for a, b in zip(first, last, strict=True) if a < b]
        if not spans:
            return
        for number in np.unique(np.concatenate(spans)).tolist():
            for holder in self._blocks[number]:
                for held in contents(holder):
                    if id(held) in wanted:
                        yield holder, held
                    elif type(held) is dict and not self._has(held):
                        # Attributes were read since, which made them a dictionary of their own.
                        # To ask whose it is would do the same to attributes that are none yet.
                        yield from ((holder, v) for v in list(held.values()) if id(v) in wanted)

    def _has(self, thing: object) -> bool:
        """Tell whether an object is one of those that were indexed."""
        return bool(_are_among(self._objects, np.int64(id(thing))))

    def close(self) -> None:
        """Let go of all objects."""
        self._blocks.clear()
        self._addresses = self._objects = np.zeros(0, np.int64)
        self._block_of = np.zeros(0, np.int32)


class Leaves(Flag):
    """Which objects that the collector does not track are looked for."""

    NONE = 0
    ARRAYS = auto()  # NumPy arrays, dictionaries and tuples without containers, compiled objects
    TEXTS = auto()  # long ones; there are very many short ones to look through


def leaves(wanted: Leaves, budget: SearchBudget) -> list[Any]:
    """List the untracked objects that something in Python holds, and that may be large.

    Where tracemalloc is running, those that were made before it began are left out.

    Parameters
    ----------
    wanted : Leaves
    budget : SearchBudget
        The list is not whole when it runs out.
    """
    if wanted is Leaves.NONE:
        return []
    texts = _TEXTS if Leaves.TEXTS in wanted else frozenset()
    chosen: set[type] = set()
    if Leaves.ARRAYS in wanted:
        chosen = {bytearray, *with_subclasses(np.ndarray)}
    known: set[type] = {EagerTensor}
    found: list[Any] = []
    is_new = tracemalloc.get_object_traceback if tracemalloc.is_tracing() else None
    walk = _Walk(gc.get_objects())
    for block, held in walk.blocks(_CHUNK):
        if budget.is_over():
            break
        unknown = set(map(type, held)) - known
        known |= unknown
        chosen.update(cls for cls in unknown if is_native(cls))
        things = filterfalse(gc.is_tracked, _of_types(held, chosen))
        found += filter(is_new, things) if is_new else things
        if texts:
            found += [text for text in _of_types(held, texts) if len(text) >= LONG_TEXT]
        if walk.beyond:
            found += filter(is_new, block) if is_new else block
    return list({id(thing): thing for thing in found if not is_new or is_new(thing)}.values())


class _Walk:
    """Goes through the heap: first what the collector lists, then what it does not."""

    def __init__(self, everything: list[Any]) -> None:
        self._waiting = everything
        self._known = np.zeros(0, np.int64)  # addresses, sorted, of what need not be found again
        self._is_frozen = program_has_frozen()  # hidden, with all that only frozen objects hold
        self.beyond = False  # whether the collector's list is through
        if self._is_frozen:
            self._known = np.sort(addresses(everything))
            seeds = [of_module for _, of_module in namespaces()]
            everything += self._new([*seeds, *(value for *_, value in user_locals())])

    def blocks(self, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """Give objects, some at a time, with all that they refer to."""
        arrays = with_subclasses(np.ndarray)
        containers = frozenset[type]({dict, tuple, *arrays})
        while self._waiting:
            found: list[Any] = []
            for start in range(0, len(self._waiting), size):
                block = self._waiting[start : start + size]
                held = gc.get_referents(*block)
                if self.beyond:
                    for array in _of_types(block, arrays):
                        held += contents(array)
                found += filterfalse(gc.is_tracked, _of_types(held, containers))
                if self._is_frozen:
                    found += filter(gc.is_tracked, compress(held, ~self._are_known(held)))
                yield block, held
            self._waiting = [
                t for t in self._new(found) if type(t) not in arrays or t.dtype.hasobject
            ]
            self.beyond = True

    def _are_known(self, things: list[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return _are_among(self._known, addresses(things))

    def _new(self, things: list[Any]) -> list[Any]:
        """Give what is not known yet, each once; it is known then."""
        fresh = list(compress(things, ~self._are_known(things)))
        where, first = np.unique(addresses(fresh), return_index=True)
        # The stable sort is quick where two sorted parts only have to be merged.
        self._known = np.sort(np.concatenate((self._known, where)), kind="stable")
        once = np.zeros(len(fresh), np.bool_)
        once[first] = True
        return list(compress(fresh, once))


def _are_among(known: np.ndarray[Any, Any], asked: Any) -> Any:
    """Tell which addresses are among some sorted ones."""
    if not len(known):
        return np.zeros(np.shape(asked), np.bool_)
    place = np.searchsorted(known, asked)
    return known[np.minimum(place, len(known) - 1)] == asked


def _of_types(things: list[Any], chosen: frozenset[type] | set[type]) -> Iterator[Any]:
    return compress(things, map(chosen.__contains__, map(type, things)))


def with_subclasses(cls: type[Any]) -> frozenset[type[Any]]:
    """Give a class and all classes derived from it."""
    known: set[type[Any]] = {cls}
    waiting: list[type[Any]] = [cls]
    while waiting:
        for child in waiting.pop().__subclasses__():
            if child not in known:
                known.add(child)
                waiting.append(child)
    return frozenset(known)
