"""The recorder agrees with hand arithmetic, and every check of that can fail."""

from __future__ import annotations

import gc

import pytest

from lessons_lib.recording import profiler
from lessons_lib.recording.recorder import record
from lessons_lib.recording.segment import Segment
from tests.support.broken_recorders import FAULTS, Fault
from tests.support.exactness import CHECKS, Check
from tests.support.tensors import ints, new, ready


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_recorder_is_exact(check: Check) -> None:
    check(record)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1, 2, 3, 4, -1])
def test_a_loss_is_noticed(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = profiler.read_profile

    def read(data: bytes) -> Segment:
        segment = real(data)
        del segment.memory[lost]
        return segment

    ready(ints(9), ints(5), ints(3))
    monkeypatch.setattr(profiler, "read_profile", read)
    gc.collect()  # what is freed while the profiler starts makes the level uncertain
    with record() as recording:
        a, b = new(9), new(5)
        del a
        c = new(3)
        del b
    assert not recording.exact
    assert "not reported" in recording.notes[0]
    monkeypatch.undo()
    del c


@pytest.fixture(scope="module")
def caught() -> dict[str, set[str]]:
    """Run every check with every broken recorder; give the checks that noticed, by fault."""
    return {
        name: {check for check, function in CHECKS.items() if notices(function, fault)}
        for name, fault in FAULTS.items()
    }


def notices(check: Check, fault: Fault) -> bool:
    """Tell whether a check fails with a broken recorder."""
    try:
        check(fault.record)
    except (AssertionError, IndexError, KeyError):
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_recorder_is_caught(name: str, caught: dict[str, set[str]]) -> None:
    assert FAULTS[name].noticed_by <= caught[name]


def test_every_check_catches_some_fault(caught: dict[str, set[str]]) -> None:
    idle = set(CHECKS) - set().union(*caught.values())
    assert idle == {"nothing_at_all", "no_elements"}  # there is nothing in them to get wrong
