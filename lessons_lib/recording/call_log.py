"""Where in the user's code each eager operation was called from.

While a recording runs, the few functions through which all of eager TensorFlow passes are
replaced by wrappers.  A wrapper notes the user's frame and marks the call in the profile, so that
an allocation is tied to a call by the profile itself: it lies inside the call's mark, on the
same thread.  The original functions are put back when the last recording ends.

Gradients: TensorFlow computes each operation's gradient in a Python function, which is wrapped
once when this module is imported.  In a graph it then notes, by TensorFlow's own means
(``Operation._original_op``), which forward operation a gradient belongs to; in eager mode it does
so while a recording runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from lessons_lib.common.internals import (
    BaseSession,
    TraceMe,
    constant_op,
    gradient_function,
    gradients_of,
    pywrap_tfe,
    tensor_number,
    traced_graph,
)
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, is_user_file, line_of, number_in_code
from lessons_lib.recording import profile_format, profiler
from lessons_lib.recording.eager_notes import WRITES, Context, EagerNotes, Noter, Origin, origin_of
from lessons_lib.recording.scopes import Scope, eager_scope

FAST: Final = "TFE_Py_FastPathExecute"
_EXECUTE: Final = ("TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
#: TensorFlow's own Python files.
_TENSORFLOW: Final = os.path.join(os.path.dirname(tf.__file__), "")
#: This package's, whose gate lies between.
_OURS: Final = os.path.join(os.path.dirname(__file__), "")


class Place(NamedTuple):
    """A point in the user's code, cheap to note: turned into a `Line` later."""

    code: CodeType
    instruction: int

    def line(self) -> Line:
        """Read the line."""
        return line_of(self.code.co_filename, number_in_code(self.code, self.instruction))


class Call(NamedTuple):
    """One call into TensorFlow: where from, what for, for a gradient, of what; part of what."""

    place: Place | None
    kind: str
    forward: Place | None
    context: Context = Context()


class _Forward(NamedTuple):
    """An eager operation under a tape: its type, where it was called, the tensors it took."""

    op: str
    place: Place | None
    inputs: tuple[int, ...]
    scope: Scope | None = None


@dataclass(slots=True)
class _Made:
    """What eager operations under a tape made, to find a gradient's forward operation.

    Tensors are known by TensorFlow's own numbers for them, so none is kept alive.
    """

    by_output: dict[int, _Forward] = field(default_factory=dict)
    by_input: dict[tuple[str, int], _Forward | None] = field(default_factory=dict)
    # Which forward tensors a gradient belongs to, as far as the backward pass has come.  There
    # are several where an operation hands on the gradient that it got, as an addition does.
    chain: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class CallLog:
    """The calls of one profiler session.

    Attributes
    ----------
    threads : dict of int to list of Call
        Calls in order of their start, by the number written into the thread's marker.
    graphs : dict of str to FuncGraph
        Graphs of the functions that were called, by the function's name.
    definitions : dict of str to Place
        Where the Python function behind a function's name is defined.
    sessions : list of tf.Graph
        Graphs that a ``tf.compat.v1.Session`` ran.
    notes : EagerNotes
        What the calls were for.
    """

    threads: dict[int, list[Call]] = field(default_factory=dict)
    graphs: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, Place] = field(default_factory=dict)
    sessions: list[Any] = field(default_factory=list)
    notes: EagerNotes = field(default_factory=EagerNotes)


