"""Where an object was made, as tracemalloc knows it: the innermost line of the user's own code."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import tracemalloc
from collections.abc import Iterable
from typing import Any, Final

from lessons_lib.common.internals import traceback_at
from lessons_lib.common.source import Line, is_user_file, line_of
from lessons_lib.instruments.holders.object_types import Kind

#: Python 3.11 looks up instances at a wrong address: the header before them is two words larger.
_HEADER_311: Final = 4 * ctypes.sizeof(ctypes.c_void_p)


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
        frames = traceback_at(id(thing) - _HEADER_311)
    else:
        return None
    return _first_of_user(frames)


def _first_of_user(frames: Iterable[tuple[str, int]]) -> Line | None:
    for filename, number in frames:
        if is_user_file(filename):
            return line_of(filename, number)
    return None


def traced_at(thing: Any, kind: Kind) -> Line | None:
    """Find the line that had a graph traced, from what TensorFlow notes with its first operation.

    Parameters
    ----------
    thing : object
        A graph or a concrete function; None is given for anything else.
    kind : Kind
    """
    if kind not in (Kind.GRAPH, Kind.CONCRETE):
        return None
    with contextlib.suppress(Exception):  # a graph without operations, or of another thread
        graph = thing if kind is Kind.GRAPH else thing.graph
        stack = graph.get_operations()[0].traceback
        return _first_of_user((frame.filename, frame.lineno) for frame in reversed(stack))
    return None
