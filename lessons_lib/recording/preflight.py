"""`preflight`: whether figures are exact in this process, found out by trying.

Two tensors, of 200 KiB and of 1 MiB, are made while the profiler runs, and both are looked for:
settings can be right and the allocator still be another one.  Sizes are bytes.
"""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from typing import Final

import psutil

from lessons_lib.common import runtime
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.recording.profiler import MemoryEvent, Profiler

_PROBES: Final = (200 * KIB, MIB)


@dataclass(frozen=True)
class Exactness:
    """What the probe found.

    Attributes
    ----------
    exact : bool
        True when both probes were reported with their exact size.
    notes : tuple of str
        Otherwise: what is wrong, and what to do.
    allocator : str
        Name of the allocator that served the probes; empty when none was reported.
    """

    exact: bool
    notes: tuple[str, ...]
    allocator: str


def _probe() -> tuple[tuple[bool, ...], str]:
    from tensorflow.python.eager import context

    profiler = Profiler()
    profiler.start()
    # Whoever asks may be building a graph, in which nothing would be allocated.
    try:
        with context.eager_mode(), runtime.tf.device("CPU:0"):
            tensors = [runtime.tf.fill([size // 4], 1.0) for size in _PROBES]
            del tensors
    finally:
        events = profiler.stop().memory
    made = [event for event in events if event.allocates]
    return tuple(_reported(made, size) for size in _PROBES), made[-1].allocator if made else ""


def _reported(events: list[MemoryEvent], size: int) -> bool:
    return any(event.requested == size for event in events)


_RESTART: Final = "restart the kernel (or the program) and import lessons_lib first"


def _problem(small: bool, big: bool) -> str | None:
    variable = runtime.ALLOCATOR_VARIABLE
    if small and big:
        return None
    what = (
        "Buffers under 256 KiB are not reported here, so figures are too low"
        if big
        else "TensorFlow reports no allocations in this process"
    )
    if runtime.imported_first:
        return (
            f"{what}: TensorFlow was imported before lessons_lib, which could not prepare the "
            f"allocator any more; {_RESTART}."
        )
    found = runtime.allocator_variable_found
    if found is not None:
        return (
            f"{what}: the environment sets {variable}={found}; remove that setting or make it 1, "
            f"then {_RESTART}."
        )
    return f"{what}, though {variable} is set: this build of TensorFlow uses another allocator."


@functools.cache
def exactness() -> Exactness:
    """Find out, once a process, whether every buffer is reported.

    Raises
    ------
    lessons_lib.recording.profiler.ProfileError
        If the profiler cannot be used now.
    """
    (small, big), allocator = _probe()
    problem = _problem(small, big)
    return Exactness(problem is None, () if problem is None else (problem,), allocator)


@dataclass(frozen=True, repr=False)
class Preflight(Result):
    """What figures in this process are worth, and what they depend on.

    Attributes
    ----------
    exact : bool
        True when every buffer is reported with its exact size.
    problems : tuple of str
        What stands in the way, each with what to do.
    python, tensorflow, keras : str
        Versions.
    allocator : str
        The allocator that serves tensors; empty when it reports nothing.
    devices : tuple of str
        Devices that TensorFlow sees.
    memory_bytes : int
        Memory that this process may use: the control group's limit where there is one, else the
        machine's.
    memory_from : str
        Where that figure comes from.
    platform : str
        Operating system and processor.
    threads : int
        Processors that this process may use.
    """

    exact: bool
    problems: tuple[str, ...]
    python: str
    tensorflow: str
    keras: str
    allocator: str
    devices: tuple[str, ...]
    memory_bytes: int
    memory_from: str
    platform: str
    threads: int

    def __repr__(self) -> str:
        verdict = "exact" if self.exact else f"not exact: {' '.join(self.problems)}"
        return f"<Preflight: TensorFlow {self.tensorflow}, figures are {verdict}>"


@summary_html.register
def _(result: Preflight) -> str:
    rows = [
        ("figures", "exact, every buffer is seen" if result.exact else "not exact"),
        *(("to do", problem) for problem in result.problems),
        ("TensorFlow, Keras", f"{result.tensorflow}, {result.keras}"),
        ("Python", result.python),
        ("allocator", result.allocator or "does not report"),
        ("devices", ", ".join(result.devices)),
        ("platform", f"{result.platform}, {result.threads} threads"),
        ("memory", f"≈ {format_bytes(result.memory_bytes)} ({result.memory_from})"),
    ]
    return html_table(("preflight", ""), rows, align="ll")


def memory_limit(root: str = "/sys/fs/cgroup") -> tuple[int, str]:
    """Give the memory that this process may use.

    Parameters
    ----------
    root : str
        Where control groups are mounted.

    Returns
    -------
    (int, str)
        Bytes, and where the figure comes from.
    """
    machine = psutil.virtual_memory().total
    best = (machine, "the machine's memory")
    for path, source in _limit_files(root):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
        # "max" (version 2) or a number near 2**63 (version 1) mean: no limit.
        if text.isdigit() and int(text) < best[0]:
            best = (int(text), source)
    return best


def _limit_files(root: str) -> list[tuple[str, str]]:
    groups: dict[str, str] = {}
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            for entry in file:
                _, controllers, path = entry.rstrip("\n").split(":", 2)
                groups[controllers] = path
    except (OSError, ValueError):
        pass
    files = [
        (os.path.join(root, "memory.max"), "control group v2 limit"),
        (os.path.join(root, "memory", "memory.limit_in_bytes"), "control group v1 limit"),
    ]
    # Every group on the way to ours may set a limit, and the lowest counts.
    place = groups.get("", "")
    while place.strip("/"):
        files.append((f"{root}{place}/memory.max", "control group v2 limit"))
        place = os.path.dirname(place)
    for controllers, place in groups.items():
        if "memory" in controllers.split(","):
            path = f"{root}/memory{place}/memory.limit_in_bytes"
            files.append((path, "control group v1 limit"))
    return files


def _usable_processors() -> int:
    try:
        return len(os.sched_getaffinity(0))  # type: ignore[attr-defined, unused-ignore]
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def preflight() -> Preflight:
    """Check whether figures are exact in this process.

    Returns
    -------
    Preflight
        With `exact`, and `problems` that say what to do.
    """
    tf = runtime.tf
    runtime.require_home_process()
    found = exactness()
    memory, source = memory_limit()
    return Preflight(
        exact=found.exact,
        problems=found.notes,
        python=platform.python_version(),
        tensorflow=tf.__version__,
        keras=tf.keras.__version__,
        allocator=found.allocator,
        devices=tuple(
            device.name.removeprefix("/physical_device:")
            for device in tf.config.list_physical_devices()
        ),
        memory_bytes=memory,
        memory_from=source,
        platform=f"{platform.system()} {platform.machine()}",
        threads=_usable_processors(),
    )
