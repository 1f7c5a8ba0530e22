"""Exercises: each one keeps what it says, and grading can't be talked out of it.

Peaks in the tests of grading are hand arithmetic: S is the bytes of a float32 tensor.
"""

from __future__ import annotations

import gc
import linecache
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import nbformat
import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common import results
from lessons_lib.common.runtime import tf
from lessons_lib.recording import recorder
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises import LESSONS, compare, exercise, exercises, grading
from lessons_lib.teaching.exercises.compare import difference
from lessons_lib.teaching.exercises.exercise import Cell, Exercise, Inputs, call_once, source_of
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Figure, Promise, Quantity
from lessons_lib.teaching.exercises.result import Result, Status
from tests.support.notebooks import lesson_paths

ALL = [exercise for module in LESSONS.values() for exercise in exercises(module)]
S = 4 * 256 * 1024  # bytes of the tensors of `double`


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "progress.json"))


# --- every exercise ---------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.key)
def test_solution_passes_and_starter_does_not(exercise: Exercise) -> None:
    result = grading.grade(exercise, exercise.solution_code, seed=11)
    assert result.status == "passed", str(result)
    assert result.peak_bytes is not None
    assert all(figure.measured <= figure.budget for figure in result.figures)
    # A floor that a right answer can go below would refuse honest answers.
    assert all(f.floor is None or f.floor <= f.measured for f in result.figures)
    assert grading.grade(exercise, exercise.starter, seed=11).status == "not attempted"


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [(exercise, wrong) for exercise in ALL for wrong in exercise.wrong],
    ids=lambda value: value.key if isinstance(value, Exercise) else value.label.replace(" ", "-"),
)
def test_wrong_answers_fail_for_the_right_reason(exercise: Exercise, wrong: Any) -> None:
    result = grading.grade(exercise, wrong.answer, seed=7)
    assert result.status == wrong.status, str(result)
    assert result.message


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.key)
def test_a_stored_answer_fails(exercise: Exercise) -> None:
    stored = exercise.inputs(exercise.graded[0], 3)
    value = grading._expected(exercise, stored)
    if exercise.steps:
        queue: list[Any] = []

        def step(*_: Any) -> Any:
            queue[:] = queue or list(value)
            return queue.pop(0)

        result = grading.grade(exercise, lambda *_: step, seed=7)
    elif exercise.run is call_once:
        result = grading.grade(exercise, lambda *_: value, seed=7)
    else:
        values = list(value)

        def again(*_: Any) -> Any:
            values.append(values.pop(0))
            return values[-1]

        result = grading.grade(exercise, again, seed=7)
    assert result.status in ("wrong value", "refused"), str(result)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.key)
def test_one_source_of_truth(exercise: Exercise) -> None:
    module, _, number = exercise.key.partition(".")
    assert exercise in exercises(module)
    assert (
        getattr(sys.modules[f"lessons_lib.teaching.exercises.lessons.{module}"], number) is exercise
    )
    assert exercise.name == exercise.solution_code.__name__.removesuffix("_solution")
    assert len(exercise.hints) >= 2
    assert {wrong.status for wrong in exercise.wrong} >= {"over budget", "wrong value"}
    assert exercise.shown not in exercise.graded or len(exercise.graded) > 1
    task, starter = exercise.cells()
    assert exercise.title in task.source
    assert "Budget" in task.source
    assert starter.source.endswith(f"{exercise.key}.check({exercise.name})")
    # What learners see runs in a notebook as it stands, and is the same function.
    namespace: dict[str, Any] = {"tf": tf, "np": np, "ll": ll}
    run_as_in_a_cell(source_of(exercise.solution_code), namespace)
    inputs = exercise.inputs(exercise.graded[0], 5)
    got = grading._run(exercise, namespace[exercise.name], inputs)
    expected = grading._run(exercise, exercise.solution_code, inputs)
    if exercise.steps:
        got, expected = got[0], expected[0]
    assert difference(got, expected) == ""


def run_as_in_a_cell(source: str, namespace: dict[str, Any]) -> None:
    """Run code so that its source can be read, as AutoGraph needs."""
    name = f"<ipython-input-1-{len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.key)
