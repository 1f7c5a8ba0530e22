"""Quick garbage collections, and telling new objects from old ones.

A collection looks at every object that Python's collector tracks, and TensorFlow and Keras alone
make most of a million.  Set aside once, they are not looked at again.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

# Python 3.12 freezes some hundreds of objects of its own at its start.  A program that calls
# gc.freeze with TensorFlow loaded freezes some hundreds of thousands.
_OF_THE_INTERPRETER: Final = 5_000


def collects_by_itself() -> bool:
    """Tell whether Python collects garbage by itself: neither disabled nor set to never."""
    return gc.isenabled() and gc.get_threshold()[0] > 0


class _Pause:
    """Who keeps the collector off, in whichever threads, and whether it was on before."""

    lock = threading.RLock()
    count = 0
    enabled = False


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the garbage collector off, until the last thread that is in such a block leaves it."""
    with _Pause.lock:
        if not _Pause.count:
            _Pause.enabled = gc.isenabled()
            gc.disable()
        _Pause.count += 1
    try:
        yield
    finally:
        with _Pause.lock:
            _Pause.count -= 1
            if not _Pause.count and _Pause.enabled:
                gc.enable()


def frames_of_threads() -> dict[int, FrameType]:
    """Give each thread's innermost frame.

    Python holds a lock of its own meanwhile.  Before 3.12.1 a collection may begin then, and what
    it frees may wait for that lock for good (python/cpython#106883).
    """
    with collection_paused():
        return sys._current_frames()


class _SetAside:
    """Whether the frozen objects are those that `quick_collection` set aside."""

    ours = False


def program_has_frozen() -> bool:
    """Tell whether the program, or a block around, keeps objects frozen, which must stay so."""
    # Python counts frozen objects one by one, which takes milliseconds.
    return _SetAside.ours or gc.get_freeze_count() >= _OF_THE_INTERPRETER


@contextlib.contextmanager
def frozen_heap() -> Iterator[None]:
    """Set aside the objects that are there, so that no collection in the block frees one of them.

    It takes microseconds.  An object that was there before and becomes garbage in a cycle is freed
    after the block, or by `full_collection`.  Where a program has frozen objects of its own,
    nothing is set aside.
    """
    ours = not program_has_frozen()
    if ours:
        gc.freeze()
        _SetAside.ours = True
    try:
        yield
    finally:
        if ours:
            _SetAside.ours = False
            gc.unfreeze()


@contextlib.contextmanager
def quick_collection() -> Iterator[None]:
    """Make garbage collections quick: collect, then set aside the objects that are there."""
    gc.collect()
    with frozen_heap():
        yield


def full_collection() -> None:
    """Collect garbage in a `quick_collection` block among what was set aside, too."""
    if _SetAside.ours:
        _SetAside.ours = False
        gc.unfreeze()
    gc.collect()


def is_set_aside(thing: object) -> bool:
    """Tell whether an object, or what it refers to itself, was set aside by `quick_collection`."""
    if not _SetAside.ours:
        return False
    looked_at = set(map(id, gc.get_objects()))
    parts = (thing, *gc.get_referents(thing))
    return any(
        gc.is_tracked(part) and id(part) not in looked_at and not isinstance(part, type)
        for part in parts
    )


class HeapBaseline:
    """Tells objects that are made from now on from those that exist now.

    All present objects go into the collector's permanent generation, so that looking at the new
    ones, and collecting garbage among them, takes no time.  Where the program has frozen objects of
    its own, nothing is frozen and new objects are told by their addresses.  Only what Python's
    collector tracks is seen: containers and instances, not NumPy arrays, strings or numbers.
    """

    def __init__(self) -> None:
        self._old: set[int] | None = None
        self._set = False

    def move(self) -> None:
        """Make everything that is alive now old."""
        if self._old is None and (self._set or not program_has_frozen()):
            gc.freeze()
        else:  # the program uses gc.freeze itself: its frozen objects must stay frozen
            self._old = set()
            self._old = {id(thing) for thing in gc.get_objects()}
        self._set = True

    def new_objects(self) -> list[object]:
        """List the new objects that are alive; the list holds them, so drop it soon."""
        if self._old is None:
            return gc.get_objects()
        old = self._old
        return [thing for thing in gc.get_objects() if id(thing) not in old]

    def lift(self) -> None:
        """Put everything back; may be called twice."""
        if self._set and self._old is None:
            gc.unfreeze()
        self._set = False
        self._old = None
