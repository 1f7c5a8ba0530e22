"""Programs whose lines are looked up, and what a recording says of them.

A program marks its lines with a comment such as ``# here: product``; the tests look the number up,
so they do not change when a line moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lessons_lib.recording.buffers import Buffer
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

N = 64
S = N * N * 4


class Marked:
    """The lines of a file of tests."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._numbers = {
            found[1]: number
            for number, text in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1)
            if (found := re.search(r"# here: (\w+)\b", text))
        }

    def line(self, mark: str) -> int:
        """Give the number of the line that is marked."""
        return self._numbers[mark]

    def lines(self, recording: Recording) -> list[tuple[str | None, int | None]]:
        """Give operation and line of each buffer, in birth order."""
        for buffer in big(recording):
            assert buffer.line is None or buffer.line.file == self._file
        return [(b.op, None if b.line is None else b.line.number) for b in big(recording)]


def run(program: Callable[..., Any], *args: Any, warm: bool = True) -> Recording:
    """Record a program, by default after a run that makes its traces."""
    if warm:
        program(*args)
    with record() as recording:
        result = program(*args)
    del result
    return recording


def big(recording: Recording, size: int = S) -> list[Buffer]:
    """Give the buffers of tensors, without shapes and counters."""
    return [b for b in recording.buffers if b.allocated_at is not None and b.nbytes >= size]


def forward(recording: Recording) -> dict[str | None, set[int | None]]:
    """Give the forward lines of each operation."""
    found: dict[str | None, set[int | None]] = {}
    for b in big(recording):
        number = None if b.forward_line is None else b.forward_line.number
        found.setdefault(b.op, set()).add(number)
    return found