def test_inputs_follow_from_the_seed(exercise: Exercise) -> None:
    def value(inputs: Inputs) -> Any:
        return compare.snapshot(grading._expected(exercise, inputs))

    inputs = exercise.inputs(exercise.graded[0], 5)
    first = value(inputs)
    # The same inputs again, the same seed again, another seed.
    assert difference(value(inputs), first) == ""
    assert difference(value(exercise.inputs(exercise.graded[0], 5)), first) == ""
    assert difference(value(exercise.inputs(exercise.graded[0], 6)), first) != ""


def test_every_lesson_has_exercises() -> None:
    counts = {module: len(exercises(module)) for module in LESSONS.values()}
    assert counts.pop("capstone") == 1
    assert all(3 <= count <= 6 for count in counts.values()), counts
    assert len({exercise.key for exercise in ALL}) == len(ALL)


# --- grading ----------------------------------------------------------------------------------


def double_starter(x: Any) -> Any:
    """Return twice x."""
    ...


def double_solution(x: Any) -> Any:
    """Return twice x."""
    return 2.0 * x


def make_double(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "key": "tests.q1",
        "title": "Twice",
        "prompt": "Write `double(x)`.",
        "starter": double_starter,
        "solution_code": double_solution,
        "inputs": lambda size, seed: Inputs((normal(seed, size["rows"], 1024),)),
        "shown": {"rows": 64},
        "graded": ({"rows": 256},),
        "promises": (
            Promise(
                Quantity.PEAK,
                lambda size: 3 * floats(size["rows"], 1024) // 2,
                floor=lambda size: floats(size["rows"], 1024),
            ),
        ),
        "hints": ("Think of +.", "x + x."),
        "seconds": 1.0,
    }
    return Exercise(**{**fields, **changes})


@pytest.fixture
def double() -> Iterator[Exercise]:
    grading._references.pop(("tests.q1", 0), None)
    yield make_double()
    grading._references.pop(("tests.q1", 0), None)


def test_peaks_are_exact(double: Exercise) -> None:
    def wasteful(x: Any) -> Any:
        a = x + 1.0
        b = a - 1.0
        return b * 2.0  # a, b and the product are alive: 3 S

    result = grading.grade(double, wasteful, seed=1)
    assert result.status == "over budget"
    assert (result.peak_bytes, result.budget_bytes) == (3 * S, 3 * S // 2)
    assert result.heap_bytes == 0
    figure = result.figures[0]
    assert (figure.reference, figure.floor) == (S, S)
    # Each of the three lines holds S at the peak; one of them is named, with its text.
    assert result.blame is not None
    assert result.blame.file == __file__
    assert result.blame.text in (
        "a = x + 1.0",
        "b = a - 1.0",
        "return b * 2.0  # a, b and the product are alive: 3 S",
    )
    assert result.blame.text in result.message


def test_numpy_is_counted(double: Exercise) -> None:
    def hidden(x: Any) -> Any:
        copy = x.numpy()
        total = np.add(copy, copy)
        return total * np.float32(1.0)  # three arrays

    result = grading.grade(double, hidden, seed=1)
    assert result.status == "over budget"
    assert result.peak_bytes is not None
    # Three arrays of S, and the small change of Python objects.
    assert 3 * S <= result.heap_bytes < 3 * S + S // 8
    assert result.blame is None


def test_beating_the_reference_is_said() -> None:
    def wasteful_solution(x: Any) -> Any:
        y = x + x
        return y * 1.0

    exercise = make_double(
        key="tests.q2",
        solution_code=wasteful_solution,
        promises=(Promise(Quantity.PEAK, lambda size: 2 * S),),
    )
    result = grading.grade(exercise, lambda x: x + x, seed=1)
    assert result.passed
    assert result.beats_reference
    assert "less than the reference" in result.message
    assert "beats the reference" in results.alt_text(result)
    assert not grading.grade(exercise, wasteful_solution, seed=1).beats_reference


@pytest.mark.parametrize("answer", [None, ..., NotImplemented])
def test_nothing_is_not_attempted(double: Exercise, answer: Any) -> None:
    assert grading.grade(double, answer).status == "not attempted"


def test_an_empty_body_is_known_without_running_it(
    double: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RunError(Exception):
        pass

    def run(*given: Any) -> Any:
        raise RunError

    monkeypatch.setattr(grading, "_weigh", run)

    def empty(x: Any) -> Any:
        """Say what is wanted, and no more."""
        ...

    assert grading.grade(double, empty).status == "not attempted"
    # A constant is a body; so is a call without a result.
    for written in (lambda x: 5, lambda x: print(end="")):
        with pytest.raises(RunError):
            grading.grade(double, written)


def test_unwritten_functions_are_not_attempted(double: Exercise) -> None:
    def unwritten(x: Any) -> Any:
        raise NotImplementedError

    assert grading.grade(double, unwritten).status == "not attempted"
    assert grading.grade(double, lambda x: ...).status == "not attempted"
    called = grading.grade(double, tf.ones(3))
    assert called.status == "not attempted"
    assert "check(double)" in called.message


def test_crashes_say_where(double: Exercise) -> None:
    def broken(x: Any) -> Any:
        return x.no_such_thing

    result = grading.grade(double, broken)
    assert result.status == "wrong value"
    assert "AttributeError" in result.message
    assert "return x.no_such_thing" in result.message
    assert result.blame is not None


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, RecursionError, MemoryError])
def test_whatever_is_raised_becomes_a_result(double: Exercise, kind: type[BaseException]) -> None:
    def broken(x: Any) -> Any:
        raise kind("enough")

    result = grading.grade(double, broken)
    expected = "over budget" if kind is MemoryError else "wrong value"
    assert result.status == expected
    assert kind.__name__ in result.message


