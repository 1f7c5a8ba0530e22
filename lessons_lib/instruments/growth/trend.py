"""A number that was read after every call, and whether it grows.

A series grows when it still rises at the end as it did before: what was reached is never given
back, it rises in both halves, more than twice, and the last rise is not long ago compared with
the pauses between rises.  A single step, a buffer that fills up and a saw-tooth don't grow.
Slopes are per call: the median over all pairs of calls, which a few outliers cannot move.
What goes up and down slowly, such as a queue of things of random sizes, seems to rise for a while:
there a slope must be steeper to count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Shape(StrEnum):
    """How a series runs."""

    FLAT = "flat"
    GROWS = "grows"
    STEP = "one step"
    PLATEAU = "plateau"
    SAWTOOTH = "saw-tooth"
    LATE = "rises late"
    UNCLEAR = "may rise"


#: A noisy slope counts when it is this many times its own uncertainty.
_SIGMAS: Final = 3.0
#: Ups and downs that repeat this well are a saw-tooth, whose teeth hide no slope.
_REPEATS: Final = 0.7
_MOST_ALIKE: Final = 0.95


@dataclass(frozen=True)
class Series:
    """One number after every call.

    Attributes
    ----------
    name : str
        What it counts, for people.
    unit : str
        ``"bytes"`` or ``"count"``.
    values : tuple of float
        One for each measured call; NaN where it was not read.
    warmup : tuple of float
        Before the first call, and after each warm-up call.
    slope : float
        Growth per call (Theil-Sen: the median slope of all pairs of calls).
    noise : float
        The slope that scatter alone could give: three standard errors, from the median absolute
        deviation about the line, and more where neighbours scatter alike (`persistence`).
    shape : Shape
        How it runs.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    warmup: tuple[float, ...]
    slope: float
    noise: float
    shape: Shape

    @property
    def grows(self) -> bool:
        """Whether it still grows at the end."""
        return self.shape is Shape.GROWS

    @property
    def known(self) -> bool:
        """Whether it was read at all on this system."""
        return bool(np.isfinite(self.values).any())

    @property
    def rise(self) -> float:
        """Last value minus first, over the measured calls; 0 when it was not read."""
        finite = [v for v in self.values if v == v]
        return finite[-1] - finite[0] if finite else 0.0

    @property
    def first_step(self) -> float:
        """Rise over the warm-up, from before the first call; 0 without one."""
        finite = [v for v in self.warmup if v == v]
        return finite[-1] - finite[0] if len(finite) > 1 else 0.0

    def second_half_rise(self) -> float:
        """Rise over the second half of the measured calls."""
        finite = np.asarray([v for v in self.values if v == v])
        return float(finite[-1] - finite[len(finite) // 2]) if len(finite) > 1 else 0.0

    def late_slope(self) -> float:
        """Growth per call over the second half of the measured calls."""
        y = np.asarray(self.values[len(self.values) // 2 :])
        x = np.flatnonzero(np.isfinite(y))
        return theil_sen(x.astype(float), y[x])

    def __repr__(self) -> str:
        return f"<{self.name}: {self.slope:+.4g} {self.unit} per call (noise {self.noise:.2g})>"


def theil_sen(x: Floats, y: Floats) -> float:
    """Give the median of the slopes between all pairs of points; 0 for fewer than two."""
    if len(x) < 2:
        return 0.0
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i])))


def noise_floor(x: Floats, y: Floats, slope: float) -> float:
    """Give three standard errors of a slope, from the scatter about the line."""
    if len(x) < 3:
        return 0.0
    left = y - slope * x
    sigma = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    return _SIGMAS * sigma / float(np.sqrt(((x - x.mean()) ** 2).sum()))


def persistence(x: Floats, y: Floats, slope: float) -> float:
    """Give by how much the noise grows because neighbouring values scatter alike, at least 1.

    A scatter in which each value is ρ times the one before, and chance, moves a slope as much as
    independent scatter √((1 + ρ) / (1 − ρ)) times as large (the variance of a mean of an
    autoregressive process).  What never falls is no scatter, nor is what repeats itself.
    """
    n = len(x)
    if n < 6 or bool((np.diff(y) >= 0).all()):
        return 1.0
    left = y - slope * x
    left = left - left.mean()
    scatter = float((left**2).mean())
    alike = np.asarray([(left[k:] * left[: n - k]).mean() / scatter for k in range(1, n // 2 + 1)])
    turned = np.flatnonzero(alike < 0)
    if len(turned) and alike[turned[0] :].max() > _REPEATS:
        return 1.0
    rho = min(max(0.0, float(alike[0])), _MOST_ALIKE)
    return float(np.sqrt((1 + rho) / (1 - rho)))


def shape_of(values: Floats, least: float = 0.0) -> Shape:
    """Tell how a series runs.

    Parameters
    ----------
    values : float array, shape (n,)
        Without NaN.
    least : float
        Changes of no more than this are taken for nothing.
    """
    n = len(values)
    if n < 3:
        return Shape.FLAT
    # What was reached and never given back until the end.
    kept = np.minimum.accumulate(values[::-1])[::-1]
    rises = np.flatnonzero(np.diff(kept) > least) + 1
    if kept[-1] - kept[0] <= least or not len(rises):
        swing = float(values.max() - values.min())
        tops = int((np.diff(np.sign(np.diff(values))) < 0).sum())
        return Shape.SAWTOOTH if swing > max(least, 0) and tops >= 2 else Shape.FLAT
    middle = n // 2
    before, after = kept[middle] - kept[0], kept[-1] - kept[middle]
    if len(rises) == 1 and n > 3:
        return Shape.STEP
    if after <= least or after < 0.25 * before:
        return Shape.PLATEAU
    if before <= least or before < 0.1 * after:
        return Shape.LATE if values[:middle].max() < values[-1] else Shape.SAWTOOTH
    # A fill that stops in the second half: its pause at the end is longer than those before.
    if n - 1 - rises[-1] > 2 * int(np.diff(np.concatenate(([0], rises))).max()):
        return Shape.PLATEAU
    return Shape.GROWS if len(rises) >= 3 or n <= 4 else Shape.STEP


def fit(
    name: str,
    unit: str,
    values: Floats,
    warmup: Floats,
    *,
    least: float = 0.0,
    floor: float = 0.0,
) -> Series:
    """Fit a series.

    Parameters
    ----------
    name, unit : str
    values : float array, shape (calls,)
        After each measured call; NaN where not read.
    warmup : float array, shape (warm-up calls + 1,)
    least : float
        Single changes up to this are taken for nothing.
    floor : float
        A slope must exceed this, and the noise, to count.
    """
    known = np.isfinite(values)
    x = np.flatnonzero(known).astype(float)
    y = values[known]
    slope = theil_sen(x, y)
    noise = noise_floor(x, y, slope)
    shape = shape_of(y, least)
    if shape is Shape.GROWS and len(y):
        # A staircase with long steps has a median slope of its own; take the whole rise instead.
        mean = (y[-1] - y[0]) / (x[-1] - x[0])
        if slope <= 0 < mean:
            slope = float(mean)
        alone, noise = noise, noise * persistence(x, y, slope)
        if slope <= max(floor, alone):
            shape = Shape.FLAT
        elif slope <= noise:
            shape = Shape.UNCLEAR
    return Series(name, unit, tuple(values.tolist()), tuple(warmup.tolist()), slope, noise, shape)
