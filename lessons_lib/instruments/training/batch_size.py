"""How large a batch fits a budget: measured at small batches, extrapolated, then run.

A training step's peak is close to a straight line in the batch size, because weights, gradients
and optimizer state do not depend on it and activations are proportional to it.  The line is fitted
by least squares; its uncertainty is the spread of the measured peaks around it, widened by how far
it is extrapolated.  The answer is then run, lowered while it does not fit, and raised while there
is more room than the peaks are uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lessons_lib.common.results import Result, summary_html
from lessons_lib.common.units import format_bytes


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
        The range in which the answer lay before it was tried.
    verified : bool
        Whether `batch` was run and its peak stayed within the budget.
    peak_bytes : int
        Its measured peak, or the predicted one when it was not run.
    fixed_bytes, bytes_per_example : float
        The fitted line.
    measured : tuple of (int, int)
        Batch sizes and their peaks, in the order in which they were run.
    note : str
        Why it was not verified, or empty.
    """

    budget_bytes: int
    batch: int
    low: int
    high: int
    verified: bool
    peak_bytes: int
    fixed_bytes: float
    bytes_per_example: float
    measured: tuple[tuple[int, int], ...]
    note: str = ""

    def __repr__(self) -> str:
        return f"<BatchEstimate: {describe(self)}>"


def describe(estimate: BatchEstimate) -> str:
    """Say the answer in a sentence."""
    budget = format_bytes(estimate.budget_bytes)
    if estimate.batch == 0:
        return f"not even one example fits {budget}"
    how = "run" if estimate.verified else f"predicted, not run: {estimate.note}"
    # A graph's peak depends on the order of execution, so the answer may move by a little.
    return (
        f"≈ {estimate.batch} examples fit {budget} (range ≈ {estimate.low} to ≈ {estimate.high}; "
        f"peak ≈ {format_bytes(estimate.peak_bytes)}, {how})"
    )


@summary_html.register
def _(result: BatchEstimate) -> str:
    return f"<p>{describe(result)}</p>"


def fit_line(points: Sequence[tuple[int, int]]) -> tuple[float, float, float]:
    """Fit peak = fixed + slope × batch by least squares.

    Parameters
    ----------
    points : sequence of (batch, peak bytes)
        At least two different batches.

    Returns
    -------
    fixed, slope, spread : float
        Bytes, bytes per example, and the largest distance of a point from the line, in bytes.
    """
    batches = np.array([batch for batch, _ in points], float)
    peaks = np.array([peak for _, peak in points], float)
    slope, fixed = np.polyfit(batches, peaks, 1)
    spread = float(np.abs(peaks - (fixed + slope * batches)).max())
    return float(fixed), float(slope), spread


def largest_batch(
    peak_of: Callable[[int], int],
    budget_bytes: int,
    sizes: Sequence[int],
    *,
    available_bytes: int,
    tries: int = 6,
) -> BatchEstimate:
    """Find the largest batch that fits a budget.

    Parameters
    ----------
    peak_of : callable
        Runs a training step with a batch of the given size; gives its peak in bytes.
    budget_bytes : int
        The budget.
    sizes : sequence of int
        Small batch sizes to measure, ascending, at least two.
    available_bytes : int
        Memory that may be used for trying.
    tries : int
        How often a candidate is run at most.

    Returns
    -------
    BatchEstimate
    """
    points = [(size, peak_of(size)) for size in sizes]
    fixed, slope, spread = fit_line(points)
    slope = max(slope, 1.0)
    guess = math.floor((budget_bytes - fixed) / slope)
    # Extrapolating far from what was measured magnifies an error of the slope.
    reach = max(1.0, guess / max(sizes))
    margin = math.ceil(spread * reach / slope)
    low, high = max(0, guess - margin), max(0, guess + margin)
    if guess < 1:
        one = peak_of(1)
        points.append((1, one))
        fits = one <= budget_bytes
        return BatchEstimate(
            budget_bytes, int(fits), 0, max(1, high), fits, one, fixed, slope, tuple(points)
        )
    if fixed + slope * guess > available_bytes:
        why = f"running it would need more than the {format_bytes(available_bytes)} available here"
        predicted = int(fixed + slope * low)
        return BatchEstimate(
            budget_bytes, low, low, high, False, predicted, fixed, slope, tuple(points), why
        )
    good: tuple[int, int] | None = None
    bad: int | None = None
    candidate = guess
    for _ in range(tries):
        peak = peak_of(candidate)
        points.append((candidate, peak))
        if peak <= budget_bytes:
            good = max(good or (0, 0), (candidate, peak))
            if budget_bytes - peak < spread:  # nearer than peaks of one size are to each other
                break
            step = max(1, math.floor((budget_bytes - peak) / slope))
            following = candidate + step
            if bad is not None and following >= bad:
                following = (candidate + bad) // 2
        else:
            bad = candidate if bad is None else min(bad, candidate)
            following = candidate - max(1, math.ceil((peak - budget_bytes) / slope))
            if good is not None and following <= good[0]:
                following = (good[0] + bad) // 2
        following = max(1, following)
        if following in (candidate, bad) or (good and following == good[0]):
            break
        candidate = following
    if good is None:
        smallest = min(batch for batch, _ in points)
        peak = dict(points)[smallest]
        fits = peak <= budget_bytes
        return BatchEstimate(
            budget_bytes,
            smallest if fits else 0,
            low,
            high,
            fits,
            peak,
            fixed,
            slope,
            tuple(points),
        )
    low, high = min(low, good[0]), max(high, good[0])
    return BatchEstimate(
        budget_bytes, good[0], low, high, True, good[1], fixed, slope, tuple(points)
    )
