"""Several short measurements in one recording, because starting and reading a profile takes time.

A section is bounded by two small buffers of a size and operation of their own, which show in the
recording where it begins and ends.  Sizes are requested bytes.  What happens between sections is
not counted.  All threads are watched, as in any recording.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.recording.buffers import BufferStore, Site
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

_MARK_OP: Final = "Empty"
_MARK_BYTES: Final = 3331


@dataclass(frozen=True, slots=True)
class Section:
    """What happened in one section.

    Attributes
    ----------
    peak_bytes : int
        Highest growth over the section's start.
    kept_bytes : int
        Growth at its end; negative when more was freed.
    allocated_bytes : int
        All allocations together.
    by_op : dict of str to int
        Allocated bytes by operation type.
    functions : frozenset of str
        The functions (``tf.function``) in which something was allocated; empty text for none.
    """

    peak_bytes: int
    kept_bytes: int
    allocated_bytes: int
    by_op: dict[str, int]
    functions: frozenset[str] = frozenset()


class RecordedSections:
    """Measures sections; `results` holds them by name once the block has ended.

    Examples
    --------
    >>> with RecordedSections() as sections:
    ...     with sections.section("first"):
    ...         y = op(x)
    >>> sections.results["first"].peak_bytes
    """

    def __init__(self) -> None:
        self.results: dict[str, Section] = {}
        self._names: list[str] = []
        self._watch = record(lines=False)
        self._recording: Recording | None = None

    def _mark(self) -> None:
        tf.raw_ops.Empty(shape=self._shape, dtype=tf.uint8)

    def __enter__(self) -> Self:
        self._shape = tf.constant([_MARK_BYTES])  # made here, so that a mark is one buffer
        self._recording = self._watch.__enter__()
        return self

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Measure a block; sections cannot be nested."""
        self._mark()
        yield
        self._mark()
        self._names.append(name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.__exit__(kind, error, trace)
        if error is None and self._recording is not None:
            self.results = dict(zip(self._names, _cut(self._recording.buffers), strict=True))


def _cut(store: BufferStore) -> Iterator[Section]:
    ops = np.array([site.op or "" for site in store.sites] or [""], object)
    op = ops[store.site] if len(store) else ops[:0]
    marks = (store.nbytes == _MARK_BYTES) & (store.born >= 0) & (op == _MARK_OP)
    # A mark's own buffer is freed right after it is made: what counts lies behind that.
    begins, ends = store.died[marks][0::2], store.born[marks][1::2]
    changes = store.changes()
    for begin, end in zip(begins, ends, strict=True):
        live = np.cumsum(changes[begin + 1 : end])
        born = (store.born > begin) & (store.born < end)
        by_op: dict[str, int] = {}
        for name, size in zip(op[born], store.nbytes[born], strict=True):
            by_op[name] = by_op.get(name, 0) + int(size)
        yield Section(
            peak_bytes=max(0, int(live.max())) if len(live) else 0,
            kept_bytes=int(live[-1]) if len(live) else 0,
            allocated_bytes=sum(by_op.values()),
            by_op=by_op,
            functions=frozenset(_function(store.sites[i]) for i in np.unique(store.site[born])),
        )


def _function(site: Site) -> str:
    xla = ", compiled with XLA" if site.op == "XLA" else ""
    return f"{site.function}{xla}" if site.function else ""
