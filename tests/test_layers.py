"""No module imports one of a layer above its own, not even inside a function.

Bottom: what touches TensorFlow and holds plain facts.  Middle: results and instruments.  Top:
pictures, magics, exercises and widgets, and the package's front door.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebooks import ROOT

PACKAGE = "lessons_lib"

BOTTOM = {
    "arguments", "assembly", "buffers", "callsites",
    "garbage", "graphs", "gradients", "interrupts", "kinds",
    "profiler", "rendering", "runtime", "source", "units",
}  # fmt: skip
MIDDLE = {
    "agreement", "atlas", "budget", "callback", "compare", "growth", "live", "measure",
    "op_memory", "phases", "preflight", "process", "programs", "recorder", "recording",
    "recording_file", "report", "tracing", "training", "verdicts",
}  # fmt: skip
TOP = {
    "__init__", "__main__", "clinic", "clinic_cases", "display", "exercises", "live_pictures",
    "magics", "pictures", "predict", "progress", "pytest_plugin", "quiz", "quizzes", "widgets",
}  # fmt: skip
NAMES = ("bottom", "middle", "top")
LAYER = {name: level for level, names in enumerate((BOTTOM, MIDDLE, TOP)) for name in names}

#: Imports that go up, each for a reason.  Keep this short.
ALLOWED: set[tuple[str, str]] = set()


def part(path: Path, package: Path) -> str:
    """Name the module or subpackage, right under the package, that a file belongs to."""
    return path.relative_to(package).with_suffix("").parts[0]


def imported(source: str, inside: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Find which parts of the package a module imports, and on which line.

    Parameters
    ----------
    source : str
        The module's text.
    inside : str
        The dotted name of the package that the module lies in, for relative imports.
    known : set of str
        Parts of the package; any other name taken from it comes from its ``__init__``.
    """

    def of(dotted: str) -> str | None:
        top, _, rest = dotted.partition(".")
        if top != PACKAGE:
            return None
        first = rest.partition(".")[0]
        return first if first in known else "__init__"

    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [of(name.name) for name in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = module or ""
                if level:
                    outer = inside.split(".")[: len(inside.split(".")) - level + 1]
                    base = ".".join([*outer, *([module] if module else [])])
                found = [of(f"{base}.{name.name}") for name in names]
            case ast.Call(
                func=ast.Attribute(attr="import_module")
                | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str() as dotted), *_],
            ):
                found = [of(inside + dotted if dotted.startswith(".") else dotted)]
            case _:
                continue
        for name in found:
            if name is not None:
                yield node.lineno, name


def violations(package: Path) -> list[str]:
    """List every import in a package that goes up, and every module that has no layer."""
    files = sorted(package.rglob("*.py"))
    present = {part(path, package) for path in files}
    known = present | set(LAYER)
    found = [
        f"{name}: has no layer yet (see {Path(__file__).name})"
        for name in sorted(present - set(LAYER))
    ]
    for path in files:
        own = part(path, package)
        inside = ".".join([PACKAGE, *path.relative_to(package).parent.parts])
        for line, other in imported(path.read_text(encoding="utf-8"), inside, known):
            if own == other or (own, other) in ALLOWED or own not in LAYER or other not in LAYER:
                continue
            if LAYER[other] > LAYER[own]:
                where = path.relative_to(package).as_posix()
                found.append(
                    f"{where}:{line} ({NAMES[LAYER[own]]}) imports {other} ({NAMES[LAYER[other]]})"
                )
    return found


def test_no_module_imports_from_a_layer_above() -> None:
    assert violations(ROOT / PACKAGE) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("buffers.py", "from lessons_lib.recorder import record", "imports recorder (middle)"),
        ("buffers.py", "import lessons_lib.recorder", "imports recorder (middle)"),
        ("buffers.py", "def f():\n    from .recorder import record", "buffers.py:2"),
        ("buffers.py", "from . import recorder", "imports recorder (middle)"),
        ("buffers.py", "import lessons_lib as ll", "imports __init__ (top)"),
        ("buffers.py", "from lessons_lib import record", "imports __init__ (top)"),
        (
            "recorder.py",
            "from lessons_lib.pictures.theme import new_axes",
            "imports pictures (top)",
        ),
        ("recorder.py", "import importlib\nimportlib.import_module('lessons_lib.pictures')", ":2"),
        ("novelty.py", "", "novelty: has no layer yet"),
    ],
)
def test_made_up_violation_is_caught(
    module: str, source: str, complaint: str, tmp_path: Path
) -> None:
    package = made_up_package(tmp_path)
    (package / module).write_text(source)
    found = violations(package)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("recorder.py", "from lessons_lib import buffers\nimport lessons_lib.buffers"),
        ("recorder.py", "from .buffers import Buffer"),
        ("pictures/timeline.py", "from lessons_lib.recorder import record\nfrom . import theme"),
        ("pictures/timeline.py", "from ..buffers import Buffer"),
        ("buffers.py", "import numpy\nfrom lessons_libelle import recorder"),
    ],
)
def test_import_that_goes_down_or_out_is_allowed(module: str, source: str, tmp_path: Path) -> None:
    package = made_up_package(tmp_path)
    (package / module).write_text(source)
    assert violations(package) == []


def made_up_package(folder: Path) -> Path:
    package = folder / PACKAGE
    (package / "pictures").mkdir(parents=True)
    for name in ("__init__", "buffers", "recorder", "pictures/__init__", "pictures/theme"):
        (package / f"{name}.py").write_text("")
    return package
