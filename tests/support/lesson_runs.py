"""How pytest runs the lessons: as a learner does, and with a limit on memory.

``notebooks/conftest.py`` takes the hooks from here, so they count however nbval is called.

- Cells run with history, as in JupyterLab.  nbval switches it off; every cell would then be
  ``In [1]``, and a result shown by one cell would be let go by the next.
- With ``LESSONS_AGAIN`` in the environment, a lesson then runs again in the same kernel, section by
  section, each without the names that others made; where that fails, the lesson's last cell fails.
- After each cell the kernel's highest resident memory is read from the operating system (Linux
  only); over the limit the cell fails.  Run time is printed and never judged here, because two
  lessons run at once; ``python -m tests.tools.execute --check`` judges it.
"""

from __future__ import annotations

import ast
import os
import re
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.notebooks import (
    MAX_RESIDENT_BYTES,
    imports_tensorflow,
    peak_resident_bytes,
)
from tests.support.sections import AGAIN, KEEP_ONLY, NAMES, NameBook

PEAK, IMPORTS, SECOND = "peak_resident_bytes", "imports_tensorflow", "second_run_seconds"
CELL_TIMEOUT = 300
AGAIN_VARIABLE = "LESSONS_AGAIN"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Lesson:
    """What a lesson has taken so far: seconds, of these for importing, and bytes at its highest."""

    seconds: float = 0.0
    import_seconds: float = 0.0
    second_seconds: float = 0.0
    peak_bytes: int = 0


def limit_bytes() -> int:
    """Give the limit on a kernel's resident bytes; the plugin's own tests set a lower one."""
    return int(os.environ.get("LESSON_LIMIT_BYTES", MAX_RESIDENT_BYTES))


def asked_again() -> bool:
    """Tell whether each section is to run a second time."""
    return bool(os.environ.get(AGAIN_VARIABLE))


def keep_history(client: Any) -> None:
    """Have a kernel's client run cells with history, whatever its caller asks for."""
    if "execute" in vars(client):
        return  # done before the lesson's first cell
    without = client.execute

    def execute(code: str, **options: Any) -> Any:
        return without(code, **(options | {"store_history": True}))

    client.execute = execute


def ask(kernel: Any, code: str, **options: Any) -> dict[str, Any]:
    """Run code in a kernel without a trace in its history; give the content of its reply."""
    client = kernel.kc
    asked = type(client).execute(
        client, code, store_history=False, allow_stdin=False, stop_on_error=False, **options
    )
    while True:
        reply = kernel.get_message(stream="shell", timeout=CELL_TIMEOUT)
        if reply["parent_header"].get("msg_id") == asked:
            break
    kernel.await_idle(asked, CELL_TIMEOUT)
    content: dict[str, Any] = reply["content"]
    return content


def note_names(item: Any) -> None:
    """Note which names a section has made, when its last cell has run."""
    notebook = item.parent.nb
    if not hasattr(item.parent, "name_book"):
        item.parent.name_book = NameBook.of(notebook)
    places = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    number = item.parent.name_book.ends(places[item.cell_num])
    if number is not None:
        reply = ask(item.parent.kernel, "", user_expressions={"names": NAMES})
        text = reply["user_expressions"]["names"]["data"]["text/plain"]
        item.parent.name_book.note(number, ast.literal_eval(text))


def run_again(item: Any) -> None:
    """Run every section of a lesson again; raise where one fails."""
    notebook, kernel, book = item.parent.nb, item.parent.kernel, item.parent.name_book
    for number, part in enumerate(book.parts):
        if number not in book.made:
            return  # only some cells were run
        ask(kernel, KEEP_ONLY.format(kept=book.kept(number)))
        for place in part.cells:
            cell = notebook.cells[place]
            reply = ask(kernel, cell.source)
            fails = "raises-exception" in cell.metadata.get("tags", [])
            if reply["status"] != "ok" and not fails:
                trace = _COLOURS.sub("", "\n".join(reply.get("traceback", [])))
                raise AssertionError(f"{AGAIN.format(title=part.title)}\n{cell.source}\n{trace}")


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
    if not asked_again():
        return
    note_names(item)
    code = [cell for cell in item.parent.nb.cells if cell.cell_type == "code"]  # type: ignore[union-attr]
    if item.cell is code[-1]:  # type: ignore[attr-defined]
        begun = time.perf_counter()
        run_again(item)
        item.user_properties.append((SECOND, time.perf_counter() - begun))


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
            lesson.second_seconds += properties.get(SECOND, 0.0)
            lesson.peak_bytes = max(lesson.peak_bytes, properties.get(PEAK, 0))
    if not lessons:
        return
    terminalreporter.section("lessons: run time and highest resident memory")
    for name, lesson in sorted(lessons.items()):
        resident = f"{lesson.peak_bytes / 2**20:6.0f} MiB" if lesson.peak_bytes else "   unknown"
        beyond = lesson.seconds - lesson.import_seconds - lesson.second_seconds
        again = f"again {lesson.second_seconds:4.1f} s, " if lesson.second_seconds else ""
        terminalreporter.write_line(
            f"{name:<58} {beyond:6.1f} s + {lesson.import_seconds:4.1f} s of import, "
            f"{again}{resident}"
        )
