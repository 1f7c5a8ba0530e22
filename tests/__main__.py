"""Check everything: ``python -m tests``; or what an edit needs: ``python -m tests --quick``.

Linter, formatter, types and layers; the unit tests; then every core lesson, run again and compared
with its committed outputs.  The comparison is strict on Linux x86-64 with the versions of
requirements.txt.  Elsewhere figures may rightly differ: there the lessons must run and their
assertions must hold.  All parts run even when one fails; the last line counts the tests, and the
exit code is 0 only when nothing failed.  Other arguments go to pytest, which then runs alone.

``--quick`` leaves out the lessons and the tests that are marked ``slow`` or ``child``.
``--further`` runs what the check leaves out: the tests that are marked ``further``, each one more
case of a kind that the check tries, and all lessons, those in ``notebooks/further`` too, with a
second run of each section by itself.  ``.ci/run`` runs both, and tests in a browser and with a hub;
it sets ``LESSONS_AGAIN``, so that the check runs the core lessons twice and they are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from tests.support.lesson_runs import AGAIN_VARIABLE, asked_again
from tests.support.notebooks import LESSONS, ROOT, lesson_paths

# Each module is run by one worker, in the order that conftest.py gives: the slow ones first.
IN_PARALLEL = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
_LINT_IMPORTS = "from importlinter.cli import lint_imports_command as check; check()"
STATIC = (
    ("linter", "-m", "ruff", "check"),
    ("format", "-m", "ruff", "format", "--check"),
    ("types", "-m", "mypy"),
    ("layers", "-c", _LINT_IMPORTS, "--no-logo"),
)
#: How many of the slowest modules are listed.
LISTED = 10
#: Packages of whose branches the unit tests reach at least so many percent.
LEAST_REACHED = {"recording": 95, "instruments": 95}
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
    modules: tuple[tuple[float, str], ...] = ()


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


def run(name: str, *command: str, keep: bool = False) -> Step:
    """Run a command of this Python from the project's root; its output may be kept until it ends.

    Parameters
    ----------
    name : str
        Of the part, as the summary lists it.
    *command : str
        What Python gets.
    keep : bool
        For a command beside another one, whose output it would be mixed with.
    """
    title = f"\n=== {name}: python {' '.join(command)}\n"
    if not keep:
        print(title, end="", flush=True)
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if keep else None,
        stderr=subprocess.STDOUT if keep else None,
        text=True,
        check=False,
    )
    if keep:
        print(f"{title}{done.stdout}", end="", flush=True)
    return Step(name, time.perf_counter() - begun, done.returncode)


def run_pytest(name: str, *arguments: str, command: tuple[str, ...] = ("-m",)) -> Step:
    """Run pytest and count its outcomes; to find no test is no failure here."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        step = run(name, *command, "pytest", "-q", *arguments, f"--junit-xml={report}")
        text = report.read_text(encoding="utf-8") if report.exists() else "<testsuites/>"
    code = 0 if step.code == NO_TESTS else step.code
    return Step(name, step.seconds, code, *counted(text), slowest_modules(text))


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


