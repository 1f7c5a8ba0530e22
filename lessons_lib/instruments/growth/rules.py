"""From numbers to names: which causes the evidence supports.

`RULES` are applied in order; each takes what it explains out of what is left (`GrowthCase`), so
that no byte is accused twice.  Counts of living objects are exact, so they accuse first.  Tensor
bytes that nothing in Python accounts for go to what was accused already, or to the datasets.  What
the C heap gains beyond all that is native memory: of living objects, of lost tables, or without a
name.  The resident set accuses only the allocator, when nothing else does.  Bytes are per call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.growth.case import CacheTest, GrowthCase, listed
from lessons_lib.instruments.growth.causes import NOBODY_COLLECTS, Cause, Finding, about, counted
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import Observation
from lessons_lib.instruments.growth.tensor_rules import kept_tensors, unheld_tensors
from lessons_lib.instruments.growth.thresholds import (
    BESIDE_FLOOR,
    CACHE_FLOOR,
    CONSTANTS_FLOOR,
    MOST_ROUNDING,
    NOTES_FLOOR,
    OBJECTS_FLOOR,
    OWNERS_SHARE,
    RESIDENT_FLOOR,
    RESIDENT_SHARE,
    SHARED_SHARE,
    VARIABLE_COST,
    VIEWS_SHARE,
)
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Tier


def judge(evidence: Evidence, seen: Observation, cache: CacheTest) -> tuple[Finding, ...]:
    """Name the causes, those that cost most first."""
    case = GrowthCase(evidence, seen)
    for rule in RULES:
        rule(case, cache)
    return tuple(sorted(case.findings, key=lambda finding: -finding.paid))


def _through_graph(case: GrowthCase) -> float:
    groups = case.seen.of(Kind.TENSOR, Kind.VARIABLE)
    return sum(group.bytes_per_call for group in groups if group.tier is Tier.GRAPH)


def _take_constants(case: GrowthCase) -> float:
    """Take the hidden bytes that new graphs account for: all, unless kept tensors may pin some."""
    plain = any(g.tier is not Tier.GRAPH for g in case.seen.of(Kind.TENSOR))
    if not (plain and case.evidence.live_tensors.grows):
        return case.take("hidden")
    constants = min(case.hidden, sum(g.constant_bytes for g in case.seen.of(Kind.GRAPH)))
    case.hidden -= constants
    return constants


def _functions(case: GrowthCase, _: CacheTest) -> None:
    functions, traces = case.evidence.functions, case.evidence.concrete_functions
    if not (functions.grows or traces.grows):
        return
    if functions.grows:
        more = counted(functions.slope, "more tf.function object", "more tf.function objects")
        text = f"Living functions multiply: {more} a call"
        if traces.grows:
            text += f", with {counted(traces.slope, 'trace')}"
        held = listed(case.seen.of(Kind.FUNCTION))
    else:
        more = counted(traces.slope, "more concrete function", "more concrete functions")
        text = f"A living function is traced again: {more} a call"
        held = listed(case.seen.of(Kind.CONCRETE))
    constants = _take_constants(case)
    if constants >= CONSTANTS_FLOOR:
        text += f"; tensors baked into them weigh {about(constants)} a call"
    nbytes = constants + _through_graph(case) + case.take_built()
    case.add(Cause.RETRACING, nbytes + case.take_adopted(), text, held)


def _graphs(case: GrowthCase, _: CacheTest) -> None:
    evidence = case.evidence
    orphans, graphs, ops = evidence.orphan_graphs, evidence.graphs, evidence.graph_ops
    traced = case.accused(Cause.RETRACING)
    groups = case.seen.of(Kind.GRAPH)
    if evidence.datasets.grows:
        # A dataset's map function has a graph of its own, which is a part of the dataset.
        if groups and all(group.in_dataset for group in groups):
            return
        groups = tuple(group for group in groups if not group.in_dataset)
    held = listed(groups)
    if orphans.grows:
        text = (
            f"Graphs of functions that are gone stay alive: {orphans.slope:.3g} a call, "
            f"with {counted(ops.slope, 'operation')}"
        )
    elif graphs.grows and not traced:
        text = f"Graphs multiply: {graphs.slope:.3g} a call, with {counted(ops.slope, 'operation')}"
    elif ops.grows and not traced:
        text = f"A living graph gains {counted(ops.slope, 'operation')} a call"
        held = case.seen.suspects or held
    else:
        return
    # Datasets that multiply as well explain hidden bytes better than constants do.
    nbytes = 0.0 if evidence.datasets.grows else case.take("hidden")
    if not traced:
        nbytes += _through_graph(case) + case.take_built()
        nbytes += case.take_adopted()
    case.add(Cause.GRAPH_GROWTH, nbytes, text, held)


def _variables(case: GrowthCase, _: CacheTest) -> None:
    count, size = case.evidence.variables, case.evidence.variable_bytes
    groups = tuple(g for g in case.seen.of(Kind.VARIABLE) if g.tier is not Tier.GRAPH)
    if not (count.grows or size.grows) or (count.grows and not groups and case.findings):
        return  # all of them hang on graphs that are accused already
    if count.grows:
        text = f"Living variables multiply: {count.slope:.3g} more a call"
    else:
        text = "A variable that can change its shape is assigned ever larger values"
    nbytes = size.slope if size.grows else sum(group.bytes_per_call for group in groups)
    shared = _shared(case, nbytes) if count.grows else 0.0
    if shared:
        nbytes -= shared
        text += "; until written, they share the memory of the tensors that they were given"
    paid = case.paid(nbytes, VARIABLE_COST * count.slope) if count.grows else None
    held = listed(groups) or case.seen.suspects
    case.add(Cause.VARIABLES, nbytes, text, held, exact=not shared, process=paid)


def _shared(case: GrowthCase, nbytes: float) -> float:
    """Give the bytes of new variables for which no memory was taken, if that is most of them."""
    taken = case.evidence.tensor_bytes.slope + case.take_adopted(nbytes)
    known = case.evidence.tensor_bytes.known and case.seen.heap.known
    return nbytes - taken if known and taken < SHARED_SHARE * nbytes else 0.0


def _lost_tables(case: GrowthCase, _: CacheTest) -> None:
    """Tables that nobody can reach: their entries are the tensors that nobody holds."""
    tables = case.seen.lost_tables
    rest = case.native_rest if tables.per_call else 0.0
    if not rest:
        return
    text = (
        f"Lookup tables that nothing in the program can reach any more stay in TensorFlow: "
        f"{counted(tables.per_call, 'table')} a call, of up to "
        f"{counted(tables.entries, 'entry', 'entries')}"
    )
    case.take("native")
    nbytes = rest + case.take("hidden") + case.take_adopted()
    case.add(Cause.NATIVE_MEMORY, nbytes, text)


def _shared_arrays(case: GrowthCase, _: CacheTest) -> None:
    """NumPy arrays that look at a tensor's memory keep it alive when the tensor is gone."""
    arrays = case.seen.arrays
    weight = sum(group.bytes_per_call for group in arrays)
    if case.arrays >= weight or not case.hidden or weight < VIEWS_SHARE * case.hidden:
        return
    text = "NumPy arrays that share the memory of tensors stay alive, and the memory with them"
    case.add(Cause.PYTHON_OBJECTS, case.take("hidden"), text, listed(arrays))


