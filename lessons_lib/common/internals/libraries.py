"""Private parts of Keras, IPython, CPython and NumPy."""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
import tracemalloc
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lessons_lib.common.internals.entries import enter, of_object

# --- Keras, IPython and CPython ------------------------------------------------------------------

#: Module in which Keras makes ``train_function``, ``test_function`` and ``predict_function``.
KERAS_TRAINER: Final = "keras.src.backend.tensorflow.trainer"
_TRAINER: Final = f"{KERAS_TRAINER}:TensorFlowTrainer.make_train_function"
enter(_TRAINER, "advice on models that are made anew", "the general advice is given", "Keras 3.0")

#: Modules that take a library's own frames out of the tracebacks of what a program raises.
_FILTERS: Final = ("tensorflow.python.util.traceback_utils", "keras.src.utils.traceback_utils")
for _name, _since in zip(_FILTERS, ("2.16", "Keras 3.0"), strict=True):
    enter(
        f"{_name}:_EXCLUDED_PATHS",
        "errors that look as they do without this package",
        "frames of this package show in them",
        _since,
    )


def leave_tracebacks(folders: tuple[str, ...]) -> None:
    """Have TensorFlow and Keras take frames of some folders out of tracebacks, as their own."""
    for name in _FILTERS:
        filtering: Any = sys.modules.get(name)
        paths = getattr(filtering, "_EXCLUDED_PATHS", None)
        if isinstance(paths, tuple) and not set(folders) <= set(paths):
            filtering._EXCLUDED_PATHS = (*paths, *folders)


_IN_FILE: Final = "lines show under the name that IPython gives to a cell's file"


@of_object("CachingCompiler._filename_map", "the number of a line's cell", _IN_FILE, "IPython 8.0")
def cell_numbers() -> Mapping[str, int]:
    """Give the numbers of the notebook's cells, by the file names of their code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    known = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return known if isinstance(known, dict) else {}


@of_object("Snapshot.traces._traces", "summing very many blocks", "growth fails", "CPython 3.11")
def traced_blocks() -> list[tuple[Any, ...]]:
    """Give what tracemalloc knows, as tuples that begin with the domain and the bytes."""
    traces: Any = tracemalloc.take_snapshot().traces
    blocks: list[tuple[Any, ...]] = traces._traces
    return blocks


_MADE: Final = "where an instance was made, for which Python 3.11 looks at a wrong address"


@of_object("_PyTraceMalloc_GetTraceback", _MADE, "instances show without a line", "CPython 3.11")
def traceback_at(address: int) -> list[tuple[str, int]]:
    """Give the frames (file, line) that allocated the block at an address, innermost first."""
    try:
        look = ctypes.pythonapi._PyTraceMalloc_GetTraceback
    except AttributeError:
        return []
    look.argtypes, look.restype = [ctypes.c_uint, ctypes.c_size_t], ctypes.py_object
    return list(look(0, address) or ())


#: Type of the entries of a ``functools.lru_cache``, which refer to each other.
LRU_LINK: Final = "functools._lru_list_elem"
enter(LRU_LINK, "leaving a cache's links out of a chain", "the links show", "CPython 3.11")


@of_object("re._cache", "that its cache is bounded", "this is not said", "CPython 3.11")
def pattern_cache_limit(thing: object) -> int | None:
    """Give how many expressions Python's own cache of them holds; None for other objects."""
    if any(thing is getattr(re, name, None) for name in ("_cache", "_cache2")):
        return int(getattr(re, "_MAXCACHE", 512))
    return None


_QUICK: Final = "the addresses of very many objects"


@of_object("id", _QUICK, "names of holders are wrong", "CPython 3.11")
def addresses(things: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give the ids of objects at once: an array of objects is an array of their addresses.

    To call `id` makes a number of each, which takes long where tracemalloc is running.
    """
    if not things:
        return np.zeros(0, np.int64)
    held = np.fromiter(things, object, len(things))
    place, _ = held.__array_interface__["data"]
    return np.frombuffer(ctypes.string_at(place, held.nbytes), np.int64)


# --- NumPy ---------------------------------------------------------------------------------------


@of_object(
    "_multiarray_umath._ARRAY_API",
    "NumPy's C API, for its functions that replace the allocator",
    "exercises cannot be graded",
    "NumPy 1.22",
)
def numpy_api() -> Any:
    """Give the capsule with the table of NumPy's C functions."""
    try:
        module = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:  # NumPy 1
        module = importlib.import_module("numpy.core._multiarray_umath")
    return module._ARRAY_API
