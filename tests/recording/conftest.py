"""For the tests of recordings."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from tests.support.marked_lines import N


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.fill([N, N], 0.01)


@pytest.fixture(autouse=True)
def garbage_stays() -> Iterator[None]:
    """Have Python free nothing of earlier tests within a block, where it would count as freed."""
    gc.disable()
    yield
    gc.enable()
