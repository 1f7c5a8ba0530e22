"""Predictions: say a number before it is measured, and see both side by side.

``p = predict("How much is alive at the peak?", unit="MiB")`` shows a small control in a notebook;
``p.reveal(rec.peak_bytes)`` in a later cell shows the measured value, beside the prediction if one
was entered.  Nothing depends on an entry, so a notebook runs through without any.  Measured values
are bytes when the unit is one of bytes, else plain numbers; predictions are in the unit.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common import results
from lessons_lib.common.units import GIB, KIB, MIB, format_bytes, parse_bytes
from lessons_lib.notebook import display

_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, repr=False)
class Revealed(results.Result):
    """A measured value beside what was predicted.

    Attributes
    ----------
    question : str
        What was asked.
    unit : str
        Unit of the prediction; empty for a choice.
    measured : float or str
        The measured value: bytes, a number in the unit, or one of the choices.
    predicted : float, str or None
        The prediction in the same terms; None when none was entered.
    """

    question: str
    unit: str
    measured: float | str
    predicted: float | str | None

    @property
    def ratio(self) -> float | None:
        """Prediction over measurement; None without a prediction, for a choice and for 0."""
        a, b = self.predicted, self.measured
        if a is None or isinstance(a, str) or isinstance(b, str) or not b:
            return None
        return a / b

    @property
    def right(self) -> bool | None:
        """Whether the prediction is right: a choice exactly, a number within a tenth."""
        if self.predicted is None:
            return None
        if isinstance(self.predicted, str) or isinstance(self.measured, str):
            return self.predicted == self.measured
        return math.isclose(self.predicted, self.measured, rel_tol=0.1, abs_tol=1e-9)

    def _write(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        if self.unit in _UNITS:
            return format_bytes(value)
        return f"{value:.6g} {self.unit}".rstrip()

    def __str__(self) -> str:
        text = f"Measured: {self._write(self.measured)}."
        if self.predicted is None:
            return text
        return f"{text} You predicted {self._write(self.predicted)}{self._comment()}."

    def _comment(self) -> str:
        ratio = self.ratio
        match self.right:
            case True if not isinstance(self.predicted, str):
                return ", which is right" if self.predicted == self.measured else ", very close"
            case True:
                return ", which is right"
            case _ if ratio is None:
                return ""
            case _ if ratio >= 1:
                return f", {ratio:.3g} times as much"
            case _ if ratio > 0:
                return f", {1 / ratio:.3g} times too little"
            case _:
                return ""

    def __repr__(self) -> str:
        return f"<{self}>"

    def _ipython_display_(self) -> None:
        """Show nothing: `Prediction.reveal` has shown it already."""


@results.summary_html.register
def _(result: Revealed) -> str:
    return f'<div role="status">{html.escape(str(result))}</div>'


class Prediction:
    """A question and its control.

    Parameters
    ----------
    question : str
        What is asked.
    unit : str
        ``"B"``, ``"KiB"``, ``"MiB"`` or ``"GiB"`` for bytes, or any word for a plain number.
    choices : sequence of str, optional
        Answers to choose from instead of a number.
    """

    def __init__(self, question: str, unit: str, choices: Sequence[str] | None) -> None:
        self.question = question
        self.unit = "" if choices is not None else unit
        self.choices = None if choices is None else tuple(choices)
        self._control: Any = None
        self._value: float | str | None = None

    def __repr__(self) -> str:
        return f"<Prediction {self.question!r}>"

    def enter(self, value: float | str | None) -> None:
        """Enter a prediction without the control, in the unit; None takes it back.

        Raises
        ------
        ValueError
            If it is neither a number nor a size, or not one of the choices.
        """
        self._value = None if value is None else self._read(value)

    @property
    def value(self) -> float | str | None:
        """The prediction: bytes for units of bytes, a number, or a choice; None without one.

        Something in the control that can't be read counts as none.
        """
        if self._control is None or not self._control.value:
            return self._value
        try:
            return self._read(self._control.value)
        except ValueError:
            return None

    def _read(self, value: float | str) -> float | str:
        if self.choices is not None:
            if value not in self.choices:
                raise ValueError(f"{value!r} is no choice here: give one of {list(self.choices)}")
            return value
        scale = _UNITS.get(self.unit, 1)
        if not isinstance(value, str):
            return float(value) * scale
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return float(text.replace(",", ".")) * scale
        if self.unit in _UNITS:
            return float(parse_bytes(text))
        raise ValueError(f"{value!r} is not a number: write one, in {self.unit or 'digits'}")

    def show(self) -> None:
        """Show the control, or the question where there are no widgets."""
        in_unit = f" (in {self.unit})" if self.unit else ""
        among = f" ({', '.join(self.choices)})" if self.choices is not None else ""
        text = f"Predict: {self.question}{in_unit}{among}"
        shown = f"<p><strong>Predict:</strong> {html.escape(text.removeprefix('Predict: '))}</p>"
        display.show(text, shown, self._widget() if display.in_notebook() else None)

    def _widget(self) -> Any:
        from ipywidgets import HTML, Layout, RadioButtons, Text, VBox

        title = HTML(f"<strong>Predict:</strong> {html.escape(self.question)}")
        wide = {"style": {"description_width": "initial"}, "layout": Layout(width="auto")}
        if self.choices is not None:
            self._control = RadioButtons(
                options=list(self.choices), value=None, description="Your prediction:", **wide
            )
        else:
            unit = f" in {self.unit}" if self.unit else ""
            wide["layout"] = Layout(width="26em", max_width="100%")
            self._control = Text(
                value="", placeholder="a number", description=f"Your prediction{unit}:", **wide
            )
        return VBox([title, self._control])

    def reveal(self, measured: float | str) -> Revealed:
        """Show the measured value, beside the prediction if there is one, and return both.

        Parameters
        ----------
        measured : float or str
            Bytes for units of bytes, a plain number for others, or one of the choices.

        Raises
        ------
        ValueError
            If the measured value is not one of the choices.
        """
        if self.choices is not None and measured not in self.choices:
            raise ValueError(
                f"{measured!r} is none of the choices of this prediction: {list(self.choices)}"
            )
        measured = measured if isinstance(measured, str) else float(measured)
        revealed = Revealed(self.question, self.unit, measured, self.value)
        display.show(str(revealed), results.summary_html(revealed))
        return revealed


def predict(question: str, unit: str = "MiB", choices: Sequence[str] | None = None) -> Prediction:
    """Ask for a prediction; it may be left open.

    Parameters
    ----------
    question : str
        What is asked, in a sentence.
    unit : str
        ``"B"``, ``"KiB"``, ``"MiB"`` or ``"GiB"`` for bytes, or any word ("traces").
    choices : sequence of str, optional
        Answers to choose from instead, such as growth laws.

    Returns
    -------
    Prediction
        Its `reveal` shows the measured value later.

    Examples
    --------
    >>> p = predict("How much is alive at the peak?", unit="MiB")
    Predict: How much is alive at the peak? (in MiB)
    >>> p.reveal(4 * 2**20)
    Measured: 4 MiB.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError("a prediction needs a question: give a sentence")
    if choices is not None and (isinstance(choices, str) or len(choices) < 2):
        raise ValueError("choices are at least two texts: give a list of them")
    prediction = Prediction(question, unit, choices)
    prediction.show()
    return prediction
