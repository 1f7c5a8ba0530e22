"""Puts together what stays alike, with sizes and with the names of holders."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import operator
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lessons_lib.common.internals import tensor_shape
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth.causes import Retained
from lessons_lib.instruments.growth.observation import CALLS, TARGETS, Group, Leftovers
from lessons_lib.instruments.growth.sampler import operations_of
from lessons_lib.instruments.holders.names import bounded, contents, type_name
from lessons_lib.instruments.holders.object_types import (
    EAGER_TENSOR,
    Kind,
    Kinds,
    extent,
    is_native,
    lies_within,
    tensor_bytes,
    variable_bytes,
)
from lessons_lib.instruments.holders.reachability import Reached, Tier, array_bytes, is_note
from lessons_lib.instruments.holders.reference_paths import Namer
from lessons_lib.instruments.tracing.graph_contents import constant_bytes

_NAMED: Final = 6  # groups of one kind that are named: a name is a search of its own
_MINOR: Final = 0.05  # of all objects' bytes: less is not worth a name
_DATA: Final = frozenset({Kind.DATASET, Kind.ITERATOR})
_OBJECTS: Final = frozenset({Kind.OTHER, Kind.LIBRARY})
_MOST_TEXTS: Final = 100_000
_SHORT_TEXT: Final = 22  # bytes: such a text lies within its 24-byte head
_BLOCK_HEAD: Final = 16  # bytes of the C heap's own, with the text's final zero and the rounding
#: References to an object that only one other holds, while it is looked at here.
_OWN_REFERENCES: Final = 4


@dataclass
class _Alike:
    """Objects that stay and go into one group."""

    kind: Kind
    tier: Tier | None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: float = 0.0  # of all of them together, for one call
    things: dict[int, Any] = field(default_factory=dict)
    calls: int = 1  # that made them
    in_cycle: bool = False
    is_native: bool = False
    target_bytes: float = 0.0
    weight: int = 0
    is_shared: bool = False

    @property
    def per_call(self) -> float:
        return len(self.things) / self.calls


def grouped(
    left: Leftovers, kinds: Kinds, namer: Namer
) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Describe what stays: groups, each kind with the most bytes first, and notes."""
    targets = _targets(left, kinds)
    arrays = _arrays(left)
    objects = _objects(left, kinds, [*targets, *arrays])
    found = sorted([*targets, *arrays, *objects], key=lambda a: (-a.nbytes, -a.weight))
    tapes = [thing for thing in left.staying if kinds.of(thing) is Kind.TAPE]
    groups, notes = [], []
    shown: dict[Kind, int] = {}
    for alike in found:
        shown[alike.kind] = shown.get(alike.kind, 0) + 1
        if shown[alike.kind] > _NAMED:
            continue
        thing = next(iter(alike.things.values()))
        chain = _chain(left, thing, namer)
        if alike.in_cycle:
            chain = ("a reference cycle that nobody collects", *chain)
        elif len(chain) == 1 and alike.kind in (Kind.TENSOR, Kind.VARIABLE) and tapes:
            chain = (*_chain(left, tapes[0], namer), *chain)  # C++ code of the tape holds it
        limit = bounded(left.survey.way_to(thing)[0])
        group = _group(alike, thing, left, chain, limit)
        groups.append(group)
        if limit is not None:
            notes.append(f"{group.held.holder}: {limit}, so this growth ends there.")
    return tuple(groups), tuple(notes)


def _group(
    alike: _Alike, thing: Any, left: Leftovers, chain: tuple[str, ...], limit: str | None
) -> Group:
    held = Retained(
        description(thing, alike.kind) + " of shared memory" * alike.is_shared,
        alike.shape,
        alike.dtype,
        round(alike.nbytes / alike.per_call),
        alike.per_call,
        left.lines.get(id(thing)),
        chain,
    )
    return Group(
        alike.kind,
        alike.tier,
        held,
        in_dataset=left.survey.through(thing, _DATA),
        is_note=alike.kind is Kind.OTHER and alike.shape is None and is_note(thing),
        is_native=alike.is_native,
        target_bytes=alike.target_bytes,
        in_cycle=alike.in_cycle,
        is_bounded=limit is not None,
        constant_bytes=sum(map(_constant_bytes, alike.things.values())) / alike.calls,
        text_bytes=sum(map(text_bytes, alike.things.values())) / alike.calls,
    )


def _chain(left: Leftovers, thing: Any, namer: Namer) -> tuple[str, ...]:
    if id(thing) not in left.survey.reached:
        return (type_name(thing),)
    return namer.chain(left.survey.way_to(thing))


