"""Quiet while somebody's code is checked: TensorFlow's warnings, and quick garbage collections."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator

from lessons_lib.runtime import tf


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


@contextlib.contextmanager
def quick_collection() -> Iterator[None]:
    """Make garbage collections quick: set aside the many objects that were there before."""
    gc.collect()
    ours = not gc.get_freeze_count()
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
