"""Which transformation of a ``tf.data`` pipeline keeps what was made in it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from lessons_lib.recording.buffers import Purpose
from lessons_lib.recording.categories import Category
from lessons_lib.recording.graph_facts import SOURCES
from lessons_lib.recording.graph_ops import OperationOrigin
from lessons_lib.recording.segment import Segment

#: Transformations that keep elements for later; a mapped function may hand on what it got.
_KEEPERS: Final = re.compile(r"Shuffle|Prefetch|MemoryCache|Window")
#: What of an iterator's name is TensorFlow's own: ``MemoryCacheImpl``, ``ParallelMapV2[0]``.
_INNER: Final = re.compile(r"^(?:Memory|File)(?=Cache)|(?<=Cache)Impl$|(?:V\d+)?(?:\[.*)?$")


class Keepers:
    """Tells what pipelines keep of what was made in one segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def of_element(self, iterator: str) -> Purpose:
        """Tell which transformation keeps an element, by the iterator that was running.

        It is the next one that keeps elements, or the one that made it where none does.  Of two
        pipelines that cannot be told apart, none is named.
        """
        path = tuple(iterator.split("::")[1:])
        paths = {path} if path[0] == "Root" else self._paths.get(path[0], set())
        return _of_pipeline(set(map(_keeper, paths)))

    @cached_property
    def _paths(self) -> dict[str, set[tuple[str, ...]]]:
        """Where the transformations with threads of their own may lie."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for spans in self._segment.iterators.values():
            for name in {name for _, _, name in spans}:
                parts = tuple(name.split("::")[1:])
                for end in range(2, len(parts) + 1):
                    found.setdefault(_INNER.sub("", parts[end - 1]), set()).add(parts[:end])
        return found


def of_constant(origin: OperationOrigin | None) -> Purpose:
    """Tell which data set holds a constant of a pipeline's function: no element, it stays."""
    if origin is None:
        return _of_pipeline(set())
    graph, op = origin.path[-1]
    users = (user for user in graph.operations.values() if op.name in user.inputs)
    return _of_pipeline({SOURCES[user.type] for user in users if user.type in SOURCES})


def _of_pipeline(keepers: set[str]) -> Purpose:
    keeper = f" {_INNER.sub('', keepers.pop())}" if len(keepers) == 1 else ""
    return Purpose(Category.INPUTS, None, f"tf.data{keeper}")


def _keeper(path: tuple[str, ...]) -> str:
    """Give the next transformation outwards that keeps elements, or the one that made it."""
    return next((name for name in reversed(path[:-1]) if _KEEPERS.search(name)), path[-1])
