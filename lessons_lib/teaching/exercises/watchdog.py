"""A limit on time and memory for code that somebody else wrote.

``with Watchdog(seconds, ceiling) as dog:`` lets the block run until it has taken too long or until
memory has grown by more than the ceiling, then stops it: a running graph is cancelled
first, then `Tripped` is raised in the thread of the block.  Afterwards signal handlers are as they
were and the process is usable.  What can't be stopped is one long call into C that neither
TensorFlow nor Python interrupts; the notebook's own interrupt button cannot do that either.
Seconds and bytes throughout.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Any, Final

from lessons_lib.common.internals import cancellation
from lessons_lib.common.system import allocator_bytes
from lessons_lib.common.units import format_bytes

_POLL_SECONDS: Final = 0.02
#: How long a cancelled graph gets to end by itself before the thread is interrupted.
_GRACE_SECONDS: Final = 0.3


class Limited(StrEnum):
    """What a block had too much of."""

    TIME = "time"
    MEMORY = "memory"


class Tripped(BaseException):
    """Raised inside a block that was stopped; not an `Exception`, so answers don't swallow it.

    Attributes
    ----------
    by : Limited or None
        Which limit was passed; known once the block has ended.
    """

    def __init__(self, reason: str = "", by: Limited | None = None) -> None:
        super().__init__(reason)
        self.by = by


class Watchdog:
    """Stops a block that takes too long or too much.

    Parameters
    ----------
    seconds : float
        Wall-clock limit.
    ceiling : int, optional
        How many bytes memory may grow by.
    used : callable, optional
        Gives the bytes that count against the ceiling; by default those of TensorFlow's allocator.

    Attributes
    ----------
    reason : str
        Why the block was stopped; empty when it wasn't.
    by : Limited or None
        The same, as a member of an enum.
    """

    def __init__(
        self,
        seconds: float,
        ceiling: int | None = None,
        used: Callable[[], int | None] = allocator_bytes,
    ) -> None:
        self.seconds = seconds
        self.ceiling = ceiling
        self.reason = ""
        self.by: Limited | None = None
        self._used = used
        self._lock = threading.Lock()
        self._armed = False
        self._done = threading.Event()
        self._target = threading.get_ident()
        self._by_signal = False
        self._old_handler: Any = None
        self._manager: Any
        self._context: Any
        self._manager, self._context = cancellation() or (None, contextlib.nullcontext())
        self._start: int | None = None
        self._thread = threading.Thread(target=self._watch, name="exercise watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._target = threading.get_ident()
        self._by_signal = (
            hasattr(signal, "pthread_kill")
            and threading.current_thread() is threading.main_thread()
        )
        if self._by_signal:
            self._old_handler = signal.signal(signal.SIGALRM, self._on_signal)
        self._start = self._used()
        self._armed = True
        self._context.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._armed = False
        self._done.set()
        self._context.__exit__(kind, error, trace)
        self._thread.join()
        if self._by_signal:
            signal.signal(signal.SIGALRM, self._old_handler)
        elif self.reason:
            self._receive()
        # A graph that was cancelled reports an error of its own, and in another thread an
        # exception comes without words: all mean the same.
        if self.reason and not isinstance(error, KeyboardInterrupt):
            raise Tripped(self.reason, self.by) from None

    def _receive(self) -> None:
        """Have an exception that may still be on its way to this thread arrive now, not later.

        It cannot be taken back: Python would look for it at each call from then on, and Python 3.11
        would never get past a call that is traced (`sys.settrace`, as debuggers do).
        """
        with contextlib.suppress(Tripped):
            self._raise_in_thread()
            while True:
                pass

    def _raise_in_thread(self) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._target), ctypes.py_object(Tripped)
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            raise Tripped(self.reason, self.by)

    def refuse(self, reason: str) -> None:
        """Say that the block asks for more memory than it may have: it ends as if stopped."""
        self.reason = self.reason or reason
        self.by = self.by or Limited.MEMORY

    def _watch(self) -> None:
        deadline = time.monotonic() + self.seconds
        while not self._done.wait(_POLL_SECONDS):
            if self.reason:  # refused
                break
            if time.monotonic() > deadline:
                self.by = Limited.TIME
                self.reason = f"it ran longer than {self.seconds:g} s and was stopped"
                break
            if self.ceiling is not None and self._start is not None:
                grown = (self._used() or 0) - self._start
                if grown > self.ceiling:
                    self.by = Limited.MEMORY
                    self.reason = (
                        f"it took more than {format_bytes(self.ceiling)} of memory and was stopped"
                    )
                    break
        else:
            return
        if self._manager is not None:
            self._manager.start_cancel()
        wait = _GRACE_SECONDS
        # Again and again, in case the code catches everything that is raised.
        while not self._done.wait(wait):
            with self._lock:
                if self._armed:
                    self._interrupt()
            wait = 1.0

    def _interrupt(self) -> None:
        if self._by_signal:
            # A real signal also wakes a thread that sleeps or waits.
            signal.pthread_kill(self._target, signal.SIGALRM)
        else:
            self._raise_in_thread()
