"""Every array that NumPy allocates during a block: how many bytes, when, and on which line.

NumPy lets a program replace its allocator (`PyDataMem_SetHandler`, NEP 49, NumPy 1.22 and newer).
While a block is watched, requests pass through a Python function that notes them and hands them on
to NumPy's own allocator; arrays are freed by NumPy's own function all the time, so an array may
outlive the block, and the process.  Bytes are requested bytes; times are ``time.perf_counter()``.

Not seen: arrays of other threads, and the growth of one array in place (``realloc``).
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from lessons_lib.common.internals import numpy_api
from lessons_lib.common.source import Line, user_line_of_frame

#: Arrays below this are counted, but not noted one by one.
_NOTED_BYTES: Final = 4096
# Places of the two functions in NumPy's table of its C API, which is part of its ABI.
_SET_HANDLER: Final = 304
_GET_HANDLER: Final = 305
_CAPSULE: Final = b"mem_handler"

_size_t = ctypes.c_size_t
_pointer = ctypes.c_void_p
_MALLOC: Final = (_pointer, _pointer, _size_t)
_CALLOC: Final = (_pointer, _pointer, _size_t, _size_t)


class _Functions(ctypes.Structure):
    """``PyDataMemAllocator``: NumPy's allocator as a table of functions."""

    _fields_ = (
        ("context", _pointer),
        ("malloc", _pointer),
        ("calloc", _pointer),
        ("realloc", _pointer),
        ("free", _pointer),
    )


class _Handler(ctypes.Structure):
    """``PyDataMem_Handler``."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("functions", _Functions),
    )


@dataclass(frozen=True, slots=True)
class Allocation:
    """One array that was made: bytes, when, and the user's line."""

    at: float
    nbytes: int
    line: Line | None


@dataclass(slots=True)
class _Watch:
    """What is noted while a block is watched.

    Attributes
    ----------
    total : int
        Bytes of all arrays made so far.
    made : list of Allocation
        Those of `_NOTED_BYTES` and more.
    admits : callable
        Told the bytes of a request before it is met; False refuses it.
    interrupt : BaseException or None
        What was raised while a request was noted, such as a keyboard interrupt: a C function
        called it, so it could not pass through.
    """

    admits: Callable[[int], bool]
    total: int = 0
    made: list[Allocation] = field(default_factory=list)
    paused: bool = False
    interrupt: BaseException | None = None

    def asked(self, nbytes: int) -> bool:
        """Note a request; tell whether it may be met."""
        try:
            if self.paused:
                return True
            if nbytes >= _NOTED_BYTES:
                if not self.admits(nbytes):
                    return False
                line = user_line_of_frame(sys._getframe(2))
                self.made.append(Allocation(time.perf_counter(), nbytes, line))
            self.total += nbytes
        except BaseException as error:
            self.interrupt = error
            return False
        return True


class _Switch:
    """NumPy's table of functions, with ours beside it; made once."""

    def __init__(self) -> None:
        table = ctypes.cast(_capsule_pointer(numpy_api(), None), ctypes.POINTER(_pointer))
        # PYFUNCTYPE: with the interpreter's lock held, which NumPy's cache of blocks needs.
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
        get = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER])
        self.watch: _Watch | None = None
        self._previous: list[Any] = []
        theirs = _Handler.from_address(_capsule_pointer(get(), _CAPSULE)).functions
        context = theirs.context
        malloc = ctypes.PYFUNCTYPE(*_MALLOC)(theirs.malloc)
        calloc = ctypes.PYFUNCTYPE(*_CALLOC)(theirs.calloc)

        def noted_malloc(_: Any, size: int) -> Any:
            watch = self.watch
            if watch is not None and not watch.asked(size):
                return None  # NumPy raises MemoryError
            return malloc(context, size)

        def noted_calloc(_: Any, count: int, size: int) -> Any:
            watch = self.watch
            if watch is not None and not watch.asked(count * size):
                return None
            return calloc(context, count, size)

        callbacks = (
            ctypes.CFUNCTYPE(*_MALLOC)(noted_malloc),
            ctypes.CFUNCTYPE(*_CALLOC)(noted_calloc),
        )
        addresses = [ctypes.cast(callback, _pointer).value for callback in callbacks]
        # free stays NumPy's own: it is called where Python code must not run.
        handler = _Handler(
            b"lessons_lib",
            1,
            _Functions(context, *addresses, theirs.realloc, theirs.free),
        )
        self._ours = _new_capsule(handler)
        # Arrays look at the table when they are freed, and some are freed last of all.
        for lasting in (handler, self._ours, *callbacks):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(lasting))

    def on(self) -> None:
        """Let NumPy allocate through this table, in this thread."""
        self._previous.append(self._set(self._ours))

    def off(self) -> None:
        """Put back what was there."""
        self._set(self._previous.pop())


def _capsule_pointer(capsule: Any, name: bytes | None) -> Any:
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = _pointer, [ctypes.py_object, ctypes.c_char_p]
    return read(capsule, name)


def _new_capsule(handler: _Handler) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [_pointer, ctypes.c_char_p, _pointer]
    return make(ctypes.addressof(handler), _CAPSULE, None)


_switch: _Switch | None = None


class NumpyWatch:
    """Context manager: notes the arrays that are made in its block, in this thread.

    Parameters
    ----------
    admits : callable
        Told the bytes of a request before it is met; where it gives False, NumPy raises
        `MemoryError`.
    """

    def __init__(self, admits: Callable[[int], bool] = lambda nbytes: True) -> None:
        self._watch = _Watch(admits)

    def __enter__(self) -> Self:
        global _switch
        if _switch is None:
            _switch = _Switch()
        self._outer = _switch.watch
        _switch.watch = self._watch
        _switch.on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert _switch is not None
        _switch.off()
        _switch.watch = self._outer
        if self._watch.interrupt is not None and error is not self._watch.interrupt:
            raise self._watch.interrupt from None

    @property
    def total_bytes(self) -> int:
        """Bytes of all arrays made so far."""
        return self._watch.total

    @property
    def made(self) -> list[Allocation]:
        """The arrays of some size, in order."""
        return self._watch.made

    def pause(self, paused: bool) -> bool:
        """Stop or go on noting; give what it was before."""
        before, self._watch.paused = self._watch.paused, paused
        return before
