"""Exercises of lesson 01, "Measure memory": sizes by arithmetic, and what to measure with.

S stands for the bytes of the float32 tensor in play: ``4 · rows · width``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, WrongAnswer
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Promise, Quantity, Size
from lessons_lib.teaching.exercises.result import Status


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


# --- q1 -------------------------------------------------------------------------------------


def tensor_bytes_starter(shape: Any, dtype: Any) -> Any:
    """Return how many bytes a tensor of this shape and dtype takes, without making one."""
    ...


def tensor_bytes_solution(shape: Any, dtype: Any) -> Any:
    """Return how many bytes a tensor of this shape and dtype takes, without making one."""
    elements = 1
    for side in shape:
        elements *= side
    return elements * tf.as_dtype(dtype).size


def _tensor_bytes_wrong_makes(shape: Any, dtype: Any) -> Any:
    return tf.zeros(shape, dtype).numpy().nbytes


def _tensor_bytes_wrong_numpy(shape: Any, dtype: Any) -> Any:
    return np.zeros(shape, tf.as_dtype(dtype).as_numpy_dtype).nbytes


def _tensor_bytes_wrong_four(shape: Any, dtype: Any) -> Any:
    return 4 * int(np.prod(shape))


def _shape_and_dtype(size: Size, seed: int) -> Inputs:
    chance = random.Random(seed)
    shape = (size["rows"] + chance.randrange(100), size["width"])
    return Inputs((shape, chance.choice(["float64", "bfloat16", "int8", "float16"])))


q1 = Exercise(
    key="measure_memory.q1",
    title="Know a tensor's bytes before it exists",
    prompt="""
    Write `tensor_bytes(shape, dtype)`: how many bytes such a tensor takes. `dtype` is a name such
    as `"bfloat16"`. Compute it; don't make the tensor.
    """,
    starter=tensor_bytes_starter,
    solution_code=tensor_bytes_solution,
    inputs=_shape_and_dtype,
    shown={"rows": 1000, "width": 1024},
    graded=({"rows": 1200, "width": 1024}, {"rows": 800, "width": 2048}),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: size["rows"] * size["width"] // 2,
            why="half a byte an element: less than any such tensor",
        ),
    ),
    hints=(
        "Elements times bytes an element. The elements are the product of the sides.",
        "`tf.as_dtype(dtype).size` is the number of bytes of one element.",
    ),
    wrong=(
        WrongAnswer("makes the tensor", _tensor_bytes_wrong_makes, Status.OVER_BUDGET),
        WrongAnswer("makes a NumPy array", _tensor_bytes_wrong_numpy, Status.OVER_BUDGET),
        WrongAnswer("four bytes for all", _tensor_bytes_wrong_four, Status.WRONG_VALUE),
    ),
)

# --- q2 -------------------------------------------------------------------------------------


def peak_of_starter(program: Any) -> Any:
    """Return the peak of tensor bytes while ``program()`` runs."""
    ...


def peak_of_solution(program: Any) -> Any:
    """Return the peak of tensor bytes while ``program()`` runs."""
    with ll.record() as recording:
        program()
    return recording.peak_bytes


def _peak_of_wrong_kept(program: Any) -> Any:
    with ll.record() as recording:
        program()
    return recording.kept_bytes


def _peak_of_wrong_all(program: Any) -> Any:
    with ll.record() as recording:
        program()
    return recording.allocated_bytes


_kept_by_mistake: list[Any] = []


def _peak_of_wrong_keeps(program: Any) -> Any:
    with ll.record() as recording:
        _kept_by_mistake.append(program())
    return recording.peak_bytes


class _Program:
    """Makes `count` tensors, frees all but one, makes one more: its peak is known."""

    def __init__(self, rows: int, width: int, count: int) -> None:
        self.rows, self.width, self.count = rows, width, count
        self.peak_bytes = count * floats(rows, width)

    def __call__(self) -> Any:
        tensors = [tf.fill([self.rows, self.width], 1.0) for _ in range(self.count)]
        del tensors[1:]
        return [*tensors, tf.fill([self.rows, self.width], 2.0)]


def _program(size: Size, seed: int) -> Inputs:
    chance = random.Random(seed)
    rows = size["rows"] + chance.randrange(50)
    return Inputs((_Program(rows, size["width"], chance.randrange(3, 9)),))


q2 = Exercise(
    key="measure_memory.q2",
    title="Measure a peak to the byte",
    prompt="""
    Write `peak_of(program)`: the highest number of tensor bytes that are alive while `program()`
    runs, in bytes. Several tensors are freed again before the program ends, and what it returns
    must not stay alive after your function.
    """,
    starter=peak_of_starter,
    solution_code=peak_of_solution,
    inputs=_program,
    shown={"rows": 512, "width": 512},
    graded=({"rows": 1024, "width": 512}, {"rows": 768, "width": 320}),
    promises=(
        Promise(Quantity.KEPT, lambda size: _s(size) // 4, why="a quarter of one of its tensors"),
    ),
    hints=(
        "`with ll.record() as recording:` sees every buffer of its block.",
        "After the block, `recording.peak_bytes` is the figure. The other attributes answer other "
        "questions.",
    ),
    wrong=(
        WrongAnswer("what is kept at the end", _peak_of_wrong_kept, Status.WRONG_VALUE),
        WrongAnswer("all bytes ever allocated", _peak_of_wrong_all, Status.WRONG_VALUE),
        WrongAnswer("keeps the result alive", _peak_of_wrong_keeps, Status.OVER_BUDGET),
    ),
    expected=lambda inputs: inputs.arguments[0].peak_bytes,
)

# --- q3 -------------------------------------------------------------------------------------


def rms_starter(x: Any) -> Any:
    """Return the root of the mean of the squares of x."""
    ...


def rms_solution(x: Any) -> Any:
    """Return the root of the mean of the squares of x."""
    total = tf.constant(0.0)
    for start in range(0, x.shape[0], 64):
        part = x[start : start + 64]
        total += tf.reduce_sum(part * part)
    return tf.sqrt(total / tf.cast(tf.size(x), tf.float32))


def _rms_wrong_plain(x: Any) -> Any:
    return tf.sqrt(tf.reduce_mean(tf.square(x)))


def _rms_wrong_numpy(x: Any) -> Any:
    return np.sqrt(np.mean(np.square(x.numpy().astype(np.float64))))


def _rms_wrong_deviation(x: Any) -> Any:
    total = tf.constant(0.0)
    for row in tf.split(x - 0.5, 16):
        total += tf.reduce_sum(row * row)
    return tf.sqrt(total / tf.cast(tf.size(x), tf.float32))


q3 = Exercise(
    key="measure_memory.q3",
    title="Reduce without a temporary of the same size",
    prompt="""
    Write `rms(x)`: the root of the mean of the squares of a float32 tensor, as one number. The
    obvious way makes a tensor of squares as large as x. Stay under half of x. NumPy's arrays
    count too.
    """,
    starter=rms_starter,
    solution_code=rms_solution,
    inputs=lambda size, seed: Inputs(
        (normal(seed, size["rows"], size["width"], scale=1 + seed % 5),)
    ),
    shown={"rows": 1024, "width": 512},
    graded=({"rows": 1536, "width": 512}, {"rows": 1024, "width": 1024}),
    promises=(Promise(Quantity.PEAK, lambda size: _s(size) // 2, why="half of x"),),
    hints=(
        "Square and sum a part of x at a time. Rows `x[a:b]` are a view: they allocate nothing.",
        "A product of x with itself, as one row times one column, needs no squares at all.",
    ),
    wrong=(
        WrongAnswer("squares all at once", _rms_wrong_plain, Status.OVER_BUDGET),
        WrongAnswer("moves to NumPy's float64", _rms_wrong_numpy, Status.OVER_BUDGET),
        WrongAnswer("subtracts a constant", _rms_wrong_deviation, Status.WRONG_VALUE),
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def as_float32_starter(rows: Any) -> Any:
    """Return a float32 tensor of shape (len(rows), width) from NumPy's float64 rows."""
    ...


