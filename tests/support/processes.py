"""Programs in a Python of their own, and whether recordings still work in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lessons_lib.common import runtime
from lessons_lib.recording.recorder import record
from tests.support.tensors import new, scalar

ROOT = Path(__file__).resolve().parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs fork or POSIX limits")


def still_works() -> None:
    """Check that the next recording is exact."""
    with record() as recording:
        x = new(9) * scalar(2.0)
    assert (recording.allocated_bytes, recording.exact) == (72, True)
    del x


def in_a_new_process(program: str, **environment: str) -> str:
    """Run a program in a Python of its own; give what it printed."""
    # Importing lessons_lib here has set what the new process shall find unset.
    ours = (runtime.ALLOCATOR_VARIABLE, runtime.LOG_VARIABLE)
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
