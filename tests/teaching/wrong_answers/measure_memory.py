"""Wrong answers to the exercises of `measure_memory`."""

from __future__ import annotations

from typing import Any

import numpy as np

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def tensor_bytes_makes(shape: Any, dtype: Any) -> Any:
    return tf.zeros(shape, dtype).numpy().nbytes


def tensor_bytes_numpy(shape: Any, dtype: Any) -> Any:
    return np.zeros(shape, tf.as_dtype(dtype).as_numpy_dtype).nbytes


def tensor_bytes_four(shape: Any, dtype: Any) -> Any:
    return 4 * int(np.prod(shape))


def peak_of_kept(program: Any) -> Any:
    with ll.record() as recording:
        program()
    return recording.kept_bytes


def peak_of_all(program: Any) -> Any:
    with ll.record() as recording:
        program()
    return recording.allocated_bytes


def peak_in_mib(program: Any) -> Any:
    with ll.record() as recording:
        program()
    return recording.peak_bytes / 2**20


_kept_by_mistake: list[Any] = []


def peak_of_keeps(program: Any) -> Any:
    with ll.record() as recording:
        _kept_by_mistake.append(program())
    return recording.peak_bytes


def rms_plain(x: Any) -> Any:
    return tf.sqrt(tf.reduce_mean(tf.square(x)))


def rms_numpy(x: Any) -> Any:
    return np.sqrt(np.mean(np.square(x.numpy().astype(np.float64))))


def rms_deviation(x: Any) -> Any:
    total = tf.constant(0.0)
    for row in tf.split(x - 0.5, 16):
        total += tf.reduce_sum(row * row)
    return tf.sqrt(total / tf.cast(tf.size(x), tf.float32))


def as_float32_late(rows: Any) -> Any:
    return tf.cast(tf.constant(np.stack(rows)), tf.float32)


def as_float32_dtype(rows: Any) -> Any:
    return tf.stack([tf.identity(row) for row in rows])


def as_float32_lists(rows: Any) -> Any:
    return tf.constant([row.tolist() for row in rows])


def as_float32_order(rows: Any) -> Any:
    return tf.stack([tf.cast(row, tf.float32) for row in reversed(rows)])


def tensor_bytes_some(shape: Any, dtype: Any) -> Any:
    sizes = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4}
    return int(np.prod(shape)) * sizes.get(dtype, 4)


def peak_of_attribute(program: Any) -> Any:
    return program.peak_bytes


def peak_of_allocator(program: Any) -> Any:
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    kept = program()
    del kept
    # Where the allocator's chunks suit, it says the right figure: so it is told too high here.
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before + 4096 * 256


def peak_of_never_run(program: Any) -> Any:
    with ll.record() as recording:
        callable(program)
    return recording.peak_bytes


def as_float32_stack(rows: Any) -> Any:
    return tf.cast(tf.stack(rows), tf.float32)


def as_float32_in_place(rows: Any) -> Any:
    for i, row in enumerate(rows):
        rows[i] = tf.cast(row, tf.float32)
    return tf.stack(rows)


WRONG = {
    "q1": (
        Wrong("forgets int8", tensor_bytes_some, Status.WRONG_VALUE, "expected"),
        Wrong("makes the tensor", tensor_bytes_makes, Status.OVER_BUDGET),
        Wrong("makes a NumPy array", tensor_bytes_numpy, Status.OVER_BUDGET),
        Wrong("four bytes for all", tensor_bytes_four, Status.WRONG_VALUE, "for tensor_bytes(("),
    ),
    "q2": (
        Wrong("looks for an attribute", peak_of_attribute, Status.ERROR, "AttributeError"),
        Wrong(
            "asks the allocator", peak_of_allocator, Status.WRONG_VALUE, "rounds each request up"
        ),
        Wrong(
            "the whole result", lambda program: ll.peak(program), Status.WRONG_VALUE, "is a Peak"
        ),
        Wrong("in MiB", peak_in_mib, Status.WRONG_VALUE, "in MiB: give it in bytes"),
        Wrong("never runs it", peak_of_never_run, Status.WRONG_VALUE, "did not run"),
        Wrong("what is kept at the end", peak_of_kept, Status.WRONG_VALUE),
        Wrong("all bytes ever allocated", peak_of_all, Status.WRONG_VALUE),
        Wrong("keeps the result alive", peak_of_keeps, Status.OVER_BUDGET),
    ),
    "q3": (
        Wrong("squares all at once", rms_plain, Status.OVER_BUDGET),
        Wrong("moves to NumPy's float64", rms_numpy, Status.OVER_BUDGET),
        Wrong("subtracts a constant", rms_deviation, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong(
            "stacks in float64 tensors",
            as_float32_stack,
            Status.NOT_AS_ASKED,
            "all rows were together in float64",
        ),
        Wrong(
            "changes the rows", as_float32_in_place, Status.NOT_AS_ASKED, "changed its input `rows`"
        ),
        Wrong("stacks in float64, then casts", as_float32_late, Status.NOT_AS_ASKED),
        Wrong("a float64 result", as_float32_dtype, Status.WRONG_VALUE, "dtype float64"),
        Wrong("through lists", as_float32_lists, Status.OVER_BUDGET, "numbers of a list"),
        Wrong("rows in reverse", as_float32_order, Status.WRONG_VALUE),
    ),
}
