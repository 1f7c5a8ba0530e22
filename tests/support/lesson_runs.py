"""How pytest runs the lessons: as a learner does, and with a limit on memory.

``notebooks/conftest.py`` takes the hooks from here, so they count however nbval is called.

- Cells run with history, as in JupyterLab.  nbval switches it off; every cell would then be
  ``In [1]``, and a result shown by one cell would be let go by the next.
- After each cell the kernel's highest resident memory is read from the operating system (Linux
  only); over the limit the cell fails.  Run time is printed and never judged here, because two
  lessons run at once; ``python -m tests.tools.execute --check`` judges it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.notebooks import MAX_RESIDENT_BYTES, imports_tensorflow, peak_resident_bytes

PEAK, IMPORTS = "peak_resident_bytes", "imports_tensorflow"


@dataclass
class Lesson:
    """What a lesson has taken so far: seconds, of these for importing, and bytes at its highest."""

    seconds: float = 0.0
    import_seconds: float = 0.0
    peak_bytes: int = 0


def limit_bytes() -> int:
    """Give the limit on a kernel's resident bytes; the plugin's own tests set a lower one."""
    return int(os.environ.get("LESSON_LIMIT_BYTES", MAX_RESIDENT_BYTES))


def keep_history(client: Any) -> None:
    """Have a kernel's client run cells with history, whatever its caller asks for."""
    if "execute" in vars(client):
        return  # done before the lesson's first cell
    without = client.execute

    def execute(code: str, **options: Any) -> Any:
        return without(code, **(options | {"store_history": True}))

    client.execute = execute


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Run a cell; then read its kernel's memory, and fail over the limit."""
    kernel = getattr(item.parent, "kernel", None)
    if kernel is None:
        return (yield)
    keep_history(kernel.kc)
    yield
    if imports_tensorflow(item.cell.source):  # type: ignore[attr-defined]
        item.user_properties.append((IMPORTS, True))
    peak = peak_resident_bytes(getattr(kernel.km.provisioner, "pid", None))
    if peak is not None:
        item.user_properties.append((PEAK, peak))
        if peak > limit_bytes():
            raise AssertionError(
                f"the lesson took {peak / 2**20:.0f} MiB of resident memory by the end of this "
                f"cell; at most {limit_bytes() / 2**20:.0f} MiB"
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each lesson."""
    lessons: defaultdict[str, Lesson] = defaultdict(Lesson)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            name = report.location[0]
            if report.when != "call" or not name.endswith(".ipynb"):
                continue
            properties = dict(report.user_properties)
            lesson = lessons[name]
            lesson.seconds += report.duration
            if properties.get(IMPORTS) and not lesson.import_seconds:
                lesson.import_seconds = report.duration
            lesson.peak_bytes = max(lesson.peak_bytes, properties.get(PEAK, 0))
    if not lessons:
        return
    terminalreporter.section("lessons: run time and highest resident memory")
    for name, lesson in sorted(lessons.items()):
        resident = f"{lesson.peak_bytes / 2**20:6.0f} MiB" if lesson.peak_bytes else "   unknown"
        beyond = lesson.seconds - lesson.import_seconds
        terminalreporter.write_line(
            f"{name:<58} {beyond:6.1f} s + {lesson.import_seconds:4.1f} s of import {resident}"
        )
