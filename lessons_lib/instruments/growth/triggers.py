"""Which of the measured series are worth more calls, and what is looked for in these."""

from __future__ import annotations

from typing import Final

import numpy as np

from lessons_lib.common.system import LEAST_CHUNK
from lessons_lib.instruments.growth.case import GrowthCase
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import HeapGain, Observation
from lessons_lib.instruments.growth.thresholds import (
    BESIDE_FLOOR,
    BLOCKS_FLOOR,
    CACHE_FLOOR,
    NATIVE_FLOOR,
    NATIVE_SHARE,
    OBJECTS_FLOOR,
    TENSOR_COST,
    VARIABLE_COST,
)
from lessons_lib.instruments.holders.heap import Leaves

#: What an eager tensor takes of Python's small blocks, at most.
_TENSOR_OBJECT: Final = 512
_LONGEST: Final = 8  # calls between two rises that are waited for


def needs_look(evidence: Evidence) -> bool:
    """Tell whether anything grows that observed calls could explain."""
    watched = (
        evidence.live_tensors,
        evidence.live_tensor_bytes,
        evidence.variables,
        evidence.variable_bytes,
        evidence.functions,
        evidence.concrete_functions,
        evidence.orphan_graphs,
        evidence.graphs,
        evidence.graph_ops,
        evidence.table_entries,
        evidence.hidden_bytes,
        evidence.python_objects,
        evidence.c_heap,
    )
    return any(series.grows for series in watched) or _more_blocks(evidence)


def calls_per_rise(evidence: Evidence) -> int:
    """Tell after how many calls all that grows has risen: a step may keep a thing now and then."""
    counts = (
        evidence.live_tensors,
        evidence.variables,
        evidence.functions,
        evidence.concrete_functions,
        evidence.graphs,
        evidence.datasets,
        evidence.python_objects,
    )
    pauses = [1]
    for series in counts:
        if series.grows:
            rises = np.flatnonzero(np.diff(series.values) > 0)
            pauses.append(int(np.diff(rises).max(initial=1)))
    return min(max(pauses), _LONGEST)


def _more_blocks(evidence: Evidence) -> bool:
    blocks = evidence.python_blocks
    return blocks.grows and blocks.late_slope() >= BLOCKS_FLOOR


def leaves_to_find(evidence: Evidence, gain: HeapGain) -> Leaves:
    """Tell whether NumPy arrays and long texts may be what grows; looking for them takes time."""
    arrays, texts = Leaves.ARRAYS, Leaves.TEXTS
    if not gain.known:  # both lie in the C heap
        return arrays | texts if evidence.c_heap.grows or not evidence.c_heap.known else Leaves.NONE
    built = evidence.concrete_functions, evidence.functions, evidence.graphs, evidence.graph_ops
    if any(series.grows for series in built):
        return arrays if gain.numpy >= OBJECTS_FLOOR or evidence.hidden_bytes.grows else Leaves.NONE
    tensors = _cost_of_tensors(evidence)
    may = gain.numpy >= OBJECTS_FLOOR or _is_hidden(evidence) or _heap_hides(evidence, gain)
    wanted = arrays if may else Leaves.NONE
    return wanted | texts if gain.large >= (BESIDE_FLOOR if tensors else OBJECTS_FLOOR) else wanted


def _is_hidden(evidence: Evidence) -> bool:
    """Tell whether more tensor bytes are hidden than the allocator's rounding of kept tensors."""
    hidden, tensors = evidence.hidden_bytes, evidence.live_tensors
    rounding = LEAST_CHUNK * tensors.slope if tensors.grows else 0.0
    return hidden.grows and hidden.slope > rounding


def _heap_hides(evidence: Evidence, gain: HeapGain) -> bool:
    """Tell whether the C heap gains more than kept tensors cost it: else nothing else is blamed."""
    tensors, heap = _cost_of_tensors(evidence), evidence.c_heap
    native = heap.slope - gain.large - gain.numpy > tensors
    own = _TENSOR_OBJECT * max(0.0, evidence.live_tensors.slope)
    python = gain.small + gain.large - own >= BESIDE_FLOOR
    return heap.grows and (not tensors or native or python)


def _cost_of_tensors(evidence: Evidence) -> float:
    """Give what the C heap may gain for the tensors and variables that stay, beside their bytes."""
    tensors, variables = evidence.live_tensors, evidence.variables
    most = ((tensors, TENSOR_COST), (variables, VARIABLE_COST))
    return sum(cost * series.slope for series, cost in most if series.grows)


def may_be_cache(evidence: Evidence, seen: Observation) -> bool:
    """Tell whether the C heap grows without functions, graphs or objects to explain it.

    Beside variables, only where it gains so much that native memory would be blamed.
    """
    explained = (
        evidence.functions,
        evidence.concrete_functions,
        evidence.graphs,
        evidence.graph_ops,
        evidence.datasets,
    )
    if any(series.grows for series in explained) or any(g.is_native for g in seen.objects):
        return False
    variables = evidence.variables
    if variables.grows:
        native = GrowthCase(evidence, seen).native - VARIABLE_COST * variables.slope
        return native >= max(NATIVE_FLOOR, NATIVE_SHARE * evidence.variable_bytes.slope)
    heap, python = evidence.c_heap, seen.heap
    return heap.grows and heap.slope - python.large - python.numpy > CACHE_FLOOR


def may_hide_tensors(evidence: Evidence) -> bool:
    """Tell whether kept tensors may be parts of larger ones, or TensorFlow may keep some itself.

    The allocator may as well have rounded them up.
    """
    count, hidden = evidence.live_tensors, evidence.hidden_bytes
    if evidence.datasets.grows:
        return False
    if count.grows:
        return hidden.slope > LEAST_CHUNK * count.slope
    built = evidence.functions, evidence.concrete_functions, evidence.graphs, evidence.graph_ops
    return hidden.grows and not any(s.grows for s in (*built, evidence.table_entries))
