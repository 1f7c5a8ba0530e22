"""Buffers as a recording keeps them: columns of numbers, and shared descriptions.

A recording may hold hundreds of thousands of buffers, of which most come from the same few
places.  So what describes a buffer (`Site`) is stored once and shared, and what differs is kept in
NumPy columns (`BufferStore`).  `Buffer` is the readable form, made when someone looks.
Bytes are requested bytes; the allocator's rounding is kept beside them as reserved bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from lessons_lib.common.source import Line
from lessons_lib.common.units import format_bytes
from lessons_lib.recording.categories import Category, Phase

#: Stands for an operation or line that cannot be told.
UNKNOWN: Final = "unknown"
#: Kind of a buffer that was made while nobody watched: all that is known of it.
NOT_WATCHED: Final = "not watched"
#: Kind of a buffer whose value the graph optimizer computed once and keeps.
FOLDED: Final = "constant folding"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a buffer is for.

    Attributes
    ----------
    category : Category
    phase : Phase or None
        The part of a training step in which it was made.
    layer : str or None
        The layer's path (``encoder/dense``); for a gradient, that of what it is the gradient of;
        in a data pipeline, the transformation that keeps it.
    variable : str or None
        The variable that holds it, or whose gradient it is: ``conv2d_3/kernel``; for an
        optimizer's slot, ``conv2d_3/kernel/momentum``.
    held : int
        Number of the variable that holds it; 0 when none does.  The number is the process' own.
    before : Category or None
        What it was for until the variable took it over.
    sharers : tuple of Purpose
        For a value that several variables were given: what it is for if it stays with one of them.
    """

    category: Category = Category.OTHER
    phase: Phase | None = None
    layer: str | None = None
    variable: str | None = None
    held: int = 0
    before: Category | None = None
    sharers: tuple[Purpose, ...] = ()

    @property
    def of_variable(self) -> bool:
        """Whether a variable holds it, or one of several does."""
        return bool(self.held or self.sharers)


def shared(purposes: Sequence[Purpose]) -> Purpose:
    """Tell what a buffer is for that may be for any of some: what these have in common."""
    first, *others = purposes
    if not others:
        return first

    def same(name: str) -> bool:
        return len({getattr(purpose, name) for purpose in purposes}) == 1

    return Purpose(
        category=first.category if same("category") else Category.OTHER,
        phase=first.phase,
        layer=first.layer if same("layer") else None,
        sharers=tuple(purposes),
    )


@dataclass(frozen=True, slots=True)
class Site:
    """What buffers from one place have in common.

    Attributes
    ----------
    op : str or None
        Operation type as TensorFlow documents it (``"MatMul"``), or None when unknown.
    name : str or None
        Name of the operation in its graph; None in eager mode.
    shape : tuple of int or None
        Shape of the tensor, where the allocator was told.
    dtype : str or None
        Data type, where the allocator was told.
    kind : str or None
        ``"output"``, ``"temp"`` or another word of the allocator's.
    line, forward_line : Line or None
        The line that made the buffer; for a gradient, also the line of the operation it belongs to.
    function : str or None
        The ``tf.function`` that was running, or None in eager mode.
    fused : tuple of str
        Operations of the user's graph that were computed by this one's kernel.
    purpose : Purpose
        What the buffers are for.
    chain : tuple of Line
        The user's lines that led there, from the innermost (`line`) outwards, as far as known.
    """

    op: str | None = None
    name: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    kind: str | None = None
    line: Line | None = None
    forward_line: Line | None = None
    function: str | None = None
    fused: tuple[str, ...] = ()
    purpose: Purpose = Purpose()
    chain: tuple[Line, ...] = ()

    @property
    def untold(self) -> str:
        """What stands for an operation or line that is missing: unknown, or not watched."""
        return NOT_WATCHED if self.kind == NOT_WATCHED else UNKNOWN

    @property
    def told_op(self) -> str:
        """The operation type, or what stands for it."""
        return self.op or self.untold


@dataclass(frozen=True, slots=True)
class Buffer:
    """One block of memory, from its allocation to its release.

    Attributes
    ----------
    index : int
        Place in birth order within its recording.
    nbytes : int
        Bytes that TensorFlow asked for.
    reserved_bytes : int
        Bytes that the allocator set aside, with its rounding.
    allocated_at, freed_at : float or None
        Seconds from the start of the block.  ``allocated_at`` is None for a buffer born before the
        block, ``freed_at`` for one that outlived it.
    site : Site
        What made it; its fields can also be read from the buffer itself.
    """

    index: int
    nbytes: int
    reserved_bytes: int
    allocated_at: float | None
    freed_at: float | None
    site: Site = field(repr=False)

    @property
    def op(self) -> str | None:
        """Operation type, or None when unknown."""
        return self.site.op

    @property
    def name(self) -> str | None:
        """Name in the graph; None in eager mode."""
        return self.site.name

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape, where the allocator was told."""
        return self.site.shape

    @property
    def dtype(self) -> str | None:
        """Data type, where the allocator was told."""
        return self.site.dtype

    @property
    def kind(self) -> str | None:
        """``"output"``, ``"temp"`` or another word of the allocator's."""
        return self.site.kind

    @property
    def line(self) -> Line | None:
        """The line that made the buffer, or None when it cannot be told."""
        return self.site.line

    @property
    def forward_line(self) -> Line | None:
        """For a gradient: the line of the operation it belongs to."""
        return self.site.forward_line

    @property
    def function(self) -> str | None:
        """The ``tf.function`` that was running, or None in eager mode."""
        return self.site.function

    @property
    def fused(self) -> tuple[str, ...]:
        """Operations of the user's graph that this one's kernel computed too."""
        return self.site.fused

    @property
    def purpose(self) -> Purpose:
        """What the buffer is for: its category, layer and variable."""
        return self.site.purpose

    @property
    def category(self) -> Category:
        """Its category, such as activations; ``other`` when it cannot be told."""
        return self.site.purpose.category

    def __repr__(self) -> str:
        what = self.op or "unknown op"
        shape = "" if self.shape is None else f" {list(self.shape)}"
        where = "unknown line" if self.line is None else str(self.line)
        return f"<Buffer {what}{shape} {self.dtype or ''} {format_bytes(self.nbytes)}, {where}>"


