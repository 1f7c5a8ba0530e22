"""Every exercise: right answers pass, honest mistakes are refused in words that help."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import nbformat
import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib import teaching
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.catalogue import COUNTS
from lessons_lib.teaching.exercises import LESSONS, exercises, grading
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, Way, source_of
from lessons_lib.teaching.exercises.expected import Expected, difference, expect
from lessons_lib.teaching.exercises.limits import Size
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.result import Status
from lessons_lib.teaching.exercises.running import expected_values
from tests.support.cases import first_of_each
from tests.support.notebooks import LESSONS as LESSON_FOLDER
from tests.teaching.graded import run_as_in_a_cell
from tests.teaching.wrong_answers import Wrong

ALL = [question for module in LESSONS.values() for question in exercises(module)]
WRITTEN = [question for question in ALL if isinstance(question, Question)]
_BY_LESSON = {
    module: import_module(f"tests.teaching.wrong_answers.{module}").WRONG
    for module in LESSONS.values()
}

_RIGHT = {
    module: import_module(f"tests.teaching.right_answers.{module}").RIGHT
    for module in LESSONS.values()
}

pytestmark = pytest.mark.usefixtures("quick", "right_values_once")
SEED = 7  # of all gradings here, so that the right values are the same


@pytest.fixture(scope="module")
def right_values() -> dict[Any, list[Any]]:
    return {}


@pytest.fixture
def right_values_once(right_values: dict[Any, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the right values of an exercise, size and seed once for all its answers."""

    def known(exercise: Exercise, size: Size, seed: int) -> list[Any]:
        key = (exercise.key, *size.items(), seed)
        if key not in right_values:
            right_values[key] = expected_values(exercise, size, seed)
        return right_values[key]

    monkeypatch.setattr(grading, "expected_values", known)


def wrong_answers(question: Question) -> tuple[Wrong, ...]:
    module, _, number = question.key.partition(".")
    found: tuple[Wrong, ...] = _BY_LESSON[module][number]
    return found


def right_answers(question: Question) -> tuple[Any, ...]:
    module, _, number = question.key.partition(".")
    found: tuple[Any, ...] = _RIGHT[module][number]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("question", WRITTEN, ids=lambda q: q.key)
def test_the_solution_passes_and_the_starter_is_not_attempted(question: Question) -> None:
    exercise = question.exercise
    result = grading.grade(exercise, exercise.solution_code, seed=SEED)
    assert result.status is Status.PASSED, str(result)
    assert result.peak_bytes is not None
    assert all(figure.measured <= figure.budget for figure in result.figures)
    # A floor that a right answer can go below would refuse honest answers.
    assert all(f.floor is None or f.floor <= f.measured for f in result.figures)
    assert grading.grade(exercise, exercise.starter, seed=SEED).status is Status.NOT_ATTEMPTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "wrong"),
    first_of_each(
        ((question, wrong) for question in WRITTEN for wrong in wrong_answers(question)),
        kind=lambda case: case[0].key,
    ),
    ids=lambda value: value.key if isinstance(value, Question) else value.label.replace(" ", "-"),
)
def test_wrong_answers_fail_for_the_right_reason(question: Question, wrong: Wrong) -> None:
    result = grading.grade(question.exercise, wrong.answer, seed=SEED)
    assert result.status is wrong.status, str(result)
    assert wrong.says in result.message, str(result)
    figure = result.figure
    if result.status is Status.WRONG_VALUE:
        assert wrong.says or "expected" in result.message
    elif result.status is Status.OVER_BUDGET and figure is not None:
        assert figure.sentence() in result.message
        if "Python's own objects" in result.message:  # nobody notes what line makes each of them
            return
        # The learner's own line is named.
        assert result.blame is not None, str(result)
        assert result.blame.described in result.message
        # One wrong answer of the capstone is the script that the lesson itself gives.
        given = wrong.answer is teaching.capstone.train_faulty
        assert ("exercises/lessons" if given else "wrong_answers") in result.blame.file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "answer"),
    first_of_each(
        ((question, answer) for question in WRITTEN for answer in right_answers(question)),
        kind=lambda case: case[0].key,
    ),
    ids=lambda value: value.key if isinstance(value, Question) else "",
)
def test_right_answers_unlike_the_reference_pass(question: Question, answer: Any) -> None:
    exercise = question.exercise
    # One size: what a check of the other would add is in the test of the solution.
    result = grading.grade(replace(exercise, graded=exercise.graded[:1]), answer, seed=SEED)
    assert result.status is Status.PASSED, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("question", WRITTEN, ids=lambda q: q.key)
