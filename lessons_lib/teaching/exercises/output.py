"""What an answer prints while it is checked: shown once, and cut where it has no end."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Final

#: Some screens; a notebook with far more cannot be scrolled, and its page may freeze.
_MOST_CHARACTERS: Final = 10_000


class _Limited(io.TextIOBase):
    """Passes text on to where it was going, up to a limit."""

    def __init__(self, target: object, most: int) -> None:
        self._target = target
        self._left = most
        self.cut = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._left > 0:
            self._target.write(text[: self._left])  # type: ignore[attr-defined]
        self.cut = self.cut or len(text) > self._left
        self._left -= min(self._left, len(text))
        return len(text)

    def say(self, text: str) -> None:
        """Write something beyond the limit."""
        self._target.write(text)  # type: ignore[attr-defined]

    def flush(self) -> None:
        if self._left > 0:  # tf.print flushes after each line
            self._target.flush()  # type: ignore[attr-defined]


@contextlib.contextmanager
def limited_output(*, shown: bool, most: int = _MOST_CHARACTERS) -> Iterator[None]:
    """Let a block print up to `most` characters, or nothing; say so where it was cut.

    Output and error stream have the limit each.  In a notebook TensorFlow passes what `tf.print`
    writes to Python's output stream, so it is cut as well.  Elsewhere it goes to the process's own
    error stream, which is left alone: the last words of a process that crashes go there, too.
    """
    out, err = (_Limited(stream, most if shown else 0) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
    for limited in (out, err):
        if shown and limited.cut:
            limited.say(f"\n… cut here: your answer printed more than {most:,} characters.\n")
