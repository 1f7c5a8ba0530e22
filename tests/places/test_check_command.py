"""``python -m tests``: what it compares, counts and lists, and in which order it runs."""

from __future__ import annotations

import types
from argparse import Namespace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.__main__ import branches, chosen_lessons, counted, off_the_pins, slowest_modules
from tests.conftest import pytest_collection_modifyitems
from tests.support.cases import mark_further
from tests.support.lesson_runs import AGAIN_VARIABLE


@pytest.mark.parametrize(
    ("requirements", "complaint"),
    [
        ("numpy==0.1  # too old", "numpy "),
        ("no-such-package-of-ours~=1.0", "is not installed"),
        ("numpy>>1", "not understood"),
    ],
)
def test_other_version_than_the_tested_one_is_seen(requirements: str, complaint: str) -> None:
    found = off_the_pins(f"# a comment\n-e .  # ourselves\n{requirements}\n")
    assert len(found) == 1
    assert complaint in found[0]


def test_version_as_tested_raises_no_complaint() -> None:
    here = metadata.version("numpy")
    elsewhere = "tensorflow~=0.1; sys_platform == 'no such system'"
    assert off_the_pins(f"numpy~={here}  # why\n{elsewhere}\n") == []


def test_errors_of_a_run_count_as_failures() -> None:
    suite = '<testsuite tests="9" errors="1" failures="2" skipped="3"/>'
    assert counted(f"<testsuites>{suite}{suite}</testsuites>") == (6, 6, 6)


def test_seconds_are_summed_by_module() -> None:
    cases = [("tests.a.test_one", 2.0), ("tests.b.test_two.TestIt", 1.5), ("tests.b.test_two", 1.0)]
    text = "".join(f'<testcase classname="{name}" time="{time}"/>' for name, time in cases)
    found = slowest_modules(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    assert found == ((2.5, "tests.b.test_two"), (2.0, "tests.a.test_one"))
    assert slowest_modules("<testsuites/>") == ()


def test_branches_are_counted_by_package() -> None:
    def file(reached: int, of: int) -> dict[str, Any]:
        return {"summary": {"covered_branches": reached, "num_branches": of}}

    files = {
        "recording/a.py": file(3, 4),
        "recording/deep/b.py": file(1, 6),
        "plots/c.py": file(5, 5),
    }
    report = {"files": {f"lessons_lib/{name}": found for name, found in files.items()}}
    assert branches(report, "recording") == (4, 10)
    assert branches(report, "instruments") == (0, 0)


def test_of_crossed_cases_each_value_stays_in_the_check() -> None:
    class Item:
        def __init__(self, **parameters: Any) -> None:
            self.function, self.callspec = None, types.SimpleNamespace(params=parameters)
            self.further = False

        def get_closest_marker(self, name: str) -> Any:
            return name == "each_value"

        def add_marker(self, marker: Any) -> None:
            self.further = marker.name == "further"

    items: Any = [Item(size=size, way=way) for size in "abc" for way in (True, False)]
    mark_further(items)
    kept = [item.callspec.params for item in items if not item.further]
    assert len(kept) == 3  # as many as the longer parameter has values
    assert {case["size"] for case in kept} == set("abc")
    assert {case["way"] for case in kept} == {True, False}


@pytest.mark.parametrize(
    ("further", "again", "core", "others"),
    [(False, False, True, False), (False, True, True, False), (True, False, True, True),
     (True, True, False, True)],
)  # fmt: skip
def test_check_and_further_leave_out_no_lesson(
    further: bool, again: bool, core: bool, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(AGAIN_VARIABLE, raising=False)
    if again:
        monkeypatch.setenv(AGAIN_VARIABLE, "1")
    options = Namespace(further=further, lessons_only=False)
    found = {Path(path).as_posix() for path in chosen_lessons(options)}
    assert ("notebooks/03_loops.ipynb" in found) == core
    assert ("notebooks/further/03_more_on_loops.ipynb" in found) == others


def test_modules_with_most_slow_tests_come_first() -> None:
    class Item:
        def __init__(self, path: str, slow: bool) -> None:
            self.path, self.slow = Path(path), slow

        def get_closest_marker(self, name: str) -> Any:
            return name if self.slow and name == "slow" else None

    wanted = [("c", True), ("c", True), ("b", True), ("b", False), ("a", False), ("d", False)]
    items: Any = [Item(path, slow) for path, slow in sorted(wanted)]
    pytest_collection_modifyitems(items)
    assert [str(item.path) for item in items] == [path for path, _ in wanted]
