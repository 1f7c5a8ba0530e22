"""Live pictures: move a slider, and what it changes is measured and drawn at once.

``explore(run, "batch size", range(64, 1025, 64), start=256)`` records ``run(value)`` for the value
that the slider shows.  Each value is measured once, then remembered.  While the slider is
dragged, only the place where it rests is measured.  A number field beside it does the same by
keyboard.  The static output, also in a notebook that is only read, shows the value at the start;
in plain Python it is text.  Bytes throughout.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable
from typing import Any, Final

from lessons_lib.common.units import format_bytes
from lessons_lib.notebook import display
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

#: A slider that rests for so long is measured.
_REST_SECONDS: Final = 0.08


class Explorer:
    """A parameter that can be moved, and what was measured for it.

    Parameters
    ----------
    run : callable
        Called with a value of the parameter; what it does is recorded.
    parameter : str
        The parameter's name.
    values : range
        The values that it can have.
    start : int
        The value at the start.

    Attributes
    ----------
    value : int
        The present value.
    peaks : dict of int to int
        Peak bytes by the values tried so far.
    recording : Recording
        Of the present value.
    """

    def __init__(
        self, run: Callable[[int], Any], parameter: str, values: range, start: int
    ) -> None:
        self._run = run
        self.parameter = parameter
        self.values = values
        self.peaks: dict[int, int] = {}
        self._recordings: dict[int, Recording] = {}
        self.value = start
        self._picture: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self.measure(start)

    def __repr__(self) -> str:
        return f"<Explorer: {self}>"

    def __str__(self) -> str:
        return f"{self.parameter} {self.value}: peak {format_bytes(self.peaks[self.value])}"

    @property
    def recording(self) -> Recording:
        """What was recorded at the present value."""
        return self._recordings[self.value]

    def measure(self, value: int) -> int:
        """Go to a value, measure it unless that was done, and give its peak in bytes.

        Raises
        ------
        ValueError
            If the parameter can't have this value.
        """
        if value not in self.values:
            raise ValueError(
                f"{self.parameter} can't be {value!r}: give a number from {self.values[0]} to "
                f"{self.values[-1]} in steps of {self.values.step}"
            )
        if value not in self.peaks:
            if not self._recordings:
                self._run(value)  # first traces and caches are not what the slider is about
            with record(f"{self.parameter} {value}") as recording:
                kept = self._run(value)
            del kept
            self.peaks[value] = recording.peak_bytes
            self._recordings[value] = recording
        self.value = value
        return self.peaks[value]

    def plot(self) -> Any:
        """Draw the peaks so far and the present recording; gives a figure."""
        from lessons_lib.notebook.explore_plot import draw_explored

        limits = self.values[0], self.values[-1]
        return draw_explored(self.parameter, self.peaks, self.value, self.recording, limits)

    def show(self) -> None:
        """Show slider and picture, or the value at the start as text."""
        if not display.in_notebook():
            display.show(str(self))
            return
        picture = self.plot()._repr_html_()
        display.show(str(self), picture, self._widget(picture))
        display.run_in_page(display.NAME_PARTS)

    def _widget(self, picture: str) -> Any:
        from ipywidgets import HTML, BoundedIntText, HBox, IntSlider, Layout, jslink

        sides = {"min": self.values[0], "max": self.values[-1], "step": self.values.step}
        label = f"{self.parameter}:"
        slider = IntSlider(
            value=self.value,
            description=label,
            readout=False,
            style={"description_width": "initial"},
            layout=Layout(width="28em", max_width="100%"),
            **sides,
        )
        slider.add_class("lessons-slider")
        number = BoundedIntText(
            value=self.value,
            description=f"{self.parameter}, as a number:",
            style={"description_width": "initial"},
            layout=Layout(width="auto"),
            **sides,
        )
        jslink((slider, "value"), (number, "value"))
        self._picture = HTML(picture)
        slider.observe(lambda change: self._moved(int(change["new"])), names="value")
        sides_by_side = HBox([slider, number], layout=Layout(flex_flow="row wrap"))
        return display.live_box([sides_by_side, self._picture])

    def _moved(self, value: int) -> None:
        """Measure where the slider rests; what it only passes is skipped."""
        # A number that was typed may lie between two steps.
        step = self.values.step
        nearest = self.values[0] + round((value - self.values[0]) / step) * step
        nearest = min(max(nearest, self.values[0]), self.values[-1])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._settle(nearest)
            return
        self._timer = loop.call_later(_REST_SECONDS, self._settle, nearest)

    def _settle(self, value: int) -> None:
        try:
            self.measure(value)
            self._picture.value = self.plot()._repr_html_()
        except Exception as error:  # a slider has no cell in which a traceback could be shown
            text = f"{self.parameter} {value} can't be measured: {type(error).__name__}: {error}"
            self._picture.value = f'<div role="alert">{html.escape(text)}</div>'


def explore(
    run: Callable[[int], Any], parameter: str, values: range, start: int | None = None
) -> Explorer:
    """Show a slider that measures what it changes.

    Parameters
    ----------
    run : callable
        Called with a value; its TensorFlow memory is recorded.  A few tens of milliseconds are
        quick enough to drag.
    parameter : str
        What the value is, such as ``"batch size"``.
    values : range
        The values that the slider can have.
    start : int, optional
        Where it begins; by default at the smallest value.

    Returns
    -------
    Explorer
        ``explorer.measure(value)`` does by code what the slider does.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used.
    """
    if not callable(run):
        raise TypeError(f"explore needs a function of one value, not {run!r}: give a function")
    if not isinstance(values, range) or len(values) < 2 or values.step < 1:
        raise TypeError(
            f"values is a rising range of at least two numbers, not {values!r}: "
            "give for example range(64, 1025, 64)"
        )
    explorer = Explorer(run, parameter, values, values[0] if start is None else start)
    explorer.show()
    return explorer
