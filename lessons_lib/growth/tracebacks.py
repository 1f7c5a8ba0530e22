"""Where an object was made, as tracemalloc knows it: the innermost line of the user's own code."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import tracemalloc
from typing import Any, Final

from lessons_lib.source import Line, is_user_file, line_of

#: Python 3.11 looks up instances at a wrong address: the header before them is two words larger.
_HEADER_311: Final = 4 * ctypes.sizeof(ctypes.c_void_p)


def _frames_311(thing: object) -> Any:
    with contextlib.suppress(AttributeError):
        look = ctypes.pythonapi._PyTraceMalloc_GetTraceback
        look.argtypes, look.restype = [ctypes.c_uint, ctypes.c_size_t], ctypes.py_object
        return look(0, id(thing) - _HEADER_311)
    return None


def made_at(thing: object) -> Line | None:
    """Find the innermost line of the user's own code that was running when an object was made.

    Parameters
    ----------
    thing : object
        Made since tracemalloc began; it must still be tracing.
    """
    trace = tracemalloc.get_object_traceback(thing)
    if trace is not None:
        frames = [(frame.filename, frame.lineno) for frame in reversed(trace)]
    elif sys.version_info < (3, 12):
        frames = list(_frames_311(thing) or ())
    else:
        return None
    for filename, number in frames:
        if is_user_file(filename):
            return line_of(filename, number)
    return None
