"""How data flows through a graph, with the graphs of loops, branches and functions laid into it.

The runtime inlines them into one graph, so they are inlined here: each operation is a `FlowNode`,
known by its path (the names of the calls that it is in, and its own), and each input knows the
nodes that it may come from.  A loop hands values on to its next iteration; such sources are marked,
so that an order of the nodes remains.  Nothing of the graph is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lessons_lib.recording.graph_facts import inner_graph
from lessons_lib.recording.scopes import Scope, scope_of
from lessons_lib.recording.variables import Variable, variable_of

#: Operations that call functions: attributes with their names, and their first argument's place.
_CALLS: Final = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), (("f",), 0)),
    **dict.fromkeys(("If", "StatelessIf"), (("then_branch", "else_branch"), 1)),
    **dict.fromkeys(("Case", "StatelessCase"), (("branches",), 1)),
    **dict.fromkeys(("While", "StatelessWhile"), (("body", "cond"), 0)),
}
_LOOPS: Final = ("While", "StatelessWhile")
_GRADIENTS: Final = "gradients/"
#: Type of what names a variable or another resource, and lives as long as that.
HANDLE: Final = "resource"
_VARIABLES: Final = ("VarHandleOp", "VariableV2", "Variable")
#: Larger graphs are not looked into: nothing is said of their operations.
_MOST_NODES: Final = 200_000
_DEEPEST: Final = 40


class Output(NamedTuple):
    """An output of an operation: its shape (None where unknown) and type."""

    shape: tuple[int | None, ...] | None
    dtype: str

    def same_form(self, other: Output) -> bool:
        """Tell whether two outputs are of one type and, as far as is known, of one shape."""
        if self.dtype != other.dtype or self.shape is None or other.shape is None:
            return self.dtype == other.dtype and self.shape == other.shape
        return len(self.shape) == len(other.shape) and all(
            m is None or n is None or m == n for m, n in zip(self.shape, other.shape, strict=True)
        )


class Source(NamedTuple):
    """A node's output that a tensor may be, and whether it is from a loop's last iteration."""

    node: int
    output: int
    back: bool


class Use(NamedTuple):
    """A node that takes an output, and as which of its inputs."""

    node: int
    place: int
    back: bool


@dataclass(slots=True, eq=False)
class FlowNode:
    """An operation.

    Attributes
    ----------
    path : tuple of str
    type : str
    scope : Scope or None
    backward : bool
        Whether the gradient machinery made it, as far as its name tells.
    outputs : tuple of Output
    inputs : list of list of Source
    variables : list of int
        Variables that it reads or writes, as indices into `Flow.variables`.
    uses : list of list of Use
        For each output, the nodes that take it, of those that run.
    escapes : bool
        Whether the function gives an output of it to its caller.
    """

    path: tuple[str, ...]
    type: str
    scope: Scope | None
    backward: bool
    outputs: tuple[Output, ...]
    inputs: list[list[Source]] = field(default_factory=list)
    variables: list[int] = field(default_factory=list)
    uses: list[list[Use]] = field(default_factory=list)
    escapes: bool = False


@dataclass(slots=True, eq=False)
class Flow:
    """All nodes of a graph, each after those that it takes values from, and its variables."""

    nodes: list[FlowNode] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Inlined:
    """A graph at one place: the call that it was inlined for, and the graphs inlined into it."""

    graph: Any
    path: tuple[str, ...] = ()
    outer: _Inlined | None = None
    call: Any = None
    first: int = 0
    body: bool = False
    backward: bool = False
    scope: Scope | None = None
    arguments: dict[str, int] = field(default_factory=dict)
    inner: dict[str, list[_Inlined]] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)


def flow_of(graph: Any, is_backward: Callable[[Any], bool]) -> tuple[Flow, list[Any]] | None:
    """Read a graph, and give each node's operation, not to be kept; None if it is too large."""
    reader = _Reader(is_backward)
    try:
        reader.read(graph)
    except _TooLarge:
        return None
    return reader.flow, [op for _, op in reader.operations]


class _TooLarge(Exception):
    pass