def test_wrong_values_say_where(double: Exercise) -> None:
    def one_off(x: Any) -> Any:
        return tf.tensor_scatter_nd_add(2.0 * x, [[3, 5]], [7.0])

    result = grading.grade(double, one_off)
    assert result.status == "wrong value"
    assert "[3, 5]" in result.message
    assert "1 of 262144" in result.message


def test_a_constant_is_refused() -> None:
    # A value that satisfies every comparison would otherwise pass.
    exercise = make_double(key="tests.q3", tolerance=1e9)
    result = grading.grade(exercise, lambda x: tf.zeros_like(x))
    assert result.status == "refused"


def test_hidden_memory_is_refused(double: Exercise) -> None:
    store: list[Any] = []
    right = {}

    def hidden(x: Any) -> Any:
        # A view of what was there before takes nothing: less than the result's own bytes.
        return right["value"]

    exercise = make_double(
        key="tests.q4",
        inputs=lambda size, seed: _keep(right, normal(seed, size["rows"], 1024)),
    )
    result = grading.grade(exercise, hidden)
    assert result.status == "refused", str(result)
    assert not store


def _keep(right: dict[str, Any], x: Any) -> Inputs:
    right["value"] = 2.0 * x
    return Inputs((x,))


def _hang_in_python(x: Any) -> Any:
    while True:
        pass


def _hang_asleep(x: Any) -> Any:
    time.sleep(3600)


def _hang_catching_all(x: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass


@tf.function
def _hang_in_a_graph(x: Any) -> Any:
    while tf.reduce_sum(tf.abs(x)) >= 0.0:
        x = 1.0 * x
    return x


@pytest.mark.parametrize(
    "answer", [_hang_in_python, _hang_asleep, _hang_catching_all, _hang_in_a_graph]
)
def test_hanging_answers_are_stopped(double: Exercise, answer: Any) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    result = grading.grade(double, answer)
    assert result.status == "wrong value"
    assert "longer than 1 s" in result.message
    assert signal.getsignal(signal.SIGALRM) is handler
    # The process is as usable as before.
    assert grading.grade(double, double_solution).passed


def test_hanging_in_another_thread_is_stopped(double: Exercise) -> None:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(grading.grade(double, _hang_in_python)))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "longer than 1 s" in results[0].message


def test_greedy_answers_are_stopped(double: Exercise) -> None:
    def greedy(x: Any) -> Any:
        kept = []
        while True:
            kept.append(tf.fill([4096, 1024], 1.0))

    result = grading.grade(make_double(key="tests.q5", seconds=60.0), greedy)
    assert result.status == "over budget"
    assert "512 MiB of memory" in result.message


