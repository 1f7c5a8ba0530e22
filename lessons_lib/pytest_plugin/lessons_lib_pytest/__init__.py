"""A pytest fixture that holds a test to a memory budget.

pytest finds it by itself where ``lessons_lib`` is installed.  This package is installed under the
name ``lessons_lib_pytest``, beside ``lessons_lib``, so that pytest's start imports neither
``lessons_lib`` nor TensorFlow; both are loaded when a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest


@pytest.fixture
def tf_memory_budget() -> Callable[[int | str], AbstractContextManager[Any]]:
    """Give the context manager that fails a test over its budget.

    Returns
    -------
    callable
        ``lessons_lib.budget``: it takes a size (bytes, or text such as ``"30 MiB"``).

    Raises
    ------
    lessons_lib.MemoryBudgetExceeded
        By the block, when live tensor bytes grew by more than the budget.  It lists what was
        alive at the peak.

    Examples
    --------
    ::

        def test_step_fits(tf_memory_budget):
            with tf_memory_budget("30 MiB"):
                train_step(batch)
    """
    import lessons_lib

    budget: Callable[[int | str], AbstractContextManager[Any]] = lessons_lib.budget
    return budget
