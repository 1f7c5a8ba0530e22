"""Random programs: the recorder agrees to the byte with a model that knows nothing of TensorFlow.

See `tests.support.programs` for the programs and the model, tests/conftest.py for how many.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given

from lessons_lib.recording import call_watcher
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from tests.support.broken_recorders import FAULTS
from tests.support.exactness import Record
from tests.support.programs import (
    Drop,
    Dropped,
    Graph,
    Ledger,
    Loop,
    Machine,
    New,
    Program,
    Reshape,
    Row,
    Same,
    Tape,
    Unary,
)
from tests.support.random_programs import programs

pytestmark = pytest.mark.usefixtures("set_aside")

Figures = tuple[int, int, int]


def expected(before: Program, program: Program) -> Figures:
    """Work out peak, kept and allocated bytes of a program that follows another one."""
    ledger = Ledger()
    ledger.run(before)
    ledger.begin()
    ledger.run(program)
    return ledger.peak, ledger.live, ledger.allocated


def recorded(
    before: Program, program: Program, recorder: Record = record
) -> tuple[Figures, Recording]:
    """Run a program twice, so that traces and shapes are there, and record the second run."""
    Machine().run(before + program)
    machine = Machine()
    machine.run(before)
    with recorder() as recording:
        machine.run(program)
    found = recording.peak_bytes, recording.kept_bytes, recording.allocated_bytes
    return found, recording


@pytest.mark.slow
@given(program=programs())
@example((New("a", (100, 17), "bfloat16"), Row("b", "a"), Drop("a")))
@example((New("a", (1, 1), "float32"), Row("a", "a")))
@example((New("a", (4, 16), "float32"), Row("b", "a"), Drop("a"), Drop("b")))
@example((New("a", (7, 7), "float32"), New("b", (7, 7), "float32"), Tape("a", "b", 3, "t")))
@example((New("a", (7,), "float32"), Tape("a", None, 3, "t"), Tape("a", None, 2, "t"), Drop("t")))
@example((New("a", (31,), "bool"), Loop("a", 5), Same("b", "a"), Loop("a", 2)))
@example((New("a", (5,), "float32"), Dropped("b", "a", 2), Drop("a"), Dropped("b", "b", 1)))
def test_the_recorder_agrees_with_the_model(program: Program) -> None:
    found, recording = recorded((), program)
    assert found == expected((), program)
    assert recording.exact


@pytest.mark.slow
@given(before=programs(6), program=programs(6))
@example((New("a", (9,), "float32"), Reshape("b", "a")), (New("a", (3,), "int8"),))
@example((New("a", (9,), "float32"), Tape("a", None, 4, "t")), (New("t", (3,), "int8"),))
def test_what_was_there_before(before: Program, program: Program) -> None:
    found, recording = recorded(before, program)
    assert found == expected(before, program)
    # Each buffer is one block of memory: it is born once, and it dies once, later.
    for buffer in recording.buffers:
        times = buffer.allocated_at, buffer.freed_at
        assert times != (None, None)
        if None not in times:
            assert 0 <= times[0] <= times[1] <= recording.seconds  # type: ignore[operator]


@pytest.mark.slow
@given(program=programs(8))
def test_breakdowns_and_the_timeline_add_up(program: Program) -> None:
    (peak, kept, allocated), recording = recorded((), program)
    for breakdown in (recording.by_op(), recording.by_line()):
        assert sum(row.peak_bytes for row in breakdown.rows) == peak
        assert sum(row.kept_bytes for row in breakdown.rows) == kept
        assert sum(row.allocated_bytes for row in breakdown.rows) == allocated
    _, live = recording.timeline()
    assert max(live) == peak
    assert live[-1] == kept
    assert recording.at_peak().nbytes == peak


#: Programs in which the faults of the broken recorders show.
TELLING: tuple[Program, ...] = (
    (New("a", (17,), "int8"), Loop("a", 9), Unary("b", "a"), Drop("a"), New("c", (5,), "bool")),
    (New("a", (33, 33), "float32"), Graph("b", "a", 5), Drop("a"), New("a", (3,), "float64")),
    (New("a", (7, 31), "bfloat16"), Row("b", "a"), Drop("a"), Loop("b", 4)),
    (*(New(n, (9,), "int8") for n in "abc"), *(Drop(n) for n in "abc")),
)
# One needs a temporary buffer, one a second thread; the checks by hand have those.
BEYOND = {"temporaries_forgotten", "one_thread_only", "old_releases_ignored"}


@pytest.mark.parametrize("name", sorted(set(FAULTS) - BEYOND))
def test_the_model_catches_broken_recorders(name: str) -> None:
    differing = [
        program
        for program in TELLING
        if recorded((), program, FAULTS[name].record)[0] != expected((), program)
    ]
    assert differing


def test_the_model_catches_a_recorder_that_forgets_what_was_there() -> None:
    before: Program = (New("a", (9,), "float32"),)
    program: Program = (Drop("a"),)
    assert expected(before, program) == (0, -36, 0)
    assert recorded(before, program)[0] == (0, -36, 0)
    assert recorded(before, program, FAULTS["old_releases_ignored"].record)[0] == (0, 0, 0)


def test_the_model_by_hand() -> None:
    program: Program = (
        New("a", (10,), "float32"),  # 40
        Unary("a", "a"),  # 80, then 40
        Same("b", "a"),
        Drop("a"),  # b still holds it
        Tape("b", None, 2, "t"),  # 80, then the old one goes: 40; 80, both held by the tape
        Drop("b"),  # the tape holds both
        Drop("t"),  # 0
    )
    assert expected((), program) == (80, 0, 160)


def test_the_model_catches_a_recorder_that_keeps_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    real = call_watcher.facts_of
    monkeypatch.setattr(
        call_watcher, "facts_of", lambda graph: (kept.append(graph), real(graph))[1]
    )
    before: Program = (New("a", (9,), "float32"),)
    program: Program = (Dropped("b", "a", 2), Drop("a"))
    assert expected(before, program) == (36, 0, 36)
    assert recorded(before, program)[0] == (36, 36, 36)
    assert kept
