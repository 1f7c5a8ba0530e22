"""What one traced graph holds: operations, bytes, constants, captured tensors, unrolled loops.

Everything is read from the graph that TensorFlow keeps; nothing is run and nothing is changed.
All sizes are bytes.  The graphs of loops, branches and of functions that are called from the
graph are included, each once: they are in the library that the graph carries.  Constants that
TensorFlow folds when the graph first runs are not in the graph and not counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, is_user_file, line_of, user_place_in_trace

#: How many constants are listed one by one, the largest first.
LISTED: Final = 10
#: How often an operation must repeat under one Python loop for the loop to be called unrolled.
REPEATS: Final = 16
#: How many operations of one type are looked at; a longer loop shows as "at least" this.
_EXAMINED: Final = 4096


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written into a graph.

    Attributes
    ----------
    name : str
        The operation's name in its graph.
    shape : tuple of int
    dtype : str
    nbytes : int
        Bytes of the tensor (of its text, for strings).
    line : Line or None
        The user's line that put it into the graph.
    function : str
        The inner graph that holds it; empty for the outermost.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    line: Line | None
    function: str = ""


class CaptureKind(StrEnum):
    """What a graph holds by handle rather than by value."""

    TENSOR = "tensor"
    VARIABLE = "variable"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Capture:
    """A tensor or variable from outside that a graph uses.

    Attributes
    ----------
    name : str
        Its name in the user's code, where a closure or a global shows it; else its name in the
        graph.
    kind : CaptureKind
        Variables are told apart from tensors; other resources are tables, iterators and the like.
    shape : tuple of (int or None), or None
    dtype : str
    nbytes : int or None
        Bytes of the tensor or of the variable's value; None where the size is not known.
    """

    name: str
    kind: CaptureKind
    shape: tuple[int | None, ...] | None
    dtype: str
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A Python loop whose body was copied into the graph once per step, at least 16 times.

    A loop of fewer steps is not told.

    Attributes
    ----------
    line : Line
        The loop's own line.
    times : int
        Copies of the body, at least.
    """

    line: Line
    times: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a graph holds.

    Attributes
    ----------
    ops : int
        Operations, inner graphs included, each inner graph once.
    own_ops : int
        Operations of the outermost graph alone.
    graph_bytes : int
        Size of the serialised graph with its library of functions.
    constant_bytes : int
        All constants together.
    constants : tuple of Constant
        The largest ones, at most `LISTED`, largest first.
    captures : tuple of Capture
        In the order in which the graph took them.
    unrolled : UnrolledLoop or None
        The loop that was copied most often, at least `REPEATS` times.
    """

    ops: int
    own_ops: int
    graph_bytes: int
    constant_bytes: int
    constants: tuple[Constant, ...]
    captures: tuple[Capture, ...]
    unrolled: UnrolledLoop | None


def contents_of(graph: Any, names: Mapping[int, str] | None = None) -> Contents:
    """Read what a function's graph holds.

    Parameters
    ----------
    graph : FuncGraph
        ``concrete_function.graph``.
    names : mapping of int to str, optional
        Names of captured values in the user's code, by ``id`` of the value.
    """
    places, graph_bytes = _definitions(graph)
    constants = sorted(_constants(places), key=_rank)
    return Contents(
        ops=sum(len(nodes) for nodes in places.values()),
        own_ops=len(places[""]),
        graph_bytes=graph_bytes,
        constant_bytes=sum(nbytes for _, _, nbytes in constants),
        constants=tuple(
            _constant(graph, function, node, nbytes)
            for function, node, nbytes in constants[:LISTED]
        ),
        captures=tuple(_captures(graph, names or {})),
        unrolled=_unrolled(graph),
    )


def constant_bytes(op: Any) -> int:
    """Give the bytes of a tensor that is baked into a graph, by its shape; else 0."""
    if op.type != "Const":
        return 0
    (output,) = op.outputs
    return (output.shape.num_elements() or 0) * int(output.dtype.size or 1)


def graph_size(graph: Any) -> tuple[int, int]:
    """Give a graph's operations, each inner graph's once, and its bytes when serialised."""
    places, nbytes = _definitions(graph)
    return sum(len(nodes) for nodes in places.values()), nbytes


def _definitions(graph: Any) -> tuple[dict[str, Any], int]:
    """Give the nodes of the outermost graph (under "") and of each function, and their bytes."""
    try:
        definition = graph.as_graph_def()
    except (ValueError, tf.errors.OpError):
        # Beyond 2 GiB a graph cannot be serialised as a whole, but each operation can.
        places = {
            name: [op.node_def for op in holder.get_operations()]
            for name, holder in {"": graph, **inner_graphs(graph)}.items()
        }
        return places, sum(node.ByteSize() for nodes in places.values() for node in nodes)
    places = {"": definition.node}
    places |= {inner.signature.name: inner.node_def for inner in definition.library.function}
    return places, definition.ByteSize()


def _constants(places: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    for function, nodes in places.items():
        for node in nodes:
            if node.op == "Const":
                yield function, node, _constant_bytes(node.attr["value"].tensor)


def _rank(constant: tuple[str, Any, int]) -> tuple[int, bool, str, str]:
    # A graph lists its functions in no fixed order.  Of what a gradient repeats, the original
    # comes first.
    function, node, nbytes = constant
    return -nbytes, "grad" in f"{function} {node.name}", function, node.name


def _constant_bytes(proto: Any) -> int:
    dtype = tf.dtypes.as_dtype(proto.dtype)
    count = math.prod(dim.size for dim in proto.tensor_shape.dim)
    if dtype != tf.string:
        return count * int(dtype.size)
    sizes = [len(text) for text in proto.string_val]
    # One value may stand for all the following ones.
    return sum(sizes) + (count - len(sizes)) * sizes[-1] if sizes else 0


def _constant(graph: Any, function: str, node: Any, nbytes: int) -> Constant:
    proto = node.attr["value"].tensor
    holder = graph if not function else inner_graphs(graph).get(function)
    return Constant(
        name=node.name,
        shape=tuple(dim.size for dim in proto.tensor_shape.dim),
        dtype=tf.dtypes.as_dtype(proto.dtype).name,
        nbytes=nbytes,
        line=None if holder is None else _line(holder, node.name),
        function=function,
    )


def _line(graph: Any, name: str) -> Line | None:
    try:
        op = graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None
    # Operations of a graph that was loaded from a file have no traceback.
    place = None if op.traceback is None else user_place_in_trace(op.traceback)
    return None if place is None else place.line()


def inner_graphs(graph: Any) -> dict[str, Any]:
    """Give the graphs of loops, branches and called functions, by name.

    Only graphs that TensorFlow still has from tracing: one that it would have to rebuild knows no
    lines of the user's.
    """
    found = {}
    for name, function in internals.functions_of(graph).items():
        inner = internals.traced_graph(function)
        if inner is not None:
            found[name.decode() if isinstance(name, bytes) else name] = inner
    return found


def _captures(graph: Any, names: Mapping[int, str]) -> Iterator[Capture]:
    try:
        variables = {id(variable.handle): variable for variable in graph.variables}
    except AssertionError:  # one of the graph's variables is gone; the graph cannot run any more
        variables = {}
    for outer, inner in zip(graph.external_captures, graph.internal_captures, strict=True):
        variable = variables.get(id(outer))
        value = outer if variable is None else variable
        if variable is not None:
            kind = CaptureKind.VARIABLE
            fallback = str(variable.name).partition(":")[0]
        else:
            kind = CaptureKind.RESOURCE if outer.dtype == tf.resource else CaptureKind.TENSOR
            fallback = str(inner.name).partition(":")[0]
        yield Capture(
            name=names.get(id(value), fallback),
            kind=kind,
            shape=tuple(value.shape.as_list()) if value.shape.rank is not None else None,
            dtype=value.dtype.name,
            nbytes=None if kind is CaptureKind.RESOURCE else _tensor_bytes(value),
        )


def _tensor_bytes(value: Any) -> int | None:
    if value.dtype in (tf.string, tf.variant, tf.resource) or not value.shape.is_fully_defined():
        return None
    return math.prod(value.shape.as_list()) * int(value.dtype.size)


#: What makes operations in a line of text: operators, calls, subscripts.
_MAKES: Final = re.compile(r"\*\*|//|[<>=!]=|[-+*/@%&|<>]|[\w.]+(?=\()|(?<=[\w)\]])\[")
_ONLY: Final = {"+": "AddV2", "*": "Mul"}
_COMPREHENSION: Final = re.compile(r"\bfor\b")
#: Operations that say nothing about a loop's body.
_PASSIVE: Final = frozenset(("Const", "Identity", "NoOp", "Placeholder", "ReadVariableOp"))


def _unrolled(graph: Any) -> UnrolledLoop | None:
    """Find the Python loop that was copied most often.

    AutoGraph runs the user's Python loops through functions of its own, which show in each
    operation's traceback; so a loop is known for certain.  Loops that AutoGraph did not convert
    (list comprehensions, ``autograph=False``) are not found.
    """
    copies: dict[tuple[str, int], int] = {}
    for holder in (graph, *inner_graphs(graph).values()):
        by_type: dict[str, list[Any]] = {}
        for op in holder.get_operations():
            if op.type not in _PASSIVE:
                by_type.setdefault(op.type, []).append(op)
        # Tracebacks are slow to read: the two commonest operations are enough to see a loop.
        for ops in sorted(by_type.values(), key=len)[-2:]:
            if len(ops) >= REPEATS:
                for header, times in _loops(ops[:_EXAMINED]):
                    copies[header] = min(times, copies.get(header, times))
    if not copies:
        return None
    (file, number), times = max(copies.items(), key=lambda item: item[1])
    return UnrolledLoop(line_of(file, number), times)


def _loops(ops: list[Any]) -> Iterator[tuple[tuple[str, int], int]]:
    """Give each Python loop's header (file and line) and how often its body shows."""
    counts: Counter[tuple[tuple[str, int], tuple[tuple[str, int], ...]]] = Counter()
    for op in ops:
        frames = list(op.traceback or ())
        inside = [i for i, frame in enumerate(frames) if frame.name in internals.AUTOGRAPH_LOOPS]
        if not inside:
            continue
        header = next((f for f in reversed(frames[: inside[-1]]) if is_user_file(f.filename)), None)
        if header is not None:
            body = tuple((f.filename, f.lineno) for f in frames[inside[-1] :])
            counts[(header.filename, header.lineno), body] += 1
    for (place, body), times in counts.items():
        if times >= REPEATS and (copies := times // _alike(ops[0].type, body)) >= REPEATS:
            yield place, copies


def _alike(kind: str, body: tuple[tuple[str, int], ...]) -> int:
    """Give the most operations of a type that a step may make from the lines of a stack.

    A stack knows no columns: two products on one line look like two steps of a loop with one.
    """
    most = 1
    for file, number in body:
        if is_user_file(file):
            text = line_of(file, number).text.partition("#")[0]
            if _COMPREHENSION.search(text):
                return _EXAMINED  # who knows
            found = Counter(m for m in _MAKES.findall(text) if _ONLY.get(m, kind) == kind)
            most *= max(found.values(), default=1)
    return most
