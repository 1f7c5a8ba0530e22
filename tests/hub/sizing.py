"""How many learners one machine holds: ``python -m tests.hub.sizing``, as root on Linux.

Starts the real hub with 1, 3 and 5 learners in turn, has each run the first lesson, and prints what
that took: proportional set size (memory that several processes share counts once in all), processor
time and time to start.  Last it prints how many learners this machine's memory would hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

from lessons_lib.preflight import memory_limit
from tests.binder_check import proportional_bytes
from tests.hub.classroom import Classroom, classroom, missing, processes_of
from tests.notebooks import LESSONS

KEPT_FREE = 0.2  # of the memory, for the system and for peaks
LESSON = LESSONS / "00_start_here.ipynb"


@dataclass(frozen=True)
class Row:
    """What a number of learners took: bytes and seconds, means over the learners."""

    learners: int
    kernel_bytes: float
    server_bytes: float
    hub_bytes: float
    cpu_seconds: float
    start_seconds: float

    @property
    def total_bytes(self) -> float:
        """Everything together."""
        return self.hub_bytes + self.learners * (self.kernel_bytes + self.server_bytes)


def measure(learners: int) -> Row:
    """Start a class of so many and measure it."""
    notebook = nbformat.read(LESSON, as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    with (
        tempfile.TemporaryDirectory() as folder,
        classroom(Path(folder), learners) as room,
    ):
        people = [room.login(name) for name in room.passwords]
        for person in people:
            person.start_kernel()
            for said in person.run(*cells):
                if said.error:
                    raise RuntimeError(f"the lesson fails for {person.name}: {said.error}")
        time.sleep(1)  # what ends with the last cell has ended
        return _row(room, [person.start_seconds for person in people])


def _row(room: Classroom, starts: list[float]) -> Row:
    kernels, servers, cpu = 0, 0, 0.0
    for name in room.passwords:
        for pid in processes_of(name):
            process = psutil.Process(pid)
            size = proportional_bytes(pid)
            times = process.cpu_times()
            cpu += times.user + times.system
            if any("ipykernel" in part for part in process.cmdline()):
                kernels += size
            else:
                servers += size
    own = {pid for name in room.passwords for pid in processes_of(name)}
    hub = psutil.Process(room.process.pid)
    rest = [hub, *(child for child in hub.children(recursive=True) if child.pid not in own)]
    count = len(room.passwords)
    return Row(
        learners=count,
        kernel_bytes=kernels / count,
        server_bytes=servers / count,
        hub_bytes=sum(proportional_bytes(process.pid) for process in rest),
        cpu_seconds=cpu / count,
        start_seconds=sum(starts) / count,
    )


def table(rows: Iterable[Row], memory: int) -> str:
    """Write the rows as a table, and where this machine ends."""
    rows = list(rows)
    lines = ["learners  kernel each  server each      hub    total   CPU each   start"]
    for row in rows:
        sizes = (row.kernel_bytes, row.server_bytes, row.hub_bytes, row.total_bytes)
        kernel, server, hub, total = (f"{size / 2**20:.0f} MiB" for size in sizes)
        lines.append(
            f"{row.learners:>8}  {kernel:>11}  {server:>11}  {hub:>7}  {total:>7}  "
            f"{row.cpu_seconds:>6.1f} s  {row.start_seconds:>4.1f} s"
        )
    if len(rows) > 1:
        first, last = rows[0], rows[-1]
        each = (last.total_bytes - first.total_bytes) / (last.learners - first.learners)
        room = memory * (1 - KEPT_FREE) - (last.total_bytes - last.learners * each)
        lines.append(
            f"one more learner takes ≈ {each / 2**20:.0f} MiB; {memory / 2**30:.0f} GiB, of which "
            f"{KEPT_FREE:.0%} are kept free, hold ≈ {max(0, int(room / each))} learners"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.sizing", description=__doc__)
    parser.add_argument("learners", nargs="*", type=int, default=[1, 3, 5])
    options = parser.parse_args(arguments)
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 1
    print(table([measure(count) for count in options.learners], memory_limit()[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
