"""Python's heap during a call, counted by tracemalloc, which the call may use itself.

What the program sees of tracemalloc stays as it is without us: whether it runs, with how many
frames, and its peak.  Where the program resets or ends what is counted, it is read first.  Bytes.
"""

from __future__ import annotations

import functools
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Self

from lessons_lib.common.patching import patched

_REPLACED: Final = ("start", "stop", "reset_peak", "clear_traces")


class PythonHeap:
    """Counts the growth of Python's heap in a ``with`` block.

    Attributes
    ----------
    kept_bytes, peak_bytes : int
        Growth since the block began: now, and at its highest.
    sampled : bool
        Whether the program ran tracemalloc, so that a peak below an earlier one of its own is
        known from samples only (each `look`).
    blind : bool
        Whether the program has ended tracemalloc, so that nothing was seen from there on.
    """

    def __init__(self) -> None:
        self.kept_bytes = self.peak_bytes = 0
        self.sampled = self.blind = False
        self._ours = False
        self._base = self._before = self._old_peak = 0
        self._stack = ExitStack()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._ours = not tracemalloc.is_tracing()
        self.sampled = not self._ours
        if self._ours:
            tracemalloc.start()
        self._count_from_here(0)
        for name in _REPLACED:
            wrap = functools.partial(self._wrapped, name)
            self._stack.enter_context(patched(tracemalloc, name, wrap))
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        self._stack.close()
        if self._ours:
            tracemalloc.stop()

    def look(self) -> int:
        """Read the heap; give its growth."""
        with self._lock:
            if tracemalloc.is_tracing():
                current, peak = tracemalloc.get_traced_memory()
                self.kept_bytes = self._before + current - self._base
                # A peak that was there before says nothing of the call.
                highest = peak if peak > self._old_peak else current
                reached = self._before + highest - self._base
                self.peak_bytes = max(self.peak_bytes, reached, self.kept_bytes)
            return self.kept_bytes

    def _count_from_here(self, before: int) -> None:
        """Take the present figures of tracemalloc as the start, after so many bytes of growth."""
        self._base, self._old_peak = tracemalloc.get_traced_memory()
        self._before = before

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        stop = tracemalloc.stop

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                grown = self.look()
                if name == "start" and self._ours:
                    # Ours is not the program's: its own begins at nothing, with its own frames.
                    stop()
                    self._ours, self.sampled = False, True
                result = original(*args, **kwargs)
                if name == "stop":
                    self._ours, self.blind = False, True
                else:
                    self._count_from_here(grown)
                return result

        return wrapper
