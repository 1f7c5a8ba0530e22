"""Evidence and observations of `growth` that are made by hand, from what a call adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.instruments.growth.causes import Retained
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import Group, HeapGain, Observation
from lessons_lib.instruments.growth.sampler import COLUMNS
from lessons_lib.instruments.growth.trend import Series, fit
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Tier

CALLS: Any = np.arange(10.0)


def series(name: str, given: Any) -> Series:
    """Make a series: of so much a call, of the values that are given, or one that is not known."""
    label, unit, least, floor = COLUMNS[name]
    values = (
        np.full(10, np.nan) if given is None else CALLS * given if np.isscalar(given) else given
    )
    return fit(label, unit, values, np.zeros(4), least=least, floor=floor)


def evidence(**given: Any) -> Evidence:
    """Make evidence of what a call adds; 0 to whatever is not given."""
    return Evidence(**{name: series(name, given.get(name, 0.0)) for name in COLUMNS})


def group(
    kind: Kind, nbytes: int, tier: Tier = Tier.PLAIN, *, array: bool = False, **of: Any
) -> Group:
    """Make a group to which a call adds one thing of so many bytes."""
    shape = (nbytes,) if array else None
    return Group(kind, tier, Retained("thing", shape, None, nbytes, 1, None, ("kept",)), **of)


def seen(*groups: Group, heap: HeapGain | None = None, **of: Any) -> Observation:
    """Make an observation of groups, and of Python's heap."""
    return Observation(groups, heap or HeapGain(known=True), **of)


def objects(nbytes: int, **of: Any) -> Group:
    """Make a group of Python objects."""
    return group(Kind.OTHER, nbytes, **of)
