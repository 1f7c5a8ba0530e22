"""Who holds given objects: chains of names for things that one has in hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.object_types import Kinds
from lessons_lib.instruments.holders.reachability import survey
from lessons_lib.instruments.holders.reference_paths import Namer, named_locals, type_name


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
    with budget:
        found = survey(things, [], kinds, [*own, own], budget)
        namer = Namer(step, [*own, own, found.reached], budget)
        try:
            chains = {
                id(thing): namer.chain(found.way_to(thing))
                for thing in things
                if id(thing) in found.reached and not budget.is_over()
            }
            if budget.ended_early:
                return chains
            # The collector does not see what running functions have in their locals.
            unseen = [thing for thing in things if id(thing) not in chains]
            names = named_locals(unseen)
            return chains | {id(t): (names.get(id(t), type_name(t)),) for t in unseen}
        finally:
            namer.close()
            found.reached.clear()
