"""Predictions: optional, read in people's terms, and shown beside what was measured."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB, MIB, Unit, use_unit
from lessons_lib.instruments.peak import peak
from lessons_lib.notebook import display
from lessons_lib.notebook import predict as predict_module
from lessons_lib.notebook.predict import Prediction, predict


@pytest.fixture(autouse=True)
def nothing_entered() -> Iterator[None]:
    predict_module._entered.clear()
    yield
    predict_module._entered.clear()
    use_unit(None)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Pretend that there is a notebook, and collect what is shown."""
    calls: list[tuple[str, str, Any]] = []
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.setattr(
        display, "show", lambda text, html="", widget=None: calls.append((text, html, widget))
    )
    monkeypatch.setattr(display, "run_in_page", lambda script: None)
    return calls


def parts(shown: list[tuple[str, str, Any]], place: int = -1) -> tuple[Any, Any]:
    """Give the control and the note of a prediction that was shown."""
    _, _title, control, note = shown[place][2].children
    return control, note


def test_without_an_entry_only_the_measurement_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    p = predict("How much?", unit="MiB")
    revealed = p.reveal(4 * MIB)
    assert capsys.readouterr().out == "Predict: How much? (in MiB)\nMeasured: 4 MiB.\n"
    assert (revealed.predicted, revealed.ratio, revealed.right) == (None, None, None)


@pytest.mark.parametrize(
    ("typed", "nbytes", "noted"),
    [
        ("4", 4 * MIB, "4 MiB"),
        ("4.5", 4.5 * MIB, "4.5 MiB"),
        (" 0,5 ", 0.5 * MIB, "512 KiB"),
        ("1e1", 10 * MIB, "10 MiB"),
        ("2 GiB", 2048 * MIB, "2 GiB"),
        ("512kib", MIB / 2, "512 KiB"),
        ("3 MiB", 3 * MIB, "3 MiB"),
        ("0", 0, "0 B"),
    ],
)
def test_entries_are_read_in_the_unit_and_acknowledged(
    shown: Any, typed: str, nbytes: float, noted: str
) -> None:
    p = predict("How much?", unit="MiB")
    control, note = parts(shown)
    assert note.value == '<div role="status"></div>'
    control.value = typed
    assert p.value == nbytes
    assert note.value == f'<div role="status">Noted: {noted}. Now run the next cell.</div>'


@pytest.mark.parametrize("typed", ["two", "4 apples", "--3", "nan"])
def test_what_cannot_be_read_is_said(shown: Any, typed: str) -> None:
    p = predict("How much?", unit="MiB")
    control, note = parts(shown)
    control.value = typed
    said = f"“{typed}” can't be read as a number of MiB: write digits, such as 2."
    assert html.escape(said) in note.value
    assert p.value is None
    revealed = p.reveal(MIB)
    assert str(revealed) == f"{said} Measured: 1 MiB."
    assert "<details>" not in shown[-1][1]


@pytest.mark.parametrize("typed", ["", "   "])
def test_an_empty_entry_is_none(shown: Any, typed: str) -> None:
    p = predict("How much?", unit="MiB")
    parts(shown)[0].value = typed
    assert str(p.reveal(MIB)) == "Measured: 1 MiB."


def test_an_entry_stays_when_its_cell_runs_again(shown: Any) -> None:
    predict("How much?", unit="MiB")
    parts(shown)[0].value = "10"
    again = predict("How much?", unit="MiB")
    control, note = parts(shown)
    assert control.value == "10"
    assert "Noted: 10 MiB" in note.value
    assert "You said 10 MiB" in str(again.reveal(2 * MIB))
    assert predict("How many?", unit="traces").value is None


def test_an_answer_is_folded_until_somebody_predicted(shown: Any) -> None:
    p = predict("How much?", unit="MiB")
    p.reveal(4 * MIB)
    assert shown[-1][1] == (
        "<details><summary>Show what was measured</summary><p>Measured: 4 MiB.</p></details>"
    )
    p.enter(4)
    p.reveal(4 * MIB)
    assert shown[-1][1].startswith('<div role="status">You said 4 MiB')


@pytest.mark.parametrize(
    ("guess", "measured", "says"),
    [
        (4, 4, "You said 4 MiB, measured 4 MiB: right."),
        (4.1, 4, "You said 4.1 MiB, measured 4 MiB: close enough."),
        (10, 2, "You said 10 MiB, measured 2 MiB: five times too much."),
        (8, 4, "measured 4 MiB: two times too much."),
        (3, 2, "measured 2 MiB: 1.5 times too much."),
        (1, 4, "four times too little."),
        (0, 4, "You said 0 B, measured 4 MiB: not so."),
        (4, 0, "You said 4 MiB, measured 0 B: not so."),
        (0, 0, "right."),
    ],
)
def test_both_are_compared_in_words(guess: float, measured: int, says: str) -> None:
    p = Prediction("How much?", "MiB", None)
    p.enter(guess)
    assert str(p.reveal(measured * MIB)).endswith(says)


def test_the_unit_of_a_lesson_is_the_default(shown: Any) -> None:
    use_unit(Unit("S", 256 * KIB))
    p = predict("How much?")
    parts(shown)[0].value = "10"
    assert str(p.reveal(512 * KIB)) == "You said 10 S, measured 2 S: five times too much."
    parts(shown, 0)[0].value = "2 S"
    assert str(p.reveal(512 * KIB)) == "You said 2 S, measured 2 S: right."


def test_a_result_is_measured_by_its_peak(shown: Any) -> None:
    x = tf.zeros([512, 512])
    found = peak(lambda: x + x)
    p = predict("How much?", unit="MiB")
    parts(shown)[0].value = "1"
    assert str(p.reveal(found)) == "You said 1 MiB, measured 1 MiB: right."
    wide = dataclasses.replace(found, peaks=(2 * MIB, 3 * MIB))
    assert p.reveal(wide).written == "≈ 2 to 3 MiB"
    assert p.reveal(wide).right is False
    parts(shown, 0)[0].value = "2.5"
    assert p.reveal(wide).right is True


def test_plain_numbers_and_choices(shown: Any) -> None:
    traces = predict("How many?", unit="traces")
    parts(shown)[0].value = "3"
    assert str(traces.reveal(9)) == "You said 3 traces, measured 9 traces: three times too little."
    law = predict("Which law?", choices=["constant", "linear", "quadratic"])
    control, _ = parts(shown)
    assert control.value is None
    assert law.value is None
    control.value = "linear"
    assert str(law.reveal("linear")) == "You said linear, measured linear: right."
    assert law.reveal("quadratic").right is False


def test_the_control_has_a_label_and_the_output_is_the_same_each_time(shown: Any) -> None:
    predict("How much?", unit="MiB")
    predict("How much?", unit="MiB")
    (text, html, widget), (text2, html2, _) = shown
    assert (text, html) == (text2, html2)
    assert "How much?" in text
    assert "How much?" in html
    assert widget.children[2].description == "Your prediction in MiB:"
    assert "lessons-live" in widget._dom_classes


def test_questions_are_escaped(shown: Any) -> None:
    predict("<b>How</b> much?")
    assert "<b>How" not in shown[0][1]
    assert "<b>How" not in shown[0][2].children[1].value


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
