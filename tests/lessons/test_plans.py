"""The teachers' plans: they fit their time, say what the lessons say, and run as written."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest

from lessons_lib.teaching.exercises import LESSONS as MODULES
from tests.lessons.test_sanitizer import sanitized
from tests.tools import execute, plans
from tests.tools.claims import Verdict, all_verdicts
from tests.tools.plans import PAGE, PLANS, SLACK, Plan, Step

#: Each of the others runs where ``LESSONS_PLANS`` is set, as in ``.ci/run``.
TRIED = [plan for plan in PLANS if "LESSONS_PLANS" in os.environ or plan.name == "20"]


def test_the_page_has_the_plans_as_they_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    now = plans.replaced(text, all_verdicts())
    assert sanitized(text) == sanitized(now), "run `python -m tests.tools.plans`"


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_plan_has_an_exercise_and_time_for_questions(plan: Plan) -> None:
    assert plan.slack >= SLACK * plan.minutes
    assert any(step.is_exercise for step in plan.steps)
    assert all(step.minutes >= 3 for step in plan.steps)
    modules = {step.what.partition(".")[0] for step in plan.steps if step.is_exercise}
    assert modules <= set(MODULES.values())


def test_a_plan_that_is_too_full_or_unknown_is_noticed() -> None:
    assert Plan("10", 10, (Step("00.1", 9),), 1).slack == 0
    with pytest.raises(LookupError, match=r"no claim stands for 09\.1"):
        plans.claim_of("09.1", all_verdicts())
    with pytest.raises(LookupError, match="no notebook has the exercise"):
        plans.exercise_place("loops.q99")
    with pytest.raises(ValueError, match="put these marks"):
        plans.replaced("# No place", all_verdicts())


def test_a_claim_is_looked_for_in_core_lessons_first() -> None:
    further = Verdict("03_more_on_loops", 1, "A", "false", ("03.1",))
    core = Verdict("03_loops", 4, "A", "false", ("03.1",))
    assert plans.claim_of("03.1", [further, core]) is core
    assert plans.claim_of("03.1", [further]) is further


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("loops.q6", "line 7: tape"),
        ("measure_memory.q5", "A: pool, B: arrays, C: tensors"),
        ("loops.q1", "peak at most 3.5 MiB"),
    ],
)
def test_the_right_answer_is_the_exercises_own(key: str, says: str) -> None:
    assert plans.right_answer(key) == says


def test_of_a_drawn_exercise_each_answer_is_given() -> None:
    programs = [part.partition(",")[0] for part in plans.right_answer("capstone.q3").split("; ")]
    assert programs == ["rank_faulty", "evaluate_faulty", "sharpen_faulty"]


CASES = [
    pytest.param(path, claims, exercises, id=f"{plan.name} minutes, {path.stem}")
    for plan in TRIED
    for path, claims, exercises in plans.lessons_of(plan, all_verdicts())
]


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.child
@pytest.mark.parametrize(("path", "claims", "exercises"), CASES)
def test_plan_runs_as_written_in_a_fresh_kernel(
    path: Path, claims: set[int], exercises: list[int], tmp_path: Path
) -> None:
    notebook = plans.chosen(path, claims, exercises)
    code = [cell.source for cell in notebook.cells]
    assert sum(".verdict(" in source for source in code) >= len(claims)
    nbformat.write(notebook, tmp_path / path.name)
    execute.run(tmp_path / path.name)
