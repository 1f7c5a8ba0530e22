"""Who holds given objects: chains of names for things that one has in hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from lessons_lib.instruments.holders.object_types import Kinds
from lessons_lib.instruments.holders.reachability import survey
from lessons_lib.instruments.holders.reference_paths import Namer, named_locals, type_name


def who_holds(
    things: list[Any],
    kinds: Kinds,
    *,
    step: Callable[..., Any] | None = None,
    ignore: Iterable[object] = (),
    seconds: float = 15.0,
) -> dict[int, tuple[str, ...]]:
    """Name the holders of some objects.

    Parameters
    ----------
    things : list
        Alive; the list itself does not count as a holder.
    kinds : Kinds
    step : callable, optional
        What it closes over has a name even if nothing else names it.
    ignore : iterable
        More containers that must not count.
    seconds : float
        Limit for the search.

    Returns
    -------
    dict of int to tuple of str
        By address: the chain from a name in the program down to the thing; its type alone when
        nothing in Python holds it.
    """
    deadline = time.thread_time() + seconds
    own = [things, *ignore]
    found = survey(things, [], kinds, [*own, own], deadline)
    namer = Namer(step, [*own, own, found.reached], deadline)
    try:
        chains = {
            id(thing): namer.chain(found.way_to(thing))
            for thing in things
            if id(thing) in found.reached
        }
        # The collector does not see what running functions have in their locals.
        unseen = [thing for thing in things if id(thing) not in chains]
        names = named_locals(unseen)
        return chains | {id(t): (names.get(id(t), type_name(t)),) for t in unseen}
    finally:
        namer.close()
        found.reached.clear()
