"""For the tests of tracing."""

from __future__ import annotations

import pytest

from lessons_lib.common.internals import Function, tracing_compilation
from lessons_lib.common.runtime import tf


@pytest.fixture(autouse=True)
def _quiet():
    """TensorFlow warns of retracing, which is what these tests do on purpose."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    yield
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def _restored():
    """Every test leaves TensorFlow's functions as they were."""
    before = (tracing_compilation._create_concrete_function, Function._call)
    yield
    after = (tracing_compilation._create_concrete_function, Function._call)
    assert after == before