def as_float32_solution(rows: Any) -> Any:
    """Return a float32 tensor of shape (len(rows), width) from NumPy's float64 rows."""
    return tf.stack([tf.cast(row, tf.float32) for row in rows])


def _as_float32_wrong_late(rows: Any) -> Any:
    return tf.cast(tf.constant(np.stack(rows)), tf.float32)


def _as_float32_wrong_dtype(rows: Any) -> Any:
    return tf.stack([tf.identity(row) for row in rows])


def _as_float32_wrong_order(rows: Any) -> Any:
    return tf.stack([tf.cast(row, tf.float32) for row in reversed(rows)])


q4 = Exercise(
    key="measure_memory.q4",
    title="Don't let float64 in",
    prompt="""
    `rows` is a list of NumPy arrays, which are float64, as NumPy makes them. Write
    `as_float32(rows)`: one float32 tensor with a row for each. On the way to it, no array or
    tensor of all rows in float64 fits the budget, and neither does a float64 result.
    """,
    starter=as_float32_starter,
    solution_code=as_float32_solution,
    inputs=lambda size, seed: Inputs(
        ([row.astype(np.float64) for row in normal(seed, size["rows"], size["width"]).numpy()],)
    ),
    shown={"rows": 64, "width": 8192},
    graded=({"rows": 64, "width": 16384}, {"rows": 96, "width": 8192}),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: 15 * _s(size) // 4,
            floor=_s,
            why="three and three quarters of the result",
        ),
        Promise(
            Quantity.KEPT,
            lambda size: 5 * _s(size) // 4,
            why="one and a quarter of the result",
        ),
    ),
    hints=(
        "Change the dtype while the pieces are small: a row at a time.",
        "`tf.cast(row, tf.float32)` of each row, then one `tf.stack`.",
    ),
    wrong=(
        WrongAnswer("stacks in float64, then casts", _as_float32_wrong_late, Status.OVER_BUDGET),
        WrongAnswer("a float64 result", _as_float32_wrong_dtype, Status.OVER_BUDGET),
        WrongAnswer("rows in reverse", _as_float32_wrong_order, Status.WRONG_VALUE),
    ),
)

EXERCISES = (q1, q2, q3, q4)
