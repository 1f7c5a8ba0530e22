"""A pytest fixture that holds a test to a memory budget.

pytest finds it by itself where ``lessons_lib`` is installed.  This package is installed under the
name ``lessons_lib_pytest``, beside ``lessons_lib``, so that pytest's start imports neither
``lessons_lib`` nor TensorFlow; both are loaded when a test asks for the fixture.

A test module usually imports TensorFlow before any test asks for the fixture, and then it is too
late to choose the allocator that reports every buffer.  So the plugin sets
``TF_CPU_ALLOCATOR_USE_BFC=1``, unless it is set already, while pytest runs.  To leave it alone:
``pytest -p no:lessons_lib``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

_ALLOCATOR_VARIABLE: Final = "TF_CPU_ALLOCATOR_USE_BFC"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Choose the allocator before anything can import TensorFlow; undo that at the end."""
    if _ALLOCATOR_VARIABLE not in os.environ:
        os.environ[_ALLOCATOR_VARIABLE] = "1"
        early_config.add_cleanup(_put_back)


def _put_back() -> None:
    os.environ.pop(_ALLOCATOR_VARIABLE, None)


@pytest.fixture
def tf_memory_budget() -> Callable[[int | str], AbstractContextManager[Any]]:
    """Give the context manager that fails a test over its budget.

    Returns
    -------
    callable
        ``lessons_lib.instruments.budget``: it takes a size (bytes, or text such as ``"30 MiB"``).

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
    from lessons_lib.instruments.budget import budget

    return budget
