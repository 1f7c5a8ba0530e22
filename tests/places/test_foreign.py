"""The check that runs other people's tests finds those that fail only when they are recorded."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.tools import foreign

TESTS = """
import sys
import pytest

def recorded():
    recorder = sys.modules.get("lessons_lib.recording.recorder")
    return recorder is not None and bool(recorder._session.open)

def test_alike():
    pass

def test_fails_in_both():
    raise ValueError("theirs")

def test_fails_in_a_recording():
    assert not recorded()

def test_passes_in_a_recording_only():
    assert recorded()

def test_skipped():
    pytest.skip("theirs")
"""


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_what_fails_only_when_it_is_recorded_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "keras" / "src" / "layers"
    part.mkdir(parents=True)
    (part.parent / "version.py").write_text(f'__version__ = "{version("keras")}"\n')
    (part / "test_theirs.py").write_text(TESTS)
    monkeypatch.setattr(sys, "argv", ["foreign", str(tmp_path), "layers"])
    assert foreign.main() == 1
    said = capsys.readouterr().out
    assert "bare: 2 passed, 2 failed, 1 skipped" in said
    assert "recorded: 2 passed, 2 failed, 1 skipped" in said
    assert "failed when it is recorded: keras.src.layers.test_theirs::test_fails_in_a_rec" in said


def test_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keras" / "src").mkdir(parents=True)
    (tmp_path / "keras" / "src" / "version.py").write_text('__version__ = "0.1"\n')
    monkeypatch.setattr(sys, "argv", ["foreign", str(tmp_path)])
    assert foreign.main() == 1
    assert f"is Keras 0.1, but {version('keras')} is installed" in capsys.readouterr().out
