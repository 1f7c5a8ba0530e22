"""For the tests of instruments."""

import numpy as np
import pytest

from lessons_lib.instruments.holders import budget
from tests.support.quick import quick, set_aside
from tests.support.trained import BATCH, WIDTH

__all__ = ["batch", "quick", "set_aside", "time_enough"]


@pytest.fixture
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no name depend on the speed of the machine; how the time ends has tests of its own."""
    monkeypatch.setattr(budget, "SEARCH_SECONDS", 120.0)


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    """Give a batch for the models of `tests.support.trained`."""
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(BATCH, WIDTH)).astype(np.float32),
        rng.normal(size=(BATCH, 1)).astype(np.float32),
    )
