"""Which new objects are reachable, and through whom.

After a few observed calls the heap has two parts: new objects, and old ones that hold some of
them.  `survey` finds every reference from the old part into the new one, and walks from there
through the new part, three times: first through the program's own objects, then through
TensorFlow's and Keras' (variables, datasets, models, tapes), and last through traced functions and
their graphs.  So each new object is attributed to the plainest thing that holds it: a tensor is
blamed on a graph only when nothing else holds it.  Bytes; nothing is kept after `Survey` goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import numpy as np

from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.heap import LONG_TEXT, Heap
from lessons_lib.instruments.holders.names import contents, instance_dict, running_frames
from lessons_lib.instruments.holders.object_types import Kind, Kinds

_OWN: Final = "lessons_lib."


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

    def top(self, thing: object, among: Container[int]) -> object | None:
        """Give the highest of the new objects down to this one whose address is among some."""
        highest = None
        here = self.reached.get(id(thing))
        while here is not None:
            if id(here.thing) in among:
                highest = here.thing
            here = None if here.old_parent else self.reached.get(id(here.parent))
        return highest

    def through(self, thing: object, kinds: Iterable[Kind]) -> bool:
        """Tell whether an object is held through one of some kinds."""
        chosen = set(kinds)
        here = self.reached.get(id(thing))
        while here is not None and not here.old_parent:
            here = self.reached.get(id(here.parent))
            if here is not None and here.kind in chosen:
                return True
        return False


def tier_of(kind: Kind) -> Tier:
    """Tell through what something of a kind holds what it holds."""
    if Kinds.is_graph_part(kind):
        return Tier.GRAPH
    return Tier.PLAIN if kind is Kind.OTHER else Tier.LIBRARY


def survey(
    young: list[object],
    untracked: list[object],
    kinds: Kinds,
    ignore: Sequence[object],
    heap: Heap,
    budget: SearchBudget,
) -> Survey:
    """Find the new objects that are held, and by whom.

    Parameters
    ----------
    young : list
        The new objects that the collector tracks.
    untracked : list
        New objects that it does not track.
    kinds : Kinds
    ignore : sequence
        Containers of the caller's that must not count as holders.
    heap : Heap
    budget : SearchBudget
        The survey is not complete when it runs out.
    """
    result = Survey()
    queues: dict[Tier, deque[Reached]] = {tier: deque() for tier in Tier}
    young_ids = set(map(id, young)).difference(map(id, ignore))
    new = young_ids.union(map(id, untracked))
    own = [*ignore, young, untracked, result, result.reached, queues, *queues.values()]
    edges: list[Reached] = []
    own += [own, edges]
    passed = new.union(map(id, own))
    passed |= {id(frame) for frame in running_frames()}  # looked at by name
    for holder, held in heap.holders(new):
        # Not a helper of this search, either.
        module = str(getattr(type(holder), "__module__", ""))
        if id(holder) not in passed and not module.startswith(_OWN):
            kind = kinds.of(held)
            edges.append(Reached(held, kind, holder, True, tier_of(kind)))
    result.complete = heap.complete
    # The first way to a thing counts: better through the program's own than through a library's.
    edges.sort(key=lambda edge: tier_of(kinds.of(edge.parent)))
    for edge in edges:
        queues[edge.tier].append(edge)
    for tier in Tier:
        if not _walk(result, queues, tier, new, kinds, budget):
            result.complete = False
            break
    return result


def _walk(
    result: Survey,
    queues: dict[Tier, deque[Reached]],
    tier: Tier,
    new: set[int],
    kinds: Kinds,
    budget: SearchBudget,
) -> bool:
    queue, reached = queues[tier], result.reached
    while queue:
        if budget.is_over():
            return False
        here = queue.popleft()
        if id(here.thing) in reached:
            continue
        here.tier = tier
        reached[id(here.thing)] = here
        for held in contents(here.thing):
            if id(held) in new and id(held) not in reached:
                kind = kinds.of(held)
                found = Reached(held, kind, here.thing, False, tier)
                queues[max(tier, tier_of(kind))].append(found)
    return True


def is_note(thing: Any, depth: int = 4) -> bool:
    """Tell whether an object is a note such as a log holds: numbers, short texts, few of them."""
    match thing:
        case None | bool() | int() | float() | complex() | np.generic():
            return True
        case str() | bytes():
            return len(thing) < LONG_TEXT
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