class _Reader:
    def __init__(self, is_backward: Callable[[Any], bool]) -> None:
        self.flow = Flow()
        self._is_backward = is_backward
        self.operations: list[tuple[_Inlined, Any]] = []
        self._sources: dict[tuple[int, str, int], list[Source]] = {}
        self._variables: dict[int | tuple[str, ...], int] = {}
        self._captures: dict[str, Any] = {}
        self._graphs: dict[Any, None] = {}
        self._calls: list[tuple[_Inlined, Any]] = []

    def read(self, graph: Any) -> None:
        self._captures = {inner.op.name: outer for outer, inner in getattr(graph, "captures", ())}
        whole = self._inline(_Inlined(graph), 0)
        nodes = self.flow.nodes
        for number, (inlined, op) in enumerate(self.operations):
            node = nodes[number]
            for tensor in op.inputs:
                if _is_handle(tensor):
                    node.variables += self._handles(inlined, tensor)
                node.inputs.append(self._of(inlined, tensor))
        for tensor in getattr(graph, "outputs", ()):
            for source in self._of(whole, tensor):
                nodes[source.node].escapes = True
        # What a session runs of its graph, each call says anew.
        runs = self._running() if hasattr(graph, "outputs") else range(len(nodes))
        for number in sorted(runs):
            for place, sources in enumerate(nodes[number].inputs):
                for source in sources:
                    nodes[source.node].uses[source.output].append(Use(number, place, source.back))

    def _running(self) -> Iterable[int]:
        """Find the nodes that the function's results and effects need.

        The runtime leaves out the others, such as gradients that a tape writes and nobody asks for.
        """
        nodes = self.flow.nodes
        types = {op.type: op for _, op in self.operations}
        effects = {name for name, op in types.items() if op.op_def.is_stateful}
        found = {n: None for n, node in enumerate(nodes) if node.escapes or node.type in effects}
        for place, op in self._calls:
            inner = place.inner[op.name]
            loops = [(p, p.graph.outputs[0]) for p in inner if op.type in _LOOPS and not p.body]
            branches = [(place, tensor) for tensor in op.inputs[: _CALLS[op.type][1]]]
            for where, tensor in loops + branches:
                found.update(dict.fromkeys(source.node for source in self._of(where, tensor)))
            found.update(dict.fromkeys(self._waits(place, op)))
        todo = list(found)
        for number in todo:  # which grows
            needed = [s.node for sources in nodes[number].inputs for s in sources]
            new = dict.fromkeys([*needed, *self._waits(*self.operations[number])])
            todo += [n for n in new if n not in found]
            found.update(new)
        return found

    def _waits(self, place: _Inlined, op: Any) -> Iterable[int]:
        """Give the nodes that have to run before an operation that takes nothing from them."""
        for other in op.control_inputs:
            if (number := place.nodes.get(other.name)) is not None:
                yield number
            else:
                yield from (s.node for tensor in other.outputs for s in self._of(place, tensor))

    def _scope(self, graph: Any, name: str) -> Scope | None:
        found = scope_of(graph, name)
        forward = name.rpartition(_GRADIENTS)[2]
        if found is None and forward != name:
            # In the gradient of a loop's body the names are those of the body itself.
            scopes = [scope for other in self._graphs if (scope := scope_of(other, forward))]
            found = max(scopes, key=lambda scope: len(scope.path), default=None)
        return found

    def _inline(self, place: _Inlined, depth: int) -> _Inlined:
        graph = place.graph
        self._graphs[graph] = None
        place.arguments = {t.op.name: i for i, t in enumerate(getattr(graph, "inputs", ()))}
        for op in graph.get_operations():
            scope = self._scope(graph, op.name) or place.scope
            backward = place.backward or self._is_backward(op)
            if (call := _CALLS.get(op.type)) and depth < _DEEPEST:
                inner = [
                    self._inline(
                        _Inlined(
                            inner,
                            (*place.path, op.name),
                            place,
                            op,
                            first=call[1],
                            body=attribute == "body",
                            backward=backward,
                            scope=scope,
                        ),
                        depth + 1,
                    )
                    for attribute, inner in _graphs(graph, op, call[0])
                ]
                if inner:
                    place.inner[op.name] = inner
                    self._calls.append((place, op))
                    continue
            if len(self.flow.nodes) >= _MOST_NODES:
                raise _TooLarge
            place.nodes[op.name] = len(self.flow.nodes)
            outputs = tuple(_output(tensor) for tensor in op.outputs)
            node = FlowNode((*place.path, op.name), op.type, scope, backward, outputs)
            node.uses = [[] for _ in outputs]
            self.flow.nodes.append(node)
            self.operations.append((place, op))
        return place

    def _of(self, place: _Inlined, tensor: Any) -> list[Source]:
        """Find what a tensor may be."""
        op, index = tensor.op, tensor.value_index
        key = (id(place), op.name, index)
        if (known := self._sources.get(key)) is not None:
            return known
        found = self._sources[key] = []  # a loop that hands a value on as it is comes back here
        for source in self._find(place, op, index):
            if source not in found:
                found.append(source)
        return found

    def _find(self, place: _Inlined, op: Any, index: int) -> Iterable[Source]:
        for inner_place, inner_tensor, back in _origins(place, op, index):
            for source in self._of(inner_place, inner_tensor):
                yield source._replace(back=source.back or back)
        if (number := place.nodes.get(op.name)) is not None and not _is_argument(place, op):
            yield Source(number, index, False)

    def _handles(self, place: _Inlined, tensor: Any) -> list[int]:
        """Find the variables that a handle may belong to."""
        seen: set[tuple[int, str, int]] = set()
        found: dict[int, None] = {}

        def visit(place: _Inlined, op: Any, index: int) -> None:
            if (key := (id(place), op.name, index)) in seen:
                return
            seen.add(key)
            for inner_place, inner_tensor, _ in _origins(place, op, index):
                visit(inner_place, inner_tensor.op, inner_tensor.value_index)
            if place.outer is None and op.name in self._captures:
                handle = self._captures[op.name]
                if hasattr(handle, "dtype") and handle.dtype.base_dtype == HANDLE:
                    found[self._variable(id(handle), variable_of(handle))] = None
            elif op.type in _VARIABLES:
                variable = variable_of(op.outputs[0])
                found[self._variable((*place.path, op.name), variable)] = None
            elif op.type == "Identity" and op.inputs:
                visit(place, op.inputs[0].op, op.inputs[0].value_index)

        visit(place, tensor.op, tensor.value_index)
        return list(found)

    def _variable(self, key: int | tuple[str, ...], variable: Variable) -> int:
        if key not in self._variables:
            self._variables[key] = len(self.flow.variables)
            self.flow.variables.append(variable)
        return self._variables[key]


