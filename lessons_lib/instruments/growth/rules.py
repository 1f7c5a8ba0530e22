"""From numbers to names: which causes the evidence supports.

The rules, in the order in which bytes are attributed.  Counts of living objects are exact, so they
accuse; tensor bytes that nothing in Python accounts for go to what was accused already, or to the
datasets; the resident set accuses only when nothing else does, and only the allocator.
Bytes are per call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.instruments.growth.causes import Cause, Finding, Held, about
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.leftovers import Group, Observation
from lessons_lib.instruments.growth.trend import Series, Shape
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Leaves, Tier

#: Python objects of the program's own below this are not called growth.
OBJECTS_FLOOR: Final = 64
#: ... nor those that hold what is accused already (a dictionary around each kept tensor).
BESIDE_FLOOR: Final = 4 * KIB
#: Logs of numbers and short texts below this are not called growth.
NOTES_FLOOR: Final = 16 * KIB
#: The resident set must rise by this over the second half of the run.
RESIDENT_FLOOR: Final = 8 * MIB
CACHE_FLOOR: Final = 4 * KIB


@dataclass(frozen=True)
class CacheTest:
    """What emptying the runtime's caches gave back.

    Attributes
    ----------
    cache : str
        Which cache: ``"scalar"`` or ``"kernel"``; empty when emptying gave nothing back.
    share : float
        Share of the growth over the tested calls that it gave back.
    bytes_per_call : float
    """

    cache: str = ""
    share: float = 0.0
    bytes_per_call: float = 0.0


@dataclass
class _Case:
    """Findings so far, and hidden tensor bytes not attributed yet."""

    evidence: Evidence
    seen: Observation
    findings: list[Finding] = field(default_factory=list)
    hidden: float = 0.0

    def take_hidden(self) -> float:
        taken, self.hidden = self.hidden, 0.0
        return taken

    @property
    def heap(self) -> float:
        """Bytes of Python's heap and the C heap together, nothing counted twice."""
        python = max(0.0, self.evidence.python_heap.slope)
        heap = self.evidence.c_heap
        native = max(0.0, heap.slope) if heap.known else 0.0
        return max(python, native + python * (1 - self.seen.large_share))


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
        evidence.python_heap,
        evidence.numpy_bytes,
    )
    return any(series.grows for series in watched)


def leaves_to_find(evidence: Evidence) -> Leaves:
    """Tell whether NumPy arrays or long texts may be what grows; looking for them takes time."""
    built = evidence.concrete_functions, evidence.functions, evidence.graphs, evidence.graph_ops
    heap, arrays = evidence.python_heap, evidence.numpy_bytes
    if heap.grows and not any(series.grows for series in built):
        # NumPy's bytes are within the heap's: is there anything else?
        return Leaves.ARRAYS if arrays.grows and arrays.slope > 0.8 * heap.slope else Leaves.ALL
    hidden = evidence.hidden_bytes.grows and not evidence.live_tensors.grows
    return Leaves.ARRAYS if arrays.grows or hidden else Leaves.NONE


def judge(evidence: Evidence, seen: Observation, cache: CacheTest) -> tuple[Finding, ...]:
    """Name the causes, largest first."""
    case = _Case(evidence, seen)
    if evidence.hidden_bytes.grows:
        case.hidden = max(0.0, evidence.hidden_bytes.slope)
    _functions(case)
    _graphs(case)
    _variables(case)
    _tensors(case)
    _shared_arrays(case)
    _datasets(case)
    _runtime(case, cache)
    _objects(case)
    if all(finding.cause is Cause.RUNTIME_CACHE for finding in case.findings):
        _allocator(case)
    return tuple(sorted(case.findings, key=lambda finding: -finding.bytes_per_call))


_BUILDING: Final = (Cause.RETRACING, Cause.GRAPH_GROWTH)


def _accused(case: _Case, *causes: Cause) -> bool:
    return any(finding.cause in causes for finding in case.findings)


def _held(groups: tuple[Group, ...], most: int = 5) -> tuple[Held, ...]:
    return tuple(group.held for group in groups[:most])


def _rate(series: Series) -> str:
    return f"{series.slope:.3g}".rstrip(".")


def _through_graph(case: _Case) -> float:
    groups = case.seen.of(Kind.TENSOR, Kind.VARIABLE)
    return sum(group.bytes_per_call for group in groups if group.tier is Tier.GRAPH)


