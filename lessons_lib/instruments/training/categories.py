"""The category of each buffer of a training step, by its birth and by the step's structure.

Weights and optimizer state are the buffers that variables hold (``holders`` tells which, and from
when on).  Gradients are what the optimizer was given.  Activations were born in the forward pass
and are alive when the backward pass begins.  Temporaries are what an operation or a phase needs for
itself and frees within the step, the gradients of activations among them.  What cannot be told is
``other``: it is never spread over the rest.  A buffer that TensorFlow hands on to another operation
(buffer forwarding) keeps the category of its birth and is marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lessons_lib.instruments.training.step_phases import BACKWARD, FORWARD, UPDATE, Stages
from lessons_lib.recording.buffers import Buffer, BufferStore, Site
from lessons_lib.recording.graph_facts import facts_of
from lessons_lib.recording.graph_ops import Resolver


class Category(StrEnum):
    """What a buffer of a training step is for."""

    WEIGHTS = "weights"
    OPTIMIZER = "optimizer state"
    INPUTS = "inputs"
    ACTIVATIONS = "activations"
    GRADIENTS = "gradients"
    TEMPORARIES = "temporaries"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Label:
    """A buffer's category, its layer, and whether its memory was handed on."""

    category: Category
    layer: str | None = None
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Birth:
    """Where in the step a buffer was born."""

    phase: str | None
    layer: str | None
    op: Any = None


class Births:
    """Finds phase and layer of buffers, in a graph by operation, in eager mode by time."""

    def __init__(self, stages: Stages, started_at: float, graph: Any) -> None:
        self.stages = stages
        self._started_at = started_at
        self._resolver = None if graph is None else Resolver(facts_of(graph))
        self._sites: dict[Site, Birth] = {}

    def of(self, buffer: Buffer) -> Birth:
        """Tell where a buffer was born."""
        if buffer.function is None:
            if buffer.allocated_at is None:
                return Birth(None, None)
            moment = self._started_at + buffer.allocated_at
            return Birth(self.stages.phase(None, moment), self.stages.layer(None, moment))
        birth = self._sites.get(buffer.site)
        if birth is None:
            birth = self._sites[buffer.site] = self._in_graph(buffer.name or "")
        return birth

    def _in_graph(self, name: str) -> Birth:
        origin = None if self._resolver is None else self._resolver.find(name)
        if origin is None:
            return Birth(None, None)
        phase = layer = None
        graph = None
        for facts, op in origin.path:
            graph = facts.graph()
            phase = phase or self.stages.phase(graph, op.number)
            layer = self.stages.layer(graph, op.number) or layer
        return Birth(phase, layer, None if graph is None else graph.get_operation_by_name(op.name))


def gradient_operations(stages: Stages) -> set[tuple[int, str]]:
    """Name the graph operations that make the gradients the optimizer was given.

    Operations that only share their input's buffer (a reshape, an identity) lead to the one that
    allocated it.
    """
    found: set[tuple[int, str]] = set()
    for gradient in stages.gradients:
        parts = (
            [gradient] if not hasattr(gradient, "indices") else [gradient.values, gradient.indices]
        )
        for tensor in parts:
            op = getattr(tensor, "op", None)
            while op is not None and op.type in ("Identity", "Reshape", "Squeeze", "ExpandDims"):
                found.add((id(op.graph), op.name))
                op = op.inputs[0].op
            if op is not None:
                found.add((id(op.graph), op.name))
    return found


def label_buffers(
    store: BufferStore,
    births: Births,
    held: dict[int, Category],
    inputs: frozenset[int],
    backward_at: float,
    update_at: float | None,
    gradients: set[tuple[int, str]],
) -> list[Label]:
    """Give each buffer its label.

    Parameters
    ----------
    store : BufferStore
        Of the recorded step, with the copies of the variables and of the batch at its beginning.
    births : Births
        Where buffers were born.
    held : dict of int to Category
        Buffers that variables held when the step began.
    inputs : frozenset of int
        Buffers of the batch.
    backward_at : float
        Seconds at which the backward pass begins.
    update_at : float or None
        Seconds at which the optimizer was called, in eager mode.
    gradients : set of (int, str)
        Graph operations that make gradients, by graph and name.

    Returns
    -------
    list of Label
        In the order of the buffers.
    """
    allocating = {site.name for site in store.sites if site.name}
    labels: list[Label] = []
    for buffer in store:
        if buffer.index in held:
            labels.append(Label(held[buffer.index]))
        elif buffer.index in inputs:
            labels.append(Label(Category.INPUTS))
        else:
            birth = births.of(buffer)
            category = _category(buffer, birth, backward_at, update_at, gradients)
            forwarded = birth.op is not None and _handed_on(birth.op, allocating)
            labels.append(Label(category, birth.layer, forwarded))
    return labels


def _category(
    buffer: Buffer,
    birth: Birth,
    backward_at: float,
    update_at: float | None,
    gradients: set[tuple[int, str]],
) -> Category:
    lives_on = _alive_at(buffer, backward_at)
    match birth.phase:
        case "forward":
            return Category.ACTIVATIONS if lives_on else Category.TEMPORARIES
        case "backward":
            op = birth.op
            if op is None and update_at is not None and _alive_at(buffer, update_at):
                return Category.GRADIENTS
            if op is not None and (id(op.graph), op.name) in gradients:
                return Category.GRADIENTS
            return Category.TEMPORARIES
        case "update":
            return Category.TEMPORARIES
        case _:
            return Category.OTHER


def _alive_at(buffer: Buffer, moment: float) -> bool:
    return buffer.freed_at is None or buffer.freed_at > moment


def _handed_on(op: Any, allocating: set[str]) -> bool:
    """Tell whether an output's memory went on into a consumer that allocated nothing itself."""
    for output in op.outputs:
        for consumer in output.consumers():
            same = any(
                other.dtype == output.dtype and other.shape.as_list() == output.shape.as_list()
                for other in consumer.outputs
                if other.shape.rank is not None and output.shape.rank is not None
            )
            if same and consumer.type not in _VIEWS and consumer.name not in allocating:
                return True
    return False


_VIEWS = frozenset(["Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "NoOp"])

__all__ = ["BACKWARD", "FORWARD", "UPDATE", "Birth", "Births", "Category", "Label"]
