"""`Recording`: what happened to TensorFlow's memory during a block of code.

All bytes are requested bytes, exact, and are differences from the start of the block; seconds
count from its start.  A recording only holds numbers and names: it keeps no tensor alive.
What no meter of TensorFlow's allocator can see is not in it: NumPy's own arrays, tensors that
adopted a NumPy array's memory, strings' characters, Python objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.source import Line
from lessons_lib.common.units import about_seconds, counted, format_bytes
from lessons_lib.recording import composition, recording_file
from lessons_lib.recording.breakdown import (
    Breakdown,
    BufferList,
    RecordingDiff,
    broken_down,
    buffers_html,
    difference,
)
from lessons_lib.recording.buffers import BufferStore, Floats, Ints, Site, empty_store
from lessons_lib.recording.call_chains import ChainTree, by_chain
from lessons_lib.recording.step_log import Said, StepLog, StepMark
from lessons_lib.recording.steps import Steps, steps_of


@dataclass(frozen=True, repr=False)
class Recording(Result):
    """Every buffer that TensorFlow allocated or freed during a block.

    Attributes
    ----------
    label : str
        The name it was given.
    seconds : float
        How long the block took.
    buffers : sequence of Buffer
        In birth order; buffers born before the block are listed when they were freed in it.
    exact : bool
        False when the allocator does not report every buffer in this process.
    notes : tuple of str
        What a reader must know about this recording, in sentences.
    versions : dict of str to str
        Versions of what it was made with.
    missing_bytes : int
        Bytes that the allocator counted, up or down, and that no buffer explains; by so much the
        figures of a recording that is not exact may be off.
    unwatched : tuple of (float, float)
        Seconds from the start between which a long recording was not watched.
    resident_bytes : int or None
        The process's resident set size at the end of the block, where the system tells it: what
        gets a process killed.  It holds all of the process, from its start on.
    step_marks : tuple of StepMark
        When steps and epochs began and ended; `steps` reads them.
    started_at : float
        Python's ``time.perf_counter()`` at the start of the block; 0 when loaded from a file.
    """

    label: str = ""
    seconds: float = 0.0
    buffers: BufferStore = field(default_factory=empty_store)
    exact: bool = True
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    missing_bytes: int = 0
    unwatched: tuple[tuple[float, float], ...] = ()
    resident_bytes: int | None = field(default=None, compare=False)
    step_marks: tuple[StepMark, ...] = ()
    started_at: float = field(default=0.0, compare=False)

    @classmethod
    def open(cls, label: str, log: StepLog | None = None) -> Recording:
        """Make a recording whose block is still running; `close` finishes it.

        Parameters
        ----------
        label : str
        log : StepLog, optional
            Where `step` and Keras note the steps.
        """
        recording = cls(label=label)
        object.__delattr__(recording, "buffers")
        object.__setattr__(recording, "_step_log", log or StepLog())
        return recording

    def close(self, **fields: Any) -> None:
        """Finish a recording that `open` made; afterwards it does not change any more.

        Parameters
        ----------
        **fields
            The attributes that are known now, by name.

        Raises
        ------
        RuntimeError
            If it is finished already.
        """
        if "buffers" in vars(self):
            raise RuntimeError("this recording is finished: make a new one with ll.record()")
        vars(self).pop("_step_log", None)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "buffers":
            raise RuntimeError(
                "this recording is still running: read it after the end of its `with` block"
            )
        raise AttributeError(f"a Recording has no attribute {name!r}")

    def step(self) -> int:
        """Say within the block that a step has ended; see `steps`.

        Returns
        -------
        int
            Where this moment will stand in ``step_marks``.

        Raises
        ------
        RuntimeError
            After the block.
        """
        if "buffers" in vars(self):
            raise RuntimeError("this recording is finished: say rec.step() within its block")
        log: StepLog = vars(self)["_step_log"]
        return log.say(Said.END)

    @cached_property
    def steps(self) -> Steps:
        """Peak and kept bytes of each step: of Keras' ``fit``, or as `step` was called."""
        return steps_of(self.step_marks)

    @cached_property
    def _live(self) -> Ints:
        return np.cumsum(self.buffers.changes())

    @cached_property
    def _peak_event(self) -> int | None:
        live = self._live
        if not len(live):
            return None
        highest = int(np.argmax(live))
        return highest if live[highest] > 0 else None

    @cached_property
    def peak_bytes(self) -> int:
        """Highest growth of live bytes over the block's start; never below 0."""
        return 0 if self._peak_event is None else int(self._live[self._peak_event])

    @cached_property
    def held_bytes(self) -> int:
        """What the allocator set aside at the peak, its rounding included; growth in bytes."""
        event, store = self._peak_event, self.buffers
        if event is None:
            return 0
        before = (store.born < 0) & (store.died >= 0) & (store.died <= event)
        born = store.reserved[store.alive_after(event)].sum()
        return int(born - store.reserved[before].sum())

    @cached_property
    def peak_at(self) -> float:
        """Seconds from the block's start to its peak; 0 when nothing grew."""
        return 0.0 if self._peak_event is None else float(self.buffers.times[self._peak_event])

    @cached_property
    def kept_bytes(self) -> int:
        """Growth of live bytes at the end of the block; negative when more was freed."""
        return int(self._live[-1]) if len(self._live) else 0

    @cached_property
    def allocated_bytes(self) -> int:
        """Bytes of all allocations in the block together."""
        folded = self.buffers.folded
        more = 0 if folded is None else int(folded.nbytes.sum())
        return int(self.buffers.nbytes[self.buffers.born >= 0].sum()) + more

    def timeline(self) -> tuple[Floats, Ints]:
        """Give live bytes over time as a step function.

        Returns
        -------
        times : float array, shape (events + 2,)
            Seconds from the start; begins with 0 and ends with the end of the block.
        live : int array, shape (events + 2,)
            Growth in bytes from each time on.  A long recording has fewer points than events; the
            peak is among them.
        """
        folded = self.buffers.folded
        if folded is None:
            at, live = self.buffers.times, self._live
        else:
            at, live = folded.times, folded.live
        times = np.concatenate(([0.0], at, [self.seconds]))
        live = np.concatenate(([0], live, [self.kept_bytes]))
        return times, live

    @cached_property
    def counted(self) -> tuple[tuple[Floats, Ints], ...]:
        """For each span of `unwatched`, the part of `timeline` in it: the allocator's count."""
        times, live = self.timeline()
        ends = np.searchsorted(times, np.array(self.unwatched).reshape(-1, 2), "right").tolist()
        return tuple((times[first:last], live[first:last]) for first, last in ends)

    @property
    def counted_bytes(self) -> int:
        """The allocator's highest count while nobody watched: growth in bytes, rounded up."""
        return max((int(live.max(initial=0)) for _, live in self.counted), default=0)

    def at_peak(self) -> BufferList:
        """List the buffers born in the block that were alive at its peak, largest first."""
        if self._peak_event is None:
            return BufferList()
        alive = self.buffers.alive_after(self._peak_event)
        order = np.argsort(-self.buffers.nbytes[alive], kind="stable")
        return BufferList(self.buffers[int(i)] for i in alive[order])

    def by_op(self) -> Breakdown:
        """Break the bytes down by operation."""
        return self.breakdown("op", lambda site: (site.told_op, None))

    @overload
    def by_line(self) -> Breakdown: ...
    @overload
    def by_line(self, *, chains: Literal[True]) -> ChainTree: ...
    @overload
    def by_line(self, *, chains: bool) -> Breakdown | ChainTree: ...
    def by_line(self, *, chains: bool = False) -> Breakdown | ChainTree:
        """Break the bytes down by source line.

        Parameters
        ----------
        chains : bool
            Whether to give a tree of the lines that called one another: the line of ``fit``, below
            it that of a layer.  Operations of functions have their whole chain; eager ones
            have it in ``record(chains=True)``, else their innermost line alone.
        """
        if chains:
            return by_chain(self.buffers, self._peak_event)
        return self.breakdown(
            "line",
            lambda site: (str(site.line or site.untold), site.line),
        )

    def by_category(self) -> Breakdown:
        """Break the bytes down by what they are for, such as weights or activations.

        A buffer that a variable takes over counts as what it was before for as long as the
        variable's old buffer is there.
        """
        return composition.by_category(self.buffers, self._peak_event)

    def by_layer(self) -> Breakdown:
        """Break the bytes down by layer: activations, gradients, weights and their slots.

        A layer's name is its path (``encoder/dense``), without what all of them begin with.
        Buffers of a data pipeline stand under the transformation that keeps them.
        """
        return composition.by_layer(self.buffers, self._peak_event)

    def breakdown(self, by: str, key: Callable[[Site], tuple[str, Line | None]]) -> Breakdown:
        """Break the bytes down by what a key makes of each buffer's site.

        Parameters
        ----------
        by : str
            What the rows are: ``"op"``, ``"line"``, or a word of one's own.
        key : callable
            Takes a `Site` and gives the name of its row, and the row's line or None.
        """
        return broken_down(self.buffers, self._peak_event, by, key)

    def diff(self, other: Recording) -> RecordingDiff:
        """Compare with another recording, by operation and line (``other`` minus this one).

        Parameters
        ----------
        other : Recording

        Raises
        ------
        TypeError
            If `other` is no recording.
        """
        if not isinstance(other, Recording):
            raise TypeError(f"diff compares with another Recording, not with {other!r}: give one")
        return difference(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to a JSON file; the file appears whole or not at all.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        TypeError, ValueError, OSError
            If there can be no file of that name; a folder that is missing is made.
        """
        names = (
            *("label", "seconds", "exact", "notes", "versions", "missing_bytes", "unwatched"),
            *("resident_bytes", "step_marks", "buffers"),
        )
        fields = {name: getattr(self, name) for name in names}
        recording_file.write(path, fields)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a recording that `save` wrote.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        ValueError
            If the file is not a recording, is damaged, or was written by a newer version.
        """
        return cls(**recording_file.read(path))

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        if "buffers" not in vars(self):
            return f"<Recording{label}: still running>"
        inexact = "" if self.exact else ", not exact: see .notes"
        return (
            f"<Recording{label}: peak {format_bytes(self.peak_bytes)}, "
            f"kept {format_bytes(self.kept_bytes)}, {counted(self.buffers.total, 'buffer')}, "
            f"{about_seconds(self.seconds)}{inexact}>"
        )


@summary_html.register
def _(result: Recording) -> str:
    resident = result.resident_bytes
    head = html_table(
        (
            "recording",
            "peak",
            "held by the allocator for it",
            "kept",
            "allocated in all",
            "buffers",
            "time",
            "process (resident set)",
        ),
        [
            (
                result.label or "",
                format_bytes(result.peak_bytes),
                format_bytes(result.held_bytes),
                format_bytes(result.kept_bytes),
                format_bytes(result.allocated_bytes),
                result.buffers.total,
                about_seconds(result.seconds),
                "" if resident is None else f"≈ {format_bytes(resident)}",
            )
        ],
    )
    notes = notes_table(result.notes)
    return head + buffers_html(result.at_peak(), most=8, caption="alive at the peak") + notes
