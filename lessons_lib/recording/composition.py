"""The bytes of a recording by category, at every moment: the parts add up to the whole.

A buffer that a variable takes over counts as what it was before, until the variable's old buffer
is gone: so a variable counts once at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lessons_lib.recording.breakdown import Breakdown, Row, broken_down
from lessons_lib.recording.buffers import BufferStore, Ints, Site
from lessons_lib.recording.categories import Category
from lessons_lib.recording.scopes import layer_names

#: Categories in the order in which they are shown.
ORDER: Final = tuple(Category)
NO_LAYER: Final = "(no layer)"
_NUMBER: Final = {category: i for i, category in enumerate(ORDER)}


def held_since(store: BufferStore) -> Ints:
    """Tell from which event on each buffer counts as its variable's; int array, (buffers,).

    For a buffer that no variable takes over it is the event of its birth; for one that seemed to
    be taken over and was freed before the variable's old buffer, it never comes.
    """
    since = store.born.copy()
    held = np.array([site.purpose.held for site in store.sites], np.int64)
    if not held.any():
        return since
    of = held[store.site]
    ends = len(store.times)
    taken = np.array([site.purpose.before is not None for site in store.sites], bool)[store.site]
    # For each variable: since when its buffer holds it, and when that is freed.
    holders: dict[int, tuple[int, int]] = {}
    for i in np.flatnonzero(of):  # in the order of birth
        variable, died = int(of[i]), ends if store.died[i] < 0 else int(store.died[i])
        began, free = holders.get(variable, (-1, -1))
        if taken[i]:
            if died <= began or died <= free < ends:
                since[i] = ends + 1  # it might have been taken over, and was not
                continue
            # A holder that outlived the block did not pass the variable on.
            since[i] = max(int(since[i]), free if free < ends else began)
        holders[variable] = (int(since[i]), died)
    return since


def categories(store: BufferStore) -> tuple[Ints, Ints]:
    """Give each buffer's category before and after its variable took it over.

    Returns
    -------
    before, after : int array, shape (buffers,)
        Places in `ORDER`.
    """
    after = np.array([_NUMBER[site.purpose.category] for site in store.sites], np.int64)
    before = np.array(
        [_NUMBER[site.purpose.before or site.purpose.category] for site in store.sites], np.int64
    )
    if not len(store):
        return store.site, store.site
    return before[store.site], after[store.site]


def at(store: BufferStore, event: int, chosen: Sequence[int] | Ints) -> Ints:
    """Give the category of some buffers after an event; places in `ORDER`."""
    before, after = categories(store)
    index = np.asarray(chosen, np.int64)
    return np.where(held_since(store)[index] <= event, after[index], before[index])


def series(store: BufferStore) -> Ints:
    """Give the live bytes of each category after each event.

    Returns
    -------
    int array, shape (categories, events)
        In the order of `ORDER`; the sum of a column is the growth over the block's start, without
        what was freed of the time before.
    """
    before, after = categories(store)
    since = held_since(store)
    delta = np.zeros((len(ORDER), len(store.times) + 1), np.int64)
    born = store.born >= 0
    died = np.where(store.died < 0, len(store.times), store.died)
    np.add.at(delta, (before[born], store.born[born]), store.nbytes[born])
    moved = born & (since > store.born) & (since < died)
    np.subtract.at(delta, (before[moved], since[moved]), store.nbytes[moved])
    np.add.at(delta, (after[moved], since[moved]), store.nbytes[moved])
    at_once = born & (since == store.born)
    np.subtract.at(delta, (before[at_once], store.born[at_once]), store.nbytes[at_once])
    np.add.at(delta, (after[at_once], store.born[at_once]), store.nbytes[at_once])
    final = np.where(moved | at_once, after, before)
    np.subtract.at(delta, (final[born], died[born]), store.nbytes[born])
    live: Ints = np.cumsum(delta, axis=1)[:, :-1]
    return live


def by_category(store: BufferStore, peak_event: int | None) -> Breakdown:
    """Add a store's bytes up by category; see `Recording.by_category`."""
    _, after = categories(store)
    born = np.flatnonzero(store.born >= 0)
    kept = np.flatnonzero((store.born >= 0) & (store.died < 0))
    peak = np.zeros(0, np.intp) if peak_event is None else store.alive_after(peak_event)
    at_peak = at(store, peak_event or 0, peak)

    def total(groups: Ints, weights: Ints) -> Ints:
        out = np.zeros(len(ORDER), np.int64)
        np.add.at(out, groups, weights)
        return out

    counts = total(after[born], np.ones(len(born), np.int64))
    allocated = total(after[born], store.nbytes[born])
    if store.folded is not None:
        of = np.array([_NUMBER[site.purpose.category] for site in store.sites], np.int64)
        counts += total(of, store.folded.buffers)
        allocated += total(of, store.folded.nbytes)
    columns = zip(
        ORDER,
        counts.tolist(),
        allocated.tolist(),
        total(at_peak, store.nbytes[peak]).tolist(),
        total(after[kept], store.nbytes[kept]).tolist(),
        strict=True,
    )
    rows = [Row(str(name), None, *numbers) for name, *numbers in columns]
    rows.sort(key=lambda row: (-row.peak_bytes, -row.allocated_bytes))
    return Breakdown("category", tuple(row for row in rows if row.buffers or row.peak_bytes))


def by_layer(store: BufferStore, peak_event: int | None) -> Breakdown:
    """Add a store's bytes up by layer; see `Recording.by_layer`."""
    names = layer_names(
        site.purpose.layer
        for site in store.sites
        if site.purpose.layer and site.purpose.category is not Category.INPUTS
    )

    def key(site: Site) -> tuple[str, None]:
        layer = site.purpose.layer
        return (NO_LAYER if layer is None else names.get(layer, layer)), None

    return broken_down(store, peak_event, "layer", key)
