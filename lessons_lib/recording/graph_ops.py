"""From the name of a graph operation, as the profile gives it, to the user's line.

The runtime inlines loops, branches and nested functions into one graph, and its optimiser renames
operations.  An inlined name carries its path (``while/body/_5/while/MatMul``), so it can be
followed through what is known of the graphs, to the operation that the user's line created.  A name
that cannot be followed for certain gives None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from lessons_lib.common.source import Line
from lessons_lib.recording.graph_facts import PASSED, GraphFacts, Operation

_BRANCH: Final = re.compile(
    r"(?P<part>body|cond|then|else|branch(?P<number>\d+))/_\d+/(?P<rest>.+)"
)
# The arithmetic optimiser writes `scope/ArithmeticOptimizer/Stage_name`, where the name may have
# been flattened; other passes append what they did.
_RENAMED: Final = re.compile(r"(?P<scope>(?:.*/)?)\w+Optimizer/[A-Za-z]+_(?P<name>[^/]+)")
_SUFFIXED: Final = re.compile(r"(?P<name>.+?)-(?:\d+-)?[A-Za-z0-9]+-?(?:\w*Optimizer|folded)\S*")
#: The attribute that names the function in a part of an inlined name.
_PARTS: Final = {
    "body": "body",
    "cond": "cond",
    "then": "then_branch",
    "else": "else_branch",
}

#: An operation, and the graph that it is in.
Step = tuple[GraphFacts, Operation]


@dataclass(frozen=True, slots=True)
class OperationOrigin:
    """Where a graph operation comes from.

    Attributes
    ----------
    path : tuple of (GraphFacts, Operation)
        The operation in the user's graph, last; before it the calls, loops and branches that it
        is in, outermost first.
    """

    path: tuple[Step, ...]

    @property
    def op(self) -> Operation:
        """The operation itself."""
        return self.path[-1][1]

    @property
    def line(self) -> Line | None:
        """The user's line that created the operation."""
        place = self.op.maker.place
        return None if place is None else place.line()

    @property
    def forward_line(self) -> Line | None:
        """For a gradient: the user's line that created the operation that it belongs to."""
        forward = self.op.forward
        return None if forward is None or forward.place is None else forward.place.line()

    def fused(self, kernel: str) -> tuple[str, tuple[str, ...]] | None:
        """Tell what a fused kernel computes; see `fused_operations`."""
        return fused_operations(*self.path[-1], kernel)


@dataclass(slots=True)
class Resolver:
    """Resolves operation names within one function's graph; remembers what it found."""

    graph: GraphFacts
    _known: dict[str, OperationOrigin | None] = field(default_factory=dict)

    def find(self, name: str) -> OperationOrigin | None:
        """Follow a name of the running graph to its operation, or give None."""
        if name not in self._known:
            path = _follow(self.graph, name, depth=0)
            self._known[name] = None if path is None else OperationOrigin(path)
        return self._known[name]


def _follow(graph: GraphFacts, name: str, depth: int) -> tuple[Step, ...] | None:
    if depth > 40:  # deeper than any real nesting; recursion in a graph cannot be followed
        return None
    if (op := graph.operations.get(name)) is not None:
        return ((graph, op),)
    # The longest operation name that is a prefix is the call that was inlined.
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        caller = graph.operations.get("/".join(parts[:end]))
        if caller is None:
            continue
        found = _enter(graph, caller, "/".join(parts[end:]), depth)
        if found is not None:
            return ((graph, caller), *found)
    original = _original_name(name)
    return None if original is None else _follow(graph, original, depth + 1)


def _original_name(name: str) -> str | None:
    if match := _RENAMED.fullmatch(name):
        return match["scope"] + match["name"]
    if match := _SUFFIXED.fullmatch(name):
        return match["name"]
    # An operation that a loop's body hands out; Python's own numbers begin with 1.
    return name.removesuffix("_0") if name.endswith("_0") else None


def _enter(graph: GraphFacts, caller: Operation, rest: str, depth: int) -> tuple[Step, ...] | None:
    match = _BRANCH.fullmatch(rest)
    attribute, number = "f", 0
    if match is not None:
        rest = match["rest"]
        if match["number"] is None:
            attribute = _PARTS[match["part"]]
        else:
            attribute, number = "branches", int(match["number"])
    inner = graph.calls.get(caller.name, {}).get(attribute, [])[number : number + 1]
    return _follow(inner[0], rest, depth + 1) if inner and inner[0] is not None else None


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


def fused_operations(
    graph: GraphFacts, op: Operation, kernel: str
) -> tuple[str, tuple[str, ...]] | None:
    """Tell what a fused kernel computes.

    The optimiser gives the fused node the name of the last operation in the chain, so the chain is
    read from the user's graph, upwards from that operation to the one that leads it.

    Parameters
    ----------
    graph : GraphFacts
    op : Operation
        The operation of that graph whose name survived.
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
        above = [made for made in _inputs(graph, op) if _leads_to(graph, made, bases, 8)]
        if len(above) != 1:
            return None
        op = above[0]
    return None


def _inputs(graph: GraphFacts, op: Operation) -> list[Operation]:
    return [graph.operations[name] for name in op.inputs if name in graph.operations]


def _leads_to(graph: GraphFacts, op: Operation, bases: tuple[str, ...], depth: int) -> bool:
    if op.type in bases:
        return True
    return (
        depth > 0
        and op.type in PASSED
        and any(_leads_to(graph, made, bases, depth - 1) for made in _inputs(graph, op))
    )
