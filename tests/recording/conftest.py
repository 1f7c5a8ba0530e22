"""For the tests of recordings."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording.recording import Recording
from tests.support.handmade import ADD, MUL, NOWHERE, made
from tests.support.marked_lines import N
from tests.support.quick import set_aside

__all__ = ["garbage_stays", "set_aside", "three", "x"]


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.fill([N, N], 0.01)


@pytest.fixture(autouse=True)
def garbage_stays() -> Iterator[None]:
    """Have Python free nothing of earlier tests within a block, where it would count as freed."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def three() -> Recording:
    """Three buffers and one of before.

    Events: 0 a (100) born, 1 old (64) dies, 2 b (50) born, 3 a dies, 4 c (7) born.
    Live: 100, 36, 86, -14, -7.
    """
    return made(
        (0, 100, 0, 3), (2, 64, -1, 1), (1, 50, 2, -1), (2, 7, 4, -1), sites=(ADD, MUL, NOWHERE)
    )
