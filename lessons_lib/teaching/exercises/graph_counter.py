"""What graphs a block makes and runs: traces, operations, bytes, and which functions it calls.

Only traces that start outside any graph count as traces; the graphs of loop bodies, branches and
inner functions are part of the graph that calls them.  Plain ``tf.Graph`` objects are no traces,
but their operations count.  Bytes are those of the serialized graphs, baked-in constants included.
While a block is watched, three functions of TensorFlow are replaced by wrappers.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from lessons_lib.common.internals import BaseSession, EagerContext, function_definition
from lessons_lib.common.patching import patched
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, Place, is_converted, statement_of, user_place
from lessons_lib.instruments.tracing.graph_contents import constant_bytes, graph_size
from lessons_lib.instruments.tracing.hooks import Listener, calling_line, listening

#: Of so many operations of a graph, one in even steps, it is noted where they were made.
_NOTED_OPS: Final = 32


#: A line of the user's, and whether it is known only as far as its statement.
_Place = tuple[Place, bool] | None


@dataclass(frozen=True, slots=True)
class _Made:
    """A graph that was made: its name, the line that called for it, and where its parts come from.

    Lines are read afterwards: their texts would count as Python's bytes.
    """

    name: str
    called_at: Line | None
    ops: int
    places: tuple[_Place, ...]
    constant: tuple[int, _Place]


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
    caller : Line or None
        The user's line that runs the block.
    """

    traces: int = 0
    ops: int = 0
    nbytes: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, set[str]] = field(default_factory=dict)
    session_runs: int = 0
    caller: Line | None = None
    _made: list[_Made] = field(default_factory=list)

    def add(self, graph: Any, called_at: Line | None = None) -> None:
        """Count a graph's operations and bytes."""
        ops, nbytes = graph_size(graph)
        self.ops += ops
        self.nbytes += nbytes
        own = graph.get_operations()
        constants = [(constant_bytes(op), op) for op in own if op.type == "Const"]
        nbytes, largest = max(constants, key=lambda constant: constant[0], default=(0, None))
        self._made.append(
            _Made(
                name=str(getattr(graph, "name", "")),
                called_at=called_at,
                ops=ops,
                places=tuple(map(_place_of, own[:: len(own) // _NOTED_OPS + 1])),
                constant=(nbytes, _place_of(largest)),
            )
        )

    def most_traced(self) -> tuple[int, Line | None]:
        """Tell how often the function that was traced most was, and where.

        The line is the one that called for the traces or, where the block's own caller did, the
        first one in the graph.
        """
        times = Counter(made.name for made in self._made)
        name, most = times.most_common(1)[0] if times else ("", 0)
        last = next((made for made in reversed(self._made) if made.name == name), None)
        if last is None or (last.called_at is not None and last.called_at != self.caller):
            return most, None if last is None else last.called_at
        return most, next(self._lines(last.places), None)

    def line_of_ops(self) -> Line | None:
        """Give the user's line that made most operations, by a part of them."""
        by_line: Counter[Line] = Counter()
        for made in self._made:
            for line in self._lines(made.places):
                by_line[line] += made.ops
        return max(by_line, key=lambda line: by_line[line], default=None)

    def line_of_constant(self) -> Line | None:
        """Give the user's line that put the largest constant into a graph."""
        largest = max((made.constant for made in self._made), key=lambda c: c[0], default=None)
        return None if largest is None else next(self._lines(largest[1:]), None)

    def _lines(self, places: Iterable[_Place]) -> Iterator[Line]:
        """Give the lines of places, without the one that runs the block."""
        for found in places:
            if found is not None:
                place, converted = found
                line = (statement_of(place) if converted else place).line()
                if line != self.caller:
                    yield line

    def runs_of(self, *kernels: str) -> int:
        """Count the runs of functions whose graph has all of these types of operation."""
        return sum(
            count for name, count in self.calls.items() if set(kernels) <= self.kernels[name]
        )


def _place_of(op: Any) -> _Place:
    """Give the innermost place of the user's that made an operation; its stack goes with it."""
    frames = [(frame.filename, frame.lineno or 0) for frame in getattr(op, "traceback", None) or ()]
    place = user_place(reversed(frames))
    return None if place is None else (place, is_converted(name for name, _ in frames))


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


class GraphCounter(Listener):
    """Context manager; ``with GraphCounter() as count:`` gives a `GraphCount`."""

    def __init__(self) -> None:
        self.count = GraphCount(caller=calling_line())
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
            self.count.add(concrete.graph, None if sighting is None else sighting.line)
