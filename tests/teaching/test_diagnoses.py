"""Diagnoses: the named lines are at fault, which is measured by mending them; answers get words.

Bytes are arithmetic: a batch or a state of 512 KiB, a tensor of 2 MiB, a gradient of 1 MiB.
"""

from __future__ import annotations

from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib import teaching
from lessons_lib.common.units import KIB, MIB
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching import progress
from lessons_lib.teaching.catalogue import LESSONS
from lessons_lib.teaching.exercises import exercises
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, judge
from lessons_lib.teaching.exercises.drawn import DrawnQuestion
from lessons_lib.teaching.exercises.evidence import Table
from lessons_lib.teaching.exercises.result import Status

pytestmark = pytest.mark.slow

ALL = [
    question
    for module in LESSONS.values()
    for question in exercises(module)
    if isinstance(question, DiagnosisQuestion)
]
DIAGNOSES = [
    diagnosis
    for question in ALL
    for diagnosis in getattr(question, "diagnoses", [question.diagnosis])
]
_each = pytest.mark.parametrize(
    "diagnosis", DIAGNOSES, ids=lambda d: f"{d.key} {getattr(d.program, '__name__', 'table')}"
)


def measured(diagnosis: Diagnosis) -> dict[type, Any]:
    """Run the evidence; give its results by type, of several tables the last."""
    return {type(result): result for result in diagnosis.evidence(diagnosis.build())}


def by_line(recording: Recording) -> dict[int, Any]:
    """Give the rows of a recording by line number of the listing."""
    return {row.line.number: row for row in recording.by_line().rows if row.line is not None}


def test_there_is_one_in_every_lesson() -> None:
    assert {question.key.partition(".")[0] for question in ALL} == set(LESSONS.values())


# --- answers ------------------------------------------------------------------------------------


@_each
def test_the_right_answer_passes_and_parts_of_it_do_not(diagnosis: Diagnosis) -> None:
    right = diagnosis.solution()
    assert judge(diagnosis, right).status is Status.PASSED
    assert len(right) == len(diagnosis.faults)
    for fault in diagnosis.faults:
        assert fault.cause in diagnosis.causes
        place = diagnosis.place(fault.at)
        others = {p: cause for p, cause in right.items() if p != place}
        if others:
            result = judge(diagnosis, others)
            assert result.status is Status.WRONG_VALUE
            assert f"{len(others)} of {len(right)} faults found" in result.message
        for cause in set(diagnosis.causes) - {fault.cause}:
            result = judge(diagnosis, {**others, place: cause})
            assert result.status is Status.WRONG_VALUE
            assert f"its cause is not {cause!r}" in result.message
        for text in fault.also:
            assert judge(diagnosis, {**others, diagnosis.place(text): fault.cause}).passed


@_each
def test_near_misses_say_why(diagnosis: Diagnosis) -> None:
    cause = next(iter(diagnosis.causes))
    for text, why in diagnosis.near.items():
        result = judge(diagnosis, {diagnosis.place(text): cause})
        assert result.status is Status.WRONG_VALUE
        assert why in result.message
    if len(diagnosis.listing()) > 1:
        assert "Line 1 is not at fault." in judge(diagnosis, {1: cause}).message
        # One line too many is not passed over.
        assert not judge(diagnosis, {**diagnosis.solution(), 1: cause}).passed


@pytest.mark.parametrize("answer", [None, ..., {}, {...: ...}, {7: ...}, {...: "tape"}, "tape", 7])
def test_nothing_is_not_attempted(answer: Any) -> None:
    result = teaching.loops.q6.check(answer)
    assert result.status is Status.NOT_ATTEMPTED
    assert "loops.q6.show()" in result.message
    assert progress.load().exercises == {}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({70: "tape"}, "70 is no line of the program: they are numbered from 1 to 10"),
        ({"7": "tape"}, "'7' is no line of the program"),
        ({True: "tape"}, "True is no line of the program"),
        ({7: "tapes"}, "'tapes' is none of the causes: choose from list, tape, name, view"),
        ({7: ["tape"]}, "['tape'] is none of the causes"),
    ],
)
def test_what_cannot_be_read_is_said(answer: Any, says: str) -> None:
    result = teaching.loops.q6.check(answer)
    assert result.status is Status.WRONG_VALUE
    assert says in result.message
    assert result.next_step == "Next: loops.q6.hint() gives hint 1 of 2."


