"""The leak clinic: each program grows for the named cause, and its twin does not."""

from __future__ import annotations

from typing import Any

import pytest

from lessons_lib import clinic
from lessons_lib.clinic_cases import AILMENTS
from lessons_lib.growth import Cause, growth

NUMBERS = range(len(AILMENTS))


@pytest.mark.parametrize("number", NUMBERS)
def test_growth_names_the_cause(number: int) -> None:
    case = clinic.draw(number)
    found = growth(case.step, iterations=12, warmup=3)
    assert found.cause is AILMENTS[number].cause, found


@pytest.mark.parametrize("number", NUMBERS)
def test_the_twin_mends_and_the_program_does_not(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    case, ailment = clinic.draw(number), AILMENTS[number]
    # Both twins were written for the smallest size.
    assert case.mend(ailment.mended).right
    still = case.mend(ailment.faulty)
    assert not still.right
    assert f"it still grows: {ailment.cause}" in still.text


def test_diagnoses(capsys: pytest.CaptureFixture[str]) -> None:
    case = clinic.draw(0)
    assert case.diagnose("retained tensors").right
    assert case.diagnose(Cause.RETAINED_TENSORS).right
    other = case.diagnose("retracing")
    assert not other.right
    assert "not retracing" in capsys.readouterr().out
    with pytest.raises(ValueError, match="'graph growth'"):
        case.diagnose("bad luck")


@pytest.mark.parametrize("seed", range(-3, 20))
def test_wards_have_four_causes_and_neighbours_have_other_programs(seed: int) -> None:
    ward = clinic.ward(seed)
    assert len({case._ailment.cause for case in ward}) == 4
    beside = clinic.ward(seed + 1)
    assert not {case.name for case in ward} & {case.name for case in beside}
    assert clinic.draw(seed).name != clinic.draw(seed + 1).name


def test_the_text_tells_nothing() -> None:
    for number in NUMBERS:
        case = clinic.draw(number)
        words = f"{case!r} {case.source}".lower()
        for hint in ("faulty", "mended", "leak", "retrac", "retain", "cause", "cure"):
            assert hint not in words.replace("leak clinic", "")
        assert "def make_step():" in case.source


def test_sizes_differ_between_rounds() -> None:
    assert "ROWS = 128" in clinic.draw(0).source
    assert "ROWS = 160" in clinic.draw(len(AILMENTS)).source


def test_a_step_begins_anew() -> None:
    case = clinic.draw(1)
    first, second = case.make_step(), case.make_step()
    assert [first(i) for i in range(3)] == [second(i) for i in range(3)]


@pytest.mark.parametrize(
    ("mended", "says"),
    [
        (3, "make_step itself"),
        (lambda: 3, "return the step"),
        (lambda: lambda i: 0.0, "something else"),
        (lambda: lambda i: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_cures_that_are_none(mended: Any, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = clinic.draw(0).mend(mended)
    assert not outcome.right
    assert says in outcome.text
    assert says in capsys.readouterr().out


def test_a_hanging_cure_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clinic, "_SECONDS", 0.5)

    def hang() -> Any:
        while True:
            pass

    assert "longer than 0.5 s" in clinic.draw(0).mend(hang).text


def test_bad_seeds() -> None:
    with pytest.raises(TypeError, match="whole number"):
        clinic.draw("mine")  # type: ignore[arg-type]
