"""How large a batch fits a budget: found by doubling and halving, never by extrapolation.

A step's peak is not one line in the batch size: the update's peak does not depend on it, and the
kernels' own memory grows in steps.  So sizes are tried, each on the highest of several runs; no
size is tried that is more than twice the largest that was run before, and none for which the memory
that is free may not do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lessons_lib.common.results import Result, summary_html
from lessons_lib.common.units import format_bytes

#: How near to the first batch that does not fit the answer comes.
_NEARNESS: Final = 0.02
#: A process needs more than its tensors: of what is free, this share may be used for trying.
_USABLE: Final = 0.7


class Stop(StrEnum):
    """Why a search ended."""

    FOUND = "found"
    NOTHING_FITS = "not even one example fits"
    MEMORY = "a larger batch may need more memory than is free here"
    FIXED_SIZE = "the step takes no other batch size"
    LARGEST = "the largest size that is tried fits, too"


@dataclass(frozen=True, repr=False)
class BatchEstimate(Result):
    """The largest batch whose training step fits a budget.

    Attributes
    ----------
    budget_bytes : int
        The budget.
    batch : int
        The answer; 0 when not even one example fits.
    low, high : int
        The largest batch that fitted, and the largest that may fit: one less than the smallest
        that did not.  They are equal to within 2 %, or to `batch` where the search ended early.
    verified : bool
        Whether `batch` was run several times and always fitted, in the bytes requested and in
        those that the allocator set aside for them.
    peak_bytes, held_bytes : int
        The highest peak of `batch`: requested, and set aside by the allocator.
    measured : tuple of (int, int)
        Batch sizes and their highest peaks (the larger one of both kinds), as they were run.
    stop : Stop
        Why the search ended.
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

    @property
    def note(self) -> str:
        """Why the search ended early, or empty."""
        return "" if self.stop in (Stop.FOUND, Stop.NOTHING_FITS) else str(self.stop)

    def __repr__(self) -> str:
        return f"<BatchEstimate: {describe(self)}>"


def describe(estimate: BatchEstimate) -> str:
    """Say the answer in a sentence."""
    budget = format_bytes(estimate.budget_bytes)
    if estimate.stop is Stop.NOTHING_FITS:
        return f"not even one example fits {budget}"
    # A graph's peak depends on the order of execution, so the answer may move by a little.
    peak = f"peak ≈ {format_bytes(max(estimate.peak_bytes, estimate.held_bytes))}, run"
    if estimate.note:
        return f"≥ {estimate.batch} examples fit {budget} ({peak}; {estimate.note})"
    return (
        f"≈ {estimate.batch} examples fit {budget} "
        f"(range ≈ {estimate.low} to ≈ {estimate.high}; {peak})"
    )


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
    tried: dict[int, tuple[int, int]] = field(default_factory=dict)

    def fits(self, batch: int) -> bool:
        peaks = self.peaks_of(batch)
        if peaks is None:
            return False
        self.tried[batch] = peaks
        return max(peaks) <= self.budget

    def may_run(self, batch: int) -> bool:
        """Tell whether the free memory does, judged by the largest batch that was run."""
        largest = max(self.tried)
        if batch <= largest:
            return True
        # Twice: the batch itself is made before it is copied.
        need = max(self.tried[largest]) * batch / largest
        return 2 * need <= _USABLE * self.free()


def largest_batch(
    peaks_of: Callable[[int], tuple[int, int] | None],
    budget_bytes: int,
    start: int,
    *,
    free_bytes: Callable[[], int],
    most: int = 2**24,
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

    Returns
    -------
    BatchEstimate
    """
    search = _Search(peaks_of, budget_bytes, free_bytes)
    low, high, stop = 0, start, Stop.FOUND
    try:
        while high >= 1 and not search.fits(high):
            if high == 1:
                stop = Stop.NOTHING_FITS
                break
            high = max(1, high // 2)
        if stop is Stop.FOUND:
            low, high, stop = _upwards(search, high, most)
            if stop is Stop.FOUND:
                low, high = _between(search, low, high)
    except CannotRunError:
        low = max((b for b, p in search.tried.items() if max(p) <= budget_bytes), default=0)
        high, stop = low + 1, Stop.FIXED_SIZE
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
    )


def _upwards(search: _Search, fits: int, most: int) -> tuple[int, int, Stop]:
    """Double until a batch does not fit; give the last that did and the first that did not."""
    above = min((b for b in search.tried if b > fits), default=None)
    while above is None:
        following = min(2 * fits, most)
        if following == fits:
            return fits, fits + 1, Stop.LARGEST
        if not search.may_run(following):
            # What can be run without danger may be more than what was.
            following = _runnable(search, fits, following)
            if following <= fits * (1 + _NEARNESS):
                return fits, fits + 1, Stop.MEMORY
        if search.fits(following):
            fits = following
        else:
            above = following
    return fits, above, Stop.FOUND


def _runnable(search: _Search, low: int, high: int) -> int:
    while high - low > max(1, int(low * _NEARNESS)):
        middle = (low + high) // 2
        low, high = (middle, high) if search.may_run(middle) else (low, middle)
    return low


def _between(search: _Search, fits: int, above: int) -> tuple[int, int]:
    while above - fits > max(1, int(fits * _NEARNESS)):
        middle = (fits + above) // 2
        if search.fits(middle):
            fits = middle
        else:
            above = middle
    return fits, above