def _tables(case: GrowthCase, _: CacheTest) -> None:
    entries, made = case.evidence.table_entries, case.seen.of(Kind.TABLE)
    if not (entries.grows or made) or case.evidence.datasets.grows:
        return
    nbytes, case.native = case.take("hidden") or max(case.faint, case.native), 0.0
    new = sum(group.held.per_call for group in made)
    gain = f"gain {counted(entries.slope, 'entry', 'entries')} a call"
    text = f"Lookup tables or queues {f'multiply: {new:.3g} more a call' if made else gain}"
    cause = Cause.NATIVE_MEMORY if made else Cause.RETAINED_TENSORS
    case.add(cause, nbytes, text, listed(made) or case.seen.suspects)


def _datasets(case: GrowthCase, _: CacheTest) -> None:
    datasets = case.evidence.datasets
    if datasets.grows:
        how = f"Datasets and iterators multiply ({datasets.slope:.3g} more a call)"
        nbytes = case.take("hidden", "small", "large", "native") + case.take_adopted()
    elif case.hidden and max(datasets.values, default=0.0) > 0:
        how = "Tensors that no Python object holds grow while a dataset or iterator is alive"
        seen = case.seen.hidden
        nbytes = case.hidden * (1.0 if seen is None else seen.of_pipelines)
        if not nbytes:
            return
        case.hidden -= nbytes
        if seen is not None and seen.piped <= nbytes <= MOST_ROUNDING * seen.piped:
            nbytes = seen.piped  # the rest is rounding
    else:
        return
    held = listed(case.seen.of(Kind.ITERATOR)) or listed(case.seen.of(Kind.DATASET))
    text = f"{how}: shuffle buffers, caches and prefetched elements stay"
    case.add(Cause.DATASET_BUFFERS, nbytes, text, held or case.seen.suspects)


def _runtime(case: GrowthCase, cache: CacheTest) -> None:
    # Calls that make ever more numbers fill an emptied cache faster than they fill a full one.
    hidden = min(case.hidden, cache.tensor_bytes_per_call)
    nbytes = min(cache.bytes_per_call, case.native + hidden)
    if not cache.cache or nbytes < CACHE_FLOOR:
        return
    case.hidden -= hidden
    case.native -= min(case.native, cache.bytes_per_call / max(cache.share, 0.01))
    text = (
        f"Emptying the eager runtime's {cache.cache} cache gave back "
        f"≈ {min(1.0, cache.share):.0%} of what the C heap had gained"
    )
    case.add(Cause.RUNTIME_CACHE, nbytes, text)


