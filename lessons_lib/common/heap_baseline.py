"""A fence between the objects that exist now and those that will be made.

`Fence` puts all present objects into the garbage collector's permanent generation, so that looking
at the new ones, and collecting garbage among them, takes no time.  It is taken away with `lift`;
when the program had frozen objects of its own, nothing is frozen and new objects are told by
their addresses instead.  Only objects that Python's collector tracks are seen: containers and
instances, not NumPy arrays, strings or numbers.
"""

from __future__ import annotations

import gc
from types import TracebackType

from lessons_lib.common.gc_control import program_has_frozen


class Fence:
    """Tells new objects from old ones while it stands; a context manager."""

    def __init__(self) -> None:
        self._old: set[int] | None = None
        self._standing = False

    def __enter__(self) -> Fence:
        self.move()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.lift()

    def move(self) -> None:
        """Make everything that is alive now old."""
        if self._old is None and (self._standing or not program_has_frozen()):
            gc.freeze()
        else:  # the program uses gc.freeze itself: its frozen objects must stay frozen
            self._old = set()
            self._old = {id(thing) for thing in gc.get_objects()}
        self._standing = True

    def young(self) -> list[object]:
        """List the new objects that are alive; the list holds them, so drop it soon."""
        if self._old is None:
            return gc.get_objects()
        old = self._old
        return [thing for thing in gc.get_objects() if id(thing) not in old]

    def lift(self) -> None:
        """Take the fence away; may be called twice."""
        if self._standing and self._old is None:
            gc.unfreeze()
        self._standing = False
        self._old = None
