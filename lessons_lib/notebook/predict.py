"""Predictions: say a number before it is measured, and see both side by side.

``p = predict("How much is alive at the peak?", "MiB")`` shows a small control in a notebook, which
says what it has read; ``p.reveal(rec.peak_bytes)`` in a later cell shows the measured value, beside
the prediction if one was entered, else folded until it is opened.  An entry stays when the cell
runs again, until the kernel ends.  Nothing depends on an entry, so a notebook runs through without
any.  Measured values are bytes when the unit is one of bytes, else plain numbers.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common import results
from lessons_lib.common.units import GIB, KIB, MIB, format_bytes, parse_bytes, used_unit
from lessons_lib.instruments.peak import Peak
from lessons_lib.notebook import display

_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?")
_TIMES: Final = {
    2: "two times", 3: "three times", 4: "four times", 5: "five times", 6: "six times",
    7: "seven times", 8: "eight times", 9: "nine times", 10: "ten times",
}  # fmt: skip
#: A prediction is right within a tenth of the measured value.
_TOLERANCE: Final = 0.1

#: What was entered in this process, by question.
_entered: Final[dict[str, str]] = {}


def _bytes_of(unit: str) -> int | None:
    """Give the bytes of a unit; None when it is one of another kind."""
    lesson = used_unit()
    if lesson is not None and unit == lesson.name:
        return lesson.nbytes
    return _UNITS.get(unit)


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
    low : float or str
        The lowest value, where calls differed; else the same.
    predicted : float, str or None
        The prediction in the same terms; None when none was entered.
    written : str
        The measured value as it is written.
    unread : str
        What was entered and is no prediction; empty otherwise.
    """

    question: str
    unit: str
    measured: float | str
    low: float | str
    predicted: float | str | None
    written: str
    unread: str = ""

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
        low, high = self.low, self.measured
        if self.predicted is None:
            return None
        if isinstance(self.predicted, str) or isinstance(low, str) or isinstance(high, str):
            return self.predicted == high
        near = (math.isclose(self.predicted, end, rel_tol=_TOLERANCE, abs_tol=1e-9)
                for end in (low, high))  # fmt: skip
        return low <= self.predicted <= high or any(near)

    def __str__(self) -> str:
        if self.unread:
            return f"{_unreadable(self.unread, self.unit)} Measured: {self.written}."
        if self.predicted is None:
            return f"Measured: {self.written}."
        said = _write(self.predicted, self.unit)
        return f"You said {said}, measured {self.written}: {self._comment()}."

    def _comment(self) -> str:
        if self.right:
            exact = isinstance(self.predicted, str) or self.predicted in (self.low, self.measured)
            return "right" if exact else "close enough"
        if self.ratio is None or self.ratio <= 0:
            return "not so"
        if self.ratio >= 1:
            return f"{_times(self.ratio)} too much"
        return f"{_times(1 / self.ratio)} too little"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _ipython_display_(self) -> None:
        """Show nothing: `Prediction.reveal` has shown it already."""


def _times(ratio: float) -> str:
    if math.isclose(ratio, round(ratio)) and round(ratio) in _TIMES:
        return _TIMES[round(ratio)]
    return f"{ratio:.3g} times"


