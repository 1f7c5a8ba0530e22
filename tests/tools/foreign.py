"""Run Keras' own tests bare and inside recordings: none may fail only when it is recorded.

``python -m tests.tools.foreign FOLDER [PART ...]`` with a folder that holds a checkout of Keras of
the installed version; nothing is downloaded.  A part is a folder below ``keras/src``.  Tests of
other people are the strictest users: they look at what is kept, at names, errors and threads.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PARTS = (
    "models", "optimizers", "callbacks", "layers/rnn", "layers/attention",
    "layers/normalization", "layers/core", "backend/tensorflow",
)  # fmt: skip
#: Tests that start TensorFlow's profiler themselves, of which there is only one.
PROFILING = re.compile(r"test_TensorBoard_(?:auto_trace|autoTrace|.*[Pp]rofil)")


def outcomes(folder: Path, parts: list[str], recorded: bool) -> dict[str, str]:
    """Run tests; give the outcome of each by its name: ``passed``, ``failed`` or ``skipped``."""
    plugin = ["-p", "tests.support.recorded_tests"] if recorded else []
    paths = [str(Path("keras", "src", part)) for part in parts]
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        # Names must not depend on settings that lie in a folder above.
        where = ["-p", "no:cacheprovider", f"--rootdir={folder}"]
        command = [sys.executable, "-m", "pytest", "-q", *where, *plugin, *paths]
        subprocess.run(
            [*command, f"--junitxml={report}"],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "KERAS_BACKEND": "tensorflow",
                "TF_CPU_ALLOCATOR_USE_BFC": "1",
            },
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if not report.exists():
            raise SystemExit(f"pytest wrote no report: try `{' '.join(command)}` in {folder}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    kinds = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found: dict[str, str] = {}
    for case in cases:
        outcome = next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
        name = f"{case.get('classname')}::{case.get('name')}"
        # A test that failed, and then in its fixtures again, is there twice.
        if found.get(name) != "failed":
            found[name] = outcome
    return found


def installed_version(folder: Path) -> tuple[str, str]:
    """Give the version of the checkout, and of the Keras that is installed."""
    text = (folder / "keras" / "src" / "version.py").read_text(encoding="utf-8")
    match = re.search(r'__version__ = "([^"]+)"', text)
    asked = "from importlib.metadata import version; print(version('keras'))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return match[1] if match else "", done.stdout.strip()


def main() -> int:
    """Compare both runs; give the number of tests that fail only when they are recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    given = parser.parse_args()
    here, installed = installed_version(given.folder)
    if here != installed:
        print(f"{given.folder} is Keras {here}, but {installed} is installed: check that out")
        return 1
    bare = outcomes(given.folder, given.parts, recorded=False)
    recorded = outcomes(given.folder, given.parts, recorded=True)
    for name, found in (("bare", bare), ("recorded", recorded)):
        counts = {
            kind: list(found.values()).count(kind) for kind in ("passed", "failed", "skipped")
        }
        print(f"{name}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    worse = [
        test
        for test, outcome in bare.items()
        if outcome == "passed" and recorded.get(test) != "passed" and not PROFILING.search(test)
    ]
    for test in worse:
        print(f"{recorded.get(test, 'missing')} when it is recorded: {test}")
    return min(len(worse), 100)


if __name__ == "__main__":
    sys.exit(main())