def test_an_interrupt_passes_through_and_leaves_nothing(double: Exercise) -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    handler = signal.getsignal(signal.SIGALRM)
    level = tf.get_logger().level
    with pytest.raises(KeyboardInterrupt):
        grading.grade(double, interrupted)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert tf.get_logger().level == level
    assert not tracemalloc.is_tracing()
    assert gc.get_freeze_count() == 0
    with ll.record() as recording:
        tf.fill([64, 64], 1.0)
    assert recording.peak_bytes == 4 * 64 * 64 + 2 * 4  # with the shape, two int32


@pytest.mark.parametrize("run", [1, 2, 3])
def test_an_interrupt_in_a_later_run(double: Exercise, run: int) -> None:
    calls: list[int] = []

    def interrupted(x: Any) -> Any:
        calls.append(1)
        if len(calls) == run:
            raise KeyboardInterrupt
        return 2.0 * x

    with pytest.raises(KeyboardInterrupt):
        grading.grade(double, interrupted)
    assert not tracemalloc.is_tracing()
    assert grading.grade(double, double_solution).passed


def test_replaced_instruments_are_noticed(
    double: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "record", lambda *a, **k: None)
        result = grading.grade(double, double_solution)
    assert result.status == "refused"
    assert "record" in result.message
    with monkeypatch.context() as patch:
        patch.setattr(tracemalloc, "get_traced_memory", lambda: (0, 0))
        assert grading.grade(double, double_solution).status == "refused"
    assert grading.grade(double, double_solution).passed


def _stop_profiler(x: Any) -> Any:
    try:
        tf.profiler.experimental.stop()
    except tf.errors.UnavailableError:
        pass  # not in this run
    return 2.0 * x


def _stop_tracer(x: Any) -> Any:
    tracemalloc.stop()
    return 2.0 * x


def _reset_peak(x: Any) -> Any:
    copies = x.numpy(), x.numpy()
    del copies
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    return 2.0 * x


def _clear_traces(x: Any) -> Any:
    copies = x.numpy(), x.numpy()
    if tracemalloc.is_tracing():
        tracemalloc.clear_traces()
    del copies
    return 2.0 * x


@pytest.mark.parametrize("answer", [_stop_profiler, _stop_tracer, _reset_peak, _clear_traces])
def test_disturbed_instruments_are_refused(double: Exercise, answer: Any) -> None:
    assert grading.grade(double, answer).status == "refused"
    assert not tracemalloc.is_tracing()
    assert grading.grade(double, double_solution).passed


def test_the_users_own_tracing_goes_on(double: Exercise) -> None:
    tracemalloc.start()
    try:
        assert grading.grade(double, double_solution).passed
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


# --- what a learner sees ----------------------------------------------------------------------


