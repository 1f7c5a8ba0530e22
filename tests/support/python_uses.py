"""How each private part of IPython, CPython and NumPy is used, and what it must do."""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import tracemalloc
from typing import Any

import numpy as np

from lessons_lib.common import internals


def cells() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        name = shell.compile.cache("1 + 1", 7, raw_code="1 + 1")
        assert internals.cell_numbers()[name] == 7
    finally:
        InteractiveShell.clear_instance()


def blocks() -> None:
    tracemalloc.start()
    try:
        kept = bytearray(1_234_567)
        sizes = [block[1] for block in internals.traced_blocks()]
    finally:
        tracemalloc.stop()
    # Python keeps one byte more for the end of a text.
    assert len(kept) + 1 in sizes


def addresses() -> None:
    things: list[Any] = [[1], [2], (3,), "x", np.ones(2), None, {}]
    assert internals.addresses(things).tolist() == list(map(id, things))


def traceback() -> None:
    tracemalloc.start()
    try:
        kept = bytearray(1_234_567)
        # The domain 0 is the one of the C heap, in which the bytes lie.
        address = ctypes.addressof(ctypes.c_char.from_buffer(kept))
        frames = internals.traceback_at(address)
    finally:
        tracemalloc.stop()
    assert frames[0][0] == __file__


def links() -> None:
    @functools.lru_cache(maxsize=4)
    def cached(x: float) -> float:
        return x

    cached(1.5)
    links = [
        link
        for part in gc.get_referents(cached)
        if isinstance(part, dict)
        for link in part.values()
    ]
    names = {f"{type(link).__module__}.{type(link).__name__}" for link in links}
    assert internals.LRU_LINK in names


def patterns() -> None:
    re.compile("a pattern")
    assert internals.pattern_cache_limit(vars(re)["_cache"]) == vars(re)["_MAXCACHE"]
    assert internals.pattern_cache_limit({}) is None


def numpy_api() -> None:
    assert type(internals.numpy_api()).__name__ == "PyCapsule"
