"""Run lessons again, store outputs: ``python -m tests.tools.execute notebooks/02_*.ipynb``.

Each lesson runs from top to bottom in a fresh kernel of this Python.  What would differ from one
machine or run to the next is left out of the file: time stamps, the state of widgets, the version
of Python.  A lesson that fails is not written.  Printed are its run time without the cell that
imports TensorFlow (by the clock on the wall or the processor's, whichever is less), and the
kernel's highest resident memory; over 15 s or 1.2 GiB the command fails, as it does for any fault
of form that the tests would find.  Each section then runs once more, without the names that other
sections made.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import copy
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import nbformat.v4
import psutil
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from tests.support.notebooks import (
    MAX_RESIDENT_BYTES,
    MAX_SECONDS,
    METADATA,
    faults,
    imports_tensorflow,
    nobodys_progress,
    peak_resident_bytes,
)
from tests.support.sections import AGAIN, KEEP_ONLY, NAMES, NameBook

CELL_TIMEOUT = 300
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class ThisPython(KernelSpecManager):
    """Whatever kernels a user has installed, run the Python that runs this."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv += ["--log-level=ERROR"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


@dataclass(frozen=True)
class Run:
    """A finished run: seconds beyond the import, and peak resident bytes (None: unknown)."""

    notebook: Any
    seconds: float
    import_seconds: float
    peak_bytes: int | None


class _Client(NotebookClient):
    """Note how long each cell takes; the figures go to the report, never into the file."""

    seconds: dict[int, float]

    async def async_execute_cell(
        self, cell: Any, cell_index: int, *args: Any, **options: Any
    ) -> Any:
        begun, used = time.perf_counter(), self._processor_seconds()
        try:
            return await super().async_execute_cell(cell, cell_index, *args, **options)
        finally:
            # On a machine that others use, too, a cell waits; what it used is then the smaller.
            took = math.inf if math.isinf(used) else self._processor_seconds() - used
            self.seconds[cell_index] = min(time.perf_counter() - begun, took)

    def _processor_seconds(self) -> float:
        """Give the processor time of the kernel so far; without end when it is unknown."""
        try:
            times = psutil.Process(self.km.provisioner.pid).cpu_times()
        except (psutil.Error, AttributeError, TypeError):
            return math.inf
        return float(times.user + times.system)


async def _side(client: NotebookClient, code: str) -> str:
    """Run code in the kernel without a trace in its history; give what it prints."""
    cell, first = nbformat.v4.new_code_cell(code), client.nb.cells[0]
    await NotebookClient.async_execute_cell(client, cell, 0, store_history=False)
    client.nb.cells[0] = first
    return "".join(str(output.get("text", "")) for output in cell.outputs)


async def _names(client: NotebookClient) -> list[str]:
    found: list[str] = ast.literal_eval(await _side(client, f"print({NAMES})"))
    return found


async def _again(client: NotebookClient, notebook: Any, book: NameBook) -> None:
    """Run each section a second time, without the names of the others."""
    for number, part in enumerate(book.parts):
        await _side(client, KEEP_ONLY.format(kept=book.kept(number)))
        for place in part.cells:
            cell = notebook.cells[place]
            cell.outputs = []
            try:
                await NotebookClient.async_execute_cell(client, cell, place, store_history=False)
            except CellExecutionError as error:
                error.traceback = f"{AGAIN.format(title=part.title)}\n{error.traceback}"
                raise


def run(path: Path, *, twice: bool = False) -> Run:
    """Run a notebook in a fresh kernel, in its own folder.

    Parameters
    ----------
    path : Path
        The notebook.
    twice : bool
        Whether each section then runs again, by itself; its seconds are not counted.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails that has no tag ``raises-exception``.
    nbclient.exceptions.DeadKernelError
        If the kernel dies.
    """
    notebook = nbformat.read(path, as_version=4)
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython())
    client = _Client(
        notebook,
        km=manager,
        timeout=CELL_TIMEOUT,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    book = NameBook.of(notebook)
    client.owns_km = True  # so that the kernel is shut down at the end, whatever happens
    client.seconds = {}
    client.reset_execution_trackers()
    peak = None

    async def whole() -> None:
        nonlocal peak
        count = 0
        async with client.async_setup_kernel():
            for index, cell in enumerate(notebook.cells):
                count += cell.cell_type == "code" and bool(cell.source.strip())
                await client.async_execute_cell(cell, index, execution_count=count)
                if (number := book.ends(index)) is not None and twice:
                    book.note(number, await _names(client))
            peak = peak_resident_bytes(getattr(manager.provisioner, "pid", None))
            if twice:
                client.nb = copy.deepcopy(notebook)
                await _again(client, client.nb, book)

    with nobodys_progress():
        asyncio.run(whole())
    importing = next(
        (
            index
            for index, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and imports_tensorflow(cell.source)
        ),
        None,
    )
    first = client.seconds.get(importing, 0.0) if importing is not None else 0.0
    return Run(notebook, sum(client.seconds.values()) - first, first, peak)


def clean(notebook: Any) -> None:
    """Take out of an executed notebook, in place, all that two runs would differ in for no reason.

    A widget's live view is left out too: without its state it shows an error to those who open
    the file.  Its text or HTML form stays.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for key in ("ExecuteTime", "collapsed", "execution", "scrolled", "trusted"):
            cell.metadata.pop(key, None)
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            if output.output_type in ("display_data", "execute_result"):
                output.data.pop(WIDGET_VIEW, None)
                output.metadata = nbformat.from_dict({})
        cell.outputs = [
            output for output in cell.outputs if not ("data" in output and not output.data)
        ]


def write(notebook: Any, path: Path) -> None:
    """Write a notebook at once or not at all."""
    nbformat.validate(notebook)
    part = path.with_name(f".{path.name}.part")
    try:
        nbformat.write(notebook, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def over_limits(result: Run) -> list[str]:
    """Say which of a lesson's limits a run went over."""
    found = []
    if result.seconds > MAX_SECONDS:
        found.append(f"runs {result.seconds:.1f} s beyond the import; at most {MAX_SECONDS:.0f} s")
    if result.peak_bytes is not None and result.peak_bytes > MAX_RESIDENT_BYTES:
        peak, most = (size / 1024**3 for size in (result.peak_bytes, MAX_RESIDENT_BYTES))
        found.append(f"takes {peak:.2f} GiB of resident memory; at most {most:.1f} GiB")
    return found


def _report(path: Path, result: Run) -> None:
    resident = (
        "unknown here" if result.peak_bytes is None else f"{result.peak_bytes / 2**20:.0f} MiB"
    )
    print(
        f"{path}: {result.seconds:.1f} s beyond the import ({result.import_seconds:.1f} s), "
        f"peak resident memory {resident}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the lessons named on the command line; return 0, or 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.execute", description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="run only; write nothing")
    options = parser.parse_args(arguments)
    complaints: list[str] = []
    for path in options.notebooks:
        try:
            result = run(path, twice=True)
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            complaints.append(f"{path}: not written: {str(error).strip()}")
            continue
        _report(path, result)
        problems = over_limits(result)
        if not options.check:
            clean(result.notebook)
            write(result.notebook, path)
            problems += faults(path)
        complaints += [f"{path}: {problem}" for problem in problems]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
