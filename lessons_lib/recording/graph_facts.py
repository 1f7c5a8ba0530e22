"""What is known of a graph when it is gone: names, types and lines of its operations.

A graph is read when one of its functions first runs in a recording, or a session first runs it.
Only facts are kept, never an object of the program: a graph holds the tensors that it captured, so
whoever keeps the graph changes what is alive.  What was read is remembered for as long as the graph
itself lives, by a weak reference, so that a graph that runs in many recordings is read once.

Which forward operation a gradient belongs to is noted when the gradient is built (`note_gradient`),
also outside of recordings: most functions are traced before the first one.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lessons_lib.common import internals
from lessons_lib.common.source import (
    Place,
    is_converted,
    is_users,
    statement_of,
    user_place,
    user_places,
)

#: TensorFlow's functions within which a Python function is traced, its arguments first.
_TRACING: Final = frozenset(("_create_concrete_function", "func_graph_from_py_func"))
_PFOR: Final = os.path.join("", "parallel_for", "pfor.py")
# The gradient of an operation is built in a name scope that holds the operation's name.
_GRADIENT_SCOPE: Final = re.compile(r"(?:.*/)?gradients/(?P<forward>.+)_grad/[^/]+")
#: Operations that call functions, and the attributes that name these.
_CALLS: Final = {
    kind: attributes
    for kinds, attributes in (
        ("PartitionedCall StatefulPartitionedCall", ("f",)),
        ("While StatelessWhile", ("body", "cond")),
        ("If StatelessIf", ("then_branch", "else_branch")),
        ("Case StatelessCase", ("branches",)),
    )
    for kind in kinds.split()
}
#: Operations that the optimiser fuses into a leading one.
PASSED: Final = frozenset(
    (
        "Add", "AddV2", "BiasAdd", "BiasAddV1", "Elu", "FusedBatchNorm", "FusedBatchNormV3", "Gelu",
        "Identity", "LeakyRelu", "Maximum", "Mish", "Mul", "Relu", "Relu6", "Sigmoid", "Softplus",
        "Tanh",
    )
)  # fmt: skip
#: Operations that make a data set of tensors, which it holds; and its name in the profile.
SOURCES: Final = {"TensorSliceDataset": "TensorSlice", "TensorDataset": "FromTensor"}


class Maker(NamedTuple):
    """Who created an operation.

    Attributes
    ----------
    place : Place or None
        The innermost line of the user's code that led to it.
    by_user : bool
        Whether the user's own code created it, and not a library that it called.  Of a library's
        function, such as Keras' training step, the line is the user's call that had it traced;
        later calls may come from other lines.
    chain : tuple of Place
        The user's lines within the traced function, from the innermost outwards.
    """

    place: Place | None = None
    by_user: bool = False
    chain: tuple[Place, ...] = ()


class Operation(NamedTuple):
    """An operation of a graph.

    Attributes
    ----------
    name, type : str
    number : int
        Its place in the order of creation, from 0.
    maker : Maker
    forward : Maker or None
        For a gradient: the maker of the operation that it belongs to.
    inputs : tuple of str
        The operations whose outputs it takes; left empty where the optimiser never fuses and
        no data set is made.
    """

    name: str
    type: str
    number: int
    maker: Maker
    forward: Maker | None
    inputs: tuple[str, ...]


@dataclass(slots=True, eq=False)
class GraphFacts:
    """The operations of a graph, and the graphs of the functions that they call.

    Attributes
    ----------
    operations : dict of str to Operation
    calls : dict of str to dict of str to list of GraphFacts or None
        For an operation that calls functions: their graphs, by attribute.
    graph : weakref
        The graph itself, for those who hold it anyway.
    """

    graph: Callable[[], Any]
    operations: dict[str, Operation] = field(default_factory=dict)
    calls: dict[str, dict[str, list[GraphFacts | None]]] = field(default_factory=dict)
    reading: bool = False


class _Gradient(NamedTuple):
    """A range of operations that were built as the gradient of another one."""

    begin: int
    end: int
    forward: str | Maker  # by name in the same graph


_lock: Final = threading.RLock()
_facts: Final[weakref.WeakKeyDictionary[Any, GraphFacts]] = weakref.WeakKeyDictionary()
_gradients: Final[weakref.WeakKeyDictionary[Any, list[_Gradient]]] = weakref.WeakKeyDictionary()


def note_gradient(graph: Any, begin: int, forward: Any) -> None:
    """Note that the operations made since `begin` are the gradient of a forward operation."""
    end = internals.count_operations(graph)
    if end > begin:
        same = forward.graph is graph
        what = str(forward.name) if same else _Makers().of(forward)
        _gradients.setdefault(graph, []).append(_Gradient(begin, end, what))


def facts_of(graph: Any) -> GraphFacts:
    """Read a graph, or what was added to it since it was read.

    Parameters
    ----------
    graph : tf.Graph
    """
    with _lock:
        facts = _facts.get(graph)
        if facts is None:
            facts = _facts[graph] = GraphFacts(weakref.ref(graph))
        # Graphs that refer to each other, or to themselves, are read once.
        if not facts.reading and internals.count_operations(graph) != len(facts.operations):
            facts.reading = True
            try:
                _Reader(graph, facts).read()
            finally:
                facts.reading = False
        return facts


class _Makers:
    """Finds out who created operations; remembers it by the user's frames."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Maker] = {}
        self._whole = False

    def of(self, op: Any) -> Maker:
        trace = op.traceback
        if trace is None:  # loaded from a file
            return Maker()
        frames = None if self._whole else internals.outside_frames(trace)
        if not frames:
            return self._read(trace)
        # Threads of TensorFlow's own begin with another frame than the user's.
        key = (frames[0][0], *(frame for frame in frames if is_users(frame[0])))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(trace)
            # TensorFlow takes files in any folder "tensorflow/python" for its own.
            self._whole = found.place is not None and len(key) == 1
        return found

    @staticmethod
    def _read(trace: Any) -> Maker:
        frames = [(frame.filename, frame.lineno, frame.name) for frame in trace]
        place = user_place((file, number) for file, number, _ in reversed(frames))
        if place is None:
            return Maker()
        if is_converted(file for file, _, _ in frames):
            place = statement_of(place)
        # A thread that was started while a function is traced (tf.distribute) knows no tracing.
        tracing = (i for i, (_, _, name) in enumerate(frames) if name in _TRACING)
        begin = next(tracing, 0)
        inside = ((file, number) for file, number, _ in reversed(frames[begin:]))
        chain = tuple(user_places(inside))
        return Maker(place, bool(chain), (place, *chain[1:]) if chain else ())


