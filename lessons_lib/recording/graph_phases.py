"""When each operation of a graph runs: its phase of a training step, and what it waits for.

A training step is known by its structure, so it does not matter which library made it:

- backward: what TensorFlow's gradient functions made, told by the scopes that they open;
- update: what needs values of the backward pass;
- forward: what the backward pass needs values of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.recording.categories import Phase
from lessons_lib.recording.graph_flow import Flow, FlowNode
from lessons_lib.recording.scopes import Owner

#: Modules whose operations, made within the update, are gradients still.
_CLIPPING: Final = re.compile(r"clip_ops\.py$|loss_scale_optimizer\.py$")
_CLIPPING_FUNCTION: Final = re.compile(r"clip_(?:by|grad)|_clip")
_TAPE: Final = "imperative_grad"
#: How many frames, from the innermost, tell who made an operation; each costs microseconds.
_FRAMES: Final = 14
_SUMS: Final = frozenset(("AddN", "UnsortedSegmentSum", "ConcatV2", "StridedSlice", "Cast"))
#: Operations that need no values, only shapes.
OF_SHAPES: Final = frozenset(
    ("BroadcastGradientArgs", "OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike")
)
_CONSTANTS: Final = frozenset(("Const", "NoOp"))
#: Operations that write a variable.
UPDATES: Final = re.compile(
    r"(?:Resource(?:Sparse)?Apply|ResourceScatter|ResourceStridedSliceAssign|Assign|Apply"
    r"|SparseApply|Scatter(?:Nd)?(?:Add|Sub|Update))\w*"
)


@dataclass(frozen=True, slots=True, eq=False)
class GraphPhases:
    """The phases of a graph's operations.

    Attributes
    ----------
    of_nodes : list of Phase or None
        Of each node.
    timed : list of bool
        Whether a node needs values of the step's data, and so waits for its phase.
    gradients : set of int
        Nodes that make what the optimizer is given.
    """

    of_nodes: list[Phase | None]
    timed: list[bool]
    gradients: set[int]


def phases_of(flow: Flow, operations: list[Any]) -> GraphPhases:
    """Tell the phases of a graph's operations.

    Parameters
    ----------
    flow : Flow
        Read from the graph.  Nodes that turn out to be gradients are marked as backward.
    operations : list of tf.Operation
        Of each node.
    """
    frames = _Frames(operations)
    after, reads_new = _after_backward(flow, frames)
    phases = _phases(flow, frames, after, reads_new)
    timed = _timed(flow, phases, reads_new)
    return GraphPhases(phases, timed, _gradients(flow, phases, frames))


def _phases(
    flow: Flow, frames: _Frames, after: list[bool], reads_new: list[bool]
) -> list[Phase | None]:
    nodes = flow.nodes
    needed = _needed(nodes, [node.backward for node in nodes], among_backward=False)
    phases: list[Phase | None] = [None] * len(nodes)
    for number, node in enumerate(nodes):
        if node.backward:
            phases[number] = Phase.BACKWARD
        elif after[number] and needed[number]:
            # A gradient's part that no scope shows, or a loss that is made of gradients.
            node.backward = frames.any(number, lambda frame: _TAPE in frame.filename)
            phases[number] = Phase.BACKWARD if node.backward else Phase.FORWARD
        elif after[number] or _is_optimizers(node):
            phases[number] = Phase.UPDATE
        elif needed[number]:
            phases[number] = Phase.FORWARD
        elif reads_new[number]:
            phases[number] = Phase.UPDATE
    for number, used in enumerate(_needed(nodes, [phase is Phase.UPDATE for phase in phases])):
        if used and phases[number] is None:
            phases[number] = Phase.UPDATE
    return phases


def _after_backward(flow: Flow, frames: _Frames) -> tuple[list[bool], list[bool]]:
    """Tell which nodes need values of the backward pass, directly or by way of variables."""
    nodes = flow.nodes
    after, reads_new = [False] * len(nodes), [False] * len(nodes)
    written: set[int] = set()
    for number, node in enumerate(nodes):
        sources = [s for sources in node.inputs for s in sources if not s.back]
        after[number] = any(nodes[s.node].backward or after[s.node] for s in sources)
        reads_new[number] = not written.isdisjoint(node.variables) or any(
            reads_new[s.node] for s in sources
        )
        if after[number] and node.variables and UPDATES.fullmatch(node.type):
            written.update(node.variables)
        # The tape's own sums of gradients are in no scope.
        if (
            after[number]
            and not node.backward
            and node.type in _SUMS
            and all(nodes[s.node].backward or nodes[s.node].type in _CONSTANTS for s in sources)
        ):
            node.backward = frames.any(number, lambda frame: _TAPE in frame.filename)
    return after, reads_new


def _needed(nodes: list[FlowNode], by: list[bool], *, among_backward: bool = True) -> list[bool]:
    """Tell which nodes some nodes need values of."""
    needed = [False] * len(nodes)
    for number in range(len(nodes) - 1, -1, -1):
        # A shape is known without the values.
        if (by[number] or needed[number]) and nodes[number].type not in OF_SHAPES:
            for sources in nodes[number].inputs:
                for source in sources:
                    if not source.back and (among_backward or not nodes[source.node].backward):
                        needed[source.node] = True
    return needed


def _timed(flow: Flow, phases: list[Phase | None], reads_new: list[bool]) -> list[bool]:
    """Tell which nodes wait for values of their phase's beginning."""
    nodes = flow.nodes
    # Values of the step's data, and those of the backward pass.
    of_data, of_gradients = [False] * len(nodes), [False] * len(nodes)
    for number, node in enumerate(nodes):
        if node.type in OF_SHAPES:
            continue
        sources = [s.node for sources in node.inputs for s in sources if not s.back]
        begins = not sources and node.type not in _CONSTANTS
        of_data[number] = begins or any(of_data[s] for s in sources)
        backward = phases[number] is Phase.BACKWARD and of_data[number]
        of_gradients[number] = backward or any(of_gradients[s] for s in sources)
    return [
        of_gradients[number] or reads_new[number] if phase is Phase.UPDATE else of_data[number]
        for number, phase in enumerate(phases)
    ]


def _is_optimizers(node: FlowNode) -> bool:
    return node.scope is not None and node.scope.owner is Owner.OPTIMIZER


def _gradients(flow: Flow, phases: list[Phase | None], frames: _Frames) -> set[int]:
    """Find the operations that make what the optimizer is given."""
    nodes = flow.nodes
    found: set[int] = set()
    for number, node in enumerate(nodes):
        if phases[number] is Phase.BACKWARD:
            given = any(phases[use.node] is Phase.UPDATE for uses in node.uses for use in uses)
            if given or node.escapes:
                found.add(number)
        elif phases[number] is Phase.UPDATE:
            takes = any(
                source.node in found and nodes[source.node].outputs[source.output].same_form(made)
                for sources in node.inputs
                for source in sources
                for made in node.outputs[:1]
            )
            if takes and frames.any(number, _clips):
                found.add(number)
    return found


def _clips(frame: Any) -> bool:
    return bool(_CLIPPING.search(frame.filename) or _CLIPPING_FUNCTION.search(frame.name))


class _Frames:
    """Reads who made an operation, where its scope does not tell."""

    def __init__(self, operations: list[Any]) -> None:
        self._operations = operations

    def any(self, number: int, test: Callable[[Any], bool]) -> bool:
        trace = self._operations[number].traceback
        if trace is None:
            return False
        return any(test(trace[-i]) for i in range(1, min(_FRAMES, len(trace)) + 1))
