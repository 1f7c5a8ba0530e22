"""How many learners one machine holds: ``python -m tests.hub.sizing [--readme]``, as root on Linux.

Starts the real hub with 1, 3 and 5 learners in turn, who all run a lesson at the same time, and
prints what that took: the highest proportional set size (memory that several processes share counts
once in all), processor time, time to start a server, and time for the lesson.  Last it prints how
many learners this machine's memory would hold, and how many its processors serve at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

from lessons_lib.common.system import memory_limit
from tests.benchmarks import report
from tests.hub.classroom import Classroom, Learner, classroom, missing, processes_of
from tests.support.notebooks import LESSONS
from tests.tools.binder_check import proportional_bytes

KEPT_FREE = 0.2  # of the memory, for the system
POLL_SECONDS = 0.25
LESSON = "02_eager_and_graph_allocation"
HEADERS = (
    "learners", "a kernel", "a server", "hub and proxy", "in all", "processor time of a learner",
    "start of a server", "the lesson, all at once",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What a number of learners took: bytes (at the highest) and seconds, means over learners."""

    learners: int
    kernel_bytes: float
    server_bytes: float
    hub_bytes: float
    cpu_seconds: float
    start_seconds: float
    lesson_seconds: float

    @property
    def total_bytes(self) -> float:
        """Everything together."""
        return self.hub_bytes + self.learners * (self.kernel_bytes + self.server_bytes)


class _Watch(threading.Thread):
    """Notes the highest proportional set sizes of the learners' processes."""

    def __init__(self, room: Classroom) -> None:
        super().__init__(daemon=True)
        self._room = room
        self._done = threading.Event()
        self.kernels = self.servers = 0

    def run(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            kernels = servers = 0
            for name in self._room.passwords:
                for pid in processes_of(name):
                    if _is_kernel(pid):
                        kernels += proportional_bytes(pid)
                    else:
                        servers += proportional_bytes(pid)
            self.kernels = max(self.kernels, kernels)
            self.servers = max(self.servers, servers)

    def stop(self) -> None:
        self._done.set()
        self.join()


def _is_kernel(pid: int) -> bool:
    try:
        return any("ipykernel" in part for part in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def measure(learners: int, lesson: str = LESSON) -> Row:
    """Start a class of so many and measure it."""
    notebook = nbformat.read(LESSONS / f"{lesson}.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]

    def follow(person: Learner) -> float:
        begun = time.perf_counter()
        for said in person.run(*cells):
            if said.error:
                raise RuntimeError(f"the lesson fails for {person.name}: {said.error}")
        return time.perf_counter() - begun

    with (
        tempfile.TemporaryDirectory() as folder,
        classroom(Path(folder), learners) as room,
    ):
        people = [room.login(name) for name in room.passwords]
        for person in people:
            person.start_kernel()
        watch = _Watch(room)
        watch.start()
        try:
            with ThreadPoolExecutor(learners) as pool:
                lessons = list(pool.map(follow, people))
        finally:
            watch.stop()
        return _row(room, watch, [person.start_seconds for person in people], lessons)


def _row(room: Classroom, watch: _Watch, starts: list[float], lessons: list[float]) -> Row:
    own = {pid for name in room.passwords for pid in processes_of(name)}
    times = [psutil.Process(pid).cpu_times() for pid in own]
    hub = psutil.Process(room.process.pid)
    rest = [hub, *(child for child in hub.children(recursive=True) if child.pid not in own)]
    count = len(room.passwords)
    return Row(
        learners=count,
        kernel_bytes=watch.kernels / count,
        server_bytes=watch.servers / count,
        hub_bytes=sum(proportional_bytes(process.pid) for process in rest),
        cpu_seconds=sum(time.user + time.system for time in times) / count,
        start_seconds=sum(starts) / count,
        lesson_seconds=sum(lessons) / count,
    )


def table(rows: Iterable[Row], memory: int, processors: int, lesson: str = LESSON) -> str:
    """Write the rows as a table, and where this machine ends."""
    rows = list(rows)
    cells = []
    for row in rows:
        sizes = (row.kernel_bytes, row.server_bytes, row.hub_bytes, row.total_bytes)
        seconds = (row.cpu_seconds, row.start_seconds, row.lesson_seconds)
        cells.append(
            [
                str(row.learners),
                *(f"≈ {size / 2**20:.0f} MiB" for size in sizes),
                *(f"≈ {second:.0f} s" for second in seconds),
            ]
        )
    text = report.table(HEADERS, cells)
    if len(rows) < 2:
        return text
    first, last = rows[0], rows[-1]
    each = (last.total_bytes - first.total_bytes) / (last.learners - first.learners)
    room = memory * (1 - KEPT_FREE) - (last.total_bytes - last.learners * each)
    return (
        f"{text}\n\nAll learners ran lesson {lesson} at once. One more takes "
        f"≈ {each / 2**20:.0f} MiB, so {memory / 2**30:.0f} GiB, of which {KEPT_FREE:.0%} are kept "
        f"free, hold ≈ {max(0, int(room / each))} learners. Their processors end sooner: a lesson "
        f"that one learner runs in ≈ {first.lesson_seconds:.0f} s takes "
        f"≈ {last.lesson_seconds:.0f} s when {last.learners} press Run All together on "
        f"{processors} processors. One cell at a time, as people read, is far less."
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.sizing", description=__doc__)
    parser.add_argument("learners", nargs="*", type=int, default=[1, 3, 5])
    parser.add_argument("--lesson", default=LESSON, help="its file's name without .ipynb")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    options = parser.parse_args(arguments)
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 1
    rows = [measure(count, options.lesson) for count in options.learners]
    text = table(rows, memory_limit()[0], os.cpu_count() or 1, options.lesson)
    print(text)
    if options.readme:
        report.put(f"{text}\n\n{report.origin('tensorflow', 'jupyterhub')}", "sizing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
