"""The functions of ``tf.data`` pipelines, which TensorFlow runs by itself.

The profile gives an operation of such a function by its name alone.  It gets its user's line where
all functions that may have run agree: those of the iterators that live, from the import on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf
from lessons_lib.recording.graph_facts import GraphFacts, facts_of

#: Operations that run a data set without an iterator that could be seen.
_UNSEEN: Final = frozenset(
    ("ReduceDataset", "DatasetToSingleElement", "SaveDataset", "SaveDatasetV2", "DatasetToTFRecord")
)
#: A pipeline has no more transformations than this.
_MOST: Final = 1000


class Functions:
    """What is known of the functions, also of those that go while a recording is open."""

    def __init__(self) -> None:
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self._iterated: weakref.WeakSet[Any] = weakref.WeakSet()
        # To the graphs, once a recording has asked for them.
        self._iterators: weakref.WeakKeyDictionary[Any, list[Any] | None]
        self._iterators = weakref.WeakKeyDictionary()
        self._known: dict[GraphFacts, bool] | None = None
        self._any_may_run = False
        self._lock = threading.RLock()

    def add(self, graph: Any) -> None:
        """Note a function's graph."""
        with self._lock:
            self._graphs.add(graph)
            if self._known is not None:
                self._known.setdefault(facts_of(graph), False)

    def add_iterator(self, iterator: Any) -> None:
        """Note that a data set is iterated over; in a graph, perhaps again and again."""
        with self._lock:
            if not tf.executing_eagerly():  # this iterator goes, and its graphs may run
                graphs = list(_graphs_of(iterator))
                self._iterated.update(graphs)
            else:
                self._iterators[iterator] = None
                graphs = self._run_by(iterator) if self._known is not None else []
            if self._known is not None:
                self._known.update((facts_of(graph), True) for graph in graphs)

    def _run_by(self, iterator: Any) -> list[Any]:
        """Give the graphs that an iterator runs, of those that live."""
        found = self._iterators.get(iterator)
        if found is None:
            graphs: list[Any] = []
            with contextlib.suppress(Exception):
                graphs += _graphs_of(iterator)
            found = self._iterators[iterator] = [weakref.ref(graph) for graph in graphs]
        return [graph for ref in found if (graph := ref()) is not None]

    def is_run_unseen(self, what: str | GraphFacts) -> bool:
        """Tell of an operation, or of a graph, whether it runs a data set; then any may run."""
        found = _runs_unseen(what) if isinstance(what, GraphFacts) else what in _UNSEEN
        self._any_may_run |= found
        return found

    def begin(self) -> None:
        """Read all functions that live."""
        with self._lock:
            self._any_may_run = False
            runs = [graph for it in list(self._iterators) for graph in self._run_by(it)]
            runs += list(self._iterated)
            running = set(map(id, runs))
            graphs = {*self._graphs, *runs}
            self._known = {facts_of(graph): id(graph) in running for graph in graphs}

    def take(self) -> dict[GraphFacts, bool]:
        """Give what is known, and whether it may have run; forget the functions that are gone."""
        with self._lock:
            known = self._known or {}
            self._known = {f: runs for f, runs in known.items() if f.graph() is not None}
        return {facts: runs or self._any_may_run for facts, runs in known.items()}

    def end(self) -> None:
        """Keep weak references alone."""
        self._known = None


#: Those of the process.
functions_known: Final = Functions()


def _graphs_of(iterator: Any) -> Iterator[Any]:
    """Give the graphs of the functions of an iterator's pipeline, those within them too."""
    todo = [internals.dataset_of(iterator)]
    seen: dict[int, Any] = {}
    while todo and len(seen) < _MOST:
        dataset = todo.pop()
        if dataset is None or id(dataset) in seen:
            continue
        seen[id(dataset)] = dataset
        for graph in internals.graphs_of_dataset(dataset):
            yield from _with_inner(graph)
        todo += internals.inputs_of_dataset(dataset)


def _with_inner(graph: Any, depth: int = 0) -> Iterator[Any]:
    yield graph
    if depth < 8:
        for function in internals.functions_of(graph).values():
            inner = getattr(function, "graph", None) or internals.traced_graph(function)
            if inner is not None:
                yield from _with_inner(inner, depth + 1)


def _runs_unseen(facts: GraphFacts, depth: int = 0) -> bool:
    if any(op.type in _UNSEEN for op in list(facts.operations.values())):
        return True
    inner = [g for called in facts.calls.values() for graphs in called.values() for g in graphs]
    return depth < 8 and any(_runs_unseen(graph, depth + 1) for graph in inner if graph)


def _noting_function(original: Any) -> Any:
    def function(wrapper: Any) -> Any:
        found = original.fget(wrapper)
        with contextlib.suppress(Exception):
            functions_known.add(found.graph)
        return found

    return property(function)


def _noting_iterator(original: Any) -> Any:
    @functools.wraps(original)
    def create(iterator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(iterator, *args, **kwargs)
        with contextlib.suppress(Exception):
            functions_known.add_iterator(iterator)
        return result

    return create


for _holder, _name, _wrap in (
    (internals.StructuredFunctionWrapper, "function", _noting_function),
    (internals.OwnedIterator, "_create_iterator", _noting_iterator),
):
    if not isinstance(_holder, internals.Missing) and hasattr(_holder, _name):
        Patch(_holder, _name, _wrap).install()
