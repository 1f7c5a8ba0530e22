"""Models to be trained for a step, with the bytes of their variables."""

from __future__ import annotations

import lessons_lib as ll

tf = ll.runtime.tf

WIDTH, DEPTH, BATCH = 128, 3, 256
FLOAT = 4
LAYER = BATCH * WIDTH * FLOAT
#: Kernels, biases, and the head with one output.
WEIGHTS = (DEPTH * (WIDTH * WIDTH + WIDTH) + WIDTH + 1) * FLOAT


def build(optimizer: object = "adam", **options: object) -> object:
    layers = [tf.keras.layers.Dense(WIDTH, "tanh", name=f"hidden{i}") for i in range(DEPTH)]
    model = tf.keras.Sequential([tf.keras.Input([WIDTH]), *layers, tf.keras.layers.Dense(1)])
    model.compile(optimizer, "mse", **options)
    return model


class Encoder(tf.keras.Model):
    """Learns without y."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = tf.keras.layers.Dense(8), tf.keras.layers.Dense(32)

    def call(self, x):
        return self.outer(self.inner(x))

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(data) - data) ** 2)
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


ENCODER: int = (32 * 8 + 8 + 8 * 32 + 32) * FLOAT
