"""Which tensors stay: of Python's, and of TensorFlow's own resources.  Bytes are per call."""

from __future__ import annotations

import math

from lessons_lib.common.system import LEAST_CHUNK
from lessons_lib.instruments.growth.case import CacheTest, GrowthCase, listed
from lessons_lib.instruments.growth.causes import NOBODY_COLLECTS, Cause
from lessons_lib.instruments.growth.thresholds import (
    MOST_ROUNDING,
    SETTINGS_CEILING,
    TENSOR_COST,
    UNHELD_FLOOR,
)
from lessons_lib.instruments.growth.trend import Series
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Tier


def kept_tensors(case: GrowthCase, _: CacheTest) -> None:
    """Eager tensors of Python's that stay, and what slices among them keep."""
    count, size = case.evidence.live_tensors, case.evidence.live_tensor_bytes
    groups = tuple(g for g in case.seen.of(Kind.TENSOR) if g.tier is not Tier.GRAPH)
    if not (count.grows or size.grows) or (count.grows and not groups and case.findings):
        return
    if count.grows and size.slope < 0:
        return  # more of them, and yet fewer bytes: a cache that changes, whatever its number does
    nbytes = max(0.0, size.slope)
    datasets, tables = case.evidence.datasets.grows, case.seen.of(Kind.TABLE)
    of_others = tables or (datasets and groups and all(g.in_dataset for g in groups))
    if of_others and nbytes < SETTINGS_CEILING:
        return
    text, exact, paid = _tensors_text(case), True, None
    if count.grows and not (datasets or tables) and (cut := _cut(case, nbytes, count)):
        nbytes += cut
        case.hidden = max(0.0, case.hidden - cut) if case.seen.hidden else 0.0
        text += "; they" if count.slope <= 1 else "; some of them"
        text += " are slices, and each keeps the whole tensor that it was cut from"
        exact = False
    elif case.seen.hidden is None and case.hidden <= max(nbytes, 1024 * count.slope):
        case.hidden = 0.0  # the allocator's rounding of these same buffers
    if count.grows and (texts := sum(group.text_bytes for group in groups)):
        nbytes += texts
        case.native -= min(case.native, texts)
        text += ", with the texts in them"
        exact = False
    if count.grows:
        # Those that share another's memory have no chunk of their own.
        chunks = LEAST_CHUNK * sum(g.held.per_call for g in groups if not g.held.nbytes)
        cost = max(0.0, case.seen.tensor_cost * count.slope - chunks)
        paid = case.paid(nbytes, TENSOR_COST * count.slope, cost)
    held = listed(groups) if count.grows else case.seen.suspects
    case.take_adopted(nbytes)
    case.add(Cause.RETAINED_TENSORS, nbytes, text, held, exact=exact, process=paid)


def _cut(case: GrowthCase, nbytes: float, count: Series) -> float:
    """Give what kept slices keep of the tensors that they were cut from, beside their own bytes."""
    least, cut = LEAST_CHUNK * count.slope, case.hidden
    if (hidden := case.seen.hidden) is not None:
        # Later calls may cut from larger tensors than those that were measured.  Of pipelines the
        # recorded figure is the better one: what they make ahead goes up and down.
        rest = max(0.0, case.hidden - hidden.parted) if case.hidden else hidden.cut
        cut = min(hidden.cut, rest) + hidden.parted
    elif case.evidence.table_entries.grows:
        return 0.0
    else:  # not measured: the allocator may round up to twice the bytes
        least = max(nbytes, least)
    return cut if cut > least else 0.0


def _tensors_text(case: GrowthCase) -> str:
    count = case.evidence.live_tensors
    if not count.grows:
        return "The eager tensors that are alive become larger from call to call"
    if any(group.in_cycle for group in case.seen.of(Kind.TENSOR)):
        return (
            f"Eager tensors stay in reference cycles: {count.slope:.3g} more a call, and "
            f"{NOBODY_COLLECTS}"
        )
    return f"Eager tensors stay alive: {count.slope:.3g} more a call"


def unheld_tensors(case: GrowthCase, _: CacheTest) -> None:
    """Tensors that TensorFlow's resources hold, and nothing in Python."""
    nbytes, seen, exact = case.hidden, case.seen.hidden, False
    lost = math.inf if seen is None else seen.lost
    told = lost <= nbytes <= MOST_ROUNDING * lost
    if nbytes < UNHELD_FLOOR or (not told and nbytes <= case.native_rest):
        return
    if seen is None and case.keeps:
        evidence = case.evidence
        held = evidence.live_tensor_bytes.slope + evidence.variable_bytes.slope
        if nbytes <= (MOST_ROUNDING - 1) * held:
            return
    elif told:
        nbytes, exact = lost, case.evidence.hidden_bytes.noise == 0
    case.take("hidden")
    text = (
        "Tensors stay alive for which Python has no object: TensorFlow keeps them itself, as in a "
        "staging area, a stack or a tensor list"
    )
    case.add(Cause.RETAINED_TENSORS, nbytes, text, exact=exact)