def _write(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    if _bytes_of(unit) is not None:
        return format_bytes(value)
    return f"{value:.6g} {unit}".rstrip()


def _unreadable(text: str, unit: str) -> str:
    what = f"a number of {unit}" if unit else "a number"
    return f"“{text}” can't be read as {what}: write digits, such as 2."


@results.summary_html.register
def _(result: Revealed) -> str:
    text = html.escape(str(result))
    if result.predicted is None and not result.unread:
        return f"<details><summary>Show what was measured</summary><p>{text}</p></details>"
    return f'<div role="status">{text}</div>'


class Prediction:
    """A question and its control.

    Parameters
    ----------
    question : str
        What is asked.
    unit : str
        ``"B"``, ``"KiB"``, ``"MiB"``, ``"GiB"`` or the lesson's unit for bytes, or any word for a
        plain number.
    choices : sequence of str, optional
        Answers to choose from instead of a number.
    """

    def __init__(self, question: str, unit: str, choices: Sequence[str] | None) -> None:
        self.question = question
        self.unit = "" if choices is not None else unit
        self.choices = None if choices is None else tuple(choices)

    def __repr__(self) -> str:
        return f"<Prediction {self.question!r}>"

    def enter(self, value: float | str | None) -> None:
        """Enter a prediction without the control, in the unit; None takes it back.

        Raises
        ------
        ValueError
            If it is neither a number nor a size, or not one of the choices.
        """
        if value is None:
            _entered.pop(self.question, None)
            return
        self._read(value)
        _entered[self.question] = value if isinstance(value, str) else repr(value)

    @property
    def entered(self) -> str:
        """What was entered, as it was written; empty without an entry."""
        return _entered.get(self.question, "")

    @property
    def value(self) -> float | str | None:
        """The prediction: bytes for units of bytes, a number, or a choice; None without one.

        Something that can't be read counts as none.
        """
        if not self.entered.strip():
            return None
        try:
            return self._read(self.entered)
        except ValueError:
            return None

    def _read(self, value: float | str) -> float | str:
        if self.choices is not None:
            if value not in self.choices:
                raise ValueError(f"{value!r} is no choice here: give one of {list(self.choices)}")
            return value
        scale = _bytes_of(self.unit)
        if not isinstance(value, str):
            return float(value) * (scale or 1)
        text = value.strip().removesuffix(f" {self.unit}" if self.unit else "").strip()
        if _NUMBER.fullmatch(text):
            return float(text.replace(",", ".")) * (scale or 1)
        if scale is not None:
            return float(parse_bytes(text))
        raise ValueError(f"{value!r} is not a number: write one, in {self.unit or 'digits'}")

    def acknowledged(self) -> str:
        """Say what was read from the entry; empty without one."""
        if not self.entered.strip():
            return ""
        value = self.value
        if value is None:
            return _unreadable(self.entered, self.unit)
        return f"Noted: {_write(value, self.unit)}. Now run the next cell."

    def show(self) -> None:
        """Show the control, or the question where there are no widgets."""
        in_unit = f" (in {self.unit})" if self.unit else ""
        among = f" ({', '.join(self.choices)})" if self.choices is not None else ""
        text = f"Predict: {self.question}{in_unit}{among}"
        asked = html.escape(text.removeprefix("Predict: "))
        shown = f"<p><strong>Predict:</strong> {asked} {display.RUN_TO_ANSWER}</p>"
        display.show(text, shown, self._widget() if display.in_notebook() else None)
        if self.choices is not None:
            display.run_in_page(display.NAME_PARTS)

    def _widget(self) -> Any:
        from ipywidgets import HTML, Layout, RadioButtons, Text

        title = HTML(f"<strong>Predict:</strong> {html.escape(self.question)}")
        wide = {"style": {"description_width": "initial"}, "layout": Layout(width="auto")}
        if self.choices is not None:
            known = self.entered if self.entered in self.choices else None
            control = RadioButtons(
                options=list(self.choices), value=known, description="Your prediction:", **wide
            )
        else:
            unit = f" in {self.unit}" if self.unit else ""
            wide["layout"] = Layout(width="26em", max_width="100%")
            control = Text(
                value=self.entered, placeholder="a number",
                description=f"Your prediction{unit}:", **wide,
            )  # fmt: skip
        note = HTML(_status(self.acknowledged()))

        def changed(change: Any) -> None:
            _entered[self.question] = str(change["new"] or "")
            note.value = _status(self.acknowledged())

        control.observe(changed, names="value")
        return display.live_box([title, control, note])

    def reveal(self, measured: Any) -> Revealed:
        """Show the measured value, beside the prediction if there is one, and return both.

        Parameters
        ----------
        measured : float, str or result
            Bytes for units of bytes, a plain number for others, one of the choices, or what
            `peak`, `measure` or `record` gave, whose peak it is then.

        Raises
        ------
        ValueError
            If the measured value is not one of the choices.
        """
        if self.choices is not None and measured not in self.choices:
            raise ValueError(
                f"{measured!r} is none of the choices of this prediction: {list(self.choices)}"
            )
        low = high = measured
        written = ""
        if isinstance(measured, Peak):
            low, high, written = min(measured.peaks), measured.peak_bytes, str(measured)
        elif hasattr(measured, "peak_bytes"):
            low = high = measured.peak_bytes
        if not isinstance(high, str):
            low, high = float(low), float(high)
        written = written or _write(high, self.unit)
        value = self.value
        unread = self.entered if value is None and self.entered.strip() else ""
        revealed = Revealed(self.question, self.unit, high, low, value, written, unread)
        display.show(str(revealed), results.summary_html(revealed))
        return revealed


def _status(text: str) -> str:
    return f'<div role="status">{html.escape(text)}</div>'


def predict(
    question: str, unit: str | None = None, choices: Sequence[str] | None = None
) -> Prediction:
    """Ask for a prediction; it may be left open.

    Parameters
    ----------
    question : str
        What is asked, in a sentence.
    unit : str, optional
        ``"B"``, ``"KiB"``, ``"MiB"`` or ``"GiB"`` for bytes, or any word ("traces").  By default
        the lesson's unit, else MiB.
    choices : sequence of str, optional
        Answers to choose from instead, such as growth laws.

    Returns
    -------
    Prediction
        Its `reveal` shows the measured value later.

    Raises
    ------
    ValueError
        If there is no question, or there are fewer than two choices.

    Examples
    --------
    >>> p = predict("How much is alive at the peak?", "MiB")
    Predict: How much is alive at the peak? (in MiB)
    >>> p.reveal(4 * 2**20)
    Measured: 4 MiB.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError("a prediction needs a question: give a sentence")
    if choices is not None and (isinstance(choices, str) or len(choices) < 2):
        raise ValueError("choices are at least two texts: give a list of them")
    lesson = used_unit()
    asked = unit if unit is not None else "MiB" if lesson is None else lesson.name
    prediction = Prediction(question, asked, choices)
    prediction.show()
    return prediction