def _objects(case: GrowthCase, _: CacheTest) -> None:
    """Python's objects, the program's own and libraries', with the native memory that is theirs."""
    objects, arrays = case.seen.objects, case.seen.arrays
    array_bytes = case.arrays
    object_bytes = _accused_objects(case)
    native_groups = tuple(group for group in objects if group.is_native)
    rest = case.native_rest
    owned = rest if native_groups or object_bytes >= OWNERS_SHARE * rest else 0.0
    floor = BESIDE_FLOOR if case.findings else OBJECTS_FLOOR
    if array_bytes < floor / 4:
        array_bytes = 0.0
    nbytes = object_bytes + array_bytes + owned
    if not nbytes:
        return
    case.take("small", "large", "arrays", *(["native"] if owned else []))
    text = "Python objects stay alive"
    if _in_cycles(case) and not objects:
        text = f"Python objects stay in reference cycles, and {NOBODY_COLLECTS}"
    elif not (objects or arrays) and case.seen.unheld:
        text += f", which nothing in Python seems to hold: ≈ {', '.join(case.seen.unheld)} a call"
    if array_bytes == nbytes:
        text += ": NumPy arrays"
    elif array_bytes:
        text += f", {format_bytes(round(array_bytes))} of them NumPy arrays"
    if owned:
        text += f", with {about(owned)} of native memory, which grows with their number"
    first = native_groups if owned > object_bytes + array_bytes else ()
    by_bytes = sorted([*arrays, *objects], key=lambda group: -group.bytes_per_call)
    held = listed([*first, *(group for group in by_bytes if group not in first)])
    if array_bytes and not arrays:
        held += case.seen.lengthened
    exact = nbytes == array_bytes and case.seen.heap.known
    case.add(Cause.PYTHON_OBJECTS, nbytes, text, held, exact=exact)


def _in_cycles(case: GrowthCase) -> bool:
    return bool(case.seen.garbage) and case.evidence.python_objects.grows


def _accused_objects(case: GrowthCase) -> float:
    """Give the bytes of Python's objects if they are a cause of their own, else 0."""
    objects = case.seen.objects
    # Containers of what is accused already belong to it, as long as they are not the greater part.
    own = [group for group in objects if group.bytes_per_call > group.target_bytes]
    # Small entries of a bounded cache are as little growth as a log is.
    mine = sum(g.bytes_per_call for g in own if not (g.is_note or g.is_bounded))
    # The heap's own figure has what an object's size does not: its attributes' storage.
    heap = case.python
    if _in_cycles(case) and not case.findings:
        return heap if heap >= OBJECTS_FLOOR else 0.0
    if not case.findings:
        if mine >= OBJECTS_FLOOR:  # they were counted, whatever else the heap gave back
            return max(heap, mine)
        return heap if heap >= NOTES_FLOOR else 0.0
    return min(case.apart, heap)


def _native(case: GrowthCase, _: CacheTest) -> None:
    if rest := case.native_rest:
        text = f"Native memory that no counter names, {about(rest)} a call"
        case.take("native")
        case.add(Cause.NATIVE_MEMORY, rest + case.take("hidden"), text)


def _allocator(case: GrowthCase, _: CacheTest) -> None:
    rss = case.evidence.rss
    alone = all(finding.cause is Cause.RUNTIME_CACHE for finding in case.findings)
    if not (alone and rss.grows and rss.second_half_rise() >= RESIDENT_FLOOR):
        return
    # What TensorFlow handed out more is alive, whoever holds it.
    alive = max(case.pool, sum(finding.bytes_per_call for finding in case.findings))
    nbytes = rss.slope - alive
    if nbytes < RESIDENT_SHARE * rss.slope:
        return
    trimmed = case.evidence.rss_trimmed
    text = "Nothing that can be counted is alive, yet the resident set still rises"
    if trimmed.known and not trimmed.grows:
        text += "; the C library gives it back when it is asked to (malloc_trim)"
    else:
        text += ": memory that was freed and that does not go back"
    case.add(Cause.ALLOCATOR, nbytes, text)


#: In the order in which bytes are attributed: counts of what TensorFlow made, then what only
#: native code holds, then what is left.
RULES: Final[tuple[Callable[[GrowthCase, CacheTest], None], ...]] = (
    _functions,
    _graphs,
    _variables,
    kept_tensors,
    _lost_tables,
    _shared_arrays,
    _tables,
    _datasets,
    _runtime,
    _objects,
    unheld_tensors,
    _native,
    _allocator,
)