class _Reader:
    """Reads one graph into its facts."""

    def __init__(self, graph: Any, facts: GraphFacts) -> None:
        self._graph = graph
        self._facts = facts
        self._makers = _Makers()
        self._texts: dict[str, str] = {}
        # Of nested gradients the inner one is noted first, and counts.
        self._gradients: dict[int, str | Maker] = {}
        for gradient in _gradients.get(graph, ()):
            for index in range(gradient.begin, gradient.end):
                self._gradients.setdefault(index, gradient.forward)

    def read(self) -> None:
        operations, calls = self._facts.operations, self._facts.calls
        makers, texts = self._makers, self._texts
        known = len(operations)
        for index, op in enumerate(self._graph.get_operations()[known:], known):
            name, kind = op.name, op.type
            kind = texts.setdefault(kind, kind)
            inputs: tuple[str, ...] = ()
            if kind in PASSED or kind in SOURCES:
                inputs = tuple(tensor.op.name for tensor in op.inputs)
            forward = self._forward(op, index)
            operations[name] = Operation(name, kind, index, makers.of(op), forward, inputs)
            if kind in _CALLS:
                calls[name] = {}
        # Gradients may have given older calls other functions, so all are read again.
        for name in calls:
            calls[name] = self._called(name, operations[name].type)

    def _called(self, name: str, kind: str) -> dict[str, list[GraphFacts | None]]:
        op = self._graph.get_operation_by_name(name)
        found: dict[str, list[GraphFacts | None]] = {}
        for attribute in _CALLS[kind]:
            value = op.get_attr(attribute)
            functions = value if isinstance(value, (list, tuple)) else [value]
            graphs = (inner_graph(self._graph, function.name) for function in functions)
            found[attribute] = [None if graph is None else facts_of(graph) for graph in graphs]
        return found

    def _forward(self, op: Any, index: int) -> Maker | None:
        forward = self._gradients.get(index)
        if isinstance(forward, Maker):
            return forward
        if forward is not None:
            known = self._facts.operations.get(forward)
            # A gradient of a gradient belongs to the operation at the end of the chain.
            return None if known is None else known.forward or known.maker
        original = internals.original_op(op)
        if original is None:
            return self._forward_by_name(op)
        if any(_PFOR in frame.filename for frame in op.traceback):
            return self._of_copy(original)
        while (further := internals.original_op(original)) is not None:
            original = further
        return self._makers.of(original)

    def _of_copy(self, original: Any) -> Maker | None:
        """Tell the forward operation of what was vectorised: a copy, and no gradient of it."""
        graph = original.graph
        known = None if graph is None else facts_of(graph).operations.get(original.name)
        return None if known is None else known.forward

    def _forward_by_name(self, op: Any) -> Maker | None:
        match = _GRADIENT_SCOPE.fullmatch(op.name)
        if match is None:
            return None
        graph = self._graph
        # The gradients of loops, branches and functions are graphs of their own, which know the
        # graph that they differentiate, or take tensors from it.
        candidates = [internals.forward_graph(graph)]
        candidates += [
            getattr(t, "graph", None)
            for t in getattr(graph, "external_captures", ())
            if not hasattr(t, "numpy")
        ]
        found: dict[int, Any] = {}
        for candidate in candidates:
            forward = None if candidate is None else _operation(candidate, match["forward"])
            if forward is not None:
                found[id(candidate)] = forward
        return self._makers.of(next(iter(found.values()))) if len(found) == 1 else None


def _operation(graph: Any, name: str) -> Any:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def inner_graph(graph: Any, name: str | bytes) -> Any:
    """Give the graph of a function that a graph calls, by the function's name.

    Only one that TensorFlow still has: to rebuild one would make an object that stays.
    """
    key = name.decode() if isinstance(name, bytes) else name
    while graph is not None:
        functions = internals.functions_of(graph)
        function = functions.get(key)
        if function is None:
            function = functions.get(key.encode())
        if function is not None:
            return internals.traced_graph(function)
        graph = getattr(graph, "outer_graph", None)
    return None
