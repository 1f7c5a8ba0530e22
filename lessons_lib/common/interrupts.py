"""Hold Ctrl-C back for a moment, so that what is being started or stopped is in one state.

An interrupt that comes while a block of this kind runs is delivered when the block has ended, to
whoever handled interrupts before.  Only the main thread receives interrupts; elsewhere nothing
is changed.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Held:
    """A context manager that postpones interrupts to the end of its block."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._came: tuple[int, FrameType | None] | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = self._came or (number, frame)

    def __enter__(self) -> Held:
        if threading.current_thread() is threading.main_thread():
            # None: the handler is not Python's, and could not be put back.
            self._handler = signal.getsignal(signal.SIGINT)
            if self._handler is not None:
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._came is not None:
            number, frame = self._came
            self._came = None
            if callable(self._handler):
                self._handler(number, frame)
            elif self._handler is signal.SIG_DFL:
                signal.raise_signal(number)
