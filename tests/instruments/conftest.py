"""For the tests of instruments that search for holders."""

import pytest

from lessons_lib.instruments.holders import budget


@pytest.fixture
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no name depend on the speed of the machine; how the time ends has tests of its own."""
    monkeypatch.setattr(budget, "SEARCH_SECONDS", 120.0)
