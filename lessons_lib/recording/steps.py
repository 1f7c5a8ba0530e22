"""Steps and epochs of a recording: does it grow from step to step, and how high is each.

Keras' ``fit`` says itself when a batch and an epoch begin and end, to its list of callbacks, which
is listened to while a recording is open.  A loop of one's own says ``rec.step()`` at the end of
each step.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from lessons_lib.common.patching import Patch
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import about_seconds, counted, format_bytes
from lessons_lib.recording.markers import mark_moment
from lessons_lib.recording.moments import MarkedMoment


class Said(StrEnum):
    """What was said at a moment."""

    BEGIN = "begin"
    END = "end"
    EPOCH = "epoch"
    EPOCH_END = "epoch end"


_SAID: Final = tuple(Said)
#: More epochs are put together in the table.
_MOST_GROUPS: Final = 12
#: Of longer rows of steps so many are compared, each with each.
_MOST_LEVELS: Final = 400
#: Among so few steps none is called unlike the others, and no swing shows as one.
_FEW: Final = 12


class StepMark(NamedTuple):
    """A moment at which a step or an epoch began or ended.

    Attributes
    ----------
    at : float
        Seconds from the start of the block.
    said : Said
    number : int
        Of the epoch, from 0.
    live, peak : int
        Growth of live bytes over the start of the block, and the most since the mark before.
    exact : bool
        False once the profiler has rested: the allocator's counters round up.
    """

    at: float
    said: Said
    number: int = 0
    live: int = 0
    peak: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class StepMemory:
    """One step.

    Attributes
    ----------
    epoch : int
        From 0, in each ``fit``; 0 in a loop of one's own.
    step : int
        From 0, over all epochs.
    start, seconds : float
        When it began, from the start of the block, and how long it took.
    peak_bytes : int
        Highest growth of live bytes in it, over the start of the block.
    kept_bytes : int
        Growth from its begin to the begin of the next one, or to the end of its ``fit``; negative
        when more was freed, such as a dropped model, from before the recording too, that the
        garbage collector finds just then.
    exact : bool
        False where the profiler rested in it or before: bytes are then the allocator's, rounded up.
    fit : int
        From 0: the epochs were counted anew, as for another model.
    """

    epoch: int
    step: int
    start: float
    seconds: float
    peak_bytes: int
    kept_bytes: int
    exact: bool = True
    fit: int = 0


@dataclass(frozen=True, repr=False)
class Steps(Result, Sequence[StepMemory]):
    """The steps of a recording.

    Attributes
    ----------
    rows : tuple of StepMemory
        In order.
    """

    rows: tuple[StepMemory, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    @property
    def epochs(self) -> tuple[tuple[StepMemory, ...], ...]:
        """The steps of each epoch, in each ``fit``."""
        found: dict[tuple[int, int], list[StepMemory]] = {}
        for row in self.rows:
            found.setdefault((row.fit, row.epoch), []).append(row)
        return tuple(tuple(found[numbers]) for numbers in sorted(found))

    @property
    def first(self) -> tuple[StepMemory, ...]:
        """The first step of each ``fit``, which makes what the others find there.

        Of ``fit`` calls of one step each, as in a loop of one's own, only the very first.
        """
        firsts = [row for i, row in enumerate(self.rows) if not i or self.rows[i - 1].fit < row.fit]
        return tuple(firsts if len(self.rows) >= 2 * len(firsts) else firsts[:1])

    @property
    def steady(self) -> tuple[StepMemory, ...]:
        """All steps but the `first` ones."""
        first = {row.step for row in self.first}
        return tuple(row for row in self.rows if row.step not in first)

    @property
    def kept_per_step(self) -> int:
        """What a steady step keeps, in bytes; 0 where there is none.

        Where steps keep unlike amounts, as with a log that is written every tenth step, the growth
        from step to step: of a few steps what all keep together, divided by their number; of more
        the median over all pairs (Theil-Sen), without the one step most unlike the others, and
        no more than that.
        """
        return _per_step(self.steady)

    def __repr__(self) -> str:
        if not self.rows:
            return "<Steps: none were said>"
        first = self.rows[0]
        rest = ""
        if self.steady:
            peak = _bytes(max(row.peak_bytes for row in self.steady), self.steady)
            rest = f", then peak {peak}, kept {_kept(self.steady)} a step"
        epochs = f" in {counted(len(self.epochs), 'epoch')}" if len(self.epochs) > 1 else ""
        return (
            f"<Steps: {counted(len(self), 'step')}{epochs}, the first: "
            f"peak {_bytes(first.peak_bytes, [first])}, "
            f"kept {_bytes(first.kept_bytes, [first])}{rest}>"
        )


def _bytes(nbytes: int, steps: Iterable[StepMemory]) -> str:
    """Write a size that was found in steps."""
    return f"{'' if all(step.exact for step in steps) else '≈ '}{format_bytes(nbytes)}"


def _per_step(steps: Sequence[StepMemory]) -> int:
    """Give the growth from step to step, in bytes; what was kept once, by one step, is none."""
    kept = np.array([step.kept_bytes for step in steps], np.float64)
    if len(steps) <= 1 or (kept == kept[0]).all():
        return steps[0].kept_bytes if steps else 0
    mean = float(kept.mean())
    if len(kept) <= _FEW:
        return round(mean)
    usual = np.median(kept)
    unlike = np.abs(kept - usual)
    if (unlike == unlike.max()).sum() == 1:
        kept[unlike.argmax()] = usual
    levels = np.concatenate(([0], kept.cumsum()))
    at = np.unique(np.linspace(0, len(kept), _MOST_LEVELS).round().astype(np.int64))
    first, second = np.triu_indices(len(at), 1)
    slopes = (levels[at[second]] - levels[at[first]]) / (at[second] - at[first])
    slope = float(np.median(slopes))
    # A level that falls all through an epoch, and rises at once between two, is no growth.
    return round(mean if abs(mean) < abs(slope) or mean * slope < 0 else slope)


def _kept(steps: Sequence[StepMemory]) -> str:
    exact = all(step.exact for step in steps) and len({step.kept_bytes for step in steps}) <= 1
    return f"{'' if exact else '≈ '}{format_bytes(_per_step(steps))}"


def _named(steps: Sequence[StepMemory], fits: int) -> str:
    """Name the epochs of some steps; which `fit` they are of, where there are several."""
    of_fit, to_fit = (f"fit {step.fit + 1}, " if fits else "" for step in (steps[0], steps[-1]))
    begin, end = (f"epoch {step.epoch + 1}" for step in (steps[0], steps[-1]))
    if (of_fit, begin) == (to_fit, end):
        return f"{of_fit}{begin}"
    if of_fit == to_fit:
        return f"{of_fit}epochs {steps[0].epoch + 1} to {steps[-1].epoch + 1}"
    return f"{of_fit}{begin} to {to_fit}{end}"


@summary_html.register
def _(result: Steps) -> str:
    groups: list[tuple[str, Sequence[StepMemory]]] = []
    if first := result.first:
        groups.append(("first step" if len(first) == 1 else "first step of each fit", first))
    firsts = {step.step for step in first}
    epochs = result.epochs
    parts = np.array_split(np.arange(len(epochs)), min(len(epochs), _MOST_GROUPS) or 1)
    for begin, last in [(part[0], part[-1]) for part in parts if len(part)]:
        rest = [
            step for steps in epochs[begin : last + 1] for step in steps if step.step not in firsts
        ]
        if rest:
            groups.append(
                (_named(rest, result.rows[-1].fit) if len(parts) > 1 else "the others", rest)
            )
    rows = [
        (
            name,
            len(steps),
            _bytes(max(step.peak_bytes for step in steps), steps),
            _bytes(sum(step.kept_bytes for step in steps), steps),
            _kept(steps),
            about_seconds(sum(step.seconds for step in steps)),
        )
        for name, steps in groups
    ]
    headers = ("steps", "number", "highest peak", "kept", "kept a step", "time")
    return html_table(headers, rows)


def steps_of(marks: Sequence[StepMark]) -> Steps:
    """Divide what happened between marks into steps."""
    marks = [StepMark(0.0, Said.END), *marks]  # the start of the block
    rows: list[StepMemory] = []
    for number, (fit, epoch, begin, end, after) in enumerate(_spans(marks)):
        first, last, following = marks[begin], marks[end], marks[after]
        peak = max(first.live, *(mark.peak for mark in marks[begin + 1 : end + 1]))
        seconds, kept = last.at - first.at, following.live - first.live
        rows.append(StepMemory(epoch, number, first.at, seconds, peak, kept, following.exact, fit))
    return Steps(tuple(rows))


def _spans(marks: Sequence[StepMark]) -> list[tuple[int, int, int, int, int]]:
    """Give fit, epoch, and the marks of begin, end, and up to where it keeps, for each step.

    That is to the begin of the next step, but no further than its ``fit``, unless each is of one
    step: these are a loop of one's own.
    """
    found: list[tuple[int, int, int, int]] = []
    ends: dict[int, int] = {}
    fit, epoch, begin = 0, -1, 0
    for place, mark in enumerate(marks[1:], 1):
        if mark.said is Said.EPOCH:
            fit += mark.number <= epoch
            epoch = mark.number
        else:
            if mark.said is Said.END:
                found.append((fit, max(epoch, 0), begin, place))
            begin = place
        ends[fit] = place
    following = [start for *_, start, _ in found[1:]] + [ends[f] for f, *_ in found[-1:]]
    if len(found) >= 2 * (fit + 1):
        following = [min(after, ends[f]) for after, (f, *_) in zip(following, found, strict=True)]
    return [(*span, after) for span, after in zip(found, following, strict=True)]


class StepLog:
    """What is said while a recording is open.

    Parameters
    ----------
    mark : callable
        Marks the present moment, and gives the marker's number.
    """

    def __init__(self, mark: Callable[[], int] = mark_moment) -> None:
        self._mark = mark
        # Marker, seconds of time.perf_counter, what and which, one after the other: a loop may say
        # a million steps, and an interrupt between them must not part them.
        self._said = array("d")

    def say(self, said: Said, number: int = 0) -> int:
        """Note a moment: now; give its place among the moments."""
        return self.note(self._mark(), time.perf_counter(), said, number)

    def note(self, marker: int, at: float, said: Said, number: int = 0) -> int:
        """Note a moment that was marked in the profile; give its place."""
        self._said.extend((marker, at, _SAID.index(said), number))
        return len(self._said) // 4 - 1

    def marks_from(self, start: float, seen: Mapping[int, MarkedMoment]) -> tuple[StepMark, ...]:
        """Give the marks in seconds from the start of a recording.

        Parameters
        ----------
        start : float
            Of the recording, in seconds of ``time.perf_counter``: for what was said in the moment
            when a session ended.
        seen : mapping of int to MarkedMoment
            All marked moments from the start on, by the markers' numbers, in order of time.
        """
        said = np.array(self._said).reshape(-1, 4).tolist()
        mine, peaks, highest = {int(marker) for marker, *_ in said}, dict[int, int](), 0
        for marker, moment in seen.items():
            highest = max(highest, moment.peak)
            if marker in mine:  # others are of other recordings
                peaks[marker], highest = highest, moment.live
        marks: list[StepMark] = []
        at, live = 0.0, 0
        for marker, clock, what, number in said:
            unseen = MarkedMoment(clock - start, live, live, exact=False)
            moment = seen.get(int(marker), unseen)
            at, live = max(at, moment.at), moment.live
            peak = peaks.get(int(marker), live)
            marks.append(StepMark(at, _SAID[int(what)], int(number), live, peak, moment.exact))
        return tuple(marks)


_CALLBACKS: Final = ("keras.src.callbacks.callback_list", "CallbackList")
_METHODS: Final = {
    "on_epoch_begin": Said.EPOCH,
    "on_epoch_end": Said.EPOCH_END,
    "on_train_batch_begin": Said.BEGIN,
    "on_train_batch_end": Said.END,
}


class _Listening:
    """Listens to Keras for all open recordings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: list[StepLog] = []
        self._patches: list[Patch] = []

    def add(self, log: StepLog) -> None:
        with self._lock:
            self._logs.append(log)
        self.look_for_keras()

    def remove(self, log: StepLog) -> None:
        with self._lock:
            self._logs = [other for other in self._logs if other is not log]
            if not self._logs:
                for patch in self._patches:
                    patch.remove()
                self._patches = []

    def look_for_keras(self) -> None:
        """Begin to listen, when Keras is there by now."""
        if self._patches or not self._logs:
            return
        holder = getattr(sys.modules.get(_CALLBACKS[0]), _CALLBACKS[1], None)
        if holder is None:
            return
        with self._lock:
            if self._logs and not self._patches:
                self._patches = [
                    Patch(holder, name, functools.partial(self._noting, said=said))
                    for name, said in _METHODS.items()
                ]
                for patch in self._patches:
                    patch.install()

    def _noting(self, original: Callable[..., Any], said: Said) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(callbacks: Any, number: int, *rest: Any, **more: Any) -> Any:
            result = original(callbacks, number, *rest, **more)
            # What other callbacks do belongs to the step that ends, and to none before one begins.
            with contextlib.suppress(Exception):  # a fault of ours costs a step, not the run
                self._say(said, number if said is Said.EPOCH else 0)
            return result

        return wrapper

    def _say(self, said: Said, number: int) -> None:
        for log in self._logs:
            log.say(said, number if isinstance(number, int) else 0)


listening: Final = _Listening()