def slowest_modules(report: str) -> tuple[tuple[float, str], ...]:
    """Give the modules of a JUnit report that took longest, with their seconds, longest first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ET.fromstring(report).iter("testcase"):
        # A test in a class has the class at the end of its module's name.
        module = re.sub(r"(\.[A-Z]\w*)+$", "", case.get("classname", ""))
        seconds[module] += float(case.get("time", 0))
    longest = sorted(((took, module) for module, took in seconds.items()), reverse=True)
    return tuple(longest[:LISTED])


def summarise(steps: list[Step], seconds: float) -> int:
    """Print what each part came to, what all took and, last, the counts; return the exit code."""
    print("\n=== summary")
    for step in steps:
        tests = f"{step.passed} passed" if step.passed or step.failed or step.skipped else ""
        tests += f", {step.failed} failed" if step.failed else ""
        tests += f", {step.skipped} skipped" if step.skipped else ""
        verdict = "ok    " if step.code == 0 else "FAILED"
        print(f"{verdict} {step.seconds:7.1f} s  {step.name:<28} {tests}".rstrip())
        for of_module, module in step.modules:
            print(f"       {of_module:7.1f} s    {module}")
    print(f"total  {seconds:7.1f} s")
    passed = sum(step.passed for step in steps)
    failed = sum(step.failed for step in steps)
    skipped = sum(step.skipped for step in steps)
    broken = any(step.code for step in steps)
    # A part that is no test (the linter, say) and failed must not hide behind "0 failed".
    failed = failed or sum(step.code != 0 for step in steps)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(broken)


def measured_coverage() -> list[Step]:
    """Run all unit tests, and show which lines and branches of the package they reach."""
    tests = run_pytest("unit tests", "tests", *IN_PARALLEL, command=("-m", "coverage", "run", "-m"))
    steps = [
        tests,
        run("data of all processes", "-m", "coverage", "combine", "-q"),
        run("coverage", "-m", "coverage", "report"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        steps.append(run("branches", "-m", "coverage", "json", "-q", "-o", str(path)))
        report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"files": {}}
    for package, least in LEAST_REACHED.items():
        reached, of = branches(report, package)
        percent = 100 * reached / max(of, 1)
        print(f"lessons_lib/{package}: {reached} of {of} branches, {percent:.1f} %")
        steps.append(Step(f"branches of {package}", 0.0, int(percent < least)))
    return steps


def branches(report: dict[str, Any], package: str) -> tuple[int, int]:
    """Count the branches of a package in coverage.py's JSON report: those reached, and all."""
    folder = PurePath("lessons_lib", package)
    counts = [
        file["summary"]
        for name, file in report["files"].items()
        if PurePath(name).is_relative_to(folder)
    ]
    reached, of = (sum(c[key] for c in counts) for key in ("covered_branches", "num_branches"))
    return reached, of


def chosen(options: argparse.Namespace) -> str:
    """Give the marker expression of the unit tests that are run."""
    if options.further:
        return "further"
    return "not further and not slow and not child" if options.quick else "not further"


def chosen_lessons(options: argparse.Namespace) -> list[str]:
    """Give the lessons that are run: the check runs the core ones, and leaves the others."""
    core = not options.further or not asked_again()
    others = options.further or options.lessons_only
    paths = [path for path in lesson_paths() if (core if path.parent == LESSONS else others)]
    # The last ones take longest; they come first, so that both workers end together.
    return [str(path.relative_to(ROOT)) for path in reversed(paths)]


def main(arguments: list[str] | None = None) -> int:
    """Run all parts, or the unit tests alone when pytest's arguments are given."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="what an edit needs, in 90 s")
    parser.add_argument("--further", action="store_true", help="what the check leaves out")
    parser.add_argument("--lessons-only", action="store_true", help="only run the lessons again")
    parser.add_argument("--no-static", action="store_true", help="no linter, types and layers")
    parser.add_argument("--coverage", action="store_true", help="unit tests, and what they reach")
    options, rest = parser.parse_known_args(arguments)
    begun = time.perf_counter()
    if rest:
        steps = [run_pytest("unit tests", *rest)]
    elif options.coverage:
        steps = measured_coverage()
    else:
        steps = checked(options)
    return summarise(steps, time.perf_counter() - begun)


def checked(options: argparse.Namespace) -> list[Step]:
    """Run the parts that are asked for; what needs one core alone runs beside the unit tests."""
    static = () if options.lessons_only or options.no_static or options.further else STATIC
    steps: list[Step] = []
    with ThreadPoolExecutor(1) as beside:
        read = [beside.submit(run, *part, keep=True) for part in static]
        if not options.lessons_only:
            steps.append(run_pytest("unit tests", "tests", *IN_PARALLEL, "-m", chosen(options)))
        lessons = [] if options.quick else chosen_lessons(options)
        if lessons:
            if options.further:
                os.environ[AGAIN_VARIABLE] = "1"  # pytest, which reads it, is a process of its own
            strict, why = comparison()
            print(f"\n=== lessons are compared {why}", flush=True)
            flags = ["--nbval" if strict else "--nbval-lax", "--nbval-current-env"]
            flags += ["--nbval-cell-timeout=300"]
            steps.append(run_pytest("lessons", *lessons, *IN_PARALLEL, *flags))
        return [*(part.result() for part in read), *steps]


if __name__ == "__main__":
    sys.exit(main())
