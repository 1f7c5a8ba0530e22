"""Right answers to the exercises of `measure_memory`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import lessons_lib as ll
from lessons_lib.common.runtime import tf


def bytes_by_numpy_dtype(shape: Any, dtype: Any) -> Any:
    return math.prod(shape) * np.dtype(tf.as_dtype(dtype).as_numpy_dtype).itemsize


def bytes_by_spec(shape: Any, dtype: Any) -> Any:
    spec = tf.TensorSpec(shape, dtype)
    return spec.shape.num_elements() * spec.dtype.size


def bytes_by_table(shape: Any, dtype: Any) -> Any:
    bits = int("".join(c for c in dtype if c.isdigit()) or 8)
    if dtype == "bfloat16":
        bits = 16
    return int(np.prod(shape)) * bits // 8


def peak_by_measure(program: Any) -> Any:
    return ll.measure(program, repeats=1).peak_bytes


def peak_by_process_memory(program: Any) -> Any:
    return ll.process_memory(program).tensor_peak_bytes


def peak_of_timeline(program: Any) -> Any:
    with ll.record(lines=False) as recording:
        result = program()
        del result
    _, live = recording.timeline()
    return max(live)


def rms_by_dot(x: Any) -> Any:
    flat = tf.reshape(x, [-1])
    return tf.sqrt(tf.tensordot(flat, flat, 1) / tf.cast(tf.size(x), tf.float32))


def rms_by_loss(x: Any) -> Any:
    return (2.0 * float(tf.nn.l2_loss(x)) / (x.shape[0] * x.shape[1])) ** 0.5


def rms_by_rows(x: Any) -> Any:
    means = [tf.reduce_mean(tf.square(part)) for part in tf.split(x, 16)]
    return tf.sqrt(tf.reduce_mean(tf.stack(means)))


def float32_at_once(rows: Any) -> Any:
    return tf.constant(np.array(rows, np.float32))


def float32_in_place(rows: Any) -> Any:
    table = np.empty((len(rows), len(rows[0])), np.float32)
    for i, row in enumerate(rows):
        table[i] = row
    return tf.convert_to_tensor(table)


def float32_by_rows(rows: Any) -> Any:
    parts = []
    for row in rows:
        parts.append(tf.constant(row, dtype=tf.float32)[tf.newaxis])
    return tf.concat(parts, axis=0)


RIGHT = {
    "q1": (bytes_by_numpy_dtype, bytes_by_spec, bytes_by_table),
    "q2": (peak_by_measure, peak_by_process_memory, peak_of_timeline),
    "q3": (rms_by_dot, rms_by_loss, rms_by_rows),
    "q4": (float32_at_once, float32_in_place, float32_by_rows),
}
