"""`live_tensors`: which tensors and variables are alive now, how many bytes, and who holds them.

Bytes are those of the tensors' own elements; a buffer that several tensors share counts once.  How
much of a buffer lies beyond a slice that is kept of it nothing tells: what the allocator has set
aside beyond the sum is said in a note.  Looking makes no copy and keeps nothing alive.  Not seen:
tensors that only C++ code holds (a dataset's buffers, constants of graphs, optimizer state of a
saved model); tensors on other devices' memory are listed with their size, but shared buffers can't
be told there.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common import runtime, system
from lessons_lib.common.arguments import check_count
from lessons_lib.common.internals import tensor_number, tensor_shape
from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.source import Line
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.creation_lines import made_at
from lessons_lib.instruments.holders.names import type_name
from lessons_lib.instruments.holders.object_types import (
    Kind,
    Kinds,
    extent,
    lies_within,
    union_bytes,
)
from lessons_lib.instruments.holders.search import who_holds
from lessons_lib.recording.recording import Recording

_NAMED: Final = 400
_ROWS: Final = 16
_LITTLE: Final = 2**16, 1 / 16  # bytes, share of the sum: less beyond it is not worth a note
_WANTED: Final = frozenset({Kind.TENSOR, Kind.VARIABLE})


@dataclass(frozen=True)
class LiveTensor:
    """One tensor or variable that is alive.

    Attributes
    ----------
    what : str
        ``"tf.Tensor"`` or ``"tf.Variable"``.
    name : str
        A variable's name; empty for tensors.
    shape : tuple of int or None
    dtype : str
    nbytes : int
        Bytes of its own elements.
    shared : bool
        Whether these bytes belong to a buffer that is counted with an earlier row.
    line : Line or None
        The line that made it, where a recording or tracemalloc saw that.
    chain : tuple of str
        Who holds it, from a name in the program down to itself; empty when not searched, and
        only its type when nothing in Python holds it.
    """

    what: str
    name: str
    shape: tuple[int, ...] | None
    dtype: str
    nbytes: int
    shared: bool
    line: Line | None
    chain: tuple[str, ...]

    @property
    def holder(self) -> str:
        """The chain as one text: ``history (list) → tf.Tensor``."""
        return " → ".join(self.chain)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f" {list(self.shape)}"
        where = f": {self.holder}" if self.chain else ""
        return f"<{self.what}{shape} {self.dtype} {format_bytes(self.nbytes)}{where}>"


@dataclass(frozen=True)
class HeldAlike:
    """Tensors or variables of one shape that the same holder holds.

    Attributes
    ----------
    what, holder : str
    shape : tuple of int or None
    dtype : str
    count : int
    nbytes : int
        Bytes of all of them; buffers that are counted elsewhere left out.
    line : Line or None
    """

    what: str
    holder: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int
    nbytes: int
    line: Line | None

    def __str__(self) -> str:
        times = f"{self.count} × " if self.count > 1 else ""
        shape = "" if self.shape is None else f" {list(self.shape)}"
        return f"{times}{self.holder or self.what}{shape}"


@dataclass(frozen=True, repr=False)
class LiveTensors(Result):
    """All tensors and variables that are alive, largest first.

    Attributes
    ----------
    rows : tuple of LiveTensor
    nbytes : int
        Bytes of all of them, shared buffers once.
    notes : tuple of str
        What else a reader should know: which holders were not searched for, and what the
        allocator has set aside beyond these bytes.
    beyond_bytes : int
        What TensorFlow's allocator has set aside beyond `nbytes`: the rest of buffers of which a
        slice is alive, what NumPy arrays share, what only C++ code holds, and rounding.
    """

    rows: tuple[LiveTensor, ...]
    nbytes: int
    notes: tuple[str, ...] = ()
    beyond_bytes: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tensors(self) -> tuple[LiveTensor, ...]:
        """The eager tensors alone."""
        return tuple(row for row in self.rows if row.what == "tf.Tensor")

    @property
    def variables(self) -> tuple[LiveTensor, ...]:
        """The variables alone."""
        return tuple(row for row in self.rows if row.what != "tf.Tensor")

    def by_holder(self) -> tuple[HeldAlike, ...]:
        """Put together what is held alike, most bytes first."""
        groups: dict[tuple[Any, ...], list[LiveTensor]] = {}
        for row in self.rows:
            key = (row.what, row.holder or row.name, row.shape, row.dtype, row.line)
            groups.setdefault(key, []).append(row)
        found = [
            HeldAlike(
                what=key[0],
                holder=key[1],
                shape=key[2],
                dtype=key[3],
                count=len(rows),
                nbytes=sum(row.nbytes for row in rows if not row.shared),
                line=key[4],
            )
            for key, rows in groups.items()
        ]
        return tuple(sorted(found, key=lambda group: (-group.nbytes, str(group))))

    def __repr__(self) -> str:
        return (
            f"<{_counted(len(self.tensors), 'tensor')} and "
            f"{_counted(len(self.variables), 'variable')} alive, {format_bytes(self.nbytes)}>"
        )


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


@summary_html.register
def _(result: LiveTensors) -> str:
    groups = result.by_holder()
    rows = [
        (group.holder, group.count, "" if group.shape is None else list(group.shape), group.dtype,
         format_bytes(group.nbytes), "" if group.line is None else group.line.described)
        for group in groups[:_ROWS]
    ]  # fmt: skip
    if rest := groups[_ROWS:]:
        size = format_bytes(sum(group.nbytes for group in rest))
        rows.append((f"… {len(rest)} more", sum(group.count for group in rest), "", "", size, ""))
    headers = ("held by", "how many", "shape", "type", "bytes, shared once", "made at")
    html = html_table(headers, rows, caption=repr(result)[1:-1], align="lrllrl")
    return html + notes_table(result.notes)


def live_tensors(recording: Recording | None = None, *, names: int = _NAMED) -> LiveTensors:
    """List the eager tensors and variables that are alive now.

    Parameters
    ----------
    recording : Recording, optional
        Where to look up the lines that made them.  A line is given only when the recording leaves
        no doubt: it is exact, of this process, and saw the buffer's birth.
    names : int
        For how many of the largest the holders are searched.

    Returns
    -------
    LiveTensors

    Raises
    ------
    TypeError
        If `recording` is not a `Recording`, or `names` not a whole number.
    RuntimeError
        In a process that was forked after TensorFlow was loaded.

    Notes
    -----
    Not seen: tensors that only C++ code holds, such as a dataset's buffers or the constants of
    graphs; the rest of a buffer of which a slice is alive; and what NumPy arrays share, which
    `growth` names. A note says how much the allocator has set aside beyond what is listed.

    Examples
    --------
    >>> history = [tf.ones([512, 512])]
    >>> ll.live_tensors()
    <1 tensor and 0 variables alive, 1 MiB>
    """
    runtime.require_home_process()
    if recording is not None and not isinstance(recording, Recording):
        raise TypeError(
            f"recording is {recording!r}: give the Recording from a finished `with ll.record()` "
            "block, or nothing"
        )
    names = check_count(names, "names", 0)
    kinds = Kinds()
    gc.collect()
    things = [*itertools.chain.from_iterable(kinds.choose(gc.get_objects(), _WANTED).values())]
    extents = [extent(thing, kinds.of(thing)) for thing in things]
    order = sorted(range(len(things)), key=lambda i: (-extents[i][1], extents[i][0]))
    largest = [things[i] for i in order[:names]]
    budget = SearchBudget()
    chains = who_holds(largest, kinds, budget, ignore=[things])
    budget.close()
    lines = {} if recording is None else _kept_lines(recording, things, extents)
    shared = lies_within(extents)
    chain_of = [chains.get(id(thing), ()) for thing in things]
    rows = [
        _row(things[i], kinds, extents[i][1], shared[i], chain_of[i], lines.get(i)) for i in order
    ]
    nbytes = union_bytes(extents)
    beyond = max(0, (system.allocator_bytes() or 0) - nbytes)
    notes = *_notes(rows, names, budget), *_more(beyond, nbytes)
    return LiveTensors(tuple(rows), nbytes, notes, beyond)


def _row(
    thing: Any, kinds: Kinds, nbytes: int, shared: bool, chain: tuple[str, ...], line: Line | None
) -> LiveTensor:
    is_tensor = kinds.of(thing) is Kind.TENSOR
    shape, dtype = _shape(thing, is_tensor), thing.dtype.name
    return LiveTensor(
        what="tf.Tensor" if is_tensor else type_name(thing),
        name="" if is_tensor else str(getattr(thing, "name", "")),
        shape=shape,
        dtype=dtype,
        nbytes=nbytes,
        shared=shared,
        line=_line(thing) or line,
        chain=chain,
    )


def _notes(rows: list[LiveTensor], names: int, budget: SearchBudget) -> Iterator[str]:
    missing = sum(not row.chain for row in rows)
    if missing and budget.ended_early:
        yield (
            f"The search for holders ended after {budget.seconds:.0f} s: {missing} of {len(rows)} "
            "are without a name."
        )
    elif missing:
        yield (
            f"Holders were searched for the {names} largest: {missing} of {len(rows)} are without "
            "a name. Call live_tensors(names=...) for more."
        )


def _more(beyond: int, nbytes: int) -> Iterator[str]:
    least, share = _LITTLE
    if beyond > max(least, share * nbytes):
        yield (
            f"TensorFlow's allocator has set aside ≈ {format_bytes(beyond)} more: the rest of "
            "buffers of which a slice is alive (x[0] keeps all of x), what NumPy arrays share "
            "(np.asarray(x)), what only C++ code holds (datasets, constants of graphs), and "
            "rounding."
        )


def _shape(thing: Any, is_tensor: bool) -> tuple[int, ...] | None:
    if is_tensor:
        return tensor_shape(thing)
    return tuple(thing.shape.as_list()) if thing.shape.is_fully_defined() else None


def _number(thing: Any) -> int:
    """Give TensorFlow's number for a tensor, or for a variable's handle; -1 where there is none."""
    with contextlib.suppress(Exception):  # a variable that was not made yet
        return tensor_number(getattr(thing, "handle", thing))
    return -1


def _line(thing: Any) -> Line | None:
    return made_at(thing) if tracemalloc.is_tracing() else None


def _kept_lines(
    recording: Recording, things: list[Any], extents: list[tuple[int, int]]
) -> dict[int, Line]:
    """Give the lines of those whose buffers the recording saw being made, by place in the list.

    Of a recording that is not exact, and of what was made after it, an address says nothing; and
    of several that lie at one address, it says who made the first.
    """
    if not recording.exact:
        return {}
    found: dict[int, int] = {}
    store = recording.buffers
    numbers = [_number(thing) for thing in things]
    for i in sorted(range(len(things)), key=numbers.__getitem__, reverse=True):
        address, nbytes = extents[i]
        row = store.addresses.get(address) if address > 0 else None
        if row is not None:
            is_it = 0 <= numbers[i] <= store.newest_tensor and store.nbytes[row] == nbytes
            found[row] = i if is_it else -1
    lines = {}
    for row, i in found.items():
        buffer = store[row]
        if i >= 0 and buffer.line is not None and buffer.allocated_at is not None:
            lines[i] = buffer.line
    return lines
