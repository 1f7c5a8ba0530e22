"""What a learner sees of a check: results, hints, the solution, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lessons_lib.common import results
from lessons_lib.common.runtime import tf
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises.exercise import Exercise
from lessons_lib.teaching.exercises.inputs import floats
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.result import CheckResult, Status
from tests.teaching.graded import S, double_solution, grade

pytestmark = pytest.mark.usefixtures("quick")


def test_check_shows_and_returns(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(double)
    result = question.check(double_solution)
    assert isinstance(result, CheckResult)
    printed = capsys.readouterr().out
    assert "tests.q1: passed" in printed
    assert "1 MiB" in printed
    assert result._ipython_display_() is None  # shown once, not twice
    assert progress.load().exercises["tests.q1"]["solution_seen"]
    question.check(lambda x: x + x)
    assert progress.load().exercises["tests.q1"]["best"] == S


def test_settings_that_hide_graphs_or_eager_tensors_are_named(double: Exercise) -> None:
    tf.config.run_functions_eagerly(True)
    try:
        result = grade(double, double_solution)
    finally:
        tf.config.run_functions_eagerly(False)
    assert result.status is Status.REFUSED
    assert "run_functions_eagerly(False)" in result.message
    with tf.Graph().as_default():
        result = grade(double, double_solution)
    assert result.status is Status.REFUSED
    assert "Eager execution is off" in result.message
    assert grade(double, double_solution).passed


def test_not_attempted_leaves_no_trace(double: Exercise) -> None:
    Question(double).check()
    assert progress.load().exercises == {}


def test_each_failure_ends_with_the_next_step(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    question = Question(double)

    def next_step() -> str:
        shown = question.check(lambda x: x)
        assert shown.next_step in shown._repr_html_()
        return shown.next_step

    assert next_step() == "Next: tests.q1.hint() gives hint 1 of 2."
    question.hint()
    assert next_step() == "Next: tests.q1.hint() gives hint 2 of 2."
    question.hint()
    assert next_step() == "Next: tests.q1.solution() shows the reference solution."
    assert question.check(lambda x: x + x).next_step == ""
    assert "Next: tests.q1.hint() gives hint 1 of 2." in capsys.readouterr().out


def test_hints_get_stronger(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(double)
    for expected in ("Think of +.", "x + x.", "x + x."):
        question.hint()
        assert expected in capsys.readouterr().out


def test_solution_shows_code_and_returns_it(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Question(double).solution() is double_solution
    shown = capsys.readouterr().out
    assert shown.startswith("def double(x):")
    assert "return 2.0 * x" in shown


def test_a_long_check_says_how_far_it_is(
    double: Exercise, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = "lessons_lib.teaching.exercises.question._SILENT_SECONDS"
    monkeypatch.setattr(silent, 3600.0)
    Question(double).check(double_solution)
    assert "checking" not in capsys.readouterr().out
    monkeypatch.setattr(silent, 0.0)
    Question(double).check(double_solution)
    assert "checking tests.q1: run 2 of 2" in capsys.readouterr().out


def test_pictures_and_their_words(double: Exercise) -> None:
    passed = grade(double, double_solution)
    axes = passed.plot()
    assert sorted({round(bar.get_width()) for bar in axes.patches}) == [S, 3 * S // 2]
    assert "yours 1 MiB, budget 1.5 MiB" in results.alt_text(passed)

    def wasteful(x: Any) -> Any:
        y = x + x
        return y * 1.0

    over = grade(double, wasteful)
    assert "512 KiB (524,288 bytes) over the limit of 1.5 MiB" in results.alt_text(over)
    assert max(np.max(line.get_ydata()) for line in over.plot().lines) >= 2 * S
    html = over._repr_html_()
    assert "<img alt=" in html
    assert 'role="status"' in html
    with pytest.raises(ValueError, match="not measured"):
        grade(double, None).plot()


def test_results_escape_what_comes_from_code(double: Exercise) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("<script>alert(1)</script>")

    html = grade(double, broken)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_budgets_are_of_the_size(double: Exercise) -> None:
    assert double.limits[0].budget({"rows": 2}) == 3 * floats(2, 1024) // 2
