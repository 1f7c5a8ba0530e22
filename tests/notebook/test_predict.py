"""Predictions: optional, read in people's terms, and shown beside what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from lessons_lib.common.units import MIB
from lessons_lib.notebook import display
from lessons_lib.notebook.predict import Prediction, predict


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Pretend that there is a notebook, and collect what is shown."""
    calls: list[tuple[str, str, Any]] = []
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.setattr(
        display, "show", lambda text, html="", widget=None: calls.append((text, html, widget))
    )
    return calls


def control(prediction: Prediction) -> Any:
    return prediction._control


def test_without_an_entry_only_the_measurement_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    p = predict("How much?", unit="MiB")
    revealed = p.reveal(4 * MIB)
    assert capsys.readouterr().out == "Predict: How much? (in MiB)\nMeasured: 4 MiB.\n"
    assert (revealed.predicted, revealed.ratio, revealed.right) == (None, None, None)


@pytest.mark.parametrize(
    ("typed", "nbytes"),
    [
        ("4", 4 * MIB),
        ("4.5", 4.5 * MIB),
        (" 0,5 ", 0.5 * MIB),
        ("1e1", 10 * MIB),
        ("2 GiB", 2048 * MIB),
        ("512kib", MIB / 2),
        ("0", 0),
    ],
)
def test_entries_are_read_in_the_unit(shown: Any, typed: str, nbytes: float) -> None:
    p = predict("How much?", unit="MiB")
    control(p).value = typed
    assert p.value == nbytes


@pytest.mark.parametrize("typed", ["", "   ", "much", "4 apples", "--3", "nan"])
def test_what_cannot_be_read_counts_as_none(shown: Any, typed: str) -> None:
    p = predict("How much?", unit="MiB")
    control(p).value = typed
    assert p.value is None
    assert p.reveal(MIB).predicted is None


@pytest.mark.parametrize(
    ("guess", "measured", "says"),
    [
        (4, 4 * MIB, "You predicted 4 MiB, which is right."),
        (4.1, 4 * MIB, "very close"),
        (8, 4 * MIB, "2 times as much"),
        (1, 4 * MIB, "4 times too little"),
        (0, 4 * MIB, "You predicted 0 B."),
        (4, 0, "You predicted 4 MiB."),
        (0, 0, "which is right"),
    ],
)
def test_the_ratio_is_said(guess: float, measured: int, says: str) -> None:
    p = Prediction("How much?", "MiB", None)
    p.enter(guess)
    assert says in str(p.reveal(measured))


def test_plain_numbers_and_choices(shown: Any) -> None:
    traces = predict("How many?", unit="traces")
    control(traces).value = "3"
    assert (
        str(traces.reveal(6)) == "Measured: 6 traces. You predicted 3 traces, 2 times too little."
    )
    law = predict("Which law?", choices=["constant", "linear", "quadratic"])
    assert control(law).value is None
    assert law.value is None
    control(law).value = "linear"
    assert str(law.reveal("linear")).endswith("You predicted linear, which is right.")
    assert law.reveal("quadratic").right is False


def test_the_control_has_a_label_and_the_output_is_the_same_each_time(shown: Any) -> None:
    predict("How much?", unit="MiB")
    predict("How much?", unit="MiB")
    (text, html, widget), (text2, html2, _) = shown
    assert (text, html) == (text2, html2)
    assert "How much?" in text
    assert "How much?" in html
    assert widget.children[1].description == "Your prediction in MiB:"
    # With and without an entry, nothing but the widget's own state differs.


def test_questions_are_escaped(shown: Any) -> None:
    predict("<b>How</b> much?")
    assert "<b>How" not in shown[0][1]
    assert "<b>How" not in shown[0][2].children[0].value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question": ""}, "needs a question"),
        ({"question": 3}, "needs a question"),
        ({"question": "Which?", "choices": "linear"}, "at least two"),
        ({"question": "Which?", "choices": ["linear"]}, "at least two"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict(**arguments)


def test_a_measured_choice_must_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    p = predict("Which?", choices=["constant", "linear"])
    with pytest.raises(ValueError, match="none of the choices"):
        p.reveal("cubic")
    with pytest.raises(ValueError, match="no choice here"):
        p.enter("cubic")
