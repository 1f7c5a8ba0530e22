"""From the name of a graph operation, as the profile gives it, to the user's line.

The runtime inlines loops, branches and nested functions into one graph, and its optimiser renames
operations.  An inlined name carries its path (``while/body/_5/while/MatMul``), so it can be
followed through the function graphs that TensorFlow keeps, to the operation that the user's line
created.  A name that cannot be followed for certain gives None.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.source import Line, is_user_file, line_of, statement_of

_BRANCH: Final = re.compile(
    r"(?P<part>body|cond|then|else|branch(?P<number>\d+))/_\d+/(?P<rest>.+)"
)
# The arithmetic optimiser writes `scope/ArithmeticOptimizer/Stage_name`, where the name may have
# been flattened; other passes append what they did.
_RENAMED: Final = re.compile(r"(?P<scope>(?:.*/)?)\w+Optimizer/[A-Za-z]+_(?P<name>[^/]+)")
_SUFFIXED: Final = re.compile(r"(?P<name>.+?)-(?:\d+-)?[A-Za-z0-9]+-?(?:\w*Optimizer|folded)\S*")
# A folder and a file of TensorFlow: both say that code was rewritten by AutoGraph.
_AUTOGRAPH: Final = f"{os.sep}autograph"
#: TensorFlow's function within which a Python function is traced.
_TRACING: Final = "func_graph_from_py_func"
_FUNCTION_ATTRIBUTES: Final = {
    "body": ("body",),
    "cond": ("cond",),
    "then": ("then_branch",),
    "else": ("else_branch",),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a graph operation comes from.

    Attributes
    ----------
    path : tuple of tf.Operation
        The operation in the user's graph, last; before it the calls, loops and branches that it
        is in, outermost first.
    forward : tf.Operation or None
        For a gradient: the operation it belongs to.
    """

    path: tuple[Any, ...]
    forward: Any = None

    @property
    def op(self) -> Any:
        """The operation itself."""
        return self.path[-1]

    @property
    def line(self) -> Line | None:
        """The user's line that created the operation."""
        return user_line(self.op)

    @property
    def forward_line(self) -> Line | None:
        """The user's line that created the forward operation."""
        return None if self.forward is None else user_line(self.forward)


def made_by_user(op: Any) -> bool:
    """Tell whether the user's own code created an operation, and not a library that it called.

    Of a library's function, such as Keras' training step, the traceback shows the user's call that
    had it traced; later calls may come from other lines.
    """
    traced = False
    for frame in op.traceback or ():
        if frame.name == _TRACING:
            traced = True
        elif traced and is_user_file(frame.filename):
            return True
    return False


def user_line(op: Any) -> Line | None:
    """Give the innermost line of the user's own code that led to an operation's creation."""
    frames = list(op.traceback or ())
    for frame in reversed(frames):
        if is_user_file(frame.filename):
            line = line_of(frame.filename, frame.lineno)
            converted = any(_AUTOGRAPH in other.filename for other in frames)
            return statement_of(line) if converted else line
    return None


@dataclass(slots=True)
class Resolver:
    """Resolves operation names within one function's graph; remembers what it found."""

    graph: Any
    _known: dict[str, Origin | None] = field(default_factory=dict)

    def find(self, name: str) -> Origin | None:
        """Follow a name of the running graph to its operation, or give None."""
        if name not in self._known:
            path = _follow(self.graph, name, depth=0)
            self._known[name] = None if path is None else Origin(path, _forward(path[-1]))
        return self._known[name]


_PFOR: Final = os.path.join("", "parallel_for", "pfor.py")

# The gradient of an operation is built in a name scope that holds the operation's name.
_GRADIENT_SCOPE: Final = re.compile(r"(?:.*/)?gradients/(?P<forward>.+)_grad/[^/]+")


def _forward(op: Any) -> Any:
    forward = internals.original_op(op)
    if forward is None:
        return _forward_by_name(op)
    if any(_PFOR in frame.filename for frame in op.traceback):
        return _forward(forward)  # vectorised: a copy of the operation, no gradient of it
    # A gradient of a gradient: the operation it all belongs to is at the end of the chain.
    while (further := internals.original_op(forward)) is not None:
        forward = further
    return forward


def _forward_by_name(op: Any) -> Any:
    match = _GRADIENT_SCOPE.fullmatch(op.name)
    if match is None:
        return None
    graph = op.graph
    # The gradients of loops, branches and functions are graphs of their own, which know the graph
    # that they differentiate, or take tensors from it.
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
    return next(iter(found.values())) if len(found) == 1 else None