def test_letters_of_a_table() -> None:
    q5 = teaching.measure_memory.q5
    assert "'D' is not in the table: it has A, B, C" in q5.check({"D": "pool"}).message
    assert "1 of 3 faults found" in q5.check({"A": "pool"}).message


def test_check_notes_and_solution_shows(capsys: pytest.CaptureFixture[str]) -> None:
    q6 = teaching.loops.q6
    assert not q6.check({7: "list"}).passed
    assert q6.check(q6.diagnosis.solution()).passed
    noted = progress.load().exercises["loops.q6"]
    assert (noted["attempts"], noted["passed"]) == (2, True)
    assert q6.solution() == {7: "tape"}
    assert "Line 7, tape: The gradient of tanh" in capsys.readouterr().out


def test_cells_and_listing(capsys: pytest.CaptureFixture[str]) -> None:
    q6 = teaching.loops.q6
    task, show, check = q6.cells()
    assert "- `tape`: a tape holds them" in task.source
    assert (show.source, check.source) == ("loops.q6.show()", "loops.q6.check({...: ...})")
    q6.show()
    shown = capsys.readouterr().out
    assert "  7              x = tf.tanh(x @ w)\n" in shown
    assert "loops_q6.py:7" in shown
    assert ": Any" not in shown


# --- the named lines are at fault: mend one, and its bytes or traces are gone --------------------


