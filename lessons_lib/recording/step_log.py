"""When steps and epochs began and ended: said by Keras' ``fit``, or by a loop of one's own.

Keras says it to a list of callbacks, one for each ``fit``, which is listened to while a recording
is open.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from lessons_lib.common.patching import Patch
from lessons_lib.recording.markers import mark_moment
from lessons_lib.recording.moments import MarkedMoment


class Said(StrEnum):
    """What was said at a moment."""

    BEGIN = "begin"
    END = "end"
    EPOCH = "epoch"
    EPOCH_END = "epoch end"


_SAID: Final = tuple(Said)


class StepMark(NamedTuple):
    """A moment at which a step or an epoch began or ended.

    Attributes
    ----------
    at : float
        Seconds from the start of the block.
    said : Said
    number : int
        Of the epoch, from 0.
    live, peak : int
        Growth of live bytes over the start of the block, and the most since the mark before.
    exact : bool
        False once the profiler has rested: the allocator's counters round up.
    fit : int
        Who said it: each ``fit`` has a number of its own; 0 is a loop of one's own.
    """

    at: float
    said: Said
    number: int = 0
    live: int = 0
    peak: int = 0
    exact: bool = True
    fit: int = 0


class StepLog:
    """What is said while a recording is open.

    Parameters
    ----------
    mark : callable
        Marks the present moment, and gives the marker's number.
    """

    def __init__(self, mark: Callable[[], int] = mark_moment) -> None:
        self._mark = mark
        # Marker, seconds of time.perf_counter, what, which and who, one after the other: a loop may
        # say a million steps, and an interrupt between them must not part them.
        self._said = array("d")

    def say(self, said: Said, number: int = 0, fit: int = 0) -> int:
        """Note a moment: now; give its place among the moments."""
        return self.note(self._mark(), time.perf_counter(), said, number, fit)

    def note(self, marker: int, at: float, said: Said, number: int = 0, fit: int = 0) -> int:
        """Note a moment that was marked in the profile; give its place."""
        self._said.extend((marker, at, _SAID.index(said), number, fit))
        return len(self._said) // 5 - 1

    def marks_from(self, start: float, seen: Mapping[int, MarkedMoment]) -> tuple[StepMark, ...]:
        """Give the marks in seconds from the start of a recording.

        Parameters
        ----------
        start : float
            Of the recording, in seconds of ``time.perf_counter``: for what was said in the moment
            when a session ended.
        seen : mapping of int to MarkedMoment
            All marked moments from the start on, by the markers' numbers, in order of time.
        """
        said = np.array(self._said).reshape(-1, 5).tolist()
        mine, peaks, highest = {int(marker) for marker, *_ in said}, dict[int, int](), 0
        for marker, moment in seen.items():
            highest = max(highest, moment.peak)
            if marker in mine:  # others are of other recordings
                peaks[marker], highest = highest, moment.live
        marks: list[StepMark] = []
        at, live = 0.0, 0
        for marker, clock, what, *which in said:
            unseen = MarkedMoment(clock - start, live, live, exact=False)
            moment = seen.get(int(marker), unseen)
            at, live = max(at, moment.at), moment.live
            peak = peaks.get(int(marker), live)
            number, fit = map(int, which)
            marks.append(StepMark(at, _SAID[int(what)], number, live, peak, moment.exact, fit))
        return tuple(marks)


_CALLBACKS: Final = ("keras.src.callbacks.callback_list", "CallbackList")
_FIT: Final = "on_train_begin"
_METHODS: Final = {
    "on_epoch_begin": Said.EPOCH,
    "on_epoch_end": Said.EPOCH_END,
    "on_train_batch_begin": Said.BEGIN,
    "on_train_batch_end": Said.END,
}


class _Listening:
    """Listens to Keras for all open recordings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: list[StepLog] = []
        self._patches: list[Patch] = []
        self._fits: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count(1)

    def add(self, log: StepLog) -> None:
        with self._lock:
            self._logs.append(log)
        self.look_for_keras()

    def remove(self, log: StepLog) -> None:
        with self._lock:
            self._logs = [other for other in self._logs if other is not log]
            if not self._logs:
                for patch in self._patches:
                    patch.remove()
                self._patches = []

    def look_for_keras(self) -> None:
        """Begin to listen, when Keras is there by now."""
        if self._patches or not self._logs:
            return
        holder = getattr(sys.modules.get(_CALLBACKS[0]), _CALLBACKS[1], None)
        if holder is None:
            return
        with self._lock:
            if self._logs and not self._patches:
                self._patches = [
                    Patch(holder, _FIT, self._beginning),
                    *(
                        Patch(holder, name, functools.partial(self._noting, said=said))
                        for name, said in _METHODS.items()
                    ),
                ]
                for patch in self._patches:
                    patch.install()

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(callbacks: Any, *args: Any, **more: Any) -> Any:
            with contextlib.suppress(Exception):
                self._fits.pop(callbacks, None)  # the same list may serve several
            return original(callbacks, *args, **more)

        return wrapper

    def _noting(self, original: Callable[..., Any], said: Said) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(callbacks: Any, *args: Any, **more: Any) -> Any:
            result = original(callbacks, *args, **more)
            # What other callbacks do belongs to the step that ends, and to none before one begins.
            with contextlib.suppress(Exception):  # a fault of ours costs a step, not the run
                number = args[0] if args else more.get("epoch")
                self._say(said, number if said is Said.EPOCH else 0, callbacks)
            return result

        return wrapper

    def _say(self, said: Said, number: Any, callbacks: Any) -> None:
        # A fit within a callback, or in another thread, has a list of its own.
        fit = self._fits.get(callbacks) or self._fits.setdefault(callbacks, next(self._numbers))
        for log in self._logs:
            log.say(said, number if isinstance(number, int) else 0, fit)


listening: Final = _Listening()
