"""Re-running lessons in place: what is kept, what is left out, and what makes it fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.support.lesson_runs import AGAIN_VARIABLE
from tests.support.notebooks import (
    MAX_RESIDENT_BYTES,
    METADATA,
    PROGRESS,
    ROOT,
    nobodys_progress,
    peak_resident_bytes,
)
from tests.tools import execute

pytestmark = pytest.mark.child
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux records the peak")


def lesson(path: Path, *sources: str) -> Path:
    cells = [v4.new_markdown_cell("# Add two numbers"), *map(v4.new_code_cell, sources)]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata = {"kernelspec": {"name": "mine", "display_name": "Mine"}, "widgets": {}}
    notebook.cells[1].metadata = {
        "execution": {"iopub.status.busy": "2026-01-01"},
        "tags": ["keep"],
    }
    nbformat.write(notebook, path)
    return path


def test_outputs_are_stored_and_volatile_metadata_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lesson(
        tmp_path / "a.ipynb",
        "import os, sys\nprint(sys.executable)\nprint(os.getcwd())",
        "from ipywidgets import IntSlider\nIntSlider(description='rows')",
    )
    assert execute.main([str(path)]) == 0
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"] == METADATA
    _, first, second = notebook["cells"]
    assert first["metadata"] == {"tags": ["keep"]}
    assert first["execution_count"] == 1
    assert "".join(first["outputs"][0]["text"]).split() == [sys.executable, str(tmp_path)]
    (shown,) = second["outputs"]
    assert list(shown["data"]) == ["text/plain"]
    assert "IntSlider" in "".join(shown["data"]["text/plain"])
    assert "beyond the import" in capsys.readouterr().out
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.ipynb"]

    before = path.read_bytes()
    assert execute.main([str(path)]) == 0
    assert path.read_bytes() == before


def test_failing_lesson_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lesson(tmp_path / "a.ipynb", "print(1)", "1 / 0")
    before = path.read_bytes()
    assert execute.main([str(path)]) == 1
    assert path.read_bytes() == before
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_killed_kernel_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lesson(tmp_path / "a.ipynb", "import os\nos._exit(1)")
    assert execute.main([str(path)]) == 1
    assert "not written" in capsys.readouterr().err


def test_check_writes_nothing(tmp_path: Path) -> None:
    path = lesson(tmp_path / "a.ipynb", "print(1)")
    before = path.read_bytes()
    assert execute.main(["--check", str(path)]) == 0
    assert path.read_bytes() == before


def test_fault_of_form_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lesson(tmp_path / "a.ipynb", "import sys\nprint('red', file=sys.stderr)")
    assert execute.main([str(path)]) == 1
    assert "writes to stderr" in capsys.readouterr().err


def test_limits_are_limits() -> None:
    notebook = v4.new_notebook()
    within = execute.Run(notebook, 15.0, 60.0, MAX_RESIDENT_BYTES)
    assert execute.over_limits(within) == []
    assert len(execute.over_limits(execute.Run(notebook, 15.1, 0.0, None))) == 1
    assert len(execute.over_limits(execute.Run(notebook, 1.0, 0.0, MAX_RESIDENT_BYTES + 1))) == 1


@on_linux
def test_peak_counts_memory_that_was_given_back(tmp_path: Path) -> None:
    held = execute.run(lesson(tmp_path / "a.ipynb", "x = b'x' * (300 << 20)\ndel x"))
    bare = execute.run(lesson(tmp_path / "b.ipynb", "x = 1"))
    assert held.peak_bytes is not None
    assert bare.peak_bytes is not None
    assert held.peak_bytes - bare.peak_bytes > 250 << 20


def test_process_that_is_gone_has_no_peak() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert peak_resident_bytes(child.pid) is None


@pytest.mark.further
@on_linux
def test_nbval_runs_cells_as_a_learner_does_and_fails_what_takes_too_much_memory(
    tmp_path: Path,
) -> None:
    # Without history, which nbval switches off, the second cell would count otherwise.
    small = lesson(tmp_path / "small.ipynb", "object()", "print(len(Out), len(In))")
    assert execute.main([str(small)]) == 0
    assert "1 3" in small.read_text(encoding="utf-8")
    lesson(tmp_path / "large.ipynb", "x = b'x' * (300 << 20)\ndel x")
    parts = (
        v4.new_markdown_cell("## One"),
        v4.new_code_cell("x = 1"),
        v4.new_markdown_cell("## Two"),
    )
    depending = v4.new_notebook(cells=[v4.new_code_cell(""), *parts, v4.new_code_cell("y = x")])
    nbformat.write(depending, tmp_path / "depending.ipynb")
    command = [sys.executable, "-m", "pytest", str(tmp_path), "-q", "-rA", "-n", "1"]
    command += ["--nbval", "--nbval-current-env", "-p", "tests.support.lesson_runs"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}"],
        cwd=ROOT,
        env=os.environ | {"LESSON_LIMIT_BYTES": str(250 << 20), AGAIN_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 4 passed" in done.stdout, done.stdout
    assert "In a second run of the section “Two”" in done.stdout
    assert "large.ipynb::Cell 0" in done.stdout
    assert "of resident memory by the end of this cell; at most 250 MiB" in done.stdout
    assert "run time and highest resident memory" in done.stdout


def test_nobodys_progress_is_shown_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS, "mine")
    with nobodys_progress():
        assert not Path(os.environ[PROGRESS]).exists()
    assert os.environ[PROGRESS] == "mine"
    monkeypatch.delenv(PROGRESS)
    with pytest.raises(LookupError), nobodys_progress():
        raise LookupError
    assert PROGRESS not in os.environ
