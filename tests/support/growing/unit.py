"""What steps keep: a tensor of 16 KiB, and an object that holds such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lessons_lib.common.runtime import tf

UNIT = 64 * 64 * 4


Step = Callable[[int], Any]


def unit(i: int = 0) -> Any:
    return tf.fill([64, 64], np.float32(i))


class Trainer:
    seen: ClassVar[list[Any]] = []

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.saved: list[Any] = []

    def step(self, i: int) -> None:
        loss = unit(i)
        self.saved.append(loss if self.keep else float(loss[0, 0]))
