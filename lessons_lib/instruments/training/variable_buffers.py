"""Which buffer each variable holds, from the start of a training step to its end.

Every variable is given a fresh copy of its value right before the step, and again right after it.
The buffer that the first copy leaves it with is what it held when the step began; the one that is
freed for the second is what it held when the step ended.  A variable that is written in place has
one buffer throughout.  One that is assigned a new tensor, or written while something still reads
its old value (copy-on-write), has two, and passes from one to the other when the old one goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lessons_lib.recording.buffers import BufferStore, Ints


@dataclass(frozen=True, slots=True)
class Holding:
    """The buffers of one variable.

    Attributes
    ----------
    first, last : int or None
        Buffer held at the start and at the end of the step; None when it cannot be told.
    since : int
        Index of the event from which on the variable held `last`; of no meaning when there is one
        buffer.
    """

    first: int | None
    last: int | None
    since: int = 0

    @property
    def moved(self) -> bool:
        """Tell whether the variable passed to another buffer during the step."""
        return self.last is not None and self.first != self.last


def copies(store: BufferStore) -> Ints:
    """Give the buffers of copies made outside all graphs, in birth order."""
    is_copy = np.array([s.op == "DeepCopy" and s.function is None for s in store.sites], bool)
    found: Ints = np.flatnonzero(is_copy[store.site]) if len(store) else np.zeros(0, np.int64)
    return found


def holdings(
    store: BufferStore, opening: Sequence[int], closing: Sequence[int], started: int, ended: int
) -> list[Holding]:
    """Find what each variable held.

    Parameters
    ----------
    store : BufferStore
        Of the recording.
    opening, closing : sequence of int
        The variables' copies before and after the step, in the same order.
    started, ended : int
        Indices of the first event of the step, and of the first after it.

    Returns
    -------
    list of Holding
        One for each variable of `opening`.
    """
    born = [int(store.born[i]) for i in opening] + [started]
    renewed = [int(store.born[i]) for i in closing] + [len(store.times)]
    found: list[Holding] = []
    for number, copy in enumerate(opening):
        same = (store.nbytes == store.nbytes[copy]) & (store.born >= 0)
        alive = same & ((store.died < 0) | (store.died >= started))
        # A variable that copies what it is given (copy-on-read) holds a copy of our copy.
        first = _only(alive & (store.born >= born[number]) & (store.born < born[number + 1]))
        last = None
        if number < len(closing):
            freed = (store.died > renewed[number]) & (store.died < renewed[number + 1])
            last = _only(same & freed & (store.born < ended))
        if last is None and first is not None and store.died[first] < 0:
            last = first  # something else holds it too
        since = 0
        if last is not None and last != first:
            since = int(store.born[last])
            if first is not None and since < store.died[first] < ended:
                since = int(store.died[first])
        found.append(Holding(first, last, since))
    return found


def _only(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
    indices = np.flatnonzero(mask)
    return int(indices[0]) if len(indices) else None
