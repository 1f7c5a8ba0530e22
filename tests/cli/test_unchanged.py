"""A program runs with this package as it does without: imported, and watched from end to end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_lib.common import runtime
from tests.support import ordinary_program

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "tests" / "support" / "ordinary_program.py")


def output(*command: str) -> tuple[int, dict[str, str]]:
    """Run Python; give the exit code, and what it printed by the part that printed it."""
    inherited = {n: value for n, value in os.environ.items() if n != runtime.LOG_VARIABLE}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        # Without the package, too: it tells what is in use, with which sizes are compared.
        env={**inherited, "PYTHONPATH": str(ROOT), runtime.ALLOCATOR_VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr
    parts: dict[str, str] = {}
    for line in done.stdout.splitlines():
        name, found, rest = line.partition(": ")
        if found and name.isidentifier():
            parts[name] = rest
        else:
            parts[next(reversed(parts))] += f"\n{line}"
    return done.returncode, parts


@pytest.fixture(scope="module")
def bare() -> dict[str, str]:
    """Run the program without this package."""
    code, parts = output(PROGRAM)
    assert code == 3
    assert list(parts) == [part.__name__ for part in ordinary_program.PARTS]
    assert not [name for name, found in parts.items() if re.match(r"\w+Error: ", found)]
    assert parts["dropped"].startswith("[(0, 0), ")
    return parts


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_after_the_import(bare: dict[str, str]) -> None:
    assert output(PROGRAM, "import") == (3, bare)


@pytest.mark.child
@pytest.mark.slow
def test_when_it_is_recorded(bare: dict[str, str], tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    code, parts = output("-m", "lessons_lib", "run", "-o", str(report), PROGRAM)
    assert (code, parts) == (3, bare)
    assert report.stat().st_size > 1000