def test_what_learners_see_is_the_same_function(question: Question) -> None:
    exercise = question.exercise
    namespace: dict[str, Any] = {"tf": tf, "np": np, "ll": ll}
    run_as_in_a_cell(source_of(exercise.solution_code), namespace)
    inputs = exercise.inputs(exercise.graded[0], 5)
    answer = namespace[exercise.name]
    if exercise.way is Way.STEP:
        answer = answer(*inputs.arguments)
    if inputs.calls:
        got = [answer(*make()) for make in inputs.calls]
    else:
        got = [answer(*inputs.arguments)]
    expected = expected_values(exercise, exercise.graded[0], 5)
    assert difference(got, expected, tolerance=exercise.tolerance) == ""


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.key)
def test_one_source_of_truth(question: Any) -> None:
    module, _, number = question.key.partition(".")
    assert getattr(getattr(teaching, module), number) is question
    assert (
        getattr(sys.modules[f"lessons_lib.teaching.exercises.lessons.{module}"], number) is question
    )
    task, *codes = question.cells()
    assert task.kind == "markdown"
    assert task.source.startswith(f"### {number.upper()}. ")
    assert all(cell.kind == "code" for cell in codes)
    assert f"{question.key}.check(" in codes[-1].source


@pytest.mark.parametrize("question", WRITTEN, ids=lambda q: q.key)
def test_written_exercises_are_whole(question: Question) -> None:
    exercise = question.exercise
    assert exercise.name == exercise.solution_code.__name__.removesuffix("_solution")
    assert len(exercise.hints) >= 2
    assert len(right_answers(question)) >= 3
    wrong = wrong_answers(question)
    assert len(wrong) >= 3
    assert len({w.status for w in wrong}) >= 2
    assert exercise.shown not in exercise.graded or len(exercise.graded) > 1
    task, code = question.cells()
    assert exercise.title in task.source
    assert "Budget" in task.source
    assert code.source.endswith(f"{exercise.key}.check({exercise.name})")
    assert ": Any" not in code.source


@pytest.mark.slow
@pytest.mark.parametrize("question", WRITTEN, ids=lambda q: q.key)
def test_inputs_follow_from_the_seed_and_hold_no_answer(question: Question) -> None:
    exercise = question.exercise
    size = exercise.graded[0]
    first = expected_values(exercise, size, 5)

    def same(other: list[Any]) -> bool:
        return str(other) == str(first) and all(
            np.array_equal(a.values, b.values)
            for a, b in zip(other, first, strict=True)
            if isinstance(a, Expected) and isinstance(b, Expected)
        )

    assert same(expected_values(exercise, size, 5))
    assert not same(expected_values(exercise, size, 6))
    inputs = exercise.inputs(size, 5)
    for argument in inputs.arguments:
        if not tf.is_tensor(argument) and not isinstance(argument, np.ndarray):
            held = [v for v in getattr(argument, "__dict__", {}).values() if isinstance(v, int)]
            assert all(v not in held for v in _numbers(first))


def _numbers(values: list[Any]) -> list[int]:
    leaves = [v for v in values if isinstance(v, Expected) and v.values.ndim == 0]
    return [int(leaf.values) for leaf in leaves if abs(float(leaf.values)) > 100]


