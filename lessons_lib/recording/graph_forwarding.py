"""Which outputs of a graph's operations lie in one piece of memory.

An operation that allocates nothing for an output got an input's memory for it.  What was allocated
differs from run to run, so each session tells it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lessons_lib.recording.graph_flow import Flow, FlowNode, Output
from lessons_lib.recording.segment import dtype_of, shape_of

#: Operations that hand on the memory that they get.
VIEWS: Final = frozenset(
    (
        "Bitcast", "CheckNumerics", "EnsureShape", "ExpandDims", "Identity", "IdentityN",
        "PreventGradient", "Reshape", "Squeeze", "StopGradient",
    )
)  # fmt: skip
#: Operations that may give parts of an input's memory, and which input it is.
_PARTS: Final = {"Slice": 0, "Split": 1, "SplitV": 0, "StridedSlice": 0, "Unpack": 0}
#: Of operations that may hand on one input only, which it is: of losses the logits, not the labels.
_INPUT: Final = _PARTS | dict.fromkeys(
    ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"), 0
)
#: Operations that keep a tensor for later in a value of their own.
_KEEPERS: Final = frozenset(
    ("OptionalFromValue", "TensorListPushBack", "TensorListSetItem", "TensorArrayWriteV3")
)
_REDUCTIONS: Final = frozenset(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"))
#: Operations that allocate nothing and yet do not hand on what they get.
_NEVER: Final = frozenset(("ReadVariableOp", "Shape", "Size", "Rank", "Const", "NoOp"))

#: An operation's path, and the allocator's words: a kind, a shape, a type's number.
Made = tuple[tuple[str, ...], tuple[str, str, int]]
_Form = tuple[tuple[int, ...] | None, str | None]


@dataclass(slots=True, eq=False)
class Forwarding:
    """Tells what memory is handed on to.

    Attributes
    ----------
    flow : Flow
    numbers : dict of tuple of str to int
        Nodes by their paths.
    with_output : frozenset of tuple of str
        Paths of the nodes that allocated outputs.
    """

    flow: Flow
    numbers: dict[tuple[str, ...], int]
    with_output: frozenset[tuple[str, ...]] = frozenset()
    _allocated: dict[tuple[str, ...], set[_Form]] = field(default_factory=dict)
    _chains: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def begin(self, made: Iterable[Made]) -> None:
        """Say what was allocated.  A reduction's output is allocated as a temporary."""
        made = list(made)
        self.with_output = frozenset(path for path, (kind, _, _) in made if kind == "output")
        allocated: dict[tuple[str, ...], set[_Form]] = {}
        for path, (kind, shape, dtype) in made:
            number = self.numbers.get(path)
            reduces = number is not None and self.flow.nodes[number].type in _REDUCTIONS
            if kind == "output" or reduces:
                allocated.setdefault(path, set()).add((shape_of(shape), dtype_of(dtype)))
        if allocated != self._allocated:
            self._allocated, self._chains = allocated, {}

    def chain(self, number: int, output: int) -> list[tuple[int, int]]:
        """List the outputs that are in the memory of one, itself the first."""
        start = (number, output)
        if (known := self._chains.get(start)) is not None:
            return known
        found = {start: None}
        todo = [start]
        nodes = self.flow.nodes
        while todo:
            node, out = todo.pop()
            form = nodes[node].outputs[out]
            for use in nodes[node].uses[out]:
                for following in self._handed_on(form, nodes[use.node], use.place):
                    place = (use.node, following)
                    if place not in found:
                        found[place] = None
                        todo.append(place)
        self._chains[start] = list(found)
        return self._chains[start]

    def _handed_on(self, form: Output, user: FlowNode, place: int) -> list[int]:
        if user.type in VIEWS:  # their first input, or each one (IdentityN)
            return [place] if place < len(user.outputs) else []
        if user.type in _KEEPERS:
            return [0]
        if user.type in _NEVER or place != _INPUT.get(user.type, place):
            return []
        allocated = self._allocated.get(user.path, ())
        own = {
            i
            for i, output in enumerate(user.outputs)
            if any(may_be(output, shape, dtype) for shape, dtype in allocated)
        }
        if allocated and not own:  # by another operation, under this one's name
            return []
        return [
            i
            for i, output in enumerate(user.outputs)
            if i not in own and (user.type in _PARTS or form.same_form(output))
        ]


def may_be(output: Output, shape: tuple[int, ...] | None, dtype: str | None) -> bool:
    """Tell whether a buffer can be this output."""
    if dtype is not None and dtype != output.dtype:
        return False
    if shape is None or output.shape is None:
        return True
    if len(shape) == len(output.shape):
        return all(n is None or m == n for m, n in zip(shape, output.shape, strict=True))
    return None not in output.shape and _product(output.shape) == _product(shape)


def _product(shape: Iterable[int | None]) -> int:
    product = 1
    for size in shape:
        product *= size or 0
    return product
