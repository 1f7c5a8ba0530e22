"""How a program's figures are checked, and the list of all checks."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps

from lessons_lib.recording.recording import Recording

Record = Callable[[], AbstractContextManager[Recording]]
Check = Callable[[Record], None]

CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the list; it runs without garbage collection, which could free in a block."""

    @wraps(function)
    def undisturbed(record: Record) -> None:
        gc.disable()
        try:
            function(record)
        finally:
            gc.enable()

    CHECKS[function.__name__] = undisturbed
    return undisturbed


def agree(
    recording: Recording,
    *,
    peak: int | None = None,
    kept: int | None = None,
    allocated: int | None = None,
) -> None:
    """Compare a recording's figures with those worked out by hand."""
    found = {
        "peak": recording.peak_bytes,
        "kept": recording.kept_bytes,
        "allocated": recording.allocated_bytes,
    }
    wanted = {"peak": peak, "kept": kept, "allocated": allocated}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    assert {name: found[name] for name in wanted} == wanted
    assert recording.exact
