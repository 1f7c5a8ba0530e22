"""For the tests of recordings."""

from __future__ import annotations

from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from tests.support.marked_lines import N


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.fill([N, N], 0.01)
