"""Error of each tool against the true peak: six workloads, each in a first and a repeated run.

``python -m tests.benchmarks.accuracy [--readme]``.  Each pair of tool and workload has a process
of its own, since what a first run leaves behind changes what the next one can show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.tools import TOOLS, installed
from tests.benchmarks.workloads import WORKLOADS

Found = dict[str, dict[str, tuple[float, float]]]


def child(tool: str, workload: str) -> list[float]:
    """Measure in this process: the relative errors of a first and of a repeated run."""
    if tool == "lessons_lib":
        import lessons_lib as ll

        tf: Any = ll.runtime.tf
    else:
        import tensorflow

        tf = tensorflow
    call, true = WORKLOADS[workload](tf)
    measure = TOOLS[tool][1]
    return [measure(call) / true - 1 for _ in range(2)]


def measure_all() -> Found:
    """Measure each pair of tool and workload in a process of its own."""
    found: Found = {}
    for tool in installed():
        for workload in WORKLOADS:
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--child", tool, workload],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                print(f"{tool}, {workload}: {done.stderr.strip().splitlines()[-1:]}")
                continue
            first, again = json.loads(done.stdout.splitlines()[-1])
            found.setdefault(tool, {})[workload] = first, again
            print(f"{tool:16} {workload:24} {percent(first):>8} {percent(again):>8}", flush=True)
    return found


def percent(error: float) -> str:
    """Write a relative error; what is exact to the byte is a bare 0."""
    return "0" if error == 0 else f"≈ {error:+.1%}"


def worst(errors: list[float]) -> str:
    """Write the largest of several errors."""
    return percent(max(errors, key=abs))


def tables(found: Found) -> str:
    """Write the error of each tool at each workload, first and repeated."""
    headers = ["error of the peak: first run, again", *WORKLOADS, "worst"]
    rows = [
        [
            tool,
            *(", ".join(map(percent, errors[w])) if w in errors else "failed" for w in WORKLOADS),
            worst([e for pair in errors.values() for e in pair]),
        ]
        for tool, errors in found.items()
    ]
    packages = [name for name in found if name not in ("lessons_lib", "tracemalloc")]
    return f"{report.table(headers, rows)}\n\n{report.origin('tensorflow', *packages)}"


def main() -> None:
    """Measure, print, and write into the README if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=2, metavar=("TOOL", "WORKLOAD"), help=argparse.SUPPRESS)
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    text = tables(measure_all())
    print(f"\n{text}")
    if options.readme:
        report.put(text, "accuracy")


if __name__ == "__main__":
    main()
