"""The leak clinic: each program grows for the named cause, and its twin does not."""

from __future__ import annotations

import copy
import re
from typing import Any

import nbformat
import pytest

from lessons_lib.instruments.growth import Cause
from lessons_lib.teaching import clinic
from lessons_lib.teaching.clinic_programs import FAULTS
from tests.support.cases import first_of_each
from tests.support.notebooks import lesson_paths

NUMBERS = range(len(FAULTS))


@pytest.mark.slow
@pytest.mark.parametrize("number", first_of_each(NUMBERS))
def test_the_twin_mends_and_the_program_does_not(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    case, fault = clinic.draw(number), FAULTS[number]
    # Both twins were written for the smallest size.
    assert case.fix(fault.fixed).right
    still = case.fix(fault.faulty)
    assert not still.right
    assert f"it still grows: {fault.cause}" in still.text


def test_diagnoses(capsys: pytest.CaptureFixture[str]) -> None:
    case = clinic.draw(0)
    assert case.diagnose("retained tensors").right
    assert case.diagnose(Cause.RETAINED_TENSORS).right
    assert case.diagnose(" Retained Tensors ").right
    other = case.diagnose("retracing")
    assert not other.right
    assert (
        "✗ case 1: not retracing: if it were, the count of tf.functions" in capsys.readouterr().out
    )
    with pytest.raises(ValueError, match="'graph growth'"):
        case.diagnose("bad luck")


def test_a_wrong_diagnosis_says_what_would_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    for cause in set(Cause) - {Cause.NONE, FAULTS[0].cause}:
        text = clinic.draw(0).diagnose(cause).text
        assert f"not {cause}: if it were, " in text
        assert str(FAULTS[0].cause) not in text
    assert "it does grow" in clinic.draw(0).diagnose("none").text


def test_what_was_not_tried_is_not_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    asked = clinic.draw(0).diagnose("?")
    assert str(asked).startswith("○ case 1: not diagnosed yet")
    assert all(repr(str(c)) in asked.text for c in Cause if c is not Cause.NONE)
    waiting = clinic.draw(0).fix(lambda: ...)
    assert str(waiting).startswith("○ case 1: nothing is fixed yet")
    for outcome in (asked, waiting):
        assert not outcome.right
        assert not outcome.attempted


@pytest.mark.parametrize("seed", range(-3, 20))
def test_fours_have_four_causes_and_neighbours_have_other_programs(seed: int) -> None:
    four = clinic.four_for(seed)
    assert len({case._fault.cause for case in four}) == 4
    beside = clinic.four_for(seed + 1)
    assert not {case.name for case in four} & {case.name for case in beside}
    assert clinic.draw(seed).name != clinic.draw(seed + 1).name


def test_the_text_tells_nothing() -> None:
    for number in NUMBERS:
        case = clinic.draw(number)
        words = f"{case!r} {case.source}".lower()
        for hint in ("faulty", "fixed", "leak", "retrac", "retain", "cause", "cure"):
            assert hint not in words.replace("leak clinic", "")
        assert "def make_step():" in case.source


def test_sizes_differ_between_rounds() -> None:
    assert "ROWS = 128" in clinic.draw(0).source
    assert "ROWS = 160" in clinic.draw(len(FAULTS)).source


def test_a_step_begins_anew() -> None:
    case = clinic.draw(1)
    first, second = case.make_step(), case.make_step()
    assert [first(i) for i in range(3)] == [second(i) for i in range(3)]


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        (3, "make_step itself"),
        (lambda: 3, "return the step"),
        (lambda i: 3.0, "which takes nothing and returns the step"),
        (lambda: lambda i: 0.0, "something else: step(0) is 0, expected 0."),
        (lambda: lambda i: 1 / 0, "ZeroDivisionError"),
        (lambda: lambda i: ROWS, "first line too: ROWS = 128."),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_fixes_that_are_none(fixed: Any, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = clinic.draw(0).fix(fixed)
    assert not outcome.right
    assert says in outcome.text
    assert says in capsys.readouterr().out


def test_a_hanging_fix_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clinic, "_SECONDS", 0.5)

    def hang() -> Any:
        while True:
            pass

    assert "longer than 0.5 s" in clinic.draw(0).fix(hang).text


def test_bad_seeds() -> None:
    with pytest.raises(TypeError, match="whole number"):
        clinic.draw("mine")  # type: ignore[arg-type]


def lessons() -> list[Any]:
    """Read the notebooks about growth: the core lesson, and what goes beyond it."""
    paths = [path for path in lesson_paths() if path.name.startswith("05_")]
    return [nbformat.read(path, as_version=4) for path in paths]


def drift(notebooks: list[Any]) -> list[str]:
    """List what the lessons' clinic shows that the clinic would not show now."""
    cells = [cell for notebook in notebooks for cell in notebook.cells]
    shown = {
        cell.source: [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        for cell in cells
        if cell.cell_type == "code"
    }
    seat = re.search(r"^seat = (\d+)", "\n".join(shown), re.MULTILINE)
    if seat is None:
        return ["there is no seat"]
    names = ("first", "second", "third", "fourth")
    found, cases = [], 0
    for name, case in zip(names, clinic.four_for(int(seat[1])), strict=True):
        source = next((s for s in shown if f"{name}.show()\n" in s), None)
        if source is not None:
            cases += 1
            if shown[source][:2] != [case.source, str(case.diagnose("?"))]:
                found.append(f"{name} is not as {case.name} is")
    if cases < 2:
        found.append("there are less than two cases")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found += [
        f"the table of causes lacks {cause}"
        for cause in Cause
        if cause is not Cause.NONE and f"\n| {cause} |" not in text
    ]
    if not any(source.endswith("first.fix(make_step)") for source in shown):
        found.append("nothing is fixed")
    return found


def test_the_lesson_holds_the_clinic_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert drift(lessons()) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("seat = 1", "seat = 2", "first is not as case 3 is"),
        ("second.show()", "second", "there are less than two cases"),
        ("| runtime cache |", "| a cache |", "the table of causes lacks runtime cache"),
        ("first.fix(make_step)", "make_step", "nothing is fixed"),
    ],
)
def test_a_changed_clinic_is_noticed(
    old: str, new: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    notebooks = copy.deepcopy(lessons())
    for notebook in notebooks:
        for cell in notebook.cells:
            cell.source = cell.source.replace(old, new)
            if new == "second":  # of the four, only the first is left
                cell.source = re.sub(r"(third|fourth)\.show\(\)", r"\1", cell.source)
    assert complaint in drift(notebooks)
