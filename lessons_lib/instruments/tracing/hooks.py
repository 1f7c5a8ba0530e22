"""Notice every trace: a light hook at the place where TensorFlow makes concrete functions.

While an instrument listens, TensorFlow's function-making function is replaced by one that calls it
and tells the listeners; while a listener wants call times, so is the method that runs a
``tf.function``.  The originals are put back when the last listener leaves.  Nothing that is
computed changes, and what the listeners cost is taken out of the seconds they are told.

This module holds the package's knowledge of traces that were seen: `observed`, by concrete
function, held weakly, so it keeps nothing alive.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Self

from lessons_lib.common import internals
from lessons_lib.common.origins import Origin, origin_of
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.source import Line, user_line_of_frame, user_place_in_trace
from lessons_lib.instruments.tracing.reasons import Key, context_of
from lessons_lib.instruments.tracing.resolve import is_loaded
from lessons_lib.instruments.tracing.signatures import signature_of


@dataclass(slots=True)
class ObservedTrace:
    """What was seen of one trace while it was made.

    Attributes
    ----------
    key : Key
        Its arguments, described while they were alive, and its context.
    line : Line or None
        The user's line that called for it.
    trace_seconds : float
        Time to trace it, traces of inner functions included.
    first_call_seconds : float or None
        Time of the call that made it: tracing and first run.  None when the call was not watched,
        or ran nothing (``get_concrete_function``, a call from within another trace).
    of_loaded : bool
        Whether it only passes calls on to a function that was loaded from a file.
    caller : Origin
        Whose code called the function; a pipeline of ``tf.data`` does when it is made.
    """

    key: Key
    line: Line | None
    trace_seconds: float
    first_call_seconds: float | None = None
    of_loaded: bool = False
    caller: Origin = Origin.LIBRARY


class Listener:
    """What an instrument derives from to be told of traces."""

    __slots__ = ()

    def made(self, concrete: Any, options: Any, seen: ObservedTrace | None) -> None:
        """Be told of a new concrete function, before TensorFlow stores it; None: not readable."""

    def failed(self, options: Any, line: Line | None, error: BaseException) -> None:
        """Be told that a function raised while it was traced: TensorFlow keeps nothing of it."""


#: TensorFlow's modules between a call of a ``tf.function`` and its trace, and this package's.
_OF_FUNCTIONS: Final = re.compile(
    r"[/\\]tensorflow[/\\]python[/\\](?:eager|util)[/\\]|[/\\]lessons_lib[/\\]instruments[/\\]"
)
#: What was seen of each living concrete function.
observed: Final[weakref.WeakKeyDictionary[Any, ObservedTrace]] = weakref.WeakKeyDictionary()


@dataclass(slots=True)
class _CallFrame:
    """A running call of a ``tf.function`` in one thread."""

    owner: Any
    latest: ObservedTrace | None = None


class _Thread(threading.local):
    """What the hook knows about the thread it runs in."""

    def __init__(self) -> None:
        self.calls: list[_CallFrame] = []
        self.spent = 0.0
        self.hidden = 0


@dataclass(slots=True)
class _Hook:
    """The listeners, and the wrappers that serve them."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    listeners: tuple[Listener, ...] = ()
    timing: int = 0
    thread: _Thread = field(default_factory=_Thread)
    creating: Patch = field(init=False)
    calling: Patch = field(init=False)

    def __post_init__(self) -> None:
        module, function = internals.tracing_compilation, internals.Function
        self.creating = Patch(module, "_create_concrete_function", lambda _: _creating)
        self.calling = Patch(function, "_call", lambda _: _calling)

    def enter(self, listener: Listener, *, timing: bool) -> None:
        require_home_process()
        with self.lock:
            self.creating.install()
            if timing:
                self.calling.install()
            self.timing += timing
            self.listeners = (*self.listeners, listener)

    def leave(self, listener: Listener, *, timing: bool) -> None:
        with self.lock:
            kept = list(self.listeners)
            del kept[max(i for i, other in enumerate(kept) if other is listener)]
            self.listeners = tuple(kept)
            self.timing -= timing
            if not self.timing:
                self.calling.remove()
            if not self.listeners:
                self.creating.remove()


