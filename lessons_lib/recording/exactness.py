"""Whether every buffer is reported in this process, found out by trying.

Two tensors, of 200 KiB and of 1 MiB, are made while the profiler runs, and both are looked for:
settings can be right and the allocator still be another one.  Sizes are bytes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from lessons_lib.common import runtime
from lessons_lib.common.internals import eager_mode, set_runtime_up
from lessons_lib.common.units import KIB, MIB
from lessons_lib.recording.allocator_counters import counters
from lessons_lib.recording.profiler import Profiler
from lessons_lib.recording.segment import MemoryEvent

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
    with runtime.held_back_stderr():  # setting devices up writes log lines of its own
        set_runtime_up()
    profiler = Profiler()
    with counters.unnoticed():
        profiler.start()
        # Whoever asks may be building a graph, in which nothing would be allocated.
        try:
            with eager_mode(), runtime.tf.device("CPU:0"):
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
    lessons_lib.recording.profile_format.ProfileError
        If the profiler cannot be used now.
    """
    (small, big), allocator = _probe()
    problem = _problem(small, big)
    return Exactness(problem is None, () if problem is None else (problem,), allocator)