def test_every_lesson_has_exercises() -> None:
    counts = {module: len(exercises(module)) for module in LESSONS.values()}
    assert counts == COUNTS
    assert all(3 <= count <= 6 for count in counts.values()), counts
    assert len({question.key for question in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0], [1.0, 2.0], "has 1 parts, 2 were expected"),
        (1.0, [1.0, 2.0], "is a number, a list of 2 was expected"),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, "has keys ['a'], expected ['a', 'b']"),
        ({"a": [1.0, 3.0]}, {"a": [1.0, 2.0]}, "element ['a'][1] is 3, expected 2"),
        (np.ones((2, 3)), np.ones((3, 2)), "has shape [2, 3], expected [3, 2]"),
        (np.ones(3, np.float32), np.ones(3), "has dtype float32, expected float64"),
        (tf.ones(3), np.ones(3, np.float32), ""),
        (np.ones(3, np.float32), tf.ones(3), "a NumPy array of shape [3], one tensor of shape [3]"),
        ([1.0, 1.0, 1.0], tf.ones(3), "a list of 3, one tensor of shape [3] was expected"),
        (tf.Variable(tf.ones(3)), tf.ones(3), ""),
        (np.float64(3.0), tf.constant(3.0), ""),
        (tf.constant(3.0), 3.0, ""),
        (tf.ones(1), 3.0, "has shape [1], expected []"),
        ("text", 1.0, "is a str, a number was expected"),
        (object(), 1.0, "is an object, a number was expected"),
        (
            tf.sparse.from_dense(np.eye(2)),
            tf.eye(2),
            "is a SparseTensor, one tensor of shape [2, 2]",
        ),
        (tf.ragged.constant([[1.0], []]), tf.eye(2), "is a RaggedTensor, one tensor"),
        (tf.Variable(1.0).handle, 1.0, "is an EagerTensor, a number was expected"),
        (None, 1.0, "is None"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "[1] is nan, expected 2"),
        (12345678, 12345679, ""),
        (5, 7, "is 5, expected 7"),
    ],
)
def test_differences(got: Any, expected: Any, says: str) -> None:
    found = difference(got, expect(expected))
    assert (found == "") if not says else (says in found), found


def test_exact_values_are_exact() -> None:
    assert difference(12345678, 12345679, tolerance=0.0) != ""
    assert difference(12345678, 12345678, tolerance=0.0) == ""


def test_sparse_gradients_are_compared_by_what_they_mean() -> None:
    slices = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([4, 1]), tf.constant([6, 3]))
    dense = tf.convert_to_tensor(slices)
    assert difference(slices, expect(dense)) == ""
    assert difference(dense, expect(slices)) == ""
    assert difference(2.0 * dense, expect(slices)) != ""


def test_a_graphs_own_tensor_is_named() -> None:
    leaked: list[Any] = []

    @tf.function
    def leaky(x: Any) -> Any:
        leaked.append(2.0 * x)
        return x

    leaky(tf.ones(3))
    assert "a tensor of a graph that was traced" in difference(leaked[0], expect(tf.ones(3)))


def test_inputs_hide_what_is_right() -> None:
    assert "right" in Inputs._fields
    secret = Inputs((1,), (), right=7)
    assert 7 not in secret.arguments


# --- in the notebooks ---------------------------------------------------------------------------


def notebook_cells() -> dict[str, str]:
    """Give the source of every cell of every lesson, with where it stands."""
    return {
        cell.source.strip(): path.name
        for path in sorted(LESSON_FOLDER.rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts
        for cell in nbformat.read(path, as_version=4).cells
    }


def drifted(question: Any, cells: dict[str, str]) -> list[str]:
    """List an exercise's cells that no notebook has as they are."""
    return [
        f"{question.key}: {cell.source.splitlines()[0]}"
        for cell in question.cells()
        if cell.source.strip() not in cells
    ]


def test_lessons_hold_their_exercises_as_they_are() -> None:
    cells = notebook_cells()
    missing = [text for question in ALL for text in drifted(question, cells)]
    assert not missing


@pytest.mark.parametrize("module", list(LESSONS.values()))
def test_a_core_lesson_has_a_diagnosis_and_another_exercise(module: str) -> None:
    cells = notebook_cells()
    core = {path.name for path in LESSON_FOLDER.glob("*.ipynb")}
    here = [
        question
        for question in exercises(module)
        if all(cells.get(cell.source.strip()) in core for cell in question.cells())
    ]
    kinds = [isinstance(question, Question) for question in here]
    # The lesson on growth has its clinic: programs to be named and mended.
    clinic = any(source.endswith("first.fix(make_step)") for source in cells)
    assert False in kinds
    assert True in kinds or (module == "growth" and clinic)


def test_a_changed_cell_is_noticed() -> None:
    question = teaching.loops.q1
    cells = {cell.source.strip(): "03" for cell in question.cells()}
    assert drifted(question, cells) == []
    changed = {source.replace("last_state", "final_state"): "03" for source in cells}
    assert len(drifted(question, changed)) == 2
