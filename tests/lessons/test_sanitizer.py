"""What two runs of a lesson may differ in: checked with the real nbval and the real settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.support.notebooks import METADATA, ROOT

SANITIZER = ROOT / "tests" / "nbval_sanitize.cfg"
PIXELS = "data:image/png;base64,"


def show_html(markup: str) -> str:
    return f"from IPython.display import HTML\nHTML({markup!r})"


def picture(pixels: str, alt: str) -> str:
    return f'<img src="{PIXELS}{pixels}" alt="{alt}">'


# name: (printed or shown now, what was committed, whether the lesson then still passes)
PRINTED = {
    "same": ("peak 8 MiB", "peak 8 MiB", True),
    "noisy": ("RSS \u2248 612 MiB", "RSS \u2248 1.25 GiB", True),
    "noisy_word": ("about \u2248 612 MiB here", "about \u2248 612 MiB there", False),
    "exact": ("peak 8 MiB", "peak 12 MiB", False),
    "exact_beside_noisy": ("8 MiB, \u2248 3 s", "12 MiB, \u2248 3 s", False),
    "noisy_became_exact": ("RSS 612 MiB", "RSS \u2248 612 MiB", False),
    "range": ("peak \u2248 3 S of it", "peak \u2248 26 to 30.5 S of it", True),
    "range_beside_exact": ("\u2248 26 to 30 S, 3 S", "\u2248 26 to 30 S, 4 S", False),
    "range_of_another_word": ("\u2248 26 to the end", "\u2248 26 to an end", False),
    "law": ("law \u2248 1.3 n + 2.5", "law \u2248 1.1 n", True),
    "law_became_exact": ("law n + 2", "law \u2248 1.0 n + 2.0", False),
    "address": ("<Graph object at 0x7f01a2b3c4d0>", "<Graph object at 0x7fffa2b3c4d8>", True),
    "address_of_another": (
        "<Graph object at 0x7f01a2b3c4d0>",
        "<List object at 0x7f01a2b3c4d0>",
        False,
    ),
    "hexadecimal": ("flags 0x10", "flags 0x11", False),
}
SHOWN = {
    "pixels": (picture("AAAA", "peak 8 MiB"), picture("BBBB+/==", "peak 8 MiB"), True),
    "alt": (picture("AAAA", "peak 8 MiB"), picture("AAAA", "peak 12 MiB"), False),
    "alt_noisy": (picture("AAAA", "took \u2248 2 s"), picture("AAAA", "took \u2248 9.5 ms"), True),
    "no_picture": ("<b>none</b>", picture("AAAA", "peak 8 MiB"), False),
    "table": ("<td>8 MiB</td>", "<td>9 MiB</td>", False),
}


def code_cell(source: str, output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return v4.new_code_cell(source, execution_count=1, outputs=[output])


def cells(names: Iterable[str]) -> Iterator[nbformat.NotebookNode]:
    for name in names:
        now, committed, _ = (PRINTED | SHOWN)[name]
        if name in PRINTED:
            old = v4.new_output("stream", name="stdout", text=committed + "\n")
            yield code_cell(f"print({now!r})", old)
        else:
            data = {"text/plain": "<IPython.core.display.HTML object>", "text/html": committed}
            yield code_cell(
                show_html(now), v4.new_output("execute_result", data=data, execution_count=1)
            )


def outcomes(folder: Path, written: Iterable[nbformat.NotebookNode], *options: str) -> list[bool]:
    """Run nbval over a notebook of such cells; say for each cell whether it passed."""
    nbformat.write(v4.new_notebook(cells=list(written), metadata=METADATA), folder / "lesson.ipynb")
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", str(folder), "-q", "-p", "no:cacheprovider"]
    command += ["--nbval", "--nbval-current-env", f"--junit-xml={report}", *options]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, f"--rootdir={folder}", "-c", str(ROOT / "pyproject.toml")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    cases = ET.parse(report).iter("testcase")
    return [case.find("failure") is None and case.find("error") is None for case in cases]


@pytest.fixture(scope="module")
def with_the_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    names = [*PRINTED, *SHOWN]
    # In a lesson that a learner runs, the first cell is the first of the history.
    history = code_cell("print(len(In))", v4.new_output("stream", name="stdout", text="2\n"))
    found = outcomes(tmp_path_factory.mktemp("lessons"), [history, *cells(names)])
    return dict(zip(["history", *names], found, strict=True))


@pytest.mark.child
@pytest.mark.parametrize("name", [*PRINTED, *SHOWN])
def test_lesson_passes_only_when_nothing_but_noise_changed(
    name: str, with_the_settings: dict[str, bool]
) -> None:
    _, _, passes = (PRINTED | SHOWN)[name]
    assert with_the_settings[name] is passes


@pytest.mark.child
def test_nbval_alone_runs_cells_without_history(with_the_settings: dict[str, bool]) -> None:
    assert not with_the_settings["history"]  # so tests/support/lesson_runs.py is needed


@pytest.mark.further
@pytest.mark.child
def test_without_the_sanitizer_noise_fails(tmp_path: Path) -> None:
    names = ["same", "noisy", "address", "pixels"]
    found = outcomes(tmp_path, cells(names), "-o", "addopts=")
    assert found == [True, False, False, False]


def sanitized(text: str) -> str:
    """Apply the patterns as nbval does: in turn, each everywhere."""
    rules = re.findall(r"^regex: (.*)$\n^replace: (.*)$", SANITIZER.read_text(), re.MULTILINE)
    assert len(rules) == 4
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\u2248 3 s", "NOISY"),
        ("\u22483.5\u00a0MiB.", "NOISY."),
        ("\u2248&nbsp;1,234.5 KiB", "NOISY"),
        ("\u2248 -3 MiB; \u2248 \u22123 MiB", "NOISY; NOISY"),
        ("\u2248 1.2e-05 s", "NOISY"),
        ("\u2248 12 %, \u2248 1.3 \u00d7", "NOISY, NOISY"),
        ("\u2248 3, then 4", "NOISY, then 4"),
        ("\u2248 26 to 30 S", "NOISY"),
        ("\u2248 512 KiB to 1.5 MiB", "NOISY"),
        ("\u2248 26 to go", "NOISY to go"),
        ("\u2248 1.3 n + 2.5 S", "NOISY LAW S"),
        ("\u2248 5.8 s", "NOISY"),
        ("\u2248 3 steps", "NOISY steps"),
        ("\u2248 3 Balls", "NOISY Balls"),
        ("x \u2248 y, 3 MiB", "x \u2248 y, 3 MiB"),
        ("~ 3 MiB", "~ 3 MiB"),
        ("3 s", "3 s"),
    ],
)
def test_noisy_number_is_replaced_with_its_unit_alone(text: str, left: str) -> None:
    assert sanitized(text) == left


def test_sanitizer_reads_the_same_in_every_locale() -> None:
    assert SANITIZER.read_bytes().isascii()
