"""Which forward operation a gradient belongs to.

TensorFlow computes each operation's gradient in a Python function, which is wrapped once, when
this module is imported (`lessons_lib.common.patching` says why).  For a graph that is being built
it notes the operations that the gradient is made of; in eager mode it does something only while a
recording with lines is open.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lessons_lib.common import internals
from lessons_lib.common.internals import tensor_number
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Place
from lessons_lib.recording.graph_facts import note_gradient
from lessons_lib.recording.scopes import Scope

#: Tensors that are remembered for their gradients: those of a larger step get no forward line.
_MOST_KNOWN: Final = 50_000


class Forward(NamedTuple):
    """An eager operation under a tape: its type, where it was called, the tensors it took."""

    op: str
    place: Place | None
    inputs: tuple[int, ...]
    scope: Scope | None = None


@dataclass(slots=True)
class GradientLog:
    """What eager operations under a tape made, to find a gradient's forward operation.

    Tensors are known by TensorFlow's own numbers for them, so none is kept alive.
    """

    by_output: dict[int, Forward] = field(default_factory=dict)
    by_input: dict[tuple[str, int], Forward | None] = field(default_factory=dict)
    # Which forward tensors a gradient belongs to, as far as the backward pass has come.  There
    # are several where an operation hands on the gradient that it got, as an addition does.
    chain: dict[int, tuple[int, ...]] = field(default_factory=dict)
    #: By thread: the operation whose gradient it computes just now.
    now: dict[int, Forward] = field(default_factory=dict)

    def forget_old(self) -> None:
        """Forget what came long ago, as a loop of many steps would fill the memory."""
        tables: tuple[dict[Any, Any], ...] = (self.by_output, self.by_input, self.chain)
        for known in tables:
            if len(known) > 2 * _MOST_KNOWN:
                for key in list(known)[:-_MOST_KNOWN]:
                    known.pop(key, None)

    def note_operation(
        self, op: str, place: Place | None, scope: Scope | None, values: Iterable[Any], result: Any
    ) -> None:
        """Remember an operation that ran under a tape."""
        inputs = tuple(tensor_number(value) for value in values)
        forward = Forward(op, place, inputs, scope)
        for tensor in result if isinstance(result, list) else (result,):
            number = tensor_number(tensor)
            if number >= 0:
                self.by_output[number] = forward
        if inputs and inputs[0] >= 0:
            key = (op, inputs[0])
            # Two operations on the same input cannot be told apart: then say nothing.
            self.by_input[key] = None if key in self.by_input else forward

    def note_sum(self, grads: Iterable[Any], result: Any) -> None:
        """Remember the sum of gradients that a tensor gets which was used several times."""
        chain = self.chain
        of = {chain.get(tensor_number(grad), ()) for grad in grads} if chain else set()
        if len(of) == 1 and (tensors := of.pop()):
            chain[tensor_number(result)] = tensors

    def forward_of(self, op: str, inputs: Any, outputs: Any, grads: Any) -> Forward | None:
        """Find the forward operation of a gradient that is about to be computed."""
        for tensor in outputs or ():
            if (found := self.by_output.get(tensor_number(tensor))) is not None:
                return found
        numbers = {n for grad in grads or () for n in self.chain.get(tensor_number(grad), ())}
        taken = [tensor_number(tensor) for tensor in inputs or ()]
        candidates = {
            id(found): found
            for n in numbers
            if (found := self.by_output.get(n)) is not None and _may_be(found, op, taken)
        }
        if len(candidates) == 1:
            return next(iter(candidates.values()))
        return self.by_input.get((op, taken[0])) if taken else None

    def note_chain(self, forward: Forward, grads: Any) -> None:
        """Remember which forward tensors each of an operation's gradients belongs to."""
        chain = self.chain
        grads = grads if isinstance(grads, (list, tuple)) else (grads,)
        for tensor, grad in zip(forward.inputs, grads, strict=False):
            if tensor >= 0 and (number := tensor_number(grad)) >= 0:
                chain[number] = (*chain.get(number, ()), tensor)


def _may_be(forward: Forward, op: str, taken: list[int]) -> bool:
    """Tell whether an operation has the type and the inputs that a gradient is computed for."""
    known = zip(forward.inputs, taken, strict=False)
    return forward.op == op and all(
        mine == theirs for mine, theirs in known if min(mine, theirs) >= 0
    )


class _Gradients:
    """The one wrapper that stays: TensorFlow's gradient function, and the log it writes into."""

    def __init__(self) -> None:
        self.log: GradientLog | None = None
        self.original = internals.gradient_function

    def __call__(self, *args: Any) -> Any:
        log = self.log
        if tf.executing_eagerly():
            return self.original(*args) if log is None else self._eager(log, args)
        graph = forward = None
        begin = 0
        with contextlib.suppress(Exception):
            graph = tf.compat.v1.get_default_graph()
            begin = internals.count_operations(graph)
            forward = _forward_operation(args[0], args[3], args[4])
        result = self.original(*args)
        if forward is not None:
            with contextlib.suppress(Exception):
                note_gradient(graph, begin, forward)
        return result

    def _eager(self, log: GradientLog, args: tuple[Any, ...]) -> Any:
        forward, me = None, threading.get_ident()
        before = log.now.pop(me, None)
        with contextlib.suppress(Exception):
            forward = log.forward_of(args[0], args[3], args[4], args[5])
        if forward is not None:
            log.now[me] = forward
        try:
            result = self.original(*args)
        finally:
            log.now.pop(me, None)
            if before is not None:
                log.now[me] = before
        if forward is not None:
            with contextlib.suppress(Exception):
                log.note_chain(forward, result)
        return result


def _forward_operation(op: str, inputs: Any, outputs: Any) -> Any:
    """Find the operation of a graph whose gradient is about to be built; None in eager mode."""
    for tensor in outputs or ():
        # An eager tensor has no operation, also where a graph is built out of it.
        made_by = getattr(tensor, "op", None)
        if made_by is not None and not tf.is_tensor(made_by):
            return made_by
    for tensor in inputs or ():
        if getattr(tensor, "op", None) is None:
            continue
        users = [user for user in tensor.consumers() if user.type == op]
        return users[0] if len(users) == 1 else None
    return None


gradients: Final = _Gradients()
internals.pywrap_tfe.TFE_Py_RegisterGradientFunction(gradients)