def _functions(case: _Case) -> None:
    functions, traces = case.evidence.functions, case.evidence.concrete_functions
    if not (functions.grows or traces.grows):
        return
    if functions.grows:
        text = f"Living functions multiply: {_rate(functions)} more tf.function objects a call"
        if traces.grows:
            text += f", with {_rate(traces)} traces"
        held = _held(case.seen.of(Kind.FUNCTION))
    else:
        text = f"A living function is traced again: {_rate(traces)} more concrete functions a call"
        held = _held(case.seen.of(Kind.CONCRETE))
    constants = case.take_hidden()
    if constants >= 16 * KIB:
        text += f"; tensors baked into them weigh {about(constants)} a call"
    nbytes = round(case.heap + constants + _through_graph(case))
    case.findings.append(Finding(Cause.RETRACING, nbytes, False, text + ".", held))


def _graphs(case: _Case) -> None:
    evidence = case.evidence
    orphans, graphs, ops = evidence.orphan_graphs, evidence.graphs, evidence.graph_ops
    traced = _accused(case, Cause.RETRACING)
    groups = case.seen.of(Kind.GRAPH)
    if case.evidence.datasets.grows:
        # A dataset's map function has a graph of its own, which is a part of the dataset.
        if groups and all(group.in_dataset for group in groups):
            return
        groups = tuple(group for group in groups if not group.in_dataset)
    held = _held(groups)
    if orphans.grows:
        text = (
            f"Graphs of functions that are gone stay alive: {_rate(orphans)} a call, "
            f"with {_rate(ops)} operations"
        )
    elif graphs.grows and not traced:
        text = f"Graphs multiply: {_rate(graphs)} a call, with {_rate(ops)} operations"
    elif ops.grows and not traced:
        text = f"A living graph gains {_rate(ops)} operations a call"
        held = case.seen.suspects or held
    else:
        return
    # Datasets that multiply as well explain hidden bytes better than constants do.
    nbytes = 0.0 if case.evidence.datasets.grows else case.take_hidden()
    if not traced:
        nbytes += case.heap + _through_graph(case)
    case.findings.append(Finding(Cause.GRAPH_GROWTH, round(nbytes), False, text + ".", held))


def _variables(case: _Case) -> None:
    count, size = case.evidence.variables, case.evidence.variable_bytes
    groups = tuple(g for g in case.seen.of(Kind.VARIABLE) if g.tier is not Tier.GRAPH)
    if not (count.grows or size.grows) or (count.grows and not groups and case.findings):
        return  # all of them hang on graphs that are accused already
    if count.grows:
        text = f"Living variables multiply: {_rate(count)} more a call."
    else:
        text = "A variable that can change its shape is assigned ever larger values."
    nbytes = size.slope if size.grows else sum(group.bytes_per_call for group in groups)
    held = _held(groups) or case.seen.suspects
    case.findings.append(Finding(Cause.VARIABLES, round(nbytes), True, text, held))


def _tensors(case: _Case) -> None:
    count, size = case.evidence.live_tensors, case.evidence.live_tensor_bytes
    groups = tuple(g for g in case.seen.of(Kind.TENSOR) if g.tier is not Tier.GRAPH)
    if not (count.grows or size.grows) or (count.grows and not groups and case.findings):
        return
    if count.grows and size.slope < 0:
        return  # more of them, and yet fewer bytes: a cache that changes, whatever its number does
    nbytes = max(0.0, size.slope)
    if (
        case.evidence.datasets.grows
        and nbytes < KIB
        and groups
        and all(group.in_dataset for group in groups)
    ):
        return  # a dataset's own settings (sizes, seeds) are small tensors
    if count.grows:
        text = f"Eager tensors stay alive: {_rate(count)} more a call"
    else:
        text = "The eager tensors that are alive become larger from call to call"
    exact = True
    # A kept slice pins the whole tensor that it was cut from.
    if count.grows and not case.evidence.datasets.grows and case.hidden > nbytes:
        nbytes += case.take_hidden()
        text += "; they are slices, and each keeps the whole tensor that it was cut from"
        exact = False
    else:
        # The rest is the allocator's rounding of these same buffers.
        if case.hidden <= max(nbytes, 1024 * count.slope):
            case.hidden = 0.0
    held = _held(groups) if count.grows else case.seen.suspects
    finding = Finding(Cause.RETAINED_TENSORS, round(nbytes), exact, text + ".", held)
    case.findings.append(finding)


def _arrays(case: _Case) -> tuple[Group, ...]:
    return tuple(g for g in case.seen.of(Kind.OTHER) if g.held.shape is not None)


