"""Whose code a file holds: the user's, or a part of TensorFlow or Keras that is told apart."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from lessons_lib.common.source import is_users


class Origin(IntEnum):
    """Whose code a stack frame runs."""

    LIBRARY = 0
    USER = 1
    #: The making of batches, in Keras, in ``tf.data`` or for a step that is measured.
    PIPELINE = 2
    #: TensorFlow's functions that clip gradients.
    CLIPPING = 3
    #: Keras' metrics, and what it does after a step.
    METRICS = 4
    #: Code whose operations no tape is to see, as in ``tf.recompute_grad``.
    UNTAPED = 5


_ORIGINS: Final = (
    (
        re.compile(
            r"[/\\]keras[/\\]src[/\\]trainers[/\\](?:data_adapters[/\\]|epoch_iterator)"
            r"|[/\\]tensorflow[/\\]python[/\\]data[/\\]"
        ),
        Origin.PIPELINE,
    ),
    (
        re.compile(
            r"[/\\]keras[/\\]src[/\\](?:metrics[/\\]|trainers[/\\](?:compile_utils|trainer)\.py)"
        ),
        Origin.METRICS,
    ),
    (re.compile(r"[/\\]tensorflow[/\\]python[/\\]ops[/\\]clip_ops\.py$"), Origin.CLIPPING),
)


def origin_of(file: str) -> Origin:
    """Tell whose code a file holds."""
    if is_users(file):
        return Origin.USER
    return next((origin for files, origin in _ORIGINS if files.search(file)), Origin.LIBRARY)
