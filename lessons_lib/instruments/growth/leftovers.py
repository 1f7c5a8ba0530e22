"""Observed calls: what each call leaves behind, the line that made it, and who holds it.

After growth was seen, the step is called a few more times.  What was made in the first of these
calls and is still alive after the last one stays; what a call merely replaced is gone by then.  Of
what can only be known again by its address, the number of its type must rise as well.  Where the
calls are quick enough, tracemalloc notes lines and bytes.  Results are texts and numbers.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lessons_lib.common.gc_control import HeapBaseline
from lessons_lib.common.internals import traced_blocks
from lessons_lib.common.source import Line
from lessons_lib.instruments.growth.groups import grouped, lengthened
from lessons_lib.instruments.growth.observation import (
    CALLS,
    TARGETS,
    HeapGain,
    Leftovers,
    Observation,
)
from lessons_lib.instruments.growth.resources import ResourceWatch
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.creation_lines import made_at, traced_at
from lessons_lib.instruments.holders.heap import Heap, Leaves, leaves
from lessons_lib.instruments.holders.names import type_name
from lessons_lib.instruments.holders.object_types import Kind, Kinds
from lessons_lib.instruments.holders.reachability import survey
from lessons_lib.instruments.holders.reference_paths import Namer

FRAMES: Final = 48
FEW_FRAMES: Final = 12  # tracing a function makes very many objects; TensorFlow notes lines itself
#: tracemalloc makes a step that builds a model three times as long, with many frames five times.
_TRACED_SECONDS: Final = 0.4
_LINES: Final = 64  # objects of one type whose lines are read: a traceback takes time
_LEAVES_SHARE: Final = 0.4  # of the time: that of a large heap's untracked objects
_TYPES: Final = 4  # of objects without a holder that are named
_SMALL: Final = 512  # Python takes larger blocks from the C heap


@dataclass(frozen=True)
class ObservationPlan:
    """How calls are observed.

    Attributes
    ----------
    may_trace : bool
        Whether tracemalloc may be started; not when the program itself uses it, nor for a step
        that takes long.
    collect : bool
        Whether garbage is collected after each call; not where the program never collects.
    wanted : callable
        Tells which untracked objects are looked for, which takes time, from what the calls added to
        Python's heap.
    frames : int
        How many frames tracemalloc notes for each object.
    """

    may_trace: bool
    collect: bool
    wanted: Callable[[HeapGain], Leaves]
    frames: int = FRAMES


def observe(
    call: Callable[[], None],
    step: Callable[..., Any],
    baseline: HeapBaseline,
    budget: SearchBudget,
    *,
    plan: ObservationPlan,
) -> Observation:
    """Call the step a few more times and find what stays.

    Parameters
    ----------
    call, step : callable
        Calls the step once with its next number; the user's step, for names.
    baseline : HeapBaseline
        Set; it is moved, and lifted at the end.
    budget : SearchBudget
    plan : ObservationPlan
    """
    kinds = Kinds()
    known = _known_untracked(baseline, budget, plan)
    if plan.may_trace:
        tracemalloc.stop()
        tracemalloc.start(plan.frames)
    if plan.collect:
        gc.collect()
    baseline.move()
    seen = _watched(call, baseline, kinds, plan)
    staying = _alive(seen.marked)
    new = baseline.new_objects()
    lost = seen.watch.lost([thing for thing in new if kinds.of(thing) is Kind.TABLE], CALLS)
    baseline.lift()
    with budget:
        gain = _gain(seen.gains)
        untracked = _new_untracked(plan.wanted(gain), known, budget)
        ours: list[object] = [staying, new, seen.marked, seen.first, known, untracked]
        growing = _growing(seen.counts)
        if plan.collect and not (staying or untracked or growing.intersection(seen.first.values())):
            return Observation(heap=gain, lost_tables=lost)  # whoever holds it, nothing stays
        lines = _lines(kinds, [staying, untracked, new])
        if plan.may_trace:
            tracemalloc.stop()
        heap = Heap(budget)
        found = survey(new, untracked, kinds, [*ours, ours], heap, budget)
        unseen = not plan.collect and found.complete
        garbage = [t for t in new if unseen and id(t) not in found.reached]
        cyclic = set(map(id, gc.get_referents(*garbage))).difference(found.reached)
        left = Leftovers(staying, seen.first, seen.later, growing, found, lines, cyclic)
        unheld, uncollected = _unheld(new, left), len(garbage) / CALLS
        for things in (garbage, new, untracked):
            things.clear()
        namer = Namer(step, [*ours, ours, found.reached, left, vars(left)], heap, budget)
        try:
            groups, notes = grouped(left, kinds, namer)
            longer = lengthened(left, gain.numpy, namer)
        finally:
            heap.close()
            namer.close()
            left.clear()
    return Observation(groups, gain, lost, uncollected, notes, unheld=unheld, lengthened=longer)


def _unheld(new: list[Any], left: Leftovers) -> tuple[str, ...]:
    """Name the types of which most objects stay that nothing in Python was seen to hold."""
    if not left.survey.complete:
        return ()
    staying = [
        thing
        for thing in new
        if type(thing) in left.growing and left.first.get(id(thing)) is type(thing)
    ]
    unheld = [type_name(thing) for thing in staying if id(thing) not in left.survey.reached]
    if 2 * len(unheld) < len(staying):
        return ()
    return tuple(f"{count} {name}" for name, count in Counter(unheld).most_common(_TYPES))


def _known_untracked(
    baseline: HeapBaseline, budget: SearchBudget, plan: ObservationPlan
) -> set[int] | None:
    """List the addresses of untracked objects, where tracemalloc will not tell the new ones.

    None where the time did not suffice: then nobody can tell the new ones.
    """
    wanted = plan.wanted(HeapGain())
    if wanted is Leaves.NONE or plan.may_trace:
        return set()
    baseline.lift()  # the walk does not see what is set aside
    with budget, budget.part(_LEAVES_SHARE):
        known = set(map(id, leaves(wanted, budget)))
        # The collector stops to track one of these once nothing in it can be part of a cycle.
        known.update(id(thing) for thing in gc.get_objects() if type(thing) in (dict, tuple))
        is_whole = not budget.is_over()
    baseline.move()
    return known if is_whole else None


def _new_untracked(wanted: Leaves, known: set[int] | None, budget: SearchBudget) -> list[Any]:
    """List the untracked objects that were not known before."""
    if known is None:
        return []
    with budget.part(_LEAVES_SHARE):
        return [thing for thing in leaves(wanted, budget) if id(thing) not in known]


@dataclass
class _Seen:
    """What the calls themselves showed, without holding what they made."""

    watch: ResourceWatch = field(default_factory=ResourceWatch)
    gains: list[tuple[int, ...] | None] = field(default_factory=list)
    counts: list[Counter[type]] = field(default_factory=list)
    marked: list[weakref.ref[Any]] = field(default_factory=list)
    # Those that cannot be referred to weakly are known again by address and type.
    first: dict[int, type] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)  # others: the call that made them


def _watched(
    call: Callable[[], None], baseline: HeapBaseline, kinds: Kinds, plan: ObservationPlan
) -> _Seen:
    """Call the step, and note what is alive after each call."""
    seen, before, known = _Seen(), _traced(), set[int]()
    for number in range(CALLS):
        with seen.watch.watching():
            call()
        if plan.collect:
            gc.collect()
        after = _traced()
        if number:
            seen.gains.append(_difference(before, after))
        new = baseline.new_objects()
        seen.counts.append(Counter(map(type, new)))
        alive = {id(thing): type(thing) for thing in new}
        if number == 0:
            seen.marked, seen.first = _weak_targets(new, kinds), alive
        else:
            seen.first = {key: cls for key, cls in seen.first.items() if alive.get(key) is cls}
            seen.later |= dict.fromkeys(alive.keys() - known, number)
        known = set(alive)
        del new, alive
        before = _traced()  # what was noted here is no growth
    return seen


def is_quick(seconds: float) -> bool:
    """Tell whether a step is quick enough to be observed with tracemalloc."""
    return seconds <= _TRACED_SECONDS


def _lines(kinds: Kinds, sources: list[list[Any]]) -> dict[int, Line | None]:
    """Read the lines that made some objects, by address; of graphs TensorFlow knows them itself."""
    known: dict[int, Line | None] = {}
    for things in sources:
        taken: Counter[tuple[type, Kind]] = Counter()
        for thing in things:
            key = (type(thing), kinds.of(thing))
            taken[key] += 1
            if taken[key] <= _LINES and id(thing) not in known:
                known[id(thing)] = made_at(thing) or traced_at(thing, key[1])
    return known


def _weak_targets(new: list[object], kinds: Kinds) -> list[weakref.ref[Any]]:
    marked = []
    for thing in new:
        if kinds.of(thing) in TARGETS:
            with contextlib.suppress(TypeError):
                marked.append(weakref.ref(thing))
    return marked


def _alive(marked: list[weakref.ref[Any]]) -> list[Any]:
    # A function of its own: a variable in a closure here would look like a holder later.
    return [thing for thing in [ref() for ref in marked] if thing is not None]


def _growing(counts: list[Counter[type]]) -> set[type]:
    """List the types that have more living objects after each of the calls."""
    return {
        cls
        for cls, last in counts[-1].items()
        if all(before[cls] < after[cls] for before, after in itertools.pairwise(counts))
    }


def _traced() -> tuple[int, int, int] | None:
    """Sum what tracemalloc sees: Python's small blocks, its large ones, NumPy's."""
    if not tracemalloc.is_tracing():
        return None
    domain = np.lib.tracemalloc_domain
    small = large = arrays = 0
    for block in traced_blocks():
        if block[0] == domain:
            arrays += block[1]
        elif block[1] > _SMALL:
            large += block[1]
        else:
            small += block[1]
    return small, large, arrays


def _difference(
    before: tuple[int, int, int] | None, after: tuple[int, int, int] | None
) -> tuple[int, ...] | None:
    if before is None or after is None:
        return None
    return tuple(b - a for a, b in zip(before, after, strict=True))


def _gain(gains: list[tuple[int, ...] | None]) -> HeapGain:
    known = [gain for gain in gains if gain is not None]
    if not known:
        return HeapGain()
    small, large, arrays = map(_steady, zip(*known, strict=True))
    return HeapGain(small, large, arrays, known=True)


def _steady(gains: tuple[int, ...]) -> float:
    """Give what each call adds; what only one of them made, such as a cache, is no growth."""
    least, most = min(gains), max(gains)
    return sum(gains) / len(gains) if least > most / 2 else float(max(least, 0))
