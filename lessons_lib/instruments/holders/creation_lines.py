"""Where an object was made, as tracemalloc knows it: the innermost line of the user's own code."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import tracemalloc
from typing import Any, Final

from lessons_lib.common.internals import traceback_at
from lessons_lib.common.source import Line, user_place, user_place_in_trace
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
    place = user_place(frames)
    return None if place is None else place.line()


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
        place = user_place_in_trace(graph.get_operations()[0].traceback)
        return None if place is None else place.line()
    return None
