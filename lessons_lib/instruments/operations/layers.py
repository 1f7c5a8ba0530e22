"""The Keras layers of the atlas.

A layer is made for the measurement and called for inference, unless its name says otherwise.  Its
weights are made in the first call and are counted in no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.operations.catalogue import Entry

GROUP: Final = "Keras layers"


class _Training:
    """A layer as it is called in training."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __call__(self, x: Any) -> Any:
        return self._layer(x, training=True)


class _Itself:
    """A layer that is called with the same tensor several times, as attention is."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __call__(self, x: Any) -> Any:
        return self._layer(x, x)


def layers() -> list[Entry]:
    """List the entries for Keras layers, in the order in which they are shown."""
    keras = tf.keras.layers
    made: dict[str, tuple[Callable[[], Any], str]] = {
        "Dense": (lambda: keras.Dense(512), "x"),
        "Dense(tanh)": (lambda: keras.Dense(512, activation="tanh"), "x"),
        "Activation relu": (lambda: keras.Activation("relu"), "x"),
        "Activation gelu": (lambda: keras.Activation("gelu"), "x"),
        "Softmax": (lambda: keras.Softmax(), "x"),
        "Dropout": (lambda: keras.Dropout(0.5), "x"),
        "Dropout (training)": (lambda: _Training(keras.Dropout(0.5)), "x"),
        "BatchNormalization": (lambda: keras.BatchNormalization(), "x"),
        "BatchNormalization (training)": (lambda: _Training(keras.BatchNormalization()), "x"),
        "LayerNormalization": (lambda: keras.LayerNormalization(), "x"),
        "Flatten": (lambda: keras.Flatten(), "image"),
        "Reshape": (lambda: keras.Reshape([64, 8]), "x"),
        "Embedding": (lambda: keras.Embedding(1000, 256), "tokens"),
        "Conv2D": (lambda: keras.Conv2D(16, 3, padding="same"), "image"),
        "SeparableConv2D": (lambda: keras.SeparableConv2D(16, 3, padding="same"), "image"),
        "MaxPooling2D": (lambda: keras.MaxPooling2D(), "image"),
        "GlobalAveragePooling2D": (lambda: keras.GlobalAveragePooling2D(), "image"),
        "UpSampling2D": (lambda: keras.UpSampling2D(), "image"),
        "LSTM": (lambda: keras.LSTM(64), "steps"),
        "MultiHeadAttention": (lambda: _Itself(keras.MultiHeadAttention(2, 64)), "sequence"),
    }
    return [
        Entry(GROUP, name, make, (given,), is_layer=True) for name, (make, given) in made.items()
    ]
