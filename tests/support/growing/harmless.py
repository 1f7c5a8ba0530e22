"""What looks like growth and is none."""

from __future__ import annotations

import contextlib
from typing import Any

from lessons_lib.common.runtime import tf
from tests.support.growing.unit import Step, Trainer, unit


def one_time_step(i: int, store: dict[int, Any]) -> None:
    if i in (8, 9):
        store[i] = tf.ones([256, 256])


def sawtooth() -> Step:
    batch: list[Any] = []

    def step(i: int) -> None:
        batch.append(unit(i))
        if len(batch) == 6:
            batch.clear()

    return step


def fills_up() -> Step:
    memory: dict[int, Any] = {}

    def step(i: int) -> None:
        memory[i % 12] = unit(i)

    return step


def cycles(i: int) -> None:
    holder = Trainer(True)
    holder.step(i)
    holder.myself = holder  # type: ignore[attr-defined]


def failing_quietly(_: int) -> None:
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        tf.ones([2, 3]) @ tf.ones([2, 3])


def log_of_numbers() -> Step:
    history: list[Any] = []
    return lambda i: history.append({"loss": float(i), "text": f"step {i}", "pair": (i, 2.0 * i)})
