"""What lessons import is public: ``lessons_lib`` and ``lessons_lib.teaching``, nothing deeper."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import v4

from tests.support.notebooks import lesson_paths

PUBLIC = {"lessons_lib", "lessons_lib.teaching"}


def modules(node: ast.AST) -> list[str]:
    """Name the modules that a statement imports from."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def deep_imports(path: Path) -> list[str]:
    """List what a notebook imports from deeper in the package."""
    found = set()
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        source = TransformerManager().transform_cell(cell.source)  # magics become Python
        names = [name for node in ast.walk(ast.parse(source)) for name in modules(node)]
        found |= {name for name in names if name.split(".")[0] == "lessons_lib"} - PUBLIC
    return sorted(found)


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_lesson_imports_what_is_public(path: Path) -> None:
    assert deep_imports(path) == []


@pytest.mark.parametrize(
    ("source", "deep"),
    [
        ("import lessons_lib as ll\nfrom lessons_lib.teaching import loops, quiz", []),
        ("%load_ext lessons_lib\nimport tensorflow as tf", []),
        ("from lessons_lib.plots.theme import PALETTE", ["lessons_lib.plots.theme"]),
        ("def f():\n    import lessons_lib.recording.recorder", ["lessons_lib.recording.recorder"]),
    ],
)
def test_what_is_deeper_is_seen(source: str, deep: list[str], tmp_path: Path) -> None:
    path = tmp_path / "03_made_up.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell(source)]), path)
    assert deep_imports(path) == deep