def test_check_shows_and_returns(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    result = double.check(double_solution)
    assert isinstance(result, Result)
    printed = capsys.readouterr().out
    assert "tests.q1: passed" in printed
    assert "1 MiB" in printed
    assert result._ipython_display_() is None  # shown once, not twice
    assert progress.load().exercises["tests.q1"]["solution_seen"]
    double.check(lambda x: x + x)
    assert progress.load().exercises["tests.q1"]["best"] == S


def test_not_attempted_leaves_no_trace(double: Exercise) -> None:
    double.check()
    assert progress.load().exercises == {}


def test_hints_get_stronger(double: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    for expected in ("Think of +.", "x + x.", "x + x."):
        double.hint()
        assert expected in capsys.readouterr().out


def test_solution_shows_code_and_returns_it(
    double: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    assert double.solution() is double_solution
    shown = capsys.readouterr().out
    assert shown.startswith("def double(x):")
    assert "return 2.0 * x" in shown


def test_lesson_cells_come_from_the_objects() -> None:
    cells = exercise.lesson_cells(exercises("loops"))
    assert cells[0] == Cell("code", "from lessons_lib.teaching.exercises.lessons import loops")
    assert len(cells) == 1 + 2 * len(exercises("loops"))
    assert "loops.q1.check(last_state)" in cells[2].source


def test_pictures_and_their_words(double: Exercise) -> None:
    passed = grading.grade(double, double_solution, seed=1)
    axes = passed.plot()
    assert sorted({round(bar.get_width()) for bar in axes.patches}) == [S, 3 * S // 2]
    assert "yours 1 MiB, budget 1.5 MiB" in results.alt_text(passed)

    def wasteful(x: Any) -> Any:
        y = x + x
        return y * 1.0

    over = grading.grade(double, wasteful, seed=1)
    assert "512 KiB (524,288 bytes) over the limit of 1.5 MiB" in results.alt_text(over)
    assert max(np.max(line.get_ydata()) for line in over.plot().lines) >= 2 * S
    html = over._repr_html_()
    assert "<img alt=" in html
    assert 'role="status"' in html
    with pytest.raises(ValueError, match="not measured"):
        grading.grade(double, None).plot()


def test_results_escape_what_comes_from_code(double: Exercise) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("<script>alert(1)</script>")

    html = grading.grade(double, broken)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("held", "per_call"),
    [
        ([10, 20, 30], 10),
        ([10, 20, 30, 40, 50], 10),
        ([10, 20, 30, 40, 50, 60, 70, 80], 10),
        ([10, 11, 10, 11, 10, 11], 0),  # a graph's leavings
        ([10, 10, 10, 10, 10, 99], 0),
        ([99, 10, 10, 10, 10, 10], 0),
        ([60, 50, 40, 30, 20, 10], 0),
    ],
)
def test_growth_per_call(held: list[int], per_call: int) -> None:
    assert grading._growth(held) == per_call


@pytest.mark.parametrize(
    ("figure", "kept", "ratio"),
    [
        (Figure(Quantity.PEAK, 10, 20), True, 0.5),
        (Figure(Quantity.PEAK, 20, 20), True, 1.0),
        (Figure(Quantity.TRACES, 3, 2), False, 1.5),
        (Figure(Quantity.KEPT, 0, 0), True, 0.0),
    ],
)
def test_figures(figure: Figure, kept: bool, ratio: float) -> None:
    assert (figure.kept, figure.ratio) == (kept, ratio)


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0], [1.0, 2.0], "has 1 parts, 2 were expected"),
        (1.0, [1.0, 2.0], "is one value"),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, "has keys ['a'], expected ['a', 'b']"),
        ({"a": [1.0, 3.0]}, {"a": [1.0, 2.0]}, "element ['a'][1] is 3, expected 2"),
        (np.ones((2, 3)), np.ones((3, 2)), "has shape [2, 3], expected [3, 2]"),
        ("text", 1.0, "numbers were expected"),
        (object(), 1.0, "numbers were expected"),
        (None, 1.0, "is None"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "[1] is nan, expected 2"),
        (12345678, 12345679, ""),
        (5, 7, "is 5, expected 7"),
    ],
)
def test_differences(got: Any, expected: Any, says: str) -> None:
    found = difference(got, expected)
    assert (found == "") if not says else (says in found), found


def test_wrong_answer_status_words() -> None:
    assert {str(status) for status in Status} == {
        "not attempted",
        "wrong value",
        "over budget",
        "passed",
        "refused",
    }


@pytest.mark.parametrize(("number", "module"), LESSONS.items())
def test_lessons_hold_their_exercises_as_they_are(number: str, module: str) -> None:
    found = [path for path in lesson_paths() if path.name.startswith(f"{number}_")]
    if not found:
        pytest.skip(f"lesson {number} is not there")
    notebook = nbformat.read(found[0], as_version=4)
    cells = {(cell.cell_type, cell.source.strip()) for cell in notebook.cells}
    missing = drifted(exercise.lesson_cells(exercises(module)), cells)
    assert not missing, f"{found[0].name} differs from {module}: {missing}"


def drifted(wanted: list[Cell], cells: set[tuple[str, str]]) -> list[str]:
    """List the exercises' cells that a notebook lacks; the import may stand in any cell."""
    return [
        cell.source.splitlines()[0]
        for cell in wanted[1:]
        if (cell.kind, cell.source.strip()) not in cells
    ]


def test_a_changed_cell_is_noticed() -> None:
    wanted = exercise.lesson_cells(exercises("loops"))
    cells = {(cell.kind, cell.source) for cell in wanted}
    assert drifted(wanted, cells) == []
    changed = {(kind, source.replace("last_state", "final_state")) for kind, source in cells}
    assert len(drifted(wanted, changed)) >= 2
