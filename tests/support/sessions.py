"""Short sessions, so that a small program is recorded as a long one is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from lessons_lib.recording import lifetimes, session
from lessons_lib.recording.lifetimes import Ledger


@contextlib.contextmanager
def cut_after(events: int, rows: int = lifetimes.MOST_ROWS) -> Iterator[list[int]]:
    """Cut sessions after so many events, and fold when there are so many rows; count the cuts."""
    cuts: list[int] = []
    real = session.Session._next

    def counted(self: Any, rest: bool = False) -> None:
        cuts.append(len(self.open))
        real(self, rest)

    def ledger() -> Ledger:
        return Ledger(rows)

    with (
        mock.patch.object(session, "SESSION_EVENTS", events),
        mock.patch.object(session, "Ledger", ledger),
        mock.patch.object(session.Session, "_next", counted),
    ):
        yield cuts
