"""Axes that hold bytes or seconds, labelled at round numbers of a unit that suits what they show.

The data stay in bytes and seconds, exact; only the tick labels are in MiB or ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lessons_lib.common.units import binary_unit, used_unit


class _UnitLocator(MaxNLocator):
    """Round numbers of a unit, on an axis that holds another."""

    def __init__(self, unit: float, most: int, steps: list[float], *, whole: bool) -> None:
        super().__init__(nbins=most, steps=steps, integer=whole)
        self._unit = unit

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Give the ticks between two values of the axis."""
        return np.asarray(super().tick_values(vmin / self._unit, vmax / self._unit)) * self._unit


def _unit_axis(
    axis: Axis, unit: float, most: int, steps: list[float], *, whole: bool = False
) -> None:
    axis.set_major_locator(_UnitLocator(unit, most, steps, whole=whole))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value / unit:.6g}".replace("-", "−"))
    )


def byte_axis(axis: Axis, *, label: bool = True) -> str:
    """Label an axis that holds bytes at round numbers of a unit that suits its limits.

    Returns
    -------
    str
        The unit: MiB, unless all that is shown is smaller than one MiB or larger than 1 GiB; in
        a lesson that has a unit of its own, that.
    """
    low, high = axis.get_view_interval()
    name, unit = used_unit() or binary_unit(max(abs(low), abs(high)))
    # Sizes are products of powers of two more often than not, so steps of 4 suit them.
    steps: list[float] = [1, 2, 4, 5, 10] if high - low >= 3 * unit else [1, 2.5, 5, 10]
    _unit_axis(axis, unit, 6, steps, whole=unit == 1)
    if label:
        axis.set_label_text(name)
    return name


def time_axis(axis: Axis, seconds: float) -> str:
    """Label an axis that holds seconds in s, ms or µs; give the unit."""
    if seconds >= 2:
        unit, name = 1.0, "s"
    else:
        unit, name = (1e-3, "ms") if seconds >= 2e-3 else (1e-6, "µs")
    _unit_axis(axis, unit, 8, [1, 2, 2.5, 5, 10])
    return name