def _shared_arrays(case: _Case) -> None:
    """NumPy arrays that look at a tensor's memory keep it alive when the tensor is gone."""
    arrays = _arrays(case)
    weight = sum(group.bytes_per_call for group in arrays)
    if case.evidence.numpy_bytes.grows or not case.hidden or weight < 0.5 * case.hidden:
        return
    text = "NumPy arrays that share the memory of tensors stay alive, and the memory with them."
    nbytes = round(case.take_hidden())
    case.findings.append(Finding(Cause.PYTHON_OBJECTS, nbytes, False, text, _held(arrays)))


def _datasets(case: _Case) -> None:
    datasets, tables = case.evidence.datasets, case.evidence.table_entries
    if tables.grows and not datasets.grows:
        # In a table or queue, or in C++ memory that no tensor counter sees.
        nbytes = case.take_hidden() or max(0.0, case.evidence.c_heap.slope)
        text = f"Lookup tables or queues gain {_rate(tables)} entries a call."
        held = case.seen.suspects
        case.findings.append(Finding(Cause.RETAINED_TENSORS, round(nbytes), False, text, held))
        return
    if datasets.grows:
        how = f"Datasets and iterators multiply ({_rate(datasets)} more a call)"
        nbytes = case.take_hidden() + (0.0 if _accused(case, *_BUILDING) else case.heap)
    elif case.hidden and max(datasets.values, default=0.0) > 0:
        how = "Tensors that no Python object holds grow while a dataset or iterator is alive"
        nbytes = case.take_hidden()
    else:
        return
    held = _held(case.seen.of(Kind.ITERATOR)) or _held(case.seen.of(Kind.DATASET))
    held = held or case.seen.suspects
    text = f"{how}: shuffle buffers, caches and prefetched elements stay."
    case.findings.append(Finding(Cause.DATASET_BUFFERS, round(nbytes), False, text, held))


def _runtime(case: _Case, cache: CacheTest) -> None:
    if not cache.cache or cache.bytes_per_call < CACHE_FLOOR:
        return
    case.take_hidden()
    text = (
        f"Emptying the eager runtime's {cache.cache} cache gave back "
        f"≈ {min(1.0, cache.share):.0%} of what the C heap had gained."
    )
    nbytes = round(cache.bytes_per_call)
    case.findings.append(Finding(Cause.RUNTIME_CACHE, nbytes, False, text))


def _objects(case: _Case) -> None:
    evidence, seen = case.evidence, case.seen
    if not (evidence.python_objects.grows or evidence.python_heap.grows
            or evidence.numpy_bytes.grows or case.hidden):  # fmt: skip
        return
    arrays = _arrays(case) if evidence.numpy_bytes.grows else ()
    array_bytes = evidence.numpy_bytes.slope if evidence.numpy_bytes.grows else 0.0
    others = max(0.0, seen.own_bytes - sum(group.bytes_per_call for group in _arrays(case)))
    heap = max(0.0, evidence.python_heap.slope - max(0.0, evidence.numpy_bytes.slope))
    floor = BESIDE_FLOOR if case.findings else OBJECTS_FLOOR
    if others - seen.note_bytes < floor and others < NOTES_FLOOR:
        others = 0.0
    elif evidence.python_heap.known:
        # The heap's own figure has what an object's size does not: its attributes' storage.
        others = min(others, heap) if case.findings else max(heap, min(others, heap))
    if not case.findings and not array_bytes and heap - seen.note_bytes >= NOTES_FLOOR:
        others = heap  # large, though nobody was seen to hold it
    if array_bytes < floor / 4:
        array_bytes = 0.0
    nbytes = others + array_bytes
    if not nbytes:
        return
    text = "Python objects stay alive"
    if array_bytes:
        share = "" if not others else f" {format_bytes(round(array_bytes))} of them"
        text += f",{share} NumPy arrays" if share else ": NumPy arrays"
    groups = arrays + tuple(g for g in seen.of(Kind.OTHER) if g.held.shape is None)
    exact = not others and evidence.numpy_bytes.grows
    case.findings.append(
        Finding(Cause.PYTHON_OBJECTS, round(nbytes), exact, text + ".", _held(groups))
    )


def _allocator(case: _Case) -> None:
    rss = case.evidence.rss
    if rss.shape is not Shape.GROWS or rss.second_half_rise() < RESIDENT_FLOOR:
        return
    nbytes = rss.slope - sum(finding.bytes_per_call for finding in case.findings)
    if nbytes < 0.5 * rss.slope:
        return
    trimmed = case.evidence.rss_trimmed
    text = "Nothing that can be counted is alive, yet the resident set still rises"
    if trimmed.known and not trimmed.grows:
        text += "; the C library gives it back when it is asked to (malloc_trim)"
    else:
        text += ": memory that was freed, or that native code holds, and that does not go back"
    case.findings.append(Finding(Cause.ALLOCATOR, round(nbytes), False, text + "."))
