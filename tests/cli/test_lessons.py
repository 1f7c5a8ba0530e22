"""The learner's copy of the lessons: made, kept, and never written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lessons_lib.cli import lessons
from lessons_lib.cli import main as command
from tests.support.notebooks import LESSONS, ROOT, lesson_paths, text_faults


def lesson(text: str) -> dict[str, Any]:
    printed = {"output_type": "stream", "name": "stdout", "text": ["8 MiB\n"]}
    cell = {
        "cell_type": "code",
        "id": "one",
        "execution_count": 3,
        "metadata": {"tags": ["keep"], "jupyter": {"outputs_hidden": True}},
        "outputs": [printed],
        "source": [text],
    }
    return {
        "cells": [{"cell_type": "markdown", "id": "zero", "metadata": {}, "source": ["# A"]}, cell],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "notebooks" / "further").mkdir(parents=True)
    (folder / "README.md").write_text("# The project")
    (folder / "notebooks" / "glossary.md").write_text("# Words")
    (folder / "notebooks" / ".hidden.md").write_text("no")
    (folder / "notebooks" / "conftest.py").write_text("no = 1")
    write(folder, "00_start_here.ipynb", "print(1)")
    write(folder, "further/03_more.ipynb", "print(2)")
    return folder


def write(folder: Path, name: str, text: str) -> None:
    (folder / "notebooks" / name).write_text(json.dumps(lesson(text)))


def source(path: Path) -> str:
    return str("".join(json.loads(path.read_text())["cells"][1]["source"]))


def test_copy_has_the_lessons_without_outputs(project: Path) -> None:
    done = lessons.prepare(project)
    assert done.folder == project / "my_lessons"
    assert done.added == ["00_start_here.ipynb", "further/03_more.ipynb", "glossary.md"]
    made = json.loads((done.folder / "00_start_here.ipynb").read_text())
    cell = made["cells"][1]
    assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert cell["metadata"] == {"tags": ["keep"]}
    version = "{}.{}.{}".format(*sys.version_info[:3])
    assert made["metadata"]["language_info"]["version"] == version
    assert not (done.folder / "conftest.py").exists()
    assert "3 files were copied." in done.said()


def test_second_start_changes_nothing(project: Path) -> None:
    first = lessons.prepare(project)
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    second = lessons.prepare(project)
    assert (second.added, second.updated, second.kept) == ([], [], [])
    after = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    assert after == before


def test_what_was_done_is_kept_and_a_newer_version_lies_beside_it(project: Path) -> None:
    folder = lessons.prepare(project).folder
    mine = folder / "00_start_here.ipynb"
    mine.write_text(json.dumps(lesson("mine = 1")))
    assert lessons.prepare(project).kept == []

    write(project, "00_start_here.ipynb", "print('newer')")
    done = lessons.prepare(project)
    assert source(mine) == "mine = 1"
    assert source(folder / "00_start_here_new.ipynb") == "print('newer')"
    assert done.kept == ["00_start_here.ipynb"]
    assert "yours is kept, and the new one is 00_start_here_new.ipynb" in done.said()

    beside = folder / "00_start_here_new.ipynb"
    beside.write_text(json.dumps(lesson("also mine")))
    write(project, "00_start_here.ipynb", "print('newest')")
    lessons.prepare(project)
    assert (source(mine), source(beside)) == ("mine = 1", "also mine")


def test_what_nobody_changed_is_brought_up_to_date(project: Path) -> None:
    folder = lessons.prepare(project).folder
    write(project, "further/03_more.ipynb", "print(3)")
    done = lessons.prepare(project)
    assert done.updated == ["further/03_more.ipynb"]
    assert source(folder / "further" / "03_more.ipynb") == "print(3)"


def test_another_python_is_no_newer_version(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lessons.prepare(project).folder
    mine = folder / "00_start_here.ipynb"
    mine.write_text(json.dumps(lesson("mine = 1")))
    monkeypatch.setattr(lessons.platform, "python_version", lambda: "3.99.0")
    done = lessons.prepare(project)
    assert (done.kept, done.updated) == ([], [])
    assert source(mine) == "mine = 1"


def test_damaged_notes_lose_nothing(project: Path) -> None:
    folder = lessons.prepare(project).folder
    mine = folder / "00_start_here.ipynb"
    mine.write_text(json.dumps(lesson("mine = 1")))
    (folder / ".copied.json").write_text("{")
    lessons.prepare(project)
    assert source(mine) == "mine = 1"


def test_copy_elsewhere_has_the_pages_that_it_links_to(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = lessons.prepare(project, home)
    assert done.folder == home / "my_lessons"
    assert (home / "README.md").read_text() == "# The project"
    assert (home / "notebooks" / "glossary.md").read_text() == "# Words"
    lessons.prepare(project, home)


def test_links_of_the_real_lessons_lead_somewhere_from_the_copy(tmp_path: Path) -> None:
    folder = lessons.prepare(ROOT, tmp_path).folder
    for path in lesson_paths():
        copy = folder / path.relative_to(LESSONS)
        for cell in json.loads(copy.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                assert list(text_faults("".join(cell["source"]), copy.parent)) == []


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the file by its path, as images do; it loads no TensorFlow."""
    return subprocess.run(
        [sys.executable, str(ROOT / "lessons_lib" / "cli" / "lessons.py"), *arguments],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.child
def test_another_command_runs_with_our_settings(project: Path) -> None:
    show = "import os, sys; print(os.environ['JUPYTER_CONFIG_PATH'], *sys.argv[1:])"
    done = run("--then", sys.executable, "-c", show, "--port=1", folder=project)
    assert done.returncode == 0, done.stderr
    settings = project / "my_lessons" / ".jupyter"
    assert done.stdout.splitlines()[-1] == f"{settings} --port=1"
    shown = json.loads((settings / "labconfig" / "default_setting_overrides.json").read_text())
    assert shown["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="only such systems have a root")
@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_jupyterlab_opens_the_first_lesson_also_for_root(
    user: int, allowed: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    folder = project / "my_lessons"
    started = lessons._jupyterlab(folder, ["--no-browser"])
    assert started[1:3] == ["-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={project}" in started
    assert "--LabApp.default_url=/lab/tree/my_lessons/00_start_here.ipynb" in started
    assert ("--allow-root" in started) is allowed
    assert started[-1] == "--no-browser"


def test_without_the_lessons_there_is_a_clear_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lessons, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert lessons.main(["--only-copy"]) == 2
    assert "run this in the folder of the project" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "my_lessons").write_text("a file")
    monkeypatch.chdir(project)
    assert lessons.main(["--only-copy"]) == 2
    assert "my_lessons" in capsys.readouterr().err


def test_the_command_line_knows_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert command.main(["lessons", "--only-copy"]) == 0
    assert f"Your copy of the lessons is {project / 'my_lessons'}." in capsys.readouterr().out
