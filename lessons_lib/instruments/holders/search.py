"""Who holds given objects: chains of names for things that one has in hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.heap import Heap
from lessons_lib.instruments.holders.names import type_name
from lessons_lib.instruments.holders.object_types import Kinds
from lessons_lib.instruments.holders.reachability import survey
from lessons_lib.instruments.holders.reference_paths import Namer
from lessons_lib.instruments.holders.user_objects import named_paths

_NAMES_SHARE: Final = (
    0.5  # of the time: what lies far below the program's names is found from below
)


def who_holds(
    things: list[Any],
    kinds: Kinds,
    budget: SearchBudget,
    *,
    step: Callable[..., Any] | None = None,
    ignore: Iterable[object] = (),
) -> dict[int, tuple[str, ...]]:
    """Name the holders of some objects.

    Parameters
    ----------
    things : list
        Alive; the list itself does not count as a holder.
    kinds : Kinds
    budget : SearchBudget
        What it leaves no time for is missing from the answer.
    step : callable, optional
        What it closes over has a name even if nothing else names it.
    ignore : iterable
        More containers that must not count.

    Returns
    -------
    dict of int to tuple of str
        By address: the chain from a name in the program down to the thing; its type alone when
        nothing in Python holds it.
    """
    own = [things, *ignore]
    ended_before = budget.ended_early
    with budget:
        with budget.part(_NAMES_SHARE):
            chains = named_paths(things, kinds, budget, [*own, own])
        unnamed = [thing for thing in things if id(thing) not in chains]
        if unnamed and not budget.is_over():
            chains |= _climbed(unnamed, kinds, budget, step, [*own, own, unnamed])
    if all(id(thing) in chains for thing in things):
        budget.ended_early = ended_before  # nothing is missing
    return chains


def _climbed(
    things: list[Any],
    kinds: Kinds,
    budget: SearchBudget,
    step: Callable[..., Any] | None,
    own: list[object],
) -> dict[int, tuple[str, ...]]:
    """Name what the program's own names do not lead to."""
    heap = Heap(budget)
    found = survey(things, [], kinds, [*own, own], heap, budget)
    namer = Namer(step, [*own, own, found.reached], heap, budget)
    try:
        chains = {
            id(thing): namer.chain(found.way_to(thing), last_attribute=True)
            for thing in things
            if id(thing) in found.reached and not budget.is_over()
        }
    finally:
        heap.close()
        namer.close()
        found.reached.clear()
    if budget.ended_early:
        return chains
    return chains | {id(t): (type_name(t),) for t in things if id(t) not in chains}
