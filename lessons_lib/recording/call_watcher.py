"""Where in the user's code each eager operation was called from.

While a recording runs, the few functions through which all of eager TensorFlow passes are
replaced by wrappers (`lessons_lib.common.patching` lists them).  A wrapper notes the user's line
and marks the call in the profile, so that an allocation is tied to a call by the profile itself:
it lies inside the call's mark, on the same thread.  Of ``TFE_Py_FastPathExecute``, through which
most operations pass, TensorFlow marks each call itself.

The calls are kept in a `lessons_lib.recording.call_log.CallLog`.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.internals import (
    BaseSession,
    TraceMe,
    constant_op,
    imperative_grad,
    pywrap_tfe,
)
from lessons_lib.common.origins import Origin, origin_of
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Place, definition_of, frames_at, local_of, user_places
from lessons_lib.recording import markers, profile_format
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.eager_notes import WRITES, Context, Noter
from lessons_lib.recording.gradient_calls import GradientLog, gradients
from lessons_lib.recording.graph_facts import facts_of
from lessons_lib.recording.graph_roles import roles_of
from lessons_lib.recording.pipelines import functions_known
from lessons_lib.recording.scopes import eager_scope, noting_eager_scopes
from lessons_lib.recording.step_log import listening

_FAST: Final = "TFE_Py_FastPathExecute"
_EXECUTE: Final = ("TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
_CONVERT: Final = "convert_to_eager_tensor"
#: TensorFlow's own Python files.
_TENSORFLOW: Final = os.path.join(os.path.dirname(tf.__file__), "")
#: This package's, whose gate lies between.
_OURS: Final = os.path.join(os.path.dirname(__file__), "")

#: Of a call that we failed to note.
_UNKNOWN: Final = Call(None, "", None)
#: A call's instruction, kind, forward line, scope (by address), the rest of its context, and what
#: stands for its outer frames (0 where they were not asked for).
_Key = tuple[int, str, Place | None, int, bool, bool, int, int]


class _Calls:
    """One `Call` for all calls from a place; those of a long loop would cost time and memory.

    Places are looked up by the address of their code, which is forgotten when the code goes:
    another one may get the same address.
    """

    def __init__(self) -> None:
        self.by_code: dict[int, dict[_Key, Call]] = {}
        self._codes: dict[int, weakref.ref[Any]] = {}

    def add(self, frame: FrameType | None, key: _Key, context: Context) -> Call:
        """Make the call for a place that was not seen before."""
        listening.look_for_keras()  # it may have been imported within the block
        chain = tuple(user_places(frames_at(frame)))
        place = chain[0] if chain else None
        call = Call(place, key[1], key[2], context, chain if key[-1] else chain[:1])
        address = 0 if frame is None else id(frame.f_code)
        if frame is not None and address not in self._codes:
            self._codes[address] = weakref.ref(
                frame.f_code, functools.partial(_forget, self.by_code, self._codes, address)
            )
        return self.by_code.setdefault(address, {}).setdefault(key, call)

    def clear(self) -> None:
        """Forget all calls."""
        self.by_code.clear()
        self._codes.clear()


def _forget(by_code: dict[int, Any], codes: dict[int, Any], address: int, _: Any) -> None:
    by_code.pop(address, None)
    codes.pop(address, None)


class Watcher:
    """Installs the wrappers, and collects a `CallLog` for each profiler session."""

    def __init__(self) -> None:
        self.log = CallLog()
        self._gradients = GradientLog()
        self._current: dict[int, list[Call]] = {}
        self._numbers: dict[int, int] = {}
        self._origins: dict[str, Origin] = {}
        self.noter = Noter()
        self._calls = _Calls()
        executes = [name for name in _EXECUTE if hasattr(pywrap_tfe, name)]
        places = [(pywrap_tfe, _FAST), *((pywrap_tfe, name) for name in executes)]
        self._patches = [
            Patch(holder, name, functools.partial(self._wrapped, name=name))
            for holder, name in (*places, (constant_op, _CONVERT))
        ]
        self._patches += [
            Patch(BaseSession, "run", self._noted_run),
            Patch(imperative_grad, "imperative_grad", self.noter.gradients),
            Patch(tf.name_scope, "__enter__", noting_eager_scopes),
        ]
        self._watching = False
        #: Whether eager operations get their whole call chain; functions always do.
        self.chains = False

    def install(self) -> None:
        """Put the wrappers in place."""
        self._watching = self.noter.on = True
        gradients.log = self._gradients
        functions_known.begin()
        for patch in self._patches:
            patch.install()

    def pause(self, paused: bool) -> None:
        """Note no calls while nobody watches; what was noted in that time is forgotten."""
        self._watching = not paused  # whether a tape computes gradients is known all the same
        gradients.log = None if paused else self._gradients
        self.take()

    def remove(self) -> None:
        """Put the original functions back and forget what was seen."""
        self._watching = self.noter.on = False
        gradients.log = None
        functions_known.end()
        for patch in reversed(self._patches):
            patch.remove()
        self._calls.clear()
        self._gradients = GradientLog()

    def take(self) -> CallLog:
        """Give the log of the session that has ended, and begin the next one."""
        taken = self.log
        taken.notes, taken.pipelines = self.noter.take(), functions_known.take()
        self.log = taken.following()
        self._current = {}
        self._calls.clear()
        self._gradients.forget_old()
        return taken

    def _new_thread(self, ident: int) -> list[Call]:
        number = len(self.log.threads)
        calls: list[Call] = []
        self.log.threads[number] = self._current[ident] = calls
        self._numbers[ident] = number
        markers.mark(profile_format.THREAD, number)
        return calls

    def _wrapped(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        note = self._noting(name)
        frame_here, marker, mark_name = sys._getframe, TraceMe, profile_format.CALL

        @functools.wraps(original)
        def fast(*args: Any, **kwargs: Any) -> Any:
            if not self._watching:
                return original(*args, **kwargs)
            try:
                call = note(args, frame_here(1))
            except BaseException:  # an interrupt, after which nothing is called any more
                self._doubt()
                raise
            result = original(*args, **kwargs)
            if call.context.taped or args[1] == "AddN":
                self._note_result(call, args[1], args[3:], result)
            return result

        @functools.wraps(original)
        def marked(*args: Any, **kwargs: Any) -> Any:
            if not self._watching:
                return original(*args, **kwargs)
            try:
                call = note(args, frame_here(1))
                mark = marker(mark_name)
            except BaseException:
                self._doubt()
                raise
            try:
                result = original(*args, **kwargs)
            finally:
                mark.Stop()
            if name in _EXECUTE and (call.context.taped or _operation(args)[0] == "AddN"):
                self._note_result(call, *_operation(args), result)
            return result

        return fast if name == _FAST else marked

    def _noting(self, name: str) -> Callable[[tuple[Any, ...], FrameType | None], Call]:
        """Give what notes a call of one of TensorFlow's functions from a frame."""
        ident = threading.get_ident
        origins = self._origins
        by_code = self._calls.by_code
        reads = {""}  # operations that write no variable
        now, running = self._gradients.now, self.noter.running
        no_tape, is_stopped = pywrap_tfe.TFE_Py_TapeSetIsEmpty, pywrap_tfe.TFE_Py_TapeSetIsStopped
        fast, executes = name == _FAST, name in _EXECUTE
        user, untaped = Origin.USER, Origin.UNTAPED

        def note(args: tuple[Any, ...], caller: FrameType | None) -> Call:
            me = ident()
            calls = self._current.get(me)
            if calls is None:
                calls = self._new_thread(me)
            try:
                frame = caller
                part = 0  # a plain number: to hash an enum's member is slow
                while frame is not None:
                    file = frame.f_code.co_filename
                    origin = origins.get(file)
                    if origin is None:
                        origin = origins[file] = origin_of(file)
                    if origin:
                        if origin is user:
                            break
                        part = part or origin
                    frame = frame.f_back
                forward = now.get(me) if now else None
                backward = me in running
                scope = eager_scope() if forward is None else forward.scope
                taped = not no_tape()
                if fast and not taped and is_stopped():
                    part = part or untaped
                # By identity: to hash a code object means to read all of it.
                code, at = (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)
                of = None if forward is None else forward.place
                outer = _outer(frame) if executes or self.chains else 0
                key = (at, name, of, id(scope), taped, backward, part, outer)
                known = by_code.get(code)
                call = None if known is None else known.get(key)
                if call is None:
                    context = Context(scope, taped, backward, Origin(part))
                    call = self._calls.add(frame, key, context)
                op = args[1] if fast else _operation(args)[0] if executes else ""
                if op not in reads:
                    inputs = args[3:] if fast else _operation(args)[1]
                    if not self._note_written(me, len(calls), op, inputs):
                        reads.add(op)
                if executes:
                    self._note_function(op, caller)
            except Exception:  # a fault of ours costs a line, not the run
                call = _UNKNOWN
            calls.append(call)
            return call

        return note

    def _doubt(self) -> None:
        """Say of this thread's last call that it may not have been made."""
        me = threading.get_ident()
        if calls := self._current.get(me):
            doubtful = self.log.doubtful.setdefault(self._numbers[me], [])
            doubtful.append(len(calls) - 1)

    def note_input(self) -> None:
        """Say that this thread's latest call made a part of a batch."""
        if calls := self._current.get(threading.get_ident()):
            made = calls[-1]
            calls[-1] = made._replace(context=made.context._replace(origin=Origin.PIPELINE))

    def _note_written(self, thread: int, number: int, op: str, inputs: Any) -> bool:
        """Note an operation that writes a variable or runs a data set; tell whether it is one."""
        if not WRITES.fullmatch(op):
            return functions_known.is_run_unseen(op)
        self.noter.written((self._numbers[thread], number), op, inputs)
        return True

    def _note_result(self, call: Call, op: str, inputs: Any, result: Any) -> None:
        try:
            if not call.context.taped:
                # In the form that all operations have, or in the one of functions.
                grads = inputs[0] if len(inputs) == 1 else inputs
                self._gradients.note_sum(grads, result)
            elif op:
                scope = call.context.scope
                self._gradients.note_operation(op, call.place, scope, inputs, result)
        except Exception:
            return

    def _noted_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            if self._watching:
                self._note_session(session)
            return original(session, *args, **kwargs)

        return run

    def _note_session(self, session: Any) -> None:
        try:
            facts = facts_of(session.graph)
            if not any(facts is known for known, _ in self.log.sessions):
                self.log.sessions.append((facts, roles_of(session.graph)))
        except Exception:
            return

    def _note_function(self, name: str, frame: FrameType | None) -> None:
        if not name.startswith("__") or name in self.log.graphs:
            return
        facts = definition = None
        while frame is not None and frame.f_code.co_filename.startswith((_TENSORFLOW, _OURS)):
            if facts is not None and definition is not None:
                break
            owner = local_of(frame, "self")
            if facts is None and getattr(owner, "name", None) in (name, name.encode()):
                graph = internals.traced_graph(owner)
                facts = None if graph is None else facts_of(graph)
            if definition is None:
                definition = definition_of(getattr(owner, "python_function", None))
            frame = frame.f_back
        self.log.graphs[name] = facts
        if facts is not None:
            functions_known.is_run_unseen(facts)
        graph = None if facts is None else facts.graph()
        self.log.roles[name] = None if graph is None else roles_of(graph, name)
        if definition is not None:
            self.log.definitions[name] = definition


def _operation(args: tuple[Any, ...]) -> tuple[str, Any]:
    """Give name and inputs of what ``TFE_Py_Execute`` is to run."""
    name = args[2]
    return (name.decode() if isinstance(name, bytes) else str(name)), args[3]


def _outer(frame: FrameType | None) -> int:
    """Stand for the frames around one: where each of them is."""
    found = 1
    while frame is not None:
        found = hash((found, id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return found or 1
