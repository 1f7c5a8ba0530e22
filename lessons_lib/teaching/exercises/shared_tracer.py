"""Python's allocation tracer, shared with the code that is watched.

`tracemalloc` has one tracer for the whole process.  While a block is watched, the module's own
functions are replaced by ones that give the block the view it would have alone: it may start, stop
and reset the tracer, while it really goes on.  Bytes throughout.
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Self

from lessons_lib.common.patching import patched

_REPLACED: Final = (
    "start",
    "stop",
    "is_tracing",
    "get_traced_memory",
    "reset_peak",
    "clear_traces",
)
_start: Final = tracemalloc.start
_stop: Final = tracemalloc.stop
_is_tracing: Final = tracemalloc.is_tracing
_traced: Final = tracemalloc.get_traced_memory
_reset_peak: Final = tracemalloc.reset_peak


class SharedTracer:
    """Context manager: traces its block, whatever the block itself does with `tracemalloc`.

    Attributes
    ----------
    base : int
        Bytes that were traced when the block began.
    """

    def __init__(self) -> None:
        self.base = 0
        self._ours = self._on = False
        self._their_base = 0
        self._highest = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._ours = not _is_tracing()
        if self._ours:
            _start(1)
        self._on = not self._ours
        self.base = _traced()[0]
        _reset_peak()
        for name in _REPLACED:
            self._stack.enter_context(
                patched(tracemalloc, name, functools.partial(self._own, name))
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._ours:
            _stop()

    @property
    def lost(self) -> bool:
        """Whether somebody stopped the tracer all the same."""
        return not _is_tracing()

    def level(self) -> int:
        """Give the bytes that are traced now, over those at the start of the block."""
        return _traced()[0] - self.base

    def peak(self) -> int:
        """Give the highest level so far."""
        return max(self._highest, _traced()[1]) - self.base

    def forget_peak(self) -> None:
        """Take what was traced since the last `reset_peak` out of the peak."""
        _reset_peak()

    def _own(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        own: Callable[..., Any] = getattr(self, name)
        return own

    # What the watched code calls.

    def start(self, nframe: int = 1) -> None:
        """Stand in for `tracemalloc.start`."""
        if not self._on:
            self._on = True
            self.clear_traces()

    def stop(self) -> None:
        """Stand in for `tracemalloc.stop`."""
        self._on = False

    def is_tracing(self) -> bool:
        """Stand in for `tracemalloc.is_tracing`."""
        return self._on

    def get_traced_memory(self) -> tuple[int, int]:
        """Stand in for `tracemalloc.get_traced_memory`."""
        if not self._on:
            return 0, 0
        now, peak = _traced()
        return max(0, now - self._their_base), max(0, peak - self._their_base)

    def reset_peak(self) -> None:
        """Stand in for `tracemalloc.reset_peak`."""
        self._highest = max(self._highest, _traced()[1])
        _reset_peak()

    def clear_traces(self) -> None:
        """Stand in for `tracemalloc.clear_traces`: what was traced so far counts no more."""
        self._their_base = _traced()[0]
        self.reset_peak()
