"""Steps and epochs of a recording: does it grow from step to step, and how high is each."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import about_seconds, counted, format_bytes
from lessons_lib.recording.step_log import Said, StepMark

#: More epochs are put together in the table.
_MOST_GROUPS: Final = 12
#: Of longer rows of steps so many are compared, each with each.
_MOST_LEVELS: Final = 400
#: Among so few steps none is called unlike the others, and no swing shows as one.
_FEW: Final = 12


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
        Growth from its begin to the begin of the next one, or to the end of its ``fit``, without
        what the steps of a ``fit`` within it keep, as of a callback's; negative when more was
        freed, such as a dropped model, from before the recording too, that the garbage collector
        finds just then.
    exact : bool
        False where the profiler rested in it or before: bytes are then the allocator's, rounded up.
    fit : int
        From 0: each ``fit`` has its own, and a loop of one's own.
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
        found: dict[int, StepMemory] = {}
        for row in self.rows:
            found.setdefault(row.fit, row)
        return tuple(found.values())[: None if len(self.rows) >= 2 * len(found) else 1]

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
    of_fit, to_fit = (f"fit {step.fit + 1}, " if fits > 1 else "" for step in (steps[0], steps[-1]))
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
    epochs, fits = result.epochs, len({step.fit for step in result.rows})
    parts = np.array_split(np.arange(len(epochs)), min(len(epochs), _MOST_GROUPS) or 1)
    for begin, last in [(part[0], part[-1]) for part in parts if len(part)]:
        rest = [
            step for steps in epochs[begin : last + 1] for step in steps if step.step not in firsts
        ]
        if rest:
            groups.append((_named(rest, fits) if len(parts) > 1 else "the others", rest))
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


class _Span(NamedTuple):
    """A step: the marks of its begin and end."""

    fit: int
    epoch: int
    begin: int
    end: int


def steps_of(marks: Sequence[StepMark]) -> Steps:
    """Divide what happened between marks into steps."""
    marks = [StepMark(0.0, Said.END), *marks]  # the start of the block
    spans = list(_spans(marks))
    kept = [marks[after].live - marks[span.begin].live for span, after in spans]
    for inner, outer in _within(spans):
        kept[outer] -= marks[spans[inner][1]].live - marks[spans[inner][0].begin].live
    rows: list[StepMemory] = []
    for number, (span, after) in enumerate(spans):
        first, last = marks[span.begin], marks[span.end]
        peak = max(first.live, *(mark.peak for mark in marks[span.begin + 1 : span.end + 1]))
        rows.append(
            StepMemory(
                span.epoch,
                number,
                first.at,
                last.at - first.at,
                peak,
                kept[number],
                marks[after].exact,
                span.fit,
            )
        )
    return Steps(tuple(rows))


def _spans(marks: Sequence[StepMark]) -> Iterable[tuple[_Span, int]]:
    """Give the steps in order, and the mark up to which each keeps.

    That is to the begin of the next step of its ``fit``, but no further than this, unless each is
    of one step: these are a loop of one's own.
    """
    found: list[_Span] = []
    ends: dict[int, int] = {}
    speakers: dict[int, _Span] = {}  # where each is
    for place, mark in enumerate(marks[1:], 1):
        now = speakers.get(mark.fit)
        if now is None:
            now = _Span(len(ends), -1, place - 1 if mark.fit else 0, 0)
        if mark.said is Said.EPOCH:
            # Files of before do not say whose a mark is.
            fit = len(ends) if mark.number <= now.epoch else now.fit
            now = now._replace(fit=fit, epoch=mark.number)
        else:
            if mark.said is Said.END:
                found.append(now._replace(epoch=max(now.epoch, 0), end=place))
            now = now._replace(begin=place)
        speakers[mark.fit] = now
        ends[now.fit] = place
    found.sort(key=lambda span: (span.begin, -span.end))
    alone = len(found) < 2 * len({span.fit for span in found})
    begins: dict[int, list[int]] = {}
    for span in found:
        begins.setdefault(0 if alone else span.fit, []).append(span.begin)
    for span in found:
        later = begins[0 if alone else span.fit]
        place = bisect.bisect_left(later, span.end)
        yield span, later[place] if place < len(later) else ends[span.fit]


def _within(spans: Sequence[tuple[_Span, int]]) -> Iterable[tuple[int, int]]:
    """Give each step within a step of another ``fit``, such as of a callback's own, and that."""
    around: list[int] = []
    for number, (span, after) in enumerate(spans):
        while around and spans[around[-1]][1] <= span.begin:
            around.pop()
        if around and after <= spans[around[-1]][1]:
            yield number, around[-1]
        around.append(number)
