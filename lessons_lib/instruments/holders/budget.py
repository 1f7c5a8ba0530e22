"""How long a search for holders may take, all its parts together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from lessons_lib.common.progress_bar import progress_bar

#: In all, so that an answer comes soon also in a process with millions of objects.
SEARCH_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 3.0  # a search that is done before shows no progress


class SearchBudget:
    """Counts down the seconds of CPU time that a search may take; shows how far it is.

    Parameters
    ----------
    seconds : float, optional
        By default `SEARCH_SECONDS`.

    Attributes
    ----------
    ended_early : bool
        Whether anything was left out because the time had run out.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = SEARCH_SECONDS if seconds is None else seconds
        self.ended_early = False
        self._limit = self.seconds
        self._spent = 0.0
        self._mark: float | None = None
        self._bar: Any = None

    def __enter__(self) -> SearchBudget:
        """Begin, or go on, to count; what runs outside of the block is free."""
        self._mark = time.thread_time()
        return self

    def __exit__(self, *error: object) -> None:
        self._spent = self.spent
        self._mark = None

    @property
    def spent(self) -> float:
        """Seconds used so far."""
        running = 0.0 if self._mark is None else time.thread_time() - self._mark
        return self._spent + running

    @contextlib.contextmanager
    def part(self, share: float) -> Iterator[None]:
        """Allow only a share of the seconds that are left, so that some stay for what follows."""
        whole, spent = self._limit, self.spent
        self._limit = spent + share * max(0.0, whole - spent)
        try:
            yield
        finally:
            self._limit = whole

    def is_over(self) -> bool:
        """Tell whether the time has run out; the search must then leave out what is left."""
        spent = self.spent
        if spent > _SILENT_SECONDS:
            self._show(spent)
        if spent > self._limit:
            self.ended_early = True
        return spent > self._limit

    def _show(self, spent: float) -> None:
        if self._bar is None:
            self._bar = progress_bar(
                "searching for holders",
                total=round(self.seconds),
                bar_format="{desc}: {n:.0f} of at most {total} s",
            )
        if self._bar is not None:
            self._bar.update(min(spent, self.seconds) - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
