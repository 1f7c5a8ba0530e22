"""`Sampler`: reads every number once, after a call.

It holds old objects by weak references only, and writes into arrays made beforehand, so that it
neither grows nor keeps anything alive.  Bytes and counts.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from lessons_lib.common import system
from lessons_lib.common.gc_control import HeapBaseline
from lessons_lib.common.internals import concrete_functions, outer_graph, runtime_is_set_up
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.trend import Floats, fit
from lessons_lib.instruments.holders.object_types import (
    Kind,
    Kinds,
    extent,
    tensor_bytes,
    union_bytes,
    variable_bytes,
    variable_tensor,
)

#: name for people, unit, smallest change, smallest slope per call
COLUMNS: Final[dict[str, tuple[str, str, float, float]]] = {
    "tensor_bytes": ("tensor bytes", "bytes", 64, 1024),
    "live_tensors": ("live tensors", "count", 0, 0.05),
    "live_tensor_bytes": ("live tensors' bytes", "bytes", 0, 0),
    "variables": ("variables", "count", 0, 0.05),
    "variable_bytes": ("variables' bytes", "bytes", 0, 0),
    "functions": ("tf.functions", "count", 0, 0.05),
    "concrete_functions": ("concrete functions", "count", 0, 0.05),
    "graphs": ("graphs", "count", 0, 0.05),
    "orphan_graphs": ("graphs whose function is gone", "count", 0, 0.05),
    "graph_ops": ("graph operations", "count", 0, 0.05),
    "datasets": ("datasets and iterators", "count", 0, 0.05),
    "table_entries": ("entries of tables and queues", "count", 0, 0.05),
    "hidden_bytes": ("tensor bytes held outside Python", "bytes", 256, 4096),
    "python_objects": ("Python objects", "count", 0, 0.3),
    "python_blocks": ("Python's small blocks", "count", 0, 8),
    "c_heap": ("C heap", "bytes", 256, 1024),
    "rss": ("resident set size", "bytes", 16384, 262144),
    "rss_trimmed": ("resident set size, trimmed", "bytes", 16384, 262144),
}
_JUMP: Final = 2**20

Weak = Callable[[], Any]


class Sampler:
    """Reads all numbers of `Evidence`.

    Parameters
    ----------
    baseline : HeapBaseline
        What is alive when the sampler is made counts as old.
    readings : int
        How many times `read` will be called at most.
    everything : list
        All objects alive now; not kept.
    collect : bool
        Whether garbage is collected before each reading; not where the program never collects.
    native : bool
        Whether the C heap and the resident set are read; not where a recording fills them.
    """

    def __init__(
        self,
        baseline: HeapBaseline,
        readings: int,
        everything: list[object],
        *,
        collect: bool,
        native: bool,
    ) -> None:
        self.kinds = Kinds()
        self.baseline = baseline
        self.collect = collect
        self.native = native
        self.rows: dict[str, Floats] = {name: np.full(readings, np.nan) for name in COLUMNS}
        self.waiting = np.zeros(readings)  # tensor bytes that only the collector could free
        self.count = 0
        self._sizes: dict[int, float] = {}
        self._old: dict[Kind, list[Weak]] = {}
        self._old_tensors: list[tuple[Weak, tuple[int, int]]] = []
        for kind, things in self.kinds.choose(everything, _WATCHED).items():
            for thing in things:
                with contextlib.suppress(TypeError):
                    ref = weakref.ref(thing)
                    if kind is Kind.TENSOR:
                        self._old_tensors.append((ref, extent(thing, kind)))
                    else:
                        self._old.setdefault(kind, []).append(ref)

    def read(self) -> None:
        """Read everything now, after collecting garbage."""
        row, i = self.rows, self.count
        allocated = _allocated()
        if self.collect:
            gc.collect()
        row["python_blocks"][i] = sys.getallocatedblocks()
        found = self._find()
        row["tensor_bytes"][i] = pool = _allocated()
        self.waiting[i] = allocated - pool
        self._tensors(found)
        row["python_objects"][i] = found.objects
        for name, value in _functions(found.of(Kind.FUNCTION), found.of(Kind.GRAPH)).items():
            row[name][i] = value
        row["datasets"][i] = len(found.of(Kind.DATASET)) + len(found.of(Kind.ITERATOR))
        row["table_entries"][i] = sum(map(_entries, found.of(Kind.TABLE)))
        held = row["live_tensor_bytes"][i] + row["variable_bytes"][i]
        row["hidden_bytes"][i] = pool - held
        del found
        if self.native:
            row["c_heap"][i] = _or_nan(system.c_heap_bytes())
            row["rss"][i] = _or_nan(system.resident_bytes())
            if system.trim():
                row["rss_trimmed"][i] = _or_nan(system.resident_bytes())
        self.count += 1

    def _find(self) -> _Found:
        new = self.baseline.new_objects()
        found = _Found(len(new), self.kinds.choose(new, _WATCHED))
        for kind, refs in self._old.items():
            alive = [thing for ref in refs if (thing := ref()) is not None]
            found.by_kind.setdefault(kind, []).extend(alive)
        return found

    def _tensors(self, found: _Found) -> None:
        i = self.count
        extents = [extent for ref, extent in self._old_tensors if ref() is not None]
        extents += (extent(tensor, Kind.TENSOR) for tensor in found.of(Kind.TENSOR))
        variables = found.of(Kind.VARIABLE)
        self.rows["live_tensors"][i] = len(extents)
        self.rows["live_tensor_bytes"][i] = union_bytes(extents)
        self.rows["variables"][i] = len(variables)
        self.rows["variable_bytes"][i] = sum(map(_variable_bytes, variables))

    def remember_sizes(self) -> None:
        """Note the size of each graph and table that is alive now, for `grown`."""
        found = self._find()
        self._sizes = {id(t): size(t) for kind, (size, _) in _SIZES.items() for t in found.of(kind)}

    def grown(self, kind: Kind) -> list[Any]:
        """List living graphs or tables that gained something since `remember_sizes`, most first."""
        size, least = _SIZES[kind]
        living = [thing for thing in self._find().of(kind) if id(thing) in self._sizes]
        gained = [(size(thing) - self._sizes[id(thing)], thing) for thing in living]
        found = [(gain, thing) for gain, thing in gained if gain >= least]
        found.sort(key=operator.itemgetter(0), reverse=True)
        return [thing for _, thing in found]

    def living(self, *kinds: Kind) -> list[Any]:
        """List the objects of some kinds that are alive now."""
        found = self._find()
        return [thing for kind in kinds for thing in found.of(kind)]

    def evidence(self, warmup: int) -> Evidence:
        """Fit every series; the first `warmup` + 1 readings come before the measured calls."""
        series = {}
        for name, (label, unit, least, floor) in COLUMNS.items():
            values = self.rows[name][: self.count]
            if name == "c_heap":
                values = without_jumps(values)
            series[name] = fit(
                label, unit, values[warmup + 1 :], values[: warmup + 1], least=least, floor=floor
            )
        return Evidence(**series)


_WATCHED: Final = frozenset(
    {
        Kind.TENSOR,
        Kind.VARIABLE,
        Kind.FUNCTION,
        Kind.GRAPH,
        Kind.DATASET,
        Kind.ITERATOR,
        Kind.TABLE,
    }
)


class _Found:
    """What is alive at one reading; dropped at its end."""

    def __init__(self, objects: int, by_kind: dict[Kind, list[Any]]) -> None:
        self.objects = objects
        self.by_kind = by_kind

    def of(self, kind: Kind) -> list[Any]:
        return self.by_kind.get(kind, [])


def _allocated() -> float:
    if not runtime_is_set_up():  # nothing has been allocated yet
        return 0.0
    return _or_nan(system.allocator_bytes())


def _or_nan(value: int | None) -> float:
    return float("nan") if value is None else value


def _variable_bytes(variable: Any) -> int:
    known = None
    with contextlib.suppress(Exception):
        known = variable_bytes(variable)
    if known is None:
        value = variable_tensor(variable)
        known = 0 if value is None else tensor_bytes(value)
    return known


def _entries(table: Any) -> float:
    try:
        with tf.init_scope():
            return float(table.size()) if tf.executing_eagerly() else 0.0
    except Exception:  # closed, uninitialised, or of a graph
        return 0.0


def _functions(functions: Iterable[Any], graphs: Iterable[Any]) -> dict[str, int]:
    concrete, owned = 0, set()
    count = 0
    for function in functions:
        count += 1
        for trace in concrete_functions(function):
            concrete += 1
            owned.add(id(trace.graph))
    alive = list(graphs)
    return {
        "functions": count,
        "concrete_functions": concrete,
        "graphs": len(alive),
        "orphan_graphs": sum(is_orphan(graph, owned) for graph in alive),
        "graph_ops": sum(map(operations_of, alive)),
    }


def operations_of(graph: Any) -> int:
    """Count a graph's operations without listing them."""
    count = getattr(graph, "num_operations", None)
    try:
        return int(count()) if callable(count) else len(graph.get_operations())
    except Exception:  # a graph that is being built by another thread
        return 0