def _operation(graph: Any, name: str) -> Any:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _follow(graph: Any, name: str, depth: int) -> tuple[Any, ...] | None:
    if depth > 40:  # deeper than any real nesting; recursion in a graph cannot be followed
        return None
    if (op := _operation(graph, name)) is not None:
        return (op,)
    # The longest operation name that is a prefix is the call that was inlined.
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        caller = _operation(graph, "/".join(parts[:end]))
        if caller is None:
            continue
        found = _enter(graph, caller, "/".join(parts[end:]), depth)
        if found is not None:
            return (caller, *found)
    original = _original_name(name)
    return None if original is None else _follow(graph, original, depth + 1)


def _original_name(name: str) -> str | None:
    if match := _RENAMED.fullmatch(name):
        return match["scope"] + match["name"]
    if match := _SUFFIXED.fullmatch(name):
        return match["name"]
    # An operation that a loop's body hands out; Python's own numbers begin with 1.
    return name.removesuffix("_0") if name.endswith("_0") else None


def _enter(graph: Any, caller: Any, rest: str, depth: int) -> tuple[Any, ...] | None:
    match = _BRANCH.fullmatch(rest)
    if match is None:
        inner = _function_graph(graph, caller, ("f",))
    elif match["number"] is not None:
        inner = _branch_graph(graph, caller, int(match["number"]))
        rest = match["rest"]
    else:
        inner = _function_graph(graph, caller, _FUNCTION_ATTRIBUTES[match["part"]])
        rest = match["rest"]
    return None if inner is None else _follow(inner, rest, depth + 1)


def _function_graph(graph: Any, caller: Any, attributes: tuple[str, ...]) -> Any:
    for attribute in attributes:
        try:
            name = caller.get_attr(attribute).name
        except (ValueError, AttributeError):
            continue
        return inner_graph(graph, name)
    return None


def _branch_graph(graph: Any, caller: Any, number: int) -> Any:
    try:
        return inner_graph(graph, caller.get_attr("branches")[number].name)
    except (ValueError, AttributeError, IndexError):
        return None


def inner_graph(graph: Any, name: str | bytes) -> Any:
    """Give the graph of a function that a graph calls, by the function's name."""
    key = name.decode() if isinstance(name, bytes) else name
    while graph is not None:
        functions = internals.functions_of(graph)
        function = functions.get(key)
        if function is None:
            function = functions.get(key.encode())
        if function is not None:
            return internals.traced_graph(function) or getattr(function, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def kernel_type(kernel: str) -> str:
    """Give an operation type as TensorFlow documents it: oneDNN prefixes its kernels."""
    for prefix in ("_MklNative", "_MklEager", "_Mkl"):
        if kernel.startswith(prefix):
            kernel = kernel.removeprefix(prefix)
            break
    return kernel


_FUSED_BASES: Final = {
    "_FusedMatMul": ("MatMul",),
    "_FusedBatchMatMul": ("BatchMatMul", "BatchMatMulV2"),
    "_FusedBatchMatMulV2": ("BatchMatMul", "BatchMatMulV2"),
    "_FusedConv2D": ("Conv2D",),
    "_FusedConv3D": ("Conv3D",),
    "_FusedDepthwiseConv2dNative": ("DepthwiseConv2dNative",),
    "_FusedBatchNormEx": ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
}


def fused_operations(op: Any, kernel: str) -> tuple[str, tuple[str, ...]] | None:
    """Tell what a fused kernel computes.

    The optimiser gives the fused node the name of the last operation in the chain, so the chain is
    read from the user's graph, upwards from that operation to the one that leads it.

    Parameters
    ----------
    op : tf.Operation
        The operation whose name survived.
    kernel : str
        Type of the kernel that ran, such as ``"_FusedMatMul"``.

    Returns
    -------
    (str, tuple of str) or None
        Type of the leading operation and the types that were fused into it, in order; None when
        `kernel` is not fused, or the chain cannot be read.
    """
    kernel = kernel if kernel.startswith("_Fused") else f"_{kernel}"
    bases = _FUSED_BASES.get(kernel)
    if bases is None:
        return None
    chain: list[str] = []
    for _ in range(8):
        if op.type in bases:
            return op.type, tuple(reversed(chain))
        chain.append(op.type)
        above = [t.op for t in op.inputs if _leads_to(t.op, bases, 8)]
        if len(above) != 1:
            return None
        op = above[0]
    return None


def _leads_to(op: Any, bases: tuple[str, ...], depth: int) -> bool:
    if op.type in bases:
        return True
    return (
        depth > 0
        and op.type in _PASSED
        and any(_leads_to(t.op, bases, depth - 1) for t in op.inputs)
    )


#: Operations that the optimiser fuses into a leading one.
_PASSED: Final = frozenset(
    (
        "Add", "AddV2", "BiasAdd", "BiasAddV1", "Elu", "FusedBatchNorm", "FusedBatchNormV3", "Gelu",
        "Identity", "LeakyRelu", "Maximum", "Mish", "Mul", "Relu", "Relu6", "Sigmoid", "Softplus",
        "Tanh",
    )
)  # fmt: skip
