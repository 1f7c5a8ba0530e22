"""A recorded step over time: its phases, and the live bytes of each category."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from lessons_lib.instruments.training.categories import Births, Category, Label
from lessons_lib.instruments.training.result import Phase, Series
from lessons_lib.instruments.training.step_phases import BACKWARD, FORWARD, UPDATE
from lessons_lib.instruments.training.variable_buffers import Holding
from lessons_lib.recording.recording import Recording


def find_phases(
    recording: Recording, births: Births, aside: Collection[int], started: float
) -> list[Phase]:
    """Find when each phase's large buffers were born.

    Parameters
    ----------
    recording : Recording
        Of the step.
    births : Births
        Where buffers were born.
    aside : collection of int
        Buffers of variables and of the batch, which belong to no phase.
    started : float
        When the step began, in seconds from the recording's start.

    Returns
    -------
    list of Phase
        Those that were found, in order; seconds from the recording's start.
    """
    spans: dict[str, list[tuple[float, int]]] = {}
    for buffer in recording.buffers:
        if buffer.index in aside or buffer.allocated_at is None:
            continue
        if (phase := births.of(buffer).phase) is not None:
            spans.setdefault(phase, []).append((buffer.allocated_at, buffer.nbytes))
    found = [
        Phase(name, min(times), max(times))
        for name in (FORWARD, BACKWARD, UPDATE)
        # A graph may compute a phase's scalars long before the phase itself.
        if (times := _times_of_large(spans.get(name, [])))
    ]
    if found and found[0].name == FORWARD:
        found[0] = Phase(FORWARD, started, found[0].end)
    return found


def _times_of_large(births: list[tuple[float, int]]) -> list[float]:
    largest = max((size for _, size in births), default=0)
    return [moment for moment, size in births if size * 100 >= largest]


def by_category(
    recording: Recording,
    labels: Sequence[Label],
    holdings: Sequence[tuple[Holding, Category]],
    started: float,
    ended: float,
) -> Series:
    """Add up the live bytes of each category, from the step's start to its end.

    A variable counts once at any time: a buffer that it passes to belongs to its label's category
    before, and the buffer that it leaves, if that stays, is a temporary from then on.
    """
    store = recording.buffers
    order = list(Category)
    at_birth = np.array([order.index(label.category) for label in labels], np.int64)
    at_death = at_birth.copy()
    delta = np.zeros((len(order), len(store.times)), np.int64)

    def move(buffer: int, kind: Category, event: int) -> None:
        at_death[buffer] = order.index(kind)
        delta[at_birth[buffer], event] -= store.nbytes[buffer]
        delta[at_death[buffer], event] += store.nbytes[buffer]

    for holding, kind in holdings:
        if holding.last is not None and holding.moved:
            move(holding.last, kind, holding.since)
            if holding.first is not None and store.died[holding.first] != holding.since:
                move(holding.first, Category.TEMPORARIES, holding.since)
    born, died = store.born >= 0, (store.born >= 0) & (store.died >= 0)
    np.add.at(delta, (at_birth[born], store.born[born]), store.nbytes[born])
    np.subtract.at(delta, (at_death[died], store.died[died]), store.nbytes[died])
    live = np.pad(np.cumsum(delta, axis=1), ((0, 0), (1, 0)))
    moments = np.concatenate(([0.0], store.times)) - started
    first = int(np.searchsorted(moments, 0.0, side="right")) - 1  # what is alive at the start
    stop = int(np.searchsorted(moments, ended - started))
    last = live[:, stop - 1 : stop]
    times = np.concatenate((np.maximum(moments[first:stop], 0.0), [ended - started]))
    values = np.concatenate((live[:, first:stop], last), axis=1)
    return Series(times, dict(zip(order, values, strict=True)))
