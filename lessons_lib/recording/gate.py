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

from lessons_lib.common.internals import BaseSession, constant_op, pywrap_tfe
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf

#: All ways from Python into TensorFlow on which something is allocated.
_DOORS: Final = (
    (pywrap_tfe, "TFE_Py_FastPathExecute"),
    (pywrap_tfe, "TFE_Py_Execute"),
    (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
    (constant_op, "convert_to_eager_tensor"),
    (BaseSession, "run"),
)
_TENSORFLOW: Final = os.path.join(os.path.dirname(tf.__file__), "")
# A call may wait for something that only comes after the change (a queue's next element).
_PATIENCE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.0002
_TASKS: Final = "/proc/self/task"


class Gate:
    """Counts the calls that each thread has open, and can be closed.

    Attributes
    ----------
    inside : dict of int to int
        How many calls each thread has open, by the thread's identifier.
    """

    def __init__(self) -> None:
        self.inside: dict[int, int] = {}
        self._closed = False
        self._owner = 0
        self._opened = threading.Event()
        self._patches = [
            Patch(holder, name, self._wrapped) for holder, name in _DOORS if hasattr(holder, name)
        ]
        # Threads that may have been inside before there was a gate, and where they were.
        self._earlier: dict[int, tuple[int, int]] = {}

    def begin(self) -> None:
        """Put the gate up where there was none."""
        self.inside = {}
        self._earlier = {
            thread: (id(frame), frame.f_lasti)
            for thread, frame in sys._current_frames().items()
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

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        ident = threading.get_ident

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            inside = self.inside
            me = ident()
            depth = inside.get(me, 0)
            try:
                # First step in, then look: `close` first shuts, then looks who is in.
                inside[me] = depth + 1
                if self._closed:
                    self._wait(me, depth)
                return original(*args, **kwargs)
            finally:
                self.inside[me] = depth

        return call

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
            frames = sys._current_frames()
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
