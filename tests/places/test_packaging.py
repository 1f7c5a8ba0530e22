"""The package as it is installed: what it brings along, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.notebooks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLUGIN = "lessons_lib_pytest"

# Run by pytest in a folder of its own: what the fixture does is tested with `budget`.
TESTS = """
import sys

def test_pytest_alone_loads_no_tensorflow(request):
    assert hasattr(sys.modules["lessons_lib_pytest"], "tf_memory_budget")
    assert "lessons_lib" not in sys.modules
    assert "tensorflow" not in sys.modules
    assert request.config.pluginmanager.hasplugin("lessons_lib")
"""


def installed() -> bool:
    """Say whether pytest finds the plugin by itself, as it does after ``pip install -e .``."""
    return any(point.value == PLUGIN for point in metadata.entry_points(group="pytest11"))


needs_installation = pytest.mark.skipif(
    not installed(), reason="lessons_lib is not installed (`pip install -e .`)"
)


def folders_left_out(package: Path) -> list[str]:
    """List the folders with modules that an installation would leave out."""
    folders = {path.parent for path in package.rglob("*.py")}
    return sorted(str(path) for path in folders if not (path / "__init__.py").exists())


def test_every_folder_of_modules_is_installed(tmp_path: Path) -> None:
    assert folders_left_out(ROOT / "lessons_lib") == []
    (tmp_path / "forgotten").mkdir()
    (tmp_path / "forgotten" / "module.py").touch()
    (tmp_path / "__init__.py").touch()
    assert folders_left_out(tmp_path) == [str(tmp_path / "forgotten")]


def test_installing_the_package_brings_no_tensorflow() -> None:
    names = {Requirement(text).name for text in PROJECT["project"]["dependencies"]}
    assert not {name for name in names if "tensorflow" in name or "keras" in name}
    assert {"tensorflow", "cpu"} <= set(PROJECT["project"]["optional-dependencies"])


@needs_installation
@pytest.mark.child
def test_pytest_finds_the_plugin_and_loads_no_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "test_pytest_alone_loads_no_tensorflow PASSED" in done.stdout, done.stdout


def test_every_requirement_says_why() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    assert len(packages) > 10
    assert [line for line in packages if "# " not in line] == []
