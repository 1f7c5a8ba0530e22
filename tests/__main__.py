"""Check everything: ``python -m tests``.

Linter, formatter and types; the unit tests; then every lesson, run again and compared with its
committed outputs.  The comparison is strict on Linux x86-64 with the versions of requirements.txt.
Elsewhere figures may rightly differ: there the lessons must run and their assertions must hold.
All parts run even when one fails; the last line counts the tests, and the exit code is 0 only
when nothing failed.  Arguments go to pytest, which then runs the unit tests alone.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from tests.support.notebooks import ROOT, lesson_paths

IN_PARALLEL = ["-n", "2", "--dist", "loadscope"]
NO_TESTS = 5  # pytest's exit code when it found none


@dataclass(frozen=True)
class Step:
    """A part of the check that has run: its name, seconds, exit code and counts of tests."""

    name: str
    seconds: float
    code: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def off_the_pins(requirements: str) -> list[str]:
    """List the installed packages that a requirements file's text does not allow.

    Parameters
    ----------
    requirements : str
        Lines of a requirements file; options such as ``-e .`` and comments are passed over.

    Returns
    -------
    list of str
        Such as ``"numpy 1.26.4 (here ~=2.4.0)"``; empty where all are as pinned.
    """
    found = []
    for line in requirements.splitlines():
        text = line.partition(" #")[0].strip()
        if not text or text.startswith(("#", "-")):
            continue
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            found.append(f"{text} (not understood)")
            continue
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        try:
            installed = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            found.append(f"{wanted.name} is not installed")
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            found.append(f"{wanted.name} {installed} (here {wanted.specifier})")
    return found


def comparison() -> tuple[bool, str]:
    """Decide whether the lessons' outputs are compared, and say why."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        return False, f"lax: {system} {machine}, not Linux x86-64"
    others = off_the_pins((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    if others:
        return False, f"lax: other versions than the tested ones: {', '.join(others)}"
    return True, "strict: Linux x86-64 with the tested versions"


def run(name: str, *command: str) -> Step:
    """Run a command of this Python from the project's root."""
    print(f"\n=== {name}: python -m {' '.join(command)}", flush=True)
    begun = time.perf_counter()
    code = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, stdin=subprocess.DEVNULL, check=False
    ).returncode
    return Step(name, time.perf_counter() - begun, code)


def run_pytest(name: str, *arguments: str) -> Step:
    """Run pytest and count its outcomes; to find no test is no failure here."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        step = run(name, "pytest", "-q", *arguments, f"--junit-xml={report}")
        counts = counted(report.read_text(encoding="utf-8")) if report.exists() else (0, 0, 0)
    code = 0 if step.code == NO_TESTS else step.code
    return Step(name, step.seconds, code, *counts)


def counted(report: str) -> tuple[int, int, int]:
    """Count passed, failed and skipped tests in a JUnit report; an error counts as failed."""
    passed = failed = skipped = 0
    for suite in ET.fromstring(report).iter("testsuite"):
        tests, errors, failures, skips = (
            int(suite.get(key, 0)) for key in ("tests", "errors", "failures", "skipped")
        )
        passed += tests - errors - failures - skips
        failed += errors + failures
        skipped += skips
    return passed, failed, skipped


def summarise(steps: list[Step]) -> int:
    """Print what each part came to and, last, the counts; return the exit code."""
    print("\n=== summary")
    for step in steps:
        tests = f"{step.passed} passed" if step.passed or step.failed or step.skipped else ""
        tests += f", {step.failed} failed" if step.failed else ""
        tests += f", {step.skipped} skipped" if step.skipped else ""
        verdict = "ok    " if step.code == 0 else "FAILED"
        print(f"{verdict} {step.seconds:7.1f} s  {step.name:<28} {tests}".rstrip())
    print(f"total  {sum(step.seconds for step in steps):7.1f} s")
    passed = sum(step.passed for step in steps)
    failed = sum(step.failed for step in steps)
    skipped = sum(step.skipped for step in steps)
    broken = any(step.code for step in steps)
    # A part that is no test (the linter, say) and failed must not hide behind "0 failed".
    failed = failed or sum(step.code != 0 for step in steps)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(broken)


def main(arguments: list[str] | None = None) -> int:
    """Run all parts, or the unit tests alone when pytest's arguments are given."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--lessons-only", action="store_true", help="only run the lessons again")
    parser.add_argument("--no-static", action="store_true", help="no linter, format and types")
    parser.add_argument("--no-browser", action="store_true", help="leave the browser tests out")
    options, rest = parser.parse_known_args(arguments)
    if rest:
        return summarise([run_pytest("unit tests", *rest)])
    steps: list[Step] = []
    if not (options.lessons_only or options.no_static):
        steps += [
            run("linter", "ruff", "check"),
            run("format", "ruff", "format", "--check"),
            run("types", "mypy"),
        ]
    if not options.lessons_only:
        unit = ["tests", *IN_PARALLEL, "--durations=10"]
        unit += ["--ignore=tests/browser"] if options.no_browser else []
        steps.append(run_pytest("unit tests", *unit))
    lessons = [str(path.relative_to(ROOT)) for path in lesson_paths()]
    if lessons:
        strict, why = comparison()
        print(f"\n=== lessons are compared {why}", flush=True)
        flags = ["--nbval" if strict else "--nbval-lax", "--nbval-current-env"]
        flags += ["--nbval-cell-timeout=300"]
        steps.append(run_pytest("lessons", *lessons, *IN_PARALLEL, *flags, "--durations=10"))
    else:
        print("\n=== there are no lessons yet")
    return summarise(steps)


if __name__ == "__main__":
    sys.exit(main())
