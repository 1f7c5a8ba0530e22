"""Which new objects are reachable, and through whom.

After a few observed calls the heap has two parts: new objects, and old ones that hold some of
them.  `survey` finds every reference from the old part into the new one, and walks from there
through the new part, three times: first through the program's own objects, then through
TensorFlow's and Keras' (variables, datasets, models, tapes), and last through traced functions and
their graphs.  So each new object is attributed to the plainest thing that holds it: a tensor is
blamed on a graph only when nothing else holds it.  Bytes; nothing is kept after `Survey` goes.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
import types
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

import numpy as np

from lessons_lib.instruments.holders.object_types import Kind, Kinds
from lessons_lib.instruments.holders.reference_paths import instance_dict

_LONG_TEXT: Final = 200
_CHUNK: Final = 8192
_NESTED: Final = 4
_OWN: Final = "lessons_lib."
_TEXTS: Final = frozenset({str, bytes})


class Tier(IntEnum):
    """Through what an object is held: the plainest way counts."""

    PLAIN = 0
    LIBRARY = 1
    GRAPH = 2


@dataclass(slots=True)
class Reached:
    """A new object that something holds.

    Attributes
    ----------
    thing : object
    kind : Kind
    parent : object
        What holds it.
    old_parent : bool
        Whether the parent is an old object.
    tier : Tier
    """

    thing: object
    kind: Kind
    parent: object
    old_parent: bool
    tier: Tier


@dataclass(slots=True)
class Survey:
    """New objects that are held, by address; holds them, so drop it soon.

    Attributes
    ----------
    reached : dict of int to Reached
    complete : bool
        False when time ran out.
    """

    reached: dict[int, Reached] = field(default_factory=dict)
    complete: bool = True

    def way_to(self, thing: object) -> list[object]:
        """Give the objects from the old holder down to a new object, both included."""
        down = [thing]
        while (found := self.reached.get(id(down[-1]))) is not None and len(down) < 64:
            down.append(found.parent)
            if found.old_parent:
                break
        down.reverse()
        return down

    def through(self, thing: object, kinds: Iterable[Kind]) -> bool:
        """Tell whether an object is held through one of some kinds."""
        chosen = set(kinds)
        here = self.reached.get(id(thing))
        while here is not None and not here.old_parent:
            here = self.reached.get(id(here.parent))
            if here is not None and here.kind in chosen:
                return True
        return False


def _tier_of(kind: Kind) -> Tier:
    if Kinds.is_graph_part(kind):
        return Tier.GRAPH
    return Tier.PLAIN if kind is Kind.OTHER else Tier.LIBRARY


class Leaves(Enum):
    """Which objects that the collector does not track are looked for."""

    NONE = "none"
    ARRAYS = "arrays"
    ALL = "arrays and long texts"


def new_leaves(wanted: Leaves, deadline: float) -> list[object]:
    """List untracked objects (NumPy arrays, long texts) made since tracemalloc began, if held.

    Parameters
    ----------
    wanted : Leaves
    deadline : float
        Reading of ``time.thread_time`` after which the search ends.
    """
    if wanted is Leaves.NONE:
        return []
    # While tracemalloc runs, every object that is made costs much: even the number that id() gives.
    found: list[object] = []
    leaf_types = {bytearray, *_with_subclasses(np.ndarray)}
    if wanted is Leaves.ALL:
        leaf_types |= _TEXTS
    for chunk in _chunks(gc.get_objects(), _NESTED):
        if time.thread_time() > deadline:
            break
        found += [
            thing
            for thing in gc.get_referents(*chunk)
            if type(thing) in leaf_types
            and not (type(thing) in _TEXTS and len(thing) < _LONG_TEXT)
            and tracemalloc.get_object_traceback(thing) is not None
        ]
    return list({id(thing): thing for thing in found}.values())


def _with_subclasses(cls: type[Any]) -> set[type[Any]]:
    known: set[type[Any]] = {cls}
    waiting: list[type[Any]] = [cls]
    while waiting:
        for child in waiting.pop().__subclasses__():
            if child not in known:
                known.add(child)
                waiting.append(child)
    return known


def _chunks(everything: list[object], nested: int) -> Iterable[list[object]]:
    for start in range(0, len(everything), _CHUNK):
        chunk = everything[start : start + _CHUNK]
        for _ in range(nested):
            yield chunk
            if nested == 1:
                break
            # The collector does not track dictionaries and tuples without containers in them.
            chunk = [
                thing
                for thing in gc.get_referents(*chunk)
                if (type(thing) is dict or type(thing) is tuple)
                and thing
                and not gc.is_tracked(thing)
            ]
            if not chunk:
                break


def survey(
    young: list[object],
    leaves: list[object],
    kinds: Kinds,
    ignore: Sequence[object],
    deadline: float,
) -> Survey:
    """Find the new objects that are held, and by whom.

    Parameters
    ----------
    young : list
        The new objects that the collector tracks.
    leaves : list
        New objects that it does not track.
    kinds : Kinds
    ignore : sequence
        Containers of the caller's that must not count as holders.
    deadline : float
        Reading of ``time.thread_time`` after which the search ends.
    """
    result = Survey()
    queues: dict[Tier, deque[Reached]] = {tier: deque() for tier in Tier}
    young_ids = set(map(id, young)).difference(map(id, ignore))
    new = young_ids.union(map(id, leaves))
    own = [*ignore, young, leaves, result, result.reached, queues, *queues.values()]
    edges: list[Reached] = []
    own += [own, edges]
    passed = young_ids.union(map(id, own))
    # Containers that the collector does not track hold nothing that it does.
    for chunk in _chunks(gc.get_objects(), _NESTED if leaves else 1):
        if time.thread_time() > deadline:
            result.complete = False
            break
        if new.isdisjoint(map(id, gc.get_referents(*chunk))):
            continue
        for holder in chunk:
            if id(holder) in passed or isinstance(holder, types.FrameType):
                continue
            if str(getattr(type(holder), "__module__", "")).startswith(_OWN):
                continue  # a helper of this search
            for held in gc.get_referents(holder):
                if id(held) in new:
                    kind = kinds.of(held)
                    edges.append(Reached(held, kind, holder, True, _tier_of(kind)))
    # The first way to a thing counts: better through the program's own than through a library's.
    edges.sort(key=lambda edge: _tier_of(kinds.of(edge.parent)))
    for edge in edges:
        queues[edge.tier].append(edge)
    for tier in Tier:
        if not _walk(result, queues, tier, new, kinds, deadline):
            result.complete = False
            break
    return result


def _walk(
    result: Survey,
    queues: dict[Tier, deque[Reached]],
    tier: Tier,
    new: set[int],
    kinds: Kinds,
    deadline: float,
) -> bool:
    queue, reached = queues[tier], result.reached
    while queue:
        if time.thread_time() > deadline:
            return False
        here = queue.popleft()
        if id(here.thing) in reached:
            continue
        here.tier = tier
        reached[id(here.thing)] = here
        for held in gc.get_referents(here.thing):
            if id(held) in new and id(held) not in reached:
                kind = kinds.of(held)
                found = Reached(held, kind, here.thing, False, tier)
                queues[max(tier, _tier_of(kind))].append(found)
    return True


def is_note(thing: Any, depth: int = 4) -> bool:
    """Tell whether an object is a note such as a log holds: numbers, short texts, few of them."""
    match thing:
        case None | bool() | int() | float() | complex() | np.generic():
            return True
        case str() | bytes():
            return len(thing) < _LONG_TEXT
        case list() | tuple() | set() | frozenset():
            return bool(depth) and len(thing) <= 64 and all(is_note(t, depth - 1) for t in thing)
        case dict():
            if not depth or len(thing) > 64:
                return False
            return all(is_note(k, depth - 1) and is_note(v, depth - 1) for k, v in thing.items())
        case _ if depth and type(thing).__module__ != "builtins" and not callable(thing):
            # A small record: an instance of which every attribute is a note.
            own = instance_dict(thing)
            return own is not None and is_note(own, depth - 1)
    return False


def array_bytes(array: Any) -> tuple[int, int]:
    """Give the address and bytes of the memory that a NumPy array keeps alive."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(owner.ctypes.data), int(owner.nbytes)
