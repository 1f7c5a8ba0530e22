"""What graphs a block makes and runs: traces, operations, bytes, and which functions it calls.

Only traces that start outside any graph count as traces; the graphs of loop bodies, branches and
inner functions are part of the graph that calls them.  Plain ``tf.Graph`` objects are no traces,
but their operations count.  Bytes are those of the serialized graphs, baked-in constants included.
While a block is watched, three functions of TensorFlow are replaced by wrappers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from lessons_lib.common.internals import BaseSession, EagerContext, function_definition
from lessons_lib.common.patching import patched
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing.graph_contents import graph_size
from lessons_lib.instruments.tracing.hooks import listening


@dataclass(slots=True)
class GraphCount:
    """What was made and run.

    Attributes
    ----------
    traces, ops, nbytes : int
        Traces; operations of all graphs made, inner graphs included; bytes of these graphs.
    calls : dict of str to int
        How often each traced function ran, by TensorFlow's name for it.
    kernels : dict of str to set of str
        Types of operation in each of them, inner functions included.
    session_runs : int
        Runs of ``tf.compat.v1.Session``.
    """

    traces: int = 0
    ops: int = 0
    nbytes: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, set[str]] = field(default_factory=dict)
    session_runs: int = 0

    def add(self, graph: Any) -> None:
        """Count a graph's operations and bytes."""
        ops, nbytes = graph_size(graph)
        self.ops += ops
        self.nbytes += nbytes

    def runs_of(self, *kernels: str) -> int:
        """Count the runs of functions whose graph has all of these types of operation."""
        return sum(
            count for name, count in self.calls.items() if set(kernels) <= self.kernels[name]
        )


def _types_in(name: str, seen: set[str]) -> set[str]:
    """Give the types of operation in a function that TensorFlow knows, inner ones included."""
    seen.add(name)
    definition = function_definition(name)
    if definition is None:
        return set()
    types = {node.op for node in definition.node_def}
    for inner in _inner_names(definition):
        if inner not in seen:
            types |= _types_in(inner, seen)
    return types


def _inner_names(definition: Any) -> Iterator[str]:
    for node in definition.node_def:
        for attribute in node.attr.values():
            if attribute.HasField("func"):
                yield attribute.func.name
            yield from (function.name for function in attribute.list.func)


class GraphCounter:
    """Context manager; ``with GraphCounter() as count:`` gives a `GraphCount`."""

    def __init__(self) -> None:
        self.count = GraphCount()
        self._stack = ExitStack()
        self._plain: list[Any] = []

    def __enter__(self) -> GraphCount:
        self._stack.enter_context(listening(self, timing=False))
        self._stack.enter_context(patched(tf.Graph, "__init__", self._noting_graphs))
        self._stack.enter_context(patched(EagerContext, "call_function", self._noting_calls))
        self._stack.enter_context(patched(BaseSession, "run", self._noting_runs))
        return self.count

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for graph in self._plain:
            self.count.add(graph)
        self._plain.clear()

    def _noting_graphs(self, init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def noted(graph: Any, *args: Any, **kwargs: Any) -> None:
            init(graph, *args, **kwargs)
            if type(graph) is tf.Graph:
                self._plain.append(graph)

        return noted

    def _noting_calls(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def noted(context: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            text = name.decode() if isinstance(name, bytes) else str(name)
            if text not in self.count.calls:
                # Now: a function that an answer makes is gone when it is.
                self.count.kernels[text] = _types_in(text, set())
            self.count.calls[text] = self.count.calls.get(text, 0) + 1
            return call(context, name, *args, **kwargs)

        return noted

    def _noting_runs(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def noted(session: Any, *args: Any, **kwargs: Any) -> Any:
            self.count.session_runs += 1
            return run(session, *args, **kwargs)

        return noted

    def made(self, concrete: Any, options: Any, sighting: Any) -> None:
        """Count one trace (called by the hook)."""
        if tf.executing_eagerly():
            self.count.traces += 1
            self.count.add(concrete.graph)