class Watcher:
    """Installs the wrappers, and collects a `CallLog` for each profiler session."""

    def __init__(self) -> None:
        self.log = CallLog()
        self._made = _Made()
        self._current: dict[int, list[Call]] = {}
        self._numbers: dict[int, int] = {}
        self._originals: list[tuple[Any, str, Any]] = []
        self._origins: dict[str, Origin] = {}
        # One `Call` for all calls from a place; those of a long loop would cost time and memory.
        self._known: dict[tuple[Any, ...], Call] = {}
        self.gradient_of = threading.local()
        self.noter = Noter()

    def install(self) -> None:
        """Put the wrappers in place."""
        if self._originals:
            return
        fast = self._wrapped(getattr(pywrap_tfe, FAST), FAST)
        self._replace(pywrap_tfe, FAST, fast)
        for name in _EXECUTE:
            if hasattr(pywrap_tfe, name):
                self._replace(pywrap_tfe, name, self._wrapped(getattr(pywrap_tfe, name), name))
        convert = "convert_to_eager_tensor"
        self._replace(constant_op, convert, self._wrapped(getattr(constant_op, convert), convert))
        self._replace(BaseSession, "run", self._noted_run(BaseSession.run))
        self.noter.install(self._replace)
        _gradients.watcher = self

    def remove(self) -> None:
        """Put the original functions back and forget what was seen."""
        _gradients.watcher = None
        self._known = {}
        while self._originals:
            module, name, original = self._originals.pop()
            setattr(module, name, original)
        self._made = _Made()

    def take(self) -> CallLog:
        """Give the log of the session that has ended, and begin the next one."""
        taken = self.log
        taken.notes = self.noter.take()
        self.log = CallLog(
            graphs=taken.graphs, definitions=taken.definitions, sessions=taken.sessions
        )
        self._current = {}
        self._known = {}
        return taken

    def _replace(self, module: Any, name: str, wrapper: Callable[..., Any]) -> None:
        self._originals.append((module, name, getattr(module, name)))
        setattr(module, name, wrapper)

    def _new_thread(self, ident: int) -> list[Call]:
        number = len(self.log.threads)
        calls: list[Call] = []
        self.log.threads[number] = self._current[ident] = calls
        self._numbers[ident] = number
        profiler.mark(profile_format.THREAD, number)
        return calls

    def _wrapped(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        marker = TraceMe
        mark_name = profile_format.CALL
        frame_here = sys._getframe
        ident = threading.get_ident
        origins = self._origins
        written: dict[str, bool] = {}
        noter = self.noter
        gradient_of, running = self.gradient_of, noter.running
        no_tape = pywrap_tfe.TFE_Py_TapeSetIsEmpty
        fast, executes = name == FAST, name in _EXECUTE

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            frame: FrameType | None = frame_here(1)
            part = 0
            while frame is not None:
                file = frame.f_code.co_filename
                origin = origins.get(file)
                if origin is None:
                    origin = origins[file] = origin_of(file)
                if origin:
                    if origin == 1:  # the user's
                        break
                    part = part or origin
                frame = frame.f_back
            forward = getattr(gradient_of, "forward", None)
            backward = getattr(running, "backward", False)
            scope = eager_scope() if forward is None else forward.scope
            taped = not no_tape()
            # By identity: to hash a code object means to read all of it.
            code, at = (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)
            key = (code, at, name, id(forward and forward.place), id(scope), taped, backward, part)
            known = self._known
            call = known.get(key)
            if call is None:
                call = known[key] = Call(
                    None if frame is None else Place(frame.f_code, at),
                    name,
                    None if forward is None else forward.place,
                    Context(scope, taped, backward, Origin(part)),
                )
            frame = None
            calls = self._current.get(ident())
            if calls is None:
                calls = self._new_thread(ident())
            calls.append(call)
            op, inputs = (
                (args[1], args[3:]) if fast else (args[2], args[3]) if executes else ("", ())
            )
            if isinstance(op, bytes):
                op = op.decode()
            writes = written.get(op)
            if writes is None:
                writes = written[op] = WRITES.fullmatch(op) is not None
            if writes:
                noter.written((self._numbers[ident()], len(calls) - 1), op, inputs)
            if executes:
                self._note_function(args, frame_here(1))
            mark = marker(mark_name)
            try:
                result = original(*args, **kwargs)
            finally:
                mark.Stop()
            if taped:
                if op:
                    self._note_tensors(call, op, inputs, result)
            elif op == "AddN":
                self._note_sum(inputs[0] if fast else inputs, result)
            return result

        return wrapper

    def _noted_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            graph = session.graph
            if not any(graph is known for known in self.log.sessions):
                self.log.sessions.append(graph)
            return original(session, *args, **kwargs)

        return run

    def _note_function(self, args: tuple[Any, ...], frame: FrameType | None) -> None:
        name = args[2]
        name = name.decode() if isinstance(name, bytes) else str(name)
        if not name.startswith("__") or name in self.log.graphs:
            return
        graph = definition = None
        # Only TensorFlow's own frames: looking at a frame's variables can keep them alive until
        # the frame ends, and in the user's frames that would change what is measured.
        while frame is not None and frame.f_code.co_filename.startswith((_TENSORFLOW, _OURS)):
            if graph is not None and definition is not None:
                break
            owner = frame.f_locals.get("self")
            if graph is None and getattr(owner, "name", None) in (args[2], name.encode()):
                graph = traced_graph(owner)
            if definition is None:
                definition = _definition(getattr(owner, "python_function", None))
            frame = frame.f_back
        self.log.graphs[name] = graph
        if definition is not None:
            self.log.definitions[name] = definition

    def _note_tensors(self, call: Call, op: str, values: Sequence[Any], result: Any) -> None:
        made = self._made
        inputs = tuple(tensor_number(value) for value in values)
        forward = _Forward(op, call.place, inputs, call.context.scope)
        for tensor in result if isinstance(result, list) else (result,):
            number = tensor_number(tensor)
            if number >= 0:
                made.by_output[number] = forward
        if inputs and inputs[0] >= 0:
            key = (op, inputs[0])
            # Two operations on the same input cannot be told apart: then say nothing.
            made.by_input[key] = None if key in made.by_input else forward

    def _note_sum(self, grads: Any, result: Any) -> None:
        # A tensor that was used several times gets the sum of its gradients.
        chain = self._made.chain
        of = {chain.get(tensor_number(grad), ()) for grad in grads} if chain else set()
        if len(of) == 1 and (tensors := of.pop()):
            chain[tensor_number(result)] = tensors

    def forward_of(self, op: str, inputs: Any, outputs: Any, grads: Any) -> _Forward | None:
        """Find the forward operation of a gradient that is about to be computed."""
        made = self._made
        for tensor in outputs or ():
            if (found := made.by_output.get(tensor_number(tensor))) is not None:
                return found
        numbers = {n for grad in grads or () for n in made.chain.get(tensor_number(grad), ())}
        taken = [tensor_number(tensor) for tensor in inputs or ()]
        candidates = {
            id(found): found
            for n in numbers
            if (found := made.by_output.get(n)) is not None and _may_be(found, op, taken)
        }
        if len(candidates) == 1:
            return next(iter(candidates.values()))
        return made.by_input.get((op, taken[0])) if taken else None

    def note_chain(self, forward: _Forward, grads: Any) -> None:
        """Remember which forward tensors each of an operation's gradients belongs to."""
        chain = self._made.chain
        grads = grads if isinstance(grads, (list, tuple)) else (grads,)
        for tensor, grad in zip(forward.inputs, grads, strict=False):
            if tensor >= 0 and (number := tensor_number(grad)) >= 0:
                chain[number] = (*chain.get(number, ()), tensor)


def _may_be(forward: _Forward, op: str, taken: list[int]) -> bool:
    """Tell whether an operation has the type and the inputs that a gradient is computed for."""
    known = zip(forward.inputs, taken, strict=False)
    return forward.op == op and all(
        mine == theirs for mine, theirs in known if min(mine, theirs) >= 0
    )


def _definition(function: Any) -> Place | None:
    """Find where the user defined a function, below what decorators and TensorFlow put around."""
    for _ in range(8):
        code = getattr(function, "__code__", None)
        if code is not None and is_user_file(code.co_filename):
            return Place(code, -1)
        function = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
    return None


class _Gradients:
    """The one wrapper that stays: TensorFlow's gradient function, told of its forward op."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.original = gradient_function

    def __call__(self, *args: Any) -> Any:
        op, inputs, outputs, grads = args[0], args[3], args[4], args[5]
        if not tf.executing_eagerly():
            forward = _forward_operation(op, inputs, outputs)
            if forward is None:
                return self.original(*args)
            with gradients_of(forward):
                return self.original(*args)
        watcher = self.watcher
        if watcher is None:
            return self.original(*args)
        store = watcher.gradient_of
        before = getattr(store, "forward", None)
        forward = store.forward = watcher.forward_of(op, inputs, outputs, grads)
        try:
            result = self.original(*args)
        finally:
            store.forward = before
        if forward is not None:
            watcher.note_chain(forward, result)
        return result


def _forward_operation(op: str, inputs: Any, outputs: Any) -> Any:
    for tensor in outputs or ():
        made_by = getattr(tensor, "op", None) if tensor is not None else None
        if made_by is not None and not tf.is_tensor(made_by):
            return made_by
    for tensor in inputs or ():
        if tensor is None or not hasattr(tensor, "consumers"):
            continue
        users = [user for user in tensor.consumers() if user.type == op]
        return users[0] if len(users) == 1 else None
    return None


_gradients: Final = _Gradients()
pywrap_tfe.TFE_Py_RegisterGradientFunction(_gradients)
