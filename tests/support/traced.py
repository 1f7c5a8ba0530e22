"""Functions to be traced, and what they are asked."""

from __future__ import annotations

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import trace_report


def make():
    return tf.function(lambda x, k=0: x)


def causes(fn):
    return [trace.cause for trace in trace_report(fn).traces]


def table():
    return np.random.default_rng(0).random((512, 512), np.float32)  # 512 · 512 · 4 = 1 MiB


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.ones([8, 8])

    @tf.function
    def step(self, x):
        return x @ self.table


def plain(x):
    return x