#: How large a thing is, and the least that it must gain: operations, and entries.
_SIZES: Final[dict[Kind, tuple[Callable[[Any], float], int]]] = {
    Kind.GRAPH: (operations_of, 3),
    Kind.TABLE: (_entries, 1),
}


def is_orphan(graph: Any, owned: set[int]) -> bool:
    """Tell whether a function's graph belongs to no living function.

    Graphs of branches and loops belong to the graph around them; the forward and backward passes
    that TensorFlow derives from a trace belong to that trace.
    """
    if not hasattr(graph, "captures"):  # a plain tf.Graph never had a function
        return False
    name = str(getattr(graph, "name", ""))
    if name.startswith(("__backward_", "__forward_", "__inference_backward")):
        return False
    outermost = graph
    while hasattr(outer := outer_graph(outermost), "captures"):
        outermost = outer
    return id(outermost) not in owned and id(graph) not in owned


def without_jumps(values: Floats) -> Floats:
    """Take out single large jumps: a pool that is extended by a whole region at once."""
    change = np.diff(values)
    usual = np.abs(change[np.isfinite(change)])
    if not len(usual):
        return values
    middle = float(np.median(change[np.isfinite(change)]))
    limit = max(_JUMP, 8 * float(np.median(usual)))
    change = np.where(np.abs(change) > limit, middle, change)
    return np.concatenate((values[:1], values[0] + np.cumsum(change)))
