"""The gate through which all Python threads pass into TensorFlow while a recording is open.

TensorFlow's profiler has to stop before it can start again, and what is allocated meanwhile is
seen by nobody.  So a change of sessions closes the gate: threads that are inside finish their
calls, the others wait in front of it.  What can still happen then is a release by Python (a name
that is rebound), which the allocator's own count shows, and the work of TensorFlow's own threads
for a data pipeline, which `work_of_other_threads` shows on Linux.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from lessons_lib.common.gc_control import frames_of_threads
from lessons_lib.common.internals import BaseSession, constant_op, pywrap_tfe
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf
from lessons_lib.recording.profile_format import ProfileError

_CONSTANT: Final = "convert_to_eager_tensor"
#: All ways from Python into TensorFlow on which something is allocated.
_DOORS: Final = (
    (pywrap_tfe, "TFE_Py_FastPathExecute"),
    (pywrap_tfe, "TFE_Py_Execute"),
    (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
    (constant_op, _CONSTANT),
)
_TENSORFLOW: Final = os.path.join(os.path.dirname(tf.__file__), "")
#: Those that run a graph, which writes as many events as it has operations.
_FUNCTIONS: Final = ("TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
#: Events that an eager operation writes, and what a graph is taken for until it is known.
_OPERATION_EVENTS: Final = 20
_CONSTANT_EVENTS: Final = 5
_UNKNOWN_FUNCTION: Final = 2000
#: What a function that takes longer than others is taken for: loops of small operations write so
#: many and more, so that a session of theirs is still read in time.
_EVENTS_PER_SECOND: Final = 240_000
#: How many times as long as others.
_LONG: Final = 2.0
#: While the profiler rests: the events of so many operations, after which counters are read.
_RESTING_EVENTS: Final = 10 * _OPERATION_EVENTS
# A call may wait for something that only comes after the change (a queue's next element).
_PATIENCE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.0002
_TASKS: Final = "/proc/self/task"


class Gate:
    """Counts the calls that each thread has open, and can be closed.

    It also counts what the profiler has written, about, and says when that has become much.

    Parameters
    ----------
    due : callable
        Called at the boundary of a call when so much has been written as `allow` gave.

    Attributes
    ----------
    inside : dict of int to int
        How many calls each thread has open, by the thread's identifier.
    """

    def __init__(self, due: Callable[[], None]) -> None:
        self.inside: dict[int, int] = {}
        self._due = due
        self._allowed = self._left = 0.0
        self._function_events = float(_UNKNOWN_FUNCTION)
        self._functions = 0
        # How long functions took, how long one may take, and what those that took longer count for.
        self._seconds = self._longest = self._further = 0.0
        self._usual_seconds = _UNKNOWN_FUNCTION / _EVENTS_PER_SECOND
        self._closed = False
        self._owner = 0
        self._opened = threading.Event()
        self._patches = [
            Patch(holder, name, functools.partial(self._wrapped, function=name in _FUNCTIONS))
            for holder, name in _DOORS
            if hasattr(holder, name)
        ]
        self._sessions = Patch(BaseSession, "run", self._wrapped_run)
        self._patches.append(self._sessions)
        # Threads that may have been inside before there was a gate, and where they were.
        self._earlier: dict[int, tuple[int, int]] = {}

    def begin(self) -> None:
        """Put the gate up where there was none."""
        self.inside = {}
        self._earlier = {
            thread: (id(frame), frame.f_lasti)
            for thread, frame in frames_of_threads().items()
            if frame.f_code.co_filename.startswith(_TENSORFLOW)
        }
        self.install()

    def install(self) -> None:
        """Put the gate in front of TensorFlow's functions, outside of other wrappers."""
        for patch in self._patches:
            patch.install()

    def remove(self) -> None:
        """Put the original functions back."""
        for patch in self._patches:
            patch.remove()

    def allow(self, events: float) -> None:
        """Begin to count: call `due` once about so many events have been written."""
        self._allowed = self._left = events
        self._functions = 0
        self._seconds = self._longest = self._further = 0.0

    def calls(self) -> tuple[float, int, float]:
        """Give the events of eager operations, about, and the number and seconds of functions.

        The longest one counts as much as the others do: it may have run for the first time, which
        includes seconds of preparing it.
        """
        spent = self._allowed - self._left - self._further
        functions, seconds = self._functions, self._seconds
        if functions > 1:
            seconds = (seconds - self._longest) * functions / (functions - 1)
        return spent - functions * self._function_events, functions, seconds

    def learn(self, calls: tuple[float, int, float], events: int) -> None:
        """Hear how many events there really were for what `calls` gave."""
        operations, functions, seconds = calls
        if functions:
            found = (events - operations) / functions
            self._function_events = max(found, _RESTING_EVENTS + 1.0)
            self._usual_seconds = _LONG * seconds / functions

    def _took(self, seconds: float) -> None:
        """Count a function that ran longer than others for what it may have written."""
        self._seconds += seconds
        self._longest = max(self._longest, seconds)
        further = seconds * _EVENTS_PER_SECOND - self._function_events
        if seconds > self._usual_seconds and further > 0:
            self._further += further
            self._left -= further

    def rest(self) -> None:
        """Call `due` at every call of a function, and at some operations."""
        self.allow(_RESTING_EVENTS)

    @property
    def is_due(self) -> bool:
        """Whether as much has been written as `allow` gave."""
        return self._left < 0

    def _wrapped(self, original: Callable[..., Any], function: bool) -> Callable[..., Any]:
        ident = threading.get_ident
        events = (
            _CONSTANT_EVENTS
            if getattr(original, "__name__", "") == _CONSTANT
            else _OPERATION_EVENTS
        )

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            inside = self.inside
            me = ident()
            depth = inside.get(me, 0)
            try:
                # First step in, then look: `close` first shuts, then looks who is in.
                inside[me] = depth + 1
                if function:
                    self._functions += 1
                    self._left -= self._function_events
                else:
                    self._left -= events
                if self._closed:
                    self._wait(me, depth)
                elif self._left < 0 and not depth:
                    inside[me] = 0
                    self._due()
                    self.inside[me] = 1
                    self._wait(me, depth)
                if not function:
                    return original(*args, **kwargs)
                start = time.perf_counter()
                try:
                    return original(*args, **kwargs)
                finally:
                    self._took(time.perf_counter() - start)
            finally:
                self.inside[me] = depth

        return call

    def _wrapped_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        passed = self._wrapped(original, function=True)

        @functools.wraps(original)
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            options = kwargs["options"] if "options" in kwargs else (*args, None, None, None)[2]
            if self._sessions.active and getattr(options, "trace_level", False):
                raise ProfileError(
                    "Session.run with RunOptions.FULL_TRACE starts TensorFlow's profiler, which "
                    "records just now, and only one can run: leave trace_level out here, or run "
                    "this outside of the recording"
                )
            return passed(session, *args, **kwargs)

        return run

    def _wait(self, me: int, depth: int) -> None:
        while self._closed and self._owner != me:
            self.inside[me] = depth
            self._opened.wait()
            self.inside[me] = depth + 1

    def close(self) -> bool:
        """Close the gate to all other threads; tell whether none of them is inside any more."""
        self._owner = threading.get_ident()
        self._opened.clear()
        self._closed = True
        until = time.monotonic() + _PATIENCE_SECONDS
        while not (empty := self._empty()) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return empty

    def open(self) -> None:
        """Open the gate again."""
        self._closed = False
        self._opened.set()

    def _empty(self) -> bool:
        if self._earlier:
            frames = frames_of_threads()
            self._earlier = {
                thread: place
                for thread, place in self._earlier.items()
                if (frame := frames.get(thread)) is not None
                and (id(frame), frame.f_lasti) == place
                and thread != self._owner
            }
        return not self._earlier and not any(list(self.inside.values()))


def work_of_other_threads() -> dict[str, bytes] | None:
    """Give a figure for each thread that is not Python's, which changes when it runs.

    It is the scheduler's time on a processor (Linux); None where the system does not tell.
    """
    if not sys.platform.startswith("linux"):
        return None
    python = {str(thread.native_id) for thread in threading.enumerate()}
    found: dict[str, bytes] = {}
    try:
        for task in os.listdir(_TASKS):
            if task not in python:
                with open(f"{_TASKS}/{task}/schedstat", "rb") as file:
                    found[task] = file.read()
    except OSError:  # a thread that ended while it was looked at; or none of this is there
        return None
    return found
