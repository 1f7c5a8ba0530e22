"""Which operations of a training step belong to which layer, and to which of its phases.

While the step is traced (graph mode) or run (eager mode), three kinds of call are noted: each
layer's ``call``, ``GradientTape.gradient`` and the optimizer's ``apply``.  In a graph a note is a
range of operations in the order of their creation; in eager mode it is a span of time.  So phases
follow from what was running, not from names.  Everything replaced is put back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lessons_lib.common.internals import layers_of
from lessons_lib.common.runtime import tf

BACKWARD = "backward"
UPDATE = "update"
FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Note:
    """One noted call.

    Attributes
    ----------
    kind : str
        ``"backward"``, ``"update"`` or ``"layer"``.
    name : str
        The layer's name.
    graph : FuncGraph or None
        The graph being built, or None in eager mode.
    begin, end : float
        Numbers of operations, or seconds of ``time.perf_counter``.
    """

    kind: str
    name: str
    graph: Any
    begin: float
    end: float

    def holds(self, position: float) -> bool:
        """Tell whether an operation's number or a time lies in the call."""
        return self.begin <= position < self.end


@dataclass(slots=True)
class Stages:
    """All notes of one step, and the tensors that the optimizer was given."""

    notes: list[Note] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)

    def phase(self, graph: Any, position: float) -> str | None:
        """Give the phase at a place in a graph, or at a time when `graph` is None."""
        notes = [note for note in self.notes if note.graph is graph and note.kind != "layer"]
        if not notes:
            return None
        for kind in (UPDATE, BACKWARD):
            if any(note.kind == kind and note.holds(position) for note in notes):
                return kind
        first = min((n.begin for n in notes if n.kind == BACKWARD), default=None)
        if first is not None and position < first:
            return FORWARD
        return None

    def layer(self, graph: Any, position: float) -> str | None:
        """Give the innermost layer whose call was running, or None."""
        inside = [
            note
            for note in self.notes
            if note.kind == "layer" and note.graph is graph and note.holds(position)
        ]
        return min(inside, key=lambda note: note.end - note.begin).name if inside else None

    def began(self, kind: str) -> float | None:
        """Give when a kind of call first began in eager mode (``time.perf_counter``), or None."""
        return min(
            (n.begin for n in self.notes if n.graph is None and n.kind == kind), default=None
        )


def _place() -> tuple[Any, float]:
    if tf.executing_eagerly():
        return None, time.perf_counter()
    graph = tf.compat.v1.get_default_graph()
    return graph, len(graph.get_operations())


@contextlib.contextmanager
def noted(stages: Stages, kind: str, name: str = "") -> Iterator[None]:
    """Note a block."""
    graph, begin = _place()
    try:
        yield
    finally:
        after, end = _place()
        if after is graph:
            stages.notes.append(Note(kind, name, graph, begin, end))


def _around(
    stages: Stages, original: Callable[..., Any], kind: str, name: str = ""
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with noted(stages, kind, name):
            return original(*args, **kwargs)

    # Keras reads a layer's signature to decide which arguments to pass.
    wrapper.__signature__ = _signature(original)  # type: ignore[attr-defined]
    return wrapper


def _signature(function: Callable[..., Any]) -> Any:
    import inspect

    return inspect.signature(function)


@contextlib.contextmanager
def watched(model: Any) -> Iterator[Stages]:
    """Note a model's training step for the time of the block."""
    stages = Stages()
    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, wrapper: Any) -> None:
            # Past Keras' own bookkeeping, which would look for variables in what is assigned.
            object.__setattr__(owner, name, wrapper)
            stack.callback(object.__delattr__, owner, name)

        for layer in layers_of(model):
            if "call" not in vars(layer):
                replace(layer, "call", _around(stages, layer.call, "layer", layer.name))
        optimizer = model.optimizer
        apply = optimizer.apply

        def noted_apply(grads: Any, *args: Any, **kwargs: Any) -> Any:
            grads = list(grads)
            stages.gradients.extend(grads if not tf.executing_eagerly() else ())
            with noted(stages, UPDATE):
                return apply(grads, *args, **kwargs)

        if "apply" not in vars(optimizer):
            replace(optimizer, "apply", noted_apply)
        original = tf.GradientTape.gradient

        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            with noted(stages, BACKWARD):
                return original(tape, *args, **kwargs)

        tf.GradientTape.gradient = gradient
        stack.callback(setattr, tf.GradientTape, "gradient", original)
        yield stages