def mended(diagnosis: Diagnosis, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measure the program with a text of its listing replaced."""
    lines = diagnosis.listing()
    changed = tuple(line.replace(old, new) for line in lines)
    assert changed != lines
    with monkeypatch.context() as patch:
        patch.setattr(Diagnosis, "listing", lambda self: changed)
        return measured(diagnosis)


def test_one_name_less_and_a_copied_row(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.eager_and_graph.q5.diagnosis
    size, small = 2 * MIB, 64
    before = measured(diagnosis)[Recording]
    assert 3 * size <= before.peak_bytes < 3 * size + small
    assert size <= before.kept_bytes < size + small
    rows = by_line(before)
    assert rows[diagnosis.place("squares = tf.square(centred)")].peak_bytes == size
    after = mended(
        diagnosis,
        "tf.sqrt(tf.reduce_mean(squares, axis=[0, 1]))",
        "tf.sqrt(tf.reduce_mean(squares, axis=[0, 1])); del squares",
        monkeypatch,
    )[Recording]
    assert 2 * size <= after.peak_bytes < 2 * size + small
    after = mended(
        diagnosis, "return normalised[0]", "return tf.gather(normalised, 0)", monkeypatch
    )[Recording]
    assert after.kept_bytes == size / 1024  # one of 1024 rows


def test_the_tape_makes_the_ramp(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.loops.q6.diagnosis
    state, n = 512 * KIB, 12
    before = measured(diagnosis)[Recording]
    rows = by_line(before)
    assert rows[diagnosis.place("x = tf.tanh(x @ w)")].peak_bytes >= n * state
    assert rows[diagnosis.place("losses.append(")].peak_bytes < 4 * n + 64
    # Without the tape's entries the ramp is gone, with the same list.
    after = mended(diagnosis, "tape.watch(w)", "tape.watch([])", monkeypatch)[Recording]
    assert after.peak_bytes <= 4 * state


def test_each_call_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.tracing.q5.diagnosis
    table = measured(diagnosis)[Table]
    assert table.rows == (("line 11", "reduce_max", "8"), ("line 12", "score", "8"))
    after = mended(
        diagnosis,
        "score(batch, 1.0 / (i + 1))",
        "score(batch, tf.constant(1.0 / (i + 1)))",
        monkeypatch,
    )[Table]
    assert after.rows == (("line 11", "reduce_max", "8"), ("line 12", "score", "1"))


def test_the_row_holds_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.growth.q5.diagnosis
    batch, calls = 512 * KIB, 16
    with_holder = _kept(diagnosis)
    assert calls * batch <= with_holder < calls * batch + 4 * KIB
    lines = diagnosis.listing()
    changed = tuple(line.replace("= batch[0]", "= tf.gather(batch, 0)") for line in lines)
    monkeypatch.setattr(Diagnosis, "listing", lambda self: changed)
    assert _kept(diagnosis) < batch


def _kept(diagnosis: Diagnosis) -> int:
    """Give what the monitor keeps after all of its steps."""
    monitor = diagnosis.build()()
    calls = teaching.growth._batches({"rows": 256, "width": 512, "calls": 16}, 9).calls
    with ll.record() as recording:
        for number, make in enumerate(calls):
            monitor.step(number, *make())
    return recording.kept_bytes


def test_gradients_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.state.q5.diagnosis
    gradient, parts = MIB, 8
    before = measured(diagnosis)[Recording]
    rows = by_line(before)
    held = rows[diagnosis.place("gradients.append(")].peak_bytes
    assert parts * gradient <= held < parts * gradient + 64
    assert before.peak_bytes >= (parts + 1) * gradient
    after = mended(
        diagnosis,
        "gradients.append(tape.gradient(loss, w))",
        "gradients = [tf.add_n([*gradients, tape.gradient(loss, w)])]",
        monkeypatch,
    )[Recording]
    assert after.peak_bytes < 4 * gradient


def test_three_meters_see_three_programs() -> None:
    table = measured(teaching.measure_memory.q5.diagnosis)[Table]
    rows = {row[0]: row[4:] for row in table.rows}  # the resident set is noise
    assert rows == {
        "A": ("≈ 0", "≈ 48", "≈ 0"),
        "B": ("≈ 48", "≈ 0", "≈ 0"),
        "C": ("≈ 0", "≈ 48", "≈ 48"),
    }
    # In the highest of Python's heap, what else runs in the meantime may be a MiB.
    highest = {row[0]: float(row[3].lstrip("≈ ")) for row in table.rows}
    assert highest == pytest.approx({"A": 0, "B": 48, "C": 0}, abs=1)


def test_the_training_scripts_faults() -> None:
    diagnosis = teaching.capstone.q2.diagnosis
    found = measured(diagnosis)
    hidden, difference, steps = 2048 * 128 * 4, 2048 * 64 * 4, 10
    rows = by_line(found[Recording])
    # The tapes and the views keep a hidden layer for each step, concat copies 1 + 2 + … + n.
    assert rows[diagnosis.place("hidden = tf.tanh(x @ w1)")].peak_bytes >= steps * hidden
    concat = rows[diagnosis.place("differences = tf.concat(")]
    assert concat.allocated_bytes >= steps * (steps + 1) // 2 * difference
    line = diagnosis.place("rate = learning_rate(step)")
    assert found[Table].rows == ((f"line {line}", "learning_rate", str(steps)),)


def test_the_ranking_scripts_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.capstone.q3.diagnoses[0]
    found = measured(diagnosis)
    line = diagnosis.place("rows = embed(ids)")
    assert found[Table].rows == ((f"line {line}", "embed", "12"),)
    lengths, table = [200 + 10 * seed for seed in range(12)], 4000 * 64 * 4
    peak = found[Recording].peak_bytes
    assert peak >= 12 * table
    matrices = sum(4 * length**2 for length in lengths)
    rows = by_line(found[Recording])
    assert rows[diagnosis.place("score = tf.matmul(")].allocated_bytes == matrices

    def change(old: str, new: str) -> Any:
        return mended(diagnosis, old, new, monkeypatch)

    after = change("first.append(rows[0])", "first.append(tf.gather(rows, 0))")
    assert after[Recording].peak_bytes < peak - 4 * 64 * sum(lengths) / 2
    after = change("scores.append(score)", "scores.append(tf.reduce_max(score))")
    assert after[Recording].peak_bytes < peak - matrices / 2
    after = change(
        "@tf.function", "@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])"
    )
    assert after[Table].rows == ((f"line {line}", "embed", "1"),)
    assert after[Recording].peak_bytes < peak - 10 * table
    after = change("first, scores = [], []", "table, first, scores = tf.constant(table), [], []")
    assert after[Recording].peak_bytes < peak - 10 * table


def test_the_table_by_line_is_the_same_in_each_run() -> None:
    diagnosis = teaching.capstone.q2.diagnosis
    line = diagnosis.place("hidden = tf.tanh(x @ w1)")
    tables = [list(diagnosis.evidence(diagnosis.build()))[1] for _ in range(2)]
    assert tables[0].rows == tables[1].rows
    # A hidden layer of 1 MiB in each of 10 steps, and the matmul that it was made from.
    assert (f"line {line}", "≈ 10.00", "≈ 0.00", "≈ 20.00") in tables[0].rows
    # Rows of a few bytes, whose number varies, are not in it.
    assert all(set(sizes) != {"≈ 0.00"} for _, *sizes in tables[0].rows)


def _concat(diagnosis: Any, recording: Recording) -> int:
    """Give what the line with `concat` allocated in all."""
    allocated: int = by_line(recording)[diagnosis.place("= tf.concat(")].allocated_bytes
    return allocated


def test_the_evaluating_scripts_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.capstone.q3.diagnoses[1]
    found = measured(diagnosis)
    batch, output, batches = 512 * 256 * 4, 512 * 128 * 4, 10
    line = diagnosis.place("output = forward(batch)")
    assert found[Table].rows == ((f"line {line}", "project", str(batches)),)
    copied = batches * (batches + 1) // 2 * output
    assert copied <= _concat(diagnosis, found[Recording]) < copied + KIB
    peak, kept = found[Recording].peak_bytes, batches * batch
    assert peak >= kept

    def change(old: str, new: str) -> Any:
        return mended(diagnosis, old, new, monkeypatch)

    after = change("first.append(batch[0])", "first.append(tf.gather(batch, 0))")
    assert after[Recording].peak_bytes < peak - kept / 2
    after = change("tf.concat([outputs, output]", "tf.concat([outputs[:0], output]")
    assert _concat(diagnosis, after[Recording]) < batches * output + KIB
    after = change("forward = tf.function(project)", "forward = project")
    assert after[Table].rows == ()
    # NumPy's arrays are in no recording.
    wide = ll.process_memory(lambda: diagnosis.evidence(diagnosis.build()))
    assert wide.heap_peak_bytes >= 2 * kept


def _constants(diagnosis: Any, recording: Recording) -> int:
    """Give the bytes of the constants that the graph's only line made."""
    line = diagnosis.place("return tf.reduce_mean(")
    made = [b for b in recording.buffers if b.op == "Const" and b.line is not None]
    # What replaced the decorator took a line more.
    return sum(b.nbytes for b in made if b.line.number in (line, line + 1) and b.nbytes > KIB)


def test_the_sharpening_scripts_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = teaching.capstone.q3.diagnoses[2]
    found = measured(diagnosis)
    image, features, steps = 256 * 512 * 4, 256 * 256 * 4, 10
    assert [row[2] for row in found[Table].rows] == ["1"]
    copied = sum(range(2, steps + 2)) * image
    assert copied <= _concat(diagnosis, found[Recording]) < copied + KIB
    peak = found[Recording].peak_bytes

    def change(old: str, new: str) -> Any:
        return mended(diagnosis, old, new, monkeypatch)

    after = change("tapes[step] = tape", "pass")
    assert after[Recording].peak_bytes <= peak - (steps - 1) * features
    after = change("gradients.append(gradient)", "gradients.append(tf.norm(gradient))")
    assert after[Recording].peak_bytes <= peak - (steps - 2) * image
    assert _constants(diagnosis, found[Recording]) >= features
    after = change("@tf.function", "target = tf.constant(target)\n    @tf.function")
    assert _constants(diagnosis, after[Recording]) == 0


@pytest.mark.further
def test_seats_side_by_side_get_different_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    question = DrawnQuestion(*teaching.capstone.q3.diagnoses)
    right = question.diagnosis.solution()
    # Which script it is about is not known yet.
    assert question.check(right).status is Status.NOT_ATTEMPTED
    question.hint()
    assert question.solution() == {}
    assert capsys.readouterr().out.count("Run capstone.q3.show with your seat's number first") == 2
    shown = []
    for seat in (1, 2, 3, 4, 0):
        question.show(seat)
        shown.append(question.diagnosis.program.__name__)
        assert f"def {shown[-1]}(" in capsys.readouterr().out
        assert question.check(question.diagnosis.solution()).passed
    assert len(set(shown[:3])) == 3
    assert (shown[3], shown[4]) == (shown[0], shown[2])
    with pytest.raises(TypeError, match="a seat is a whole number, not '4'"):
        question.show("4")  # type: ignore[arg-type]


def test_a_new_script_has_its_own_hints(capsys: pytest.CaptureFixture[str]) -> None:
    question = DrawnQuestion(*teaching.capstone.q3.diagnoses)
    for seat in (1, 2):
        question.show(seat)
        capsys.readouterr()
        question.hint()
        assert question.diagnosis.hints[0] in capsys.readouterr().out
    task, show, _ = question.cells()
    assert "the number of your seat" in task.source
    assert show.source == "capstone.q3.show(seat=1)"
