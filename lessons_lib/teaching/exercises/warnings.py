"""Quiet while somebody's code is checked: TensorFlow's warnings are held back."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from lessons_lib.common.runtime import tf


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Hold TensorFlow's warnings back: fresh inputs make it warn of retracing that isn't yours."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
