"""Lookup tables and other resources that TensorFlow keeps after the program has lost them.

A resource with a name lives in TensorFlow's resource manager until somebody destroys it; the
Python object that stood for it may be gone long before.  TensorFlow tells a tracker which
resources are made; afterwards a table's handle still answers how many entries it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lessons_lib.common.internals import (
    Missing,
    resource_handle,
    resource_tracker_scope,
    table_name,
)
from lessons_lib.common.runtime import tf


@dataclass(frozen=True)
class LostTables:
    """Tables that live on without a Python object that stands for them.

    Attributes
    ----------
    per_call : float
        How many each call leaves behind.
    entries : int
        Entries of one of them, the largest.
    """

    per_call: float = 0.0
    entries: int = 0


class ResourceWatch:
    """Notes the names of the resources that a block makes, never the Python objects."""

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._handles: dict[str, Any] = {}

    def add_resource(self, resource: Any) -> None:
        """Take down a resource that was just begun; TensorFlow calls this."""
        self._made.append(resource)  # its handle is made later: `watching` lets go of it

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call; the resources live to its end."""
        missing = isinstance(resource_tracker_scope, Missing)
        with contextlib.nullcontext() if missing else resource_tracker_scope(self):
            try:
                yield
            finally:
                for made in self._made:
                    handle = resource_handle(made)
                    # A handle without a name keeps its resource alive: it must not be kept.
                    if name := table_name(handle):
                        self._handles[name] = handle
                del self._made[:]
                made = handle = None

    def lost(self, living: list[Any], calls: int) -> LostTables:
        """Count the tables that still answer though no living Python object stands for them.

        Parameters
        ----------
        living : list
            Tables that are alive in Python.
        calls : int
            How many calls were watched.
        """
        known = {id(resource_handle(table)) for table in living}
        sizes = [_entries(h) for h in self._handles.values() if id(h) not in known]
        alive = [size for size in sizes if size is not None]
        self._handles.clear()
        return LostTables(len(alive) / calls, max(alive, default=0))


def _entries(handle: Any) -> int | None:
    try:
        with tf.init_scope():
            return int(tf.raw_ops.LookupTableSizeV2(table_handle=handle))
    except Exception:  # gone, not a table, or not initialised
        return None
