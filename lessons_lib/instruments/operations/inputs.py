"""The inputs on which the atlas measures: about 1 MiB each, made by TensorFlow.

An entry names its inputs by the names of its function's parameters; each is made when an entry
first asks for it, the same for all entries.  Variables are made anew for every entry, because
entries change them, and some change how a variable behaves from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lessons_lib.common.runtime import tf

#: Every input that an entry can ask for, by name, and how it is made.
MAKERS: Final[dict[str, Callable[[], Any]]] = {
    # 512 rows of 512 float32, each row a multiple of 64 bytes.
    "x": lambda: tf.random.stateless_uniform([512, 512], [1, 2], 0.1, 0.9),
    "y": lambda: tf.random.stateless_uniform([512, 512], [3, 4], 0.1, 0.9),
    # Rows of 301 float32 (1204 bytes) do not begin on 64-byte boundaries.
    "odd": lambda: tf.random.stateless_uniform([870, 301], [1, 2]),
    "vector": lambda: tf.random.stateless_uniform([512 * 512], [1, 2]),
    "bias": lambda: tf.random.stateless_uniform([512], [1, 2]),
    "whole": lambda: tf.random.stateless_uniform([512, 512], [1, 2], 0, 512, tf.int32),
    "mask": lambda: tf.random.stateless_uniform([512, 512], [1, 2]) > 0.5,
    "rows": lambda: tf.random.stateless_uniform([512], [1, 2], 0, 512, tf.int32),
    "labels": lambda: tf.random.stateless_uniform([512], [1, 2], 0, 512, tf.int32),
    "segments": lambda: tf.range(512) // 8,
    "tokens": lambda: tf.random.stateless_uniform([16, 64], [1, 2], 0, 1000, tf.int32),
    # 16 matrices of 128 × 128.
    "cube": lambda: tf.random.stateless_uniform([16, 128, 128], [1, 2]),
    "definite": lambda: tf.eye(128, batch_shape=[16]) * 2 + 1e-3,
    "signal": lambda: tf.complex(
        tf.random.stateless_uniform([512, 256], [1, 2]), tf.zeros([512, 256])
    ),
    # Four images of 64 × 64 with 16 channels.
    "image": lambda: tf.random.stateless_uniform([4, 64, 64, 16], [1, 2]),
    "filters": lambda: tf.random.stateless_uniform([3, 3, 16, 16], [1, 2], -0.1, 0.1),
    "deep": lambda: tf.random.stateless_uniform([3, 3, 16, 1], [1, 2], -0.1, 0.1),
    # Sixteen sequences of 64 steps with 256 features.
    "sequence": lambda: tf.random.stateless_uniform([16, 64, 256], [1, 2]),
    # 128 sequences of 8 steps with 256 features.
    "steps": lambda: tf.random.stateless_uniform([128, 8, 256], [1, 2]),
    "words": lambda: tf.fill([2**20 // 24], "some words"),
    "ragged": lambda: tf.RaggedTensor.from_row_lengths(
        tf.random.stateless_uniform([512 * 1021 // 2], [1, 2]), tf.range(512) + 255
    ),
    "sparse": lambda: tf.SparseTensor(
        tf.cast(tf.stack([tf.range(512), tf.range(512)], axis=1), tf.int64),
        tf.random.stateless_uniform([512], [1, 2]),
        [512, 512],
    ),
}
VARIABLE: Final = "v"


class OperationInputs:
    """Makes the inputs that are asked for, once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name == VARIABLE:
            # A copy: a variable that shared its first value would pay for the first change.
            return tf.Variable(self["x"] + 0.0)
        if name not in self._made:
            self._made[name] = MAKERS[name]()
        return self._made[name]