def _creating(*args: Any, **kwargs: Any) -> Any:
    """Stand in for TensorFlow's ``_create_concrete_function``."""
    __tracebackhide__ = True  # the user's errors show no frame of ours in IPython and pytest
    thread = _hook.thread
    if not _hook.listeners or thread.hidden:
        return _hook.creating.original(*args, **kwargs)
    began = time.perf_counter()
    options = kwargs["tracing_options"] if "tracing_options" in kwargs else args[-1]
    line = context = None
    caller = Origin.LIBRARY
    with contextlib.suppress(Exception):  # a fault of ours costs a description, not the run
        line, context = calling_line(), context_of(_context(options))
        caller = _caller(sys._getframe(1))
    thread.spent += time.perf_counter() - began

    spent, began = thread.spent, time.perf_counter()
    try:
        concrete = _hook.creating.original(*args, **kwargs)
    except BaseException as error:
        for listener in _hook.listeners:
            with contextlib.suppress(Exception):
                listener.failed(options, line, error)
        raise
    ended = time.perf_counter()
    seconds = ended - began - (thread.spent - spent)

    seen = None
    with contextlib.suppress(Exception):
        key = Key(signature_of(concrete.function_type), context or ())
        loaded = is_loaded(options.python_function)
        observed[concrete] = seen = ObservedTrace(
            key, line, max(0.0, seconds), of_loaded=loaded, caller=caller
        )
    for call in reversed(thread.calls):
        if call.owner is options.polymorphic_type:
            call.latest = seen
            break
    for listener in _hook.listeners:
        with contextlib.suppress(Exception):
            listener.made(concrete, options, seen)
    thread.spent += time.perf_counter() - ended
    return concrete


def _caller(frame: FrameType | None) -> Origin:
    """Tell whose code lies around TensorFlow's own for functions."""
    while frame is not None and _OF_FUNCTIONS.search(frame.f_code.co_filename):
        frame = frame.f_back
    return Origin.LIBRARY if frame is None else origin_of(frame.f_code.co_filename)


def _calling(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand in for ``Function._call``."""
    __tracebackhide__ = True
    thread = _hook.thread
    if not _hook.timing or thread.hidden:
        return _hook.calling.original(function, *args, **kwargs)
    call = _CallFrame(function.function_type)
    thread.calls.append(call)
    spent, began = thread.spent, time.perf_counter()
    try:
        return _hook.calling.original(function, *args, **kwargs)
    finally:
        seconds = time.perf_counter() - began - (thread.spent - spent)
        thread.calls.pop()
        if call.latest is not None and tf.executing_eagerly():
            call.latest.first_call_seconds = max(0.0, seconds)


def _context(options: Any) -> Any:
    return internals.make_function_context(options.scope_type)


def calling_line() -> Line | None:
    """Give the innermost line of the user's own code that is running now.

    TensorFlow's own stack is read first: it shows the user's lines where AutoGraph runs code that
    it generated from them.
    """
    place = user_place_in_trace(internals.extract_stack())
    return user_line_of_frame(sys._getframe(1)) if place is None else place.line()


_hook: Final = _Hook()


@contextlib.contextmanager
def listening(listener: Listener, *, timing: bool) -> Iterator[None]:
    """Tell a listener of every trace in a block, whatever thread makes it.

    Parameters
    ----------
    listener : Listener
    timing : bool
        Whether calls of functions are timed too; costs about a microsecond a call.
    """
    _hook.enter(listener, timing=timing)
    try:
        yield
    finally:
        _hook.leave(listener, timing=timing)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide the traces that this thread makes in a block from every instrument.

    For functions that an instrument itself needs.
    """
    _hook.thread.hidden += 1
    try:
        yield
    finally:
        _hook.thread.hidden -= 1


class TraceCounter(Listener):
    """Counts the traces made in a block, whatever function or thread makes them.

    Entering and leaving cost a few microseconds, so every measured call can be wrapped.  Each
    counter is good for any number of blocks, one after the other; it counts on.

    Attributes
    ----------
    count : int
        Concrete functions made so far.

    Examples
    --------
    >>> with TraceCounter() as traces:
    ...     step(x)
    >>> traces.count
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        _hook.enter(self, timing=False)
        return self

    def __exit__(self, *_: object) -> None:
        _hook.leave(self, timing=False)

    def made(self, concrete: Any, options: Any, seen: ObservedTrace | None) -> None:
        """Count one trace (called by the hook)."""
        if seen is None or not seen.of_loaded:
            with _hook.lock:
                self.count += 1
