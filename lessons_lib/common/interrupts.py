"""Hold signals back for a moment, so that what is being started or stopped is in one state.

Ctrl-C, a request to end, or an alarm that comes while a block of this kind runs is delivered when
the block has ended, to whoever handled it before.  Only the main thread receives signals; elsewhere
nothing is changed.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)

#: Python's own, also while what a program sees of them is wrapped.
get_handler: Final = signal.getsignal
set_handler: Final = signal.signal


class DeferredSignals:
    """A context manager that postpones signals to the end of its block."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came: dict[int, FrameType | None] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.setdefault(number, frame)

    def __enter__(self) -> DeferredSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = get_handler(number)
                # None: the handler is not Python's, and could not be put back.  A signal that
                # ends the process at once goes on doing so, unless it is Ctrl-C.
                if handler is not None and (number == signal.SIGINT or callable(handler)):
                    self._handlers[number] = handler
                    set_handler(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            set_handler(number, handler)
        handlers, self._handlers = self._handlers, {}
        came, self._came = self._came, {}
        for number, frame in came.items():
            handler = handlers[number]
            if callable(handler):
                handler(number, frame)
            elif handler is signal.SIG_DFL:
                signal.raise_signal(number)
