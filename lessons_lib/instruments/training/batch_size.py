"""How large a batch fits a budget: found by doubling and halving, never by extrapolation.

A step's peak is not one line in the batch size: the update's peak does not depend on it, and the
kernels' own memory grows in steps.  So sizes are tried, each on the highest of several runs; no
size is tried that is more than twice the largest that was run before, and none for which the memory
that is free may not do.

Nor is a graph's peak one number: the order of execution changes what is alive together.  So a size
fits only if all of many runs fitted and no smaller size that was tried failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lessons_lib.common.results import Result, summary_html
from lessons_lib.common.units import format_bytes

#: Sizes that are tried have a common grid, so that searches from any start can give the same
#: answer: steps of a power of two, of 1/100 of the size or less.
_GRID: Final = 100
#: So many series of runs must fit at the edge, where the order that needs most may be a rare one.
_SERIES: Final = 20
#: A size above of which so many fail, and none fits, is over.
_OVER: Final = 2
#: A process needs more than its tensors: of what is free, this share may be used for trying.
_USABLE: Final = 0.7


class Stop(StrEnum):
    """Why a search ended."""

    FOUND = "found"
    NOTHING_FITS = "not even one example fits"
    MEMORY = "a larger batch may need more memory than is free here"
    FIXED_SIZE = "the step takes no other batch size"
    FAILS = "the step fails with a larger batch"
    LARGEST = "the largest size that is tried fits, too"


@dataclass(frozen=True, repr=False)
class BatchEstimate(Result):
    """The largest batch whose training step fits a budget.

    Attributes
    ----------
    budget_bytes : int
        The budget.
    batch : int
        The answer; 0 when not even one example fits.  Where `low` and `high` are far apart, the
        peak depends on the order of execution, and one that is rarer still may need more.
    low, high : int
        `batch`, and the largest batch that may fit: one less than the smallest of which no series
        of runs fitted.  Between them a batch fits in some runs and not in others.  Without
        such, they are equal to within 3 %, and equal where the search ended early.
    verified : bool
        Whether `batch` was run many times and always fitted, in the bytes requested and in those
        that the allocator set aside for them, which are never less.
    peak_bytes, held_bytes : int
        The highest peak of `batch`: requested, in the runs that were recorded; and set aside by the
        allocator, in all of them, for a step that finds free memory in one piece.  Where there are
        gaps, as in a long training, it may be more.
    measured : tuple of (int, int)
        Batch sizes and their highest peaks (the larger one of both kinds), as they were run.
    stop : Stop
        Why the search ended.
    unit : int
        The step takes multiples of it alone, as far as was seen; sizes between were not tried.
    """

    budget_bytes: int
    batch: int
    low: int
    high: int
    verified: bool
    peak_bytes: int
    held_bytes: int
    measured: tuple[tuple[int, int], ...]
    stop: Stop = Stop.FOUND
    unit: int = 1

    @property
    def note(self) -> str:
        """Why the search ended early, or empty."""
        return "" if self.stop in (Stop.FOUND, Stop.NOTHING_FITS) else str(self.stop)

    def __repr__(self) -> str:
        return f"<BatchEstimate: {describe(self)}>"


def describe(estimate: BatchEstimate) -> str:
    """Say the answer in a sentence."""
    budget = format_bytes(estimate.budget_bytes)
    if not estimate.batch:
        return _nothing_fits(estimate, budget)
    # A graph's peak depends on the order of execution, so the answer may move by a little.
    peak = f"peak ≈ {format_bytes(max(estimate.peak_bytes, estimate.held_bytes))}, run"
    if estimate.note:
        return f"≥ {estimate.batch} examples fit {budget} ({peak}; {estimate.note})"
    unit = f"; the step takes multiples of {estimate.unit}" if estimate.unit > 1 else ""
    return (
        f"≈ {estimate.batch} examples fit {budget} "
        f"(range ≈ {estimate.low} to ≈ {estimate.high}; {peak}{unit})"
    )


def _nothing_fits(estimate: BatchEstimate, budget: str) -> str:
    smallest = min((size for size, _ in estimate.measured), default=1)
    if smallest == 1:
        said, asked = f"not even one example fits {budget}", estimate.peak_bytes
        if not 0 < asked <= estimate.budget_bytes:
            return said
        aside = format_bytes(estimate.held_bytes)
        return f"{said}: it asks for ≈ {format_bytes(asked)}, and ≈ {aside} are set aside for it"
    return f"not even {smallest} examples fit {budget}, and the step takes no smaller batch"


@summary_html.register
def _(result: BatchEstimate) -> str:
    return f"<p>{describe(result)}</p>"


class CannotRunError(Exception):
    """A step cannot be run with a batch of some size."""


@dataclass
class _Search:
    peaks_of: Callable[[int], tuple[int, int] | None]
    budget: int
    free: Callable[[], int]
    repeats: int
    unit: int = 1
    failed: int = 0  # the size that could not be run
    tried: dict[int, tuple[int, int]] = field(default_factory=dict)
    series: dict[int, list[bool]] = field(default_factory=dict)

    def run(self, batch: int) -> bool:
        """Run a series; tell whether it fitted."""
        self.failed = batch
        peaks = self.peaks_of(batch)
        if peaks is not None:
            requested, held = self.tried.get(batch, peaks)
            self.tried[batch] = max(requested, peaks[0]), max(held, peaks[1])
        fitted = peaks is not None and max(peaks) <= self.budget
        # What memory does not do for is not run again.
        again = 1 if peaks else self.repeats
        self.series.setdefault(batch, []).extend([fitted] * again)
        return fitted

    def fits(self, batch: int, times: int = 1) -> bool:
        """Tell whether each of so many series fitted; no more are run after one that did not."""
        done = self.series.get(batch, [])
        return all(done) and all(self.run(batch) for _ in range(times - len(done)))

    def is_over(self, batch: int) -> bool:
        """Tell whether none of a few series fits."""
        done = self.series.get(batch, [])
        times = min(_OVER, self.repeats) - len(done)
        return not any(done) and not any(self.run(batch) for _ in range(times))

    def may_run(self, batch: int) -> bool:
        """Tell whether the free memory does, judged by the largest batch that was run."""
        largest = max(self.tried)
        if batch <= largest:
            return True
        # Twice: the batch itself is made before it is copied.
        need = max(self.tried[largest]) * batch / largest
        return 2 * need <= _USABLE * self.free()

    def step(self, batch: int) -> int:
        """Give the grid's step at a size: a power of two of units, 1/100 of it or less."""
        return self.unit << max(0, (batch // (_GRID * self.unit)).bit_length() - 1)

    def on_grid(self, batch: int) -> int:
        """Give the size of the grid that is not above."""
        return batch - batch % self.step(batch)

    def lower(self, batch: int) -> int:
        """Give the size of the grid below one that failed, or that which fits in proportion."""
        highest = max(self.tried.get(batch, (0, 0)))
        most = batch * self.budget // highest if highest > self.budget else batch - 1
        return self.on_grid(min(batch - 1, most))

    def find_unit(self) -> bool:
        """After a size that cannot be run: find the unit that all others are multiples of.

        Tell whether it is that which the size lacks.
        """
        unit, least = math.gcd(*self.tried), min(self.tried, default=0)
        for part in range(2, unit + 1):
            while unit % part == 0 and self.failed % unit and self._can_run(least - unit // part):
                unit //= part
        self.unit = unit
        return unit > 0 and self.failed % unit > 0

    def _can_run(self, batch: int) -> bool:
        failed = self.failed
        try:
            self.run(batch)
        except CannotRunError:
            return False
        finally:
            self.failed = failed
        return True


def largest_batch(
    peaks_of: Callable[[int], tuple[int, int] | None],
    budget_bytes: int,
    start: int,
    *,
    free_bytes: Callable[[], int],
    most: int = 2**24,
    repeats: int = _SERIES,
) -> BatchEstimate:
    """Find the largest batch that fits a budget.

    Parameters
    ----------
    peaks_of : callable
        Runs a training step several times with a batch of the given size; gives its highest peaks
        in bytes: requested, and set aside by the allocator; None where memory did not do.
    budget_bytes : int
        The budget.
    start : int
        A size that can be run.
    free_bytes : callable
        Gives the memory that is free now.
    most : int
        No larger size is tried.
    repeats : int
        How often `peaks_of` is called with the answer.

    Returns
    -------
    BatchEstimate
    """
    search = _Search(peaks_of, budget_bytes, free_bytes, repeats)
    while True:
        try:
            low, high, stop = _found(search, start, most)
        except CannotRunError:
            if search.find_unit():
                continue
            low = max((b for b, fitted in search.series.items() if all(fitted)), default=0)
            high = low + 1
            stop = Stop.FAILS if len(search.tried) > 1 else Stop.FIXED_SIZE
        break
    peaks = search.tried.get(low) or search.tried.get(min(search.tried, default=0), (0, 0))
    return BatchEstimate(
        budget_bytes=budget_bytes,
        batch=low,
        low=low,
        high=max(low, high - 1),
        verified=low > 0,
        peak_bytes=peaks[0],
        held_bytes=peaks[1],
        measured=tuple((batch, max(both)) for batch, both in search.tried.items()),
        stop=stop,
        unit=search.unit if stop is Stop.FOUND else 1,
    )


def _found(search: _Search, start: int, most: int) -> tuple[int, int, Stop]:
    """Give the last size that fits and the first that does not."""
    high = start
    while not search.fits(high):
        if high <= search.unit:
            return 0, high, Stop.NOTHING_FITS
        high = max(search.unit, search.on_grid(high // 2))
    low, high, stop = _upwards(search, high, most)
    if stop is Stop.FOUND:
        low, high = _edge(search, _between(search, low, high))
        stop = Stop.FOUND if low else Stop.NOTHING_FITS
    return low, high, stop


def _upwards(search: _Search, fits: int, most: int) -> tuple[int, int, Stop]:
    """Double until a batch does not fit; give the last that did and the first that did not."""
    fits = max(b for b, fitted in search.series.items() if all(fitted))
    above = min((b for b in search.series if b > fits), default=None)
    while above is None:
        following = min(2 * fits, most)
        if following == fits:
            return fits, fits + 1, Stop.LARGEST
        if not search.may_run(following):
            # What can be run without danger may be more than what was.
            following = _runnable(search, fits, following)
            if following <= fits + search.step(fits):
                return fits, fits + 1, Stop.MEMORY
        if search.fits(following):
            fits = following
        else:
            above = following
    return fits, above, Stop.FOUND


def _runnable(search: _Search, low: int, high: int) -> int:
    while high - low > search.step(low):
        middle = (low + high) // 2
        low, high = (middle, high) if search.may_run(middle) else (low, middle)
    return low


def _between(search: _Search, fits: int, above: int) -> int:
    """Halve the gap on the grid; give the last size that fitted its first series."""
    while above - fits > search.step(fits):
        middle = search.on_grid((fits + above) // 2)
        if middle <= fits:
            break
        if search.fits(middle):
            fits = middle
        else:
            above = middle
    return search.on_grid(fits)


def _edge(search: _Search, batch: int) -> tuple[int, int]:
    """Step down until all series fit; give the size, and the first above of which none fits."""
    while batch:
        below = search.on_grid(batch - 1)
        if below and not search.fits(below):  # nor does what is larger, then
            batch = search.on_grid(below - 1)
        elif search.fits(batch, search.repeats):
            break
        else:
            batch = search.lower(batch)
    low = batch
    high = min(b for b, fitted in search.series.items() if b > low and not any(fitted))
    while low < (middle := search.on_grid((low + high) // 2)):
        low, high = (low, middle) if search.is_over(middle) else (middle, high)
    return batch, high
