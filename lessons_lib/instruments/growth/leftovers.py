"""Observed calls: what each call leaves behind, the line that made it, and who holds it.

After growth was seen, the step is called a few more times with tracemalloc noting deep
tracebacks.  What was made in the first of these calls and is still alive after the last one stays;
what a call merely replaced is gone by then.  Results are texts and numbers.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.heap_baseline import Fence
from lessons_lib.common.internals import traced_blocks
from lessons_lib.common.source import Line
from lessons_lib.instruments.growth.causes import Held
from lessons_lib.instruments.growth.sampler import operations_of
from lessons_lib.instruments.holders.creation_lines import made_at, traced_at
from lessons_lib.instruments.holders.object_types import Kind, Kinds, tensor_bytes, variable_bytes
from lessons_lib.instruments.holders.reachability import (
    Leaves,
    Survey,
    Tier,
    array_bytes,
    is_note,
    new_leaves,
    survey,
)
from lessons_lib.instruments.holders.reference_paths import Namer, bounded, type_name

CALLS: Final = 2
FRAMES: Final = 48
FEW_FRAMES: Final = 12  # tracing a function makes very many objects; TensorFlow notes lines itself
_SECONDS: Final = 6.0
_NAMED: Final = 6
_LINES: Final = 64
_SMALL: Final = 512  # Python takes larger blocks from the C heap

_DATA: Final = frozenset({Kind.DATASET, Kind.ITERATOR})
_TARGETS: Final = frozenset(
    {
        Kind.TENSOR,
        Kind.VARIABLE,
        Kind.FUNCTION,
        Kind.CONCRETE,
        Kind.GRAPH,
        Kind.DATASET,
        Kind.ITERATOR,
        Kind.TAPE,
    }
)


@dataclass(frozen=True)
class Group:
    """Things of one kind that stay, held alike.

    Attributes
    ----------
    kind : Kind
    tier : Tier or None
        Through what they are held; None when no holder is visible.
    held : Held
        Its `per_call` counts them.
    in_dataset : bool
        Whether a dataset or an iterator holds them.
    """

    kind: Kind
    tier: Tier | None
    held: Held
    in_dataset: bool = False

    @property
    def bytes_per_call(self) -> float:
        """Bytes that each call adds to this group."""
        return self.held.nbytes * self.held.per_call


@dataclass(frozen=True)
class Observation:
    """What the observed calls left behind.

    Attributes
    ----------
    groups : tuple of Group
        Tensors, variables, functions, graphs, datasets, NumPy arrays and other objects.
    own_bytes : float
        Bytes per call of the program's own Python objects, NumPy arrays included.
    note_bytes : float
        Bytes per call of those that are mere notes (numbers and short texts).
    large_share : float
        Share of the Python heap's growth that lies in the C heap, from 0 to 1.
    notes : tuple of str
    suspects : tuple of Held
        What was alive all the time and may be what grows: graphs that gained operations, or
        datasets and iterators.
    """

    groups: tuple[Group, ...] = ()
    own_bytes: float = 0.0
    note_bytes: float = 0.0
    large_share: float = 0.0
    notes: tuple[str, ...] = ()
    suspects: tuple[Held, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Group, ...]:
        """Give the groups of some kinds, most bytes first."""
        return tuple(group for group in self.groups if group.kind in kinds)


def observe(
    call: Callable[[], None],
    step: Callable[..., Any],
    fence: Fence,
    *,
    may_trace: bool,
    leaves: Leaves = Leaves.ALL,
    frames: int = FRAMES,
    seconds: float = _SECONDS,
) -> Observation:
    """Call the step a few more times and find what stays.

    Parameters
    ----------
    call : callable
        Calls the step once with its next number.
    step : callable
        The user's step, for names.
    fence : Fence
        Standing; it is moved, and lifted at the end.
    may_trace : bool
        Whether tracemalloc may be restarted; not when the program itself uses it.
    leaves : Leaves
        Whether NumPy arrays and long texts are looked for, which takes time.
    frames : int
        How many frames tracemalloc notes for each object.
    seconds : float
        Limit for the search for holders.
    """
    if may_trace:
        tracemalloc.stop()
        tracemalloc.start(frames)
    kinds = Kinds()
    gc.collect()
    fence.move()
    call()
    gc.collect()
    marked = _weak_targets(fence.young(), kinds)
    # Those that cannot be referred to weakly are known again by address and type.
    first = {id(thing): type(thing) for thing in fence.young()}
    for _ in range(CALLS - 1):
        call()
    gc.collect()
    staying = _alive(marked)
    young = fence.young()
    fence.lift()
    ours: list[object] = [staying, young, marked, first]
    new = new_leaves(leaves, time.thread_time() + seconds)
    ours.append(new)
    lines = _Lines(kinds, [staying, new, young])
    share = large_share()
    if may_trace:
        tracemalloc.stop()
    found = survey(young, new, kinds, [*ours, ours], time.thread_time() + seconds)
    young.clear()
    new.clear()
    namer = Namer(step, [*ours, ours, found.reached], time.thread_time() + seconds)
    try:
        groups, own, notes, remarks = _describe(found, staying, kinds, namer, lines, first)
    finally:
        namer.close()
        staying.clear()
        found.reached.clear()
    return Observation(groups, own, notes, share, remarks)


class _Lines:
    """The lines that made some objects, by address; read while tracemalloc still runs."""

    def __init__(self, kinds: Kinds, sources: list[list[Any]]) -> None:
        self._known: dict[int, Line | None] = {}
        for things in sources:
            # A traceback takes time to read: a few of each type must do.
            taken: dict[tuple[type, Kind], int] = {}
            for thing in things:
                key = (type(thing), kinds.of(thing))
                taken[key] = taken.get(key, 0) + 1
                if taken[key] <= _LINES and id(thing) not in self._known:
                    self._known[id(thing)] = made_at(thing) or traced_at(thing, key[1])

    def of(self, thing: object) -> Line | None:
        return self._known.get(id(thing))


def _weak_targets(young: list[object], kinds: Kinds) -> list[weakref.ref[Any]]:
    marked = []
    for thing in young:
        if kinds.of(thing) in _TARGETS:
            with contextlib.suppress(TypeError):
                marked.append(weakref.ref(thing))
    return marked


def _alive(marked: list[weakref.ref[Any]]) -> list[Any]:
    # A function of its own: a variable in a closure here would look like a holder later.
    return [thing for thing in [ref() for ref in marked] if thing is not None]


def _describe(
    found: Survey,
    staying: list[Any],
    kinds: Kinds,
    namer: Namer,
    lines: _Lines,
    first: dict[int, type],
) -> tuple[tuple[Group, ...], float, float, tuple[str, ...]]:
    groups: dict[tuple[Any, ...], list[Any]] = {}
    tiers: dict[tuple[Any, ...], tuple[Kind, Tier | None]] = {}
    for thing in staying:
        kind = kinds.of(thing)
        here = found.reached.get(id(thing))
        shape, dtype, nbytes = measured(thing, kind)
        tier = None if here is None else here.tier
        holder = None if here is None else id(found.way_to(thing)[0])
        weight = -operations_of(thing) if kind is Kind.GRAPH else 0
        key = (kind, tier, shape, dtype, nbytes, lines.of(thing), holder, weight)
        groups.setdefault(key, []).append(thing)
        tiers[key] = (kind, tier)
    arrays, own, notes = _own_objects(found, lines, first)
    for key, things in arrays.items():
        groups[key] = things
        tiers[key] = (Kind.OTHER, Tier.PLAIN)
    ordered = sorted(groups.items(), key=lambda item: (-item[0][4] * len(item[1]), item[0][7]))
    described, remarks = [], []
    tapes = [thing for thing in staying if kinds.of(thing) is Kind.TAPE]
    shown: dict[Kind, int] = {}
    for key, things in ordered:
        kind, tier = tiers[key]
        _, _, shape, dtype, nbytes, line, _, _ = key
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] > _NAMED:
            continue
        chain = _chain(found, things[0], namer)
        if len(chain) == 1 and kind is Kind.TENSOR and tapes:
            chain = (*_chain(found, tapes[0], namer), *chain)  # C++ code of the tape holds it
        calls = CALLS if shape is not None and kind is Kind.OTHER else 1
        held = Held(
            description(things[0], kind), shape, dtype, nbytes, len(things) / calls, line, chain
        )
        described.append(Group(kind, tier, held, found.through(things[0], _DATA)))
        limit = bounded(found.way_to(things[0])[0])
        if limit is not None:
            remarks.append(f"{held.holder}: {limit}, so this growth ends there.")
    if not found.complete:
        remarks.append("The search for holders was cut short: there are too many objects.")
    return tuple(described), own, notes, tuple(remarks)


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
                return tuple(thing.shape.as_list()), thing.dtype.name, tensor_bytes(thing)
            case Kind.VARIABLE:
                shape = thing.shape
                dims = tuple(shape.as_list()) if shape.is_fully_defined() else None
                return dims, thing.dtype.name, variable_bytes(thing) or 0
    return None, None, 0


def _own_objects(
    found: Survey, lines: _Lines, first: dict[int, type]
) -> tuple[dict[tuple[Any, ...], list[Any]], float, float]:
    """Sum the program's own objects, and group those worth naming."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    own = notes = 0.0
    buffers: set[int] = set()
    noted: set[int] = set()
    for here in list(found.reached.values()):
        thing = here.thing
        if isinstance(thing, np.ndarray) and here.tier < Tier.GRAPH:
            address, nbytes = array_bytes(thing)
            if address in buffers:
                continue
            buffers.add(address)
            own += nbytes / CALLS
            what = (Kind.OTHER, here.tier, thing.shape, thing.dtype.name, nbytes)
            where = (lines.of(thing), id(found.way_to(thing)[0]), 0)
            groups.setdefault((*what, *where), []).append(thing)
            continue
        if here.tier is not Tier.PLAIN or here.kind is not Kind.OTHER:
            continue
        if gc.is_tracked(thing) and first.get(id(thing)) is not type(thing):
            continue  # of a later call: it may be there only until the next one
        size = _size(thing) if gc.is_tracked(thing) else _size(thing) / CALLS
        own += size
        if not here.old_parent and id(here.parent) in noted:
            notes += size
            noted.add(id(thing))
        elif here.old_parent and is_note(thing):
            # Numbers and short texts inside are not in the survey: count what the heap sees.
            notes += size
            noted.add(id(thing))
        else:
            key = (Kind.OTHER, here.tier, None, None, size, lines.of(thing), type(thing), 0)
            groups.setdefault(key, []).append(thing)
    arrays = {
        key: things for key, things in groups.items() if len(things) >= CALLS or key[2] is None
    }
    return arrays or groups, own, notes


def _size(thing: object) -> int:
    try:
        return sys.getsizeof(thing)
    except Exception:  # an object with a __sizeof__ of its own that fails
        return 0


def _chain(found: Survey, thing: Any, namer: Namer) -> tuple[str, ...]:
    if id(thing) not in found.reached:
        return (type_name(thing),)
    return namer.chain(found.way_to(thing))


def large_share() -> float:
    """Share of the traced bytes in blocks that Python takes from the C heap."""
    sizes = [block[1] for block in traced_blocks()]
    total = sum(sizes)
    return sum(size for size in sizes if size > _SMALL) / total if total else 0.0
