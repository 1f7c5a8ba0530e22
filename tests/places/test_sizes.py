"""Modules and functions of the package and of the tests are small, without an exception.

Lines are counted strictly: empty ones, comments, docstrings and decorators are among them, and a
function within a function counts in both.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.notebooks import ROOT

MODULE_LINES = 400
FUNCTION_LINES = 60


def too_long(folder: Path) -> list[str]:
    """List the modules and the functions below a folder that have too many lines."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = path.relative_to(folder).as_posix()
        if (lines := len(source.splitlines())) > MODULE_LINES:
            found.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min(line.lineno for line in (node, *node.decorator_list))
                if (lines := (node.end_lineno or 0) - first + 1) > FUNCTION_LINES:
                    found.append(f"{name}: {node.name} has {lines} lines")
    return found


@pytest.mark.parametrize("folder", ["lessons_lib", "tests"])
def test_modules_and_functions_are_small(folder: str) -> None:
    assert too_long(ROOT / folder) == []


def test_what_is_too_long_is_seen(tmp_path: Path) -> None:
    def function(body: int) -> str:
        return "@decorated\ndef f():\n" + "    pass\n" * body

    (tmp_path / "small.py").write_text(function(58) + "\n" * 340, encoding="utf-8")
    (tmp_path / "long_module.py").write_text("\n" * 401, encoding="utf-8")
    (tmp_path / "long_function.py").write_text(function(59), encoding="utf-8")
    assert too_long(tmp_path) == [
        "long_function.py: f has 61 lines",
        "long_module.py: 401 lines",
    ]
