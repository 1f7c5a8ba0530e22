"""Which of the measured series are worth more calls, and what is looked for in these."""

from __future__ import annotations

from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import HeapGain, Observation
from lessons_lib.instruments.growth.thresholds import BLOCKS_FLOOR, CACHE_FLOOR, OBJECTS_FLOOR
from lessons_lib.instruments.holders.heap import Leaves


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
    may = evidence.c_heap.grows or evidence.hidden_bytes.grows or gain.numpy >= OBJECTS_FLOOR
    wanted = arrays if may else Leaves.NONE
    return wanted | texts if gain.large >= OBJECTS_FLOOR else wanted


def may_be_cache(evidence: Evidence, seen: Observation) -> bool:
    """Tell whether the C heap grows without functions, graphs or objects to explain it."""
    explained = (
        evidence.functions,
        evidence.concrete_functions,
        evidence.graphs,
        evidence.graph_ops,
        evidence.datasets,
        evidence.variables,
    )
    if any(series.grows for series in explained) or any(g.is_native for g in seen.objects):
        return False
    heap, python = evidence.c_heap, seen.heap
    return heap.grows and heap.slope - python.large - python.numpy > CACHE_FLOOR
