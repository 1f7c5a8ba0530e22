"""The allocator's own counters: bytes in use, and their peak since they were last read.

To read a peak of one's own, the counter has to be reset.  The program must not notice: what it
asks for itself is answered as if there had been no reset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from lessons_lib.common.internals import context_handle, pywrap_tfe
from lessons_lib.common.patching import Patch
from lessons_lib.common.system import allocator_bytes

_DEVICE: Final = "CPU:0"


class AllocatorCounters:
    """Reads and resets the counters of the CPU's allocator."""

    def __init__(self) -> None:
        # The highest peak that a reset of ours has hidden from the program.
        self._hidden = 0
        self._info = Patch(pywrap_tfe, "TFE_GetMemoryInfo", self._answered)
        self._reset = Patch(pywrap_tfe, "TFE_ResetMemoryStats", self._noticed)

    def read(self) -> tuple[int, int]:
        """Give the bytes in use, and their peak since the last reading; begin a new peak."""
        if not self._info.active:
            self._info.install()
            self._reset.install()
        handle = context_handle()
        info = self._info.original(handle, _DEVICE)
        self._hidden = max(self._hidden, info["peak"])
        self._reset.original(handle, _DEVICE)
        return info["current"], info["peak"]

    def look(self) -> tuple[int, int]:
        """Give the bytes in use and their peak, since the last reading if there was one.

        The program's own counters are left alone, unless they are being read anyway.
        """
        if self._info.active:
            return self.read()
        info = self._info.original(context_handle(), _DEVICE)
        return info["current"], info["peak"]

    def release(self) -> None:
        """Leave the counters to the program, once they say what they would have said."""
        if self._info.active:
            peak = self._info.original(context_handle(), _DEVICE)["peak"]
            if peak >= self._hidden:
                self._remove()

    @contextlib.contextmanager
    def unnoticed(self) -> Iterator[None]:
        """Leave what is allocated in the block out of the peak that the program reads."""
        if allocator_bytes() is None:  # the allocator counts nothing
            yield
            return
        self.read()
        hidden = self._hidden
        try:
            yield
        finally:
            self._hidden = hidden
            self._reset.original(context_handle(), _DEVICE)
            self.release()

    def _remove(self) -> None:
        self._hidden = 0
        self._info.remove()
        self._reset.remove()

    def _answered(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def info(handle: Any, device: str) -> Any:
            found = original(handle, device)
            if self._info.active and device.upper().endswith(_DEVICE):
                found["peak"] = max(found["peak"], self._hidden)
            return found

        return info

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def reset(handle: Any, device: str) -> Any:
            if device.upper().endswith(_DEVICE):
                self._hidden = 0
            return original(handle, device)

        return reset


counters: Final = AllocatorCounters()