def _targets(left: Leftovers, kinds: Kinds) -> list[_Alike]:
    """Group tensors, variables, functions, graphs, datasets and tapes."""
    found: dict[tuple[Any, ...], _Alike] = {}
    shared = _sharing(left, kinds)
    for thing in left.staying:
        kind, here = kinds.of(thing), left.survey.reached.get(id(thing))
        shape, dtype, nbytes = measured(thing, kind)
        nbytes = 0 if id(thing) in shared else nbytes
        tier = None if here is None else here.tier
        holder = None if here is None else id(left.survey.way_to(thing)[0])
        weight = operations_of(thing) if kind is Kind.GRAPH else 0
        cyclic = id(thing) in left.cyclic
        line = left.lines.get(id(thing))
        alike = _Alike(kind, tier, shape, dtype, in_cycle=cyclic, weight=weight)
        alike.is_shared = id(thing) in shared
        key = (kind, tier, shape, dtype, nbytes, line, holder, weight, cyclic)
        alike = found.setdefault(key, alike)
        alike.things[id(thing)] = thing
        alike.nbytes += nbytes
    return list(found.values())


def _sharing(left: Leftovers, kinds: Kinds) -> set[int]:
    """Give the addresses of tensors whose memory is another's: a variable that was read, a view."""
    staying = [thing for thing in left.staying if kinds.of(thing) is Kind.TENSOR]
    if not staying:
        return set()
    mine = {*map(id, staying), *left.later}
    alive = kinds.choose(gc.get_objects(), frozenset({Kind.TENSOR, Kind.VARIABLE})).values()
    things = [thing for thing in itertools.chain(*alive) if id(thing) not in mine] + staying
    within = lies_within([extent(thing, kinds.of(thing)) for thing in things])
    return {id(thing) for thing, is_within in zip(things, within, strict=True) if is_within}


def _constant_bytes(thing: Any) -> int:
    """Sum the bytes of the tensors that are baked into a graph; 0 for anything else."""
    if isinstance(thing, tf.Graph):
        with contextlib.suppress(Exception):  # a graph that is being built by another thread
            return sum(map(constant_bytes, thing.get_operations()))
    return 0


def text_bytes(thing: Any) -> int:
    """Give what the texts of a tensor of strings take in the C heap; 0 for anything else.

    With each its block's head.  Of very many texts, which take long to look at, nothing is told.
    """
    if not isinstance(thing, EAGER_TENSOR) or thing.dtype != tf.string:
        return 0
    if math.prod(tensor_shape(thing)) > _MOST_TEXTS:
        return 0
    texts = np.ravel(np.asarray(thing.numpy(), object))
    return sum(len(text) + _BLOCK_HEAD for text in texts if len(text) > _SHORT_TEXT)


def _arrays(left: Leftovers) -> list[_Alike]:
    """Group NumPy arrays; those of one buffer count once."""
    found: dict[tuple[Any, ...], _Alike] = {}
    buffers: set[int] = set()
    for here in left.survey.reached.values():
        array = here.thing
        if not isinstance(array, np.ndarray) or here.tier >= Tier.GRAPH:
            continue
        address, nbytes = array_bytes(array)
        if address in buffers:
            continue
        buffers.add(address)
        line = left.lines.get(id(array))
        key = (here.tier, array.shape, array.dtype, nbytes, line, id(left.survey.way_to(array)[0]))
        alike = found.setdefault(
            key, _Alike(Kind.OTHER, here.tier, array.shape, array.dtype.name, calls=CALLS)
        )
        alike.things[id(array)] = array
        alike.nbytes += nbytes / CALLS
    # Each call leaves at least one; a single one was replaced, or is there once.
    return [alike for alike in found.values() if len(alike.things) >= CALLS]


def lengthened(left: Leftovers, gain: float, namer: Namer) -> tuple[Retained, ...]:
    """Name the array that each call replaces by a longer one.

    It has what all calls added, and what else they made is less than one of them adds.

    Parameters
    ----------
    left : Leftovers
    gain : float
        Bytes of NumPy's that a call adds.
    namer : Namer
    """
    made: dict[int, tuple[int, Any]] = {}
    for here in left.survey.reached.values():
        if isinstance(here.thing, np.ndarray) and here.tier < Tier.GRAPH:
            address, nbytes = array_bytes(here.thing)
            made.setdefault(address, (nbytes, here.thing))
    nbytes, array = max(made.values(), key=operator.itemgetter(0), default=(0, None))
    rest = sum(size for size, _ in made.values()) - nbytes
    if array is None or not rest < gain <= nbytes / CALLS:
        return ()
    line, chain = left.lines.get(id(array)), _chain(left, array, namer)
    name = description(array, Kind.OTHER)
    return (Retained(name, array.shape, array.dtype.name, nbytes, 0.0, line, chain),)