@dataclass(frozen=True, eq=False)
class Folded:
    """Buffers of a long recording that are not kept one by one.

    All of them were allocated and freed in the block, and none was alive at its peak.

    Attributes
    ----------
    buffers, nbytes : int array, shape (sites,)
        How many there were, and their requested bytes together, by site.
    times : float array, shape (points,)
        Seconds from the start of the block, not decreasing.
    live : int array, shape (points,)
        Growth of live bytes at these times, of all buffers; the highest growth is among them.
    """

    buffers: Ints
    nbytes: Ints
    times: Floats
    live: Ints


@dataclass(frozen=True, eq=False)
class BufferStore(Sequence[Buffer]):
    """All buffers of a recording, in birth order.

    Attributes
    ----------
    sites : tuple of Site
        The descriptions that `site` points into.
    site : int array, shape (buffers,)
        Index of each buffer's description.
    nbytes, reserved : int array, shape (buffers,)
        Requested and reserved bytes.
    born, died : int array, shape (buffers,)
        Index of the event that allocated or freed the buffer; -1 when that was outside the block.
    times : float array, shape (events,)
        Seconds from the start of the block, not decreasing.
    folded : Folded or None
        What else there was, in a long recording.
    addresses : dict of int to int
        The buffers that were alive at the end, by address; empty when loaded from a file.
    newest_tensor : int
        A number of TensorFlow's that every tensor made later exceeds; -1 where it is not known.
    """

    sites: tuple[Site, ...]
    site: Ints
    nbytes: Ints
    reserved: Ints
    born: Ints
    died: Ints
    times: Floats
    folded: Folded | None = None
    addresses: dict[int, int] = field(default_factory=dict)
    newest_tensor: int = -1

    @property
    def total(self) -> int:
        """How many buffers there were, with those that are not kept one by one."""
        return len(self) + (0 if self.folded is None else int(self.folded.buffers.sum()))

    def __len__(self) -> int:
        return len(self.nbytes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferStore):
            return NotImplemented
        mine, theirs = self._columns(), other._columns()
        return (
            self.sites == other.sites
            and len(mine) == len(theirs)
            and all(map(np.array_equal, mine, theirs))
        )

    def _columns(self) -> list[npt.NDArray[Any]]:
        columns: list[npt.NDArray[Any]] = [self.site, self.nbytes, self.reserved]
        columns += [self.born, self.died, self.times]
        if (folded := self.folded) is not None:
            columns += [folded.buffers, folded.nbytes, folded.times, folded.live]
        return columns

    def __hash__(self) -> int:
        return hash((self.sites, len(self.times), self.nbytes.tobytes()))

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Buffer, ...]: ...
    def __getitem__(self, index: int | slice) -> Buffer | tuple[Buffer, ...]:
        if isinstance(index, slice):
            return tuple(self._buffer(i) for i in range(*index.indices(len(self))))
        i = index + len(self) if index < 0 else index
        if not 0 <= i < len(self):
            raise IndexError(f"there is no buffer {index}: this recording has {len(self)}")
        return self._buffer(i)

    def __iter__(self) -> Iterator[Buffer]:
        return (self._buffer(i) for i in range(len(self)))

    def _buffer(self, i: int) -> Buffer:
        born, died = int(self.born[i]), int(self.died[i])
        return Buffer(
            index=i,
            nbytes=int(self.nbytes[i]),
            reserved_bytes=int(self.reserved[i]),
            allocated_at=None if born < 0 else float(self.times[born]),
            freed_at=None if died < 0 else float(self.times[died]),
            site=self.sites[int(self.site[i])],
        )

    def __repr__(self) -> str:
        return f"<{len(self)} buffers>"

    def changes(self) -> Ints:
        """Give the change of live bytes at each event; int array, shape (events,)."""
        delta = np.zeros(len(self.times), np.int64)
        born, died = self.born >= 0, self.died >= 0
        np.add.at(delta, self.born[born], self.nbytes[born])
        np.subtract.at(delta, self.died[died], self.nbytes[died])
        return delta

    def alive_after(self, event: int) -> npt.NDArray[np.intp]:
        """Give the indices of the buffers born in the block that are alive after an event."""
        born = (self.born >= 0) & (self.born <= event)
        return np.flatnonzero(born & ((self.died < 0) | (self.died > event)))


def empty_store() -> BufferStore:
    """Make a store with no buffers."""
    none = np.zeros(0, np.int64)
    return BufferStore((), none, none, none, none, none, np.zeros(0))