def _origins(place: _Inlined, op: Any, index: int) -> Iterable[tuple[_Inlined, Any, bool]]:
    """Follow a tensor through the edge of a graph: where it is called, or into what it calls."""
    if _is_argument(place, op) and place.outer is not None:
        argument = place.arguments[op.name]
        yield place.outer, place.call.inputs[argument + place.first], False
        if place.call.type in _LOOPS:
            body = next(p for p in place.outer.inner[place.call.name] if p.body)
            yield body, body.graph.outputs[argument], True
    for inner in place.inner.get(op.name, ()):
        if op.type not in _LOOPS:
            yield inner, inner.graph.outputs[index], False
        elif inner.body:
            yield inner, inner.graph.outputs[index], False
            yield place, op.inputs[index], False


def _is_argument(place: _Inlined, op: Any) -> bool:
    return op.name in place.arguments


def _is_handle(tensor: Any) -> bool:
    return tensor.dtype.base_dtype == HANDLE or tensor.dtype._is_ref_dtype


def _graphs(graph: Any, op: Any, attributes: tuple[str, ...]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for attribute in attributes:
        value = op.get_attr(attribute)
        for function in value if isinstance(value, (list, tuple)) else [value]:
            inner = inner_graph(graph, function.name)
            if inner is None or len(inner.inputs) > len(op.inputs):
                return []
            found.append((attribute, inner))
    return found


def _output(tensor: Any) -> Output:
    shape = tensor.shape
    known = None if shape.rank is None else tuple(shape.as_list())
    return Output(known, tensor.dtype.base_dtype.name)


def equal_nodes(flow: Flow, operations: list[Any], numbers: Iterable[int]) -> dict[int, list[int]]:
    """Find nodes that compute one and the same from constants, of which the runtime makes one.

    Parameters
    ----------
    flow : Flow
    operations : list of tf.Operation
        Of each node.
    numbers : iterable of int
        Nodes that depend on constants only.

    Returns
    -------
    dict of int to list of int
        For a node, the others that are equal to it.
    """
    alike: dict[Any, list[int]] = {}
    for number in numbers:
        node = flow.nodes[number]
        if len(node.path) == 1:  # within a branch it is computed there
            alike.setdefault((node.type, node.outputs), []).append(number)
    keys: dict[Any, int] = {}
    known: dict[str, int] = {}
    equal: dict[int, list[int]] = {}
    for found in alike.values():
        if len(found) > 1:  # a large constant is not read for nothing
            for number in found:
                equal.setdefault(_key(operations[number], keys, known), []).append(number)
    return {n: [m for m in found if m != n] for found in equal.values() for n in found}


def _key(op: Any, keys: dict[Any, int], known: dict[str, int]) -> int:
    """Give a number that equal operations share."""
    if op.name not in known:
        parts: tuple[Any, ...] = (op.name,)
        if not (op.op_def.is_stateful or op.type == "Placeholder"):
            attributes = {
                name: hash(value.SerializeToString()) for name, value in op.node_def.attr.items()
            }
            sources = [(_key(tensor.op, keys, known), tensor.value_index) for tensor in op.inputs]
            waits = {other.name for other in op.control_inputs}
            parts = op.type, op.device, frozenset(attributes.items()), *sources, frozenset(waits)
        known[op.name] = keys.setdefault(parts, len(keys))
    return known[op.name]