def _objects(left: Leftovers, kinds: Kinds, others: list[_Alike]) -> list[_Alike]:
    """Group what else stays by the highest new object that leads to it: each call adds these."""
    reached = left.survey.reached
    mine = {id(thing): size for thing, size in _staying_objects(left, kinds)}
    of_holder = Counter((id(h.parent), type(h.thing)) for h in reached.values() if h.old_parent)
    found: dict[tuple[Any, ...], _Alike] = {}
    of_top: dict[int, _Alike] = {}
    for address, size in mine.items():
        top: Any = left.survey.top(reached[address].thing, mine)
        alike = of_top.get(id(top))
        if alike is None:
            here = reached[id(top)]
            if _is_of_a_later_call(here, left, mine):
                continue
            # The only one that an old holder has is old, too: a dictionary that the collector
            # tracks from the moment on at which it got a container.  Each call would add one.
            if here.old_parent and of_holder[id(here.parent), type(top)] == 1:
                continue
            key = (id(here.parent), type(top), left.lines.get(id(top)))
            calls = 1 if gc.is_tracked(top) else CALLS
            alike = found.setdefault(key, _Alike(kinds.of(top), here.tier, calls=calls))
            of_top[id(top)] = alike
            alike.things[id(top)] = top
        alike.nbytes += size
        alike.is_native = alike.is_native or _holds_native(reached[address].thing)
    for other in others:
        for thing in other.things.values():
            top = left.survey.top(thing, mine)
            if top is not None:
                of_top[id(top)].target_bytes += other.nbytes / len(other.things)
    whole = sum(alike.nbytes for alike in found.values())
    return [
        alike
        for alike in found.values()
        if (alike.calls == 1 or len(alike.things) >= CALLS) and alike.nbytes > _MINOR * whole
    ]


def _is_of_a_later_call(here: Reached, left: Leftovers, mine: dict[int, float]) -> bool:
    """Tell whether an object has the address of an earlier one: its holder was made later."""
    made_later = not here.old_parent and id(here.parent) not in mine
    return made_later and type(here.parent) in left.growing and not _is_linked(here, left)


def _is_linked(here: Reached, left: Leftovers) -> bool:
    """Tell whether an object is in a chain in which each call's holds that of the call before."""
    cls, following = type(here.thing), 1
    above = here
    while not above.old_parent and following < CALLS:
        above = left.survey.reached[id(above.parent)]
        if type(above.thing) is cls:
            if left.later.get(id(above.thing)) != following:
                return False
            following += 1
    return following == CALLS


def _staying_objects(left: Leftovers, kinds: Kinds) -> Iterator[tuple[Any, float]]:
    """Give the objects of the first call that stay and whose kind grows, with bytes per call."""
    reached = left.survey.reached
    parts: dict[int, bool] = {}  # whether a thing is a part of a target

    def is_part(thing: object) -> bool:
        way = []
        here = reached.get(id(thing))
        answer = False
        while here is not None:
            known = parts.get(id(here.thing))
            if known is not None or here.kind in TARGETS:
                answer = True if known is None else known
                break
            way.append(id(here.thing))
            here = None if here.old_parent else reached.get(id(here.parent))
        parts.update(dict.fromkeys(way, answer))
        return answer

    for here in list(reached.values()):
        thing = here.thing
        if here.kind not in _OBJECTS or isinstance(thing, np.ndarray) or is_part(thing):
            continue
        if not gc.is_tracked(thing):
            yield thing, _size(thing) / CALLS
        elif left.first.get(id(thing)) is type(thing) and type(thing) in left.growing:
            yield thing, _size(thing)


def _size(thing: object) -> int:
    try:
        return sys.getsizeof(thing)
    except Exception:  # an object with a __sizeof__ of its own that fails
        return 0


def _holds_native(thing: object) -> bool:
    """Tell whether an object is compiled, or the only one to hold something that is."""
    if is_native(type(thing)):
        return True
    for inner in contents(thing):
        alone = not gc.is_tracked(inner) and sys.getrefcount(inner) <= _OWN_REFERENCES
        if alone and is_native(type(inner)):
            return True
    return False


def description(thing: Any, kind: Kind) -> str:
    """Say what a thing is, with its own name where it has one."""
    name = type_name(thing)
    match kind:
        case Kind.FUNCTION:
            return f"tf.function {getattr(thing, '__name__', '')}".rstrip()
        case Kind.CONCRETE | Kind.GRAPH:
            with contextlib.suppress(Exception):
                return f"{name} {thing.name!r}" if isinstance(thing.name, str) else name
    return name


def measured(thing: Any, kind: Kind) -> tuple[tuple[int, ...] | None, str | None, int]:
    """Give shape, type and bytes of something that stays."""
    with contextlib.suppress(Exception):
        match kind:
            case Kind.TENSOR:
                return tensor_shape(thing), thing.dtype.name, tensor_bytes(thing)
            case Kind.VARIABLE:
                shape = thing.shape
                dims = tuple(shape.as_list()) if shape.is_fully_defined() else None
                return dims, thing.dtype.name, variable_bytes(thing) or 0
    return None, None, 0
