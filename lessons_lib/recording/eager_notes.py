"""What eager operations are for: noted while a recording runs, beside the calls.

Of a call it is noted which layer it belongs to, whether a tape watched it, and whether it is part
of a gradient.  Of an assignment and of a gradient's end, the addresses of the tensors: so a buffer
is known as a variable's or as a gradient also when its memory was handed on from elsewhere.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from lessons_lib.common.origins import Origin
from lessons_lib.common.runtime import tf
from lessons_lib.recording import markers, profile_format
from lessons_lib.recording.scopes import Scope
from lessons_lib.recording.variables import Variable, variable_of


class Context(NamedTuple):
    """What a call was part of.

    Attributes
    ----------
    scope : Scope or None
        The layer or optimizer; of a gradient, that of the forward operation.
    taped : bool
        Whether a tape watched it.
    backward : bool
        Whether a tape was computing gradients.
    origin : Origin
        Which of TensorFlow's or Keras' parts called, if it is one that tells.
    """

    scope: Scope | None = None
    taped: bool = False
    backward: bool = False
    origin: Origin = Origin.LIBRARY


class Moment(NamedTuple):
    """Something that happened at one time.

    Attributes
    ----------
    kind : str
        One of the constants of this module.
    addresses : tuple of (int, Variable)
        Memory that is known from then on, and the variable that it belongs to.
    number : int
        Of a step or epoch.
    """

    kind: str
    addresses: tuple[tuple[int, Variable], ...] = ()
    number: int = 0


BACKWARD_BEGINS: Final = "backward begins"
GRADIENTS: Final = "gradients"
STEP: Final = "step"
EPOCH: Final = "epoch"

#: Eager operations that give a variable a value, with its handle as the first argument.
ASSIGNS: Final = "AssignVariableOp"
WRITES: Final = re.compile(r"(?:Assign\w*VariableOp|Resource\w*(?:Apply|Scatter|Assign)\w*)")


class Assigned(NamedTuple):
    """A variable that a call wrote, and the address of what it was given (0 when unknown)."""

    variable: Variable
    address: int


@dataclass(slots=True)
class EagerNotes:
    """What was noted during one profiler session.

    Attributes
    ----------
    assigned : dict of (int, int) to Assigned
        By the number of the thread, and of the call on it.
    moments : dict of int to Moment
        By the number in the profile's marker.
    """

    assigned: dict[tuple[int, int], Assigned] = field(default_factory=dict)
    moments: dict[int, Moment] = field(default_factory=dict)


class Noter:
    """Collects `EagerNotes`."""

    def __init__(self) -> None:
        self.notes = EagerNotes()
        #: Threads that compute gradients just now.
        self.running: set[int] = set()
        #: False where the wrapper has only to pass calls on.
        self.on = False
        self._marks = 0
        self._lock = threading.Lock()

    def take(self) -> EagerNotes:
        """Give the notes of the session that has ended, and begin the next ones."""
        taken, self.notes = self.notes, EagerNotes()
        return taken

    def mark(self, moment: Moment) -> None:
        """Note a moment, and mark it in the profile."""
        with self._lock:
            self._marks += 1
            number = self._marks
        self.notes.moments[number] = moment
        markers.mark(profile_format.MOMENT, number)

    def written(self, place: tuple[int, int], op: str, inputs: Sequence[Any]) -> None:
        """Note that a call wrote a variable."""
        handle = inputs[0]
        value = inputs[1] if op == ASSIGNS else None
        self.notes.assigned[place] = Assigned(variable_of(handle), _address(value))

    def gradients(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function that computes all gradients of a tape."""

        def imperative_grad(tape: Any, target: Any, sources: Any, *rest: Any, **more: Any) -> Any:
            if not self.on or not tf.executing_eagerly():
                return original(tape, target, sources, *rest, **more)
            running, me = self.running, threading.get_ident()
            outer = me in running
            with contextlib.suppress(Exception):
                self.mark(Moment(BACKWARD_BEGINS))
            running.add(me)
            try:
                result = original(tape, target, sources, *rest, **more)
            finally:
                if not outer:
                    running.discard(me)
            with contextlib.suppress(Exception):  # a fault of ours costs a category, not the run
                self.mark(Moment(GRADIENTS, tuple(_gradients(sources, result))))
            return result

        return imperative_grad


def _gradients(sources: Iterable[Any], results: Iterable[Any]) -> Iterable[tuple[int, Variable]]:
    for source, gradient in zip(sources, results, strict=False):
        if getattr(source, "dtype", None) != tf.resource:
            continue
        variable = variable_of(source)
        for part in ("values", "indices") if hasattr(gradient, "indices") else ("",):
            tensor = getattr(gradient, part) if part else gradient
            if address := _address(tensor):
                yield address, variable


def _address(tensor: Any) -> int:
    """Give the address of an eager tensor's memory; 0 where there is none to see."""
    if not isinstance(tensor, tf.Tensor) or tensor.dtype in (tf.string, tf.resource, tf.variant):
        return 0
    try:
        # A view; of a scalar NumPy would make a copy.
        array = tensor._numpy_internal() if tensor.shape.rank else np.asarray(memoryview(tensor))
        return int(array.ctypes.data) if array.size else 0
    except Exception:  # elsewhere than in the memory of the CPU, or of a type NumPy lacks
        return 0
