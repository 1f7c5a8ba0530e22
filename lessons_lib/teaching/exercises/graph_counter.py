"""Counts the graphs that are made during a block: how many, how many operations, how many bytes.

Only traces that start outside any graph count as traces; the graphs of loop bodies, branches and
inner functions are part of the graph that calls them.  Plain ``tf.Graph`` objects are no traces,
but their operations count.  While a block is watched, two functions of TensorFlow are replaced by
wrappers, and put back at its end.  Bytes are those of the serialized graphs, baked-in constants
included.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

from lessons_lib.common.internals import func_graph
from lessons_lib.common.runtime import tf


@dataclass(slots=True)
class GraphCount:
    """What was made: traces, operations (inner graphs included), and bytes of the graphs."""

    traces: int = 0
    ops: int = 0
    nbytes: int = 0

    def add(self, graph: Any) -> None:
        """Count a graph's operations and bytes."""
        try:
            definition = graph.as_graph_def()
        except (ValueError, tf.errors.OpError):  # more than 2 GiB cannot be serialized
            self.ops += len(graph.get_operations())
            return
        self.ops += len(definition.node)
        self.ops += sum(len(f.node_def) for f in definition.library.function)
        self.nbytes += definition.ByteSize()


class GraphCounter:
    """Context manager; ``with GraphCounter() as count:`` gives a `GraphCount`."""

    def __init__(self) -> None:
        self.count = GraphCount()
        self._trace: Any = None
        self._init: Any = None
        self._depth = 0
        self._plain: list[Any] = []

    def __enter__(self) -> GraphCount:
        self._trace, self._init = func_graph.func_graph_from_py_func, tf.Graph.__init__
        counter, init = self, self._init

        def graph_init(graph: Any, *args: Any, **kwargs: Any) -> None:
            init(graph, *args, **kwargs)
            if type(graph) is tf.Graph:
                counter._plain.append(graph)

        func_graph.func_graph_from_py_func = self._traced
        tf.Graph.__init__ = graph_init
        return self.count

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        func_graph.func_graph_from_py_func = self._trace
        tf.Graph.__init__ = self._init
        for graph in self._plain:
            self.count.add(graph)
        self._plain.clear()

    def _traced(self, *args: Any, **kwargs: Any) -> Any:
        self._depth += 1
        try:
            graph = self._trace(*args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            self.count.traces += 1
            self.count.add(graph)
        return graph
