"""No two public classes of the package have one name: a reader need not ask which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.support.notebooks import ROOT


def shared_names(folder: Path) -> dict[str, list[str]]:
    """Give the modules below a folder that define public classes of one name, by that name."""
    modules = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(folder).as_posix())
    return {name: found for name, found in modules.items() if len(found) > 1}


def test_no_two_classes_have_one_name() -> None:
    assert shared_names(ROOT / "lessons_lib") == {}


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Row: ...\nclass _Own: ...\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("class Row: ...\nclass _Own: ...\n", encoding="utf-8")
    assert shared_names(tmp_path) == {"Row": ["a.py", "b.py"]}
