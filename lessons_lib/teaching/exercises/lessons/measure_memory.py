"""Exercises of lesson 01, "Measure memory": sizes by arithmetic, and what to measure with.

S stands for the bytes of the float32 tensor in play: ``4 · rows · width``.
"""

from __future__ import annotations

import functools
import random
from typing import Any, Final

import numpy as np

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import format_bytes
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.evidence import Table, meters_table
from lessons_lib.teaching.exercises.exercise import Attempt, Exercise, Inputs, Way
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question

#: Relative distance at which two figures are taken for the same.
_NEAR: Final = 1e-3


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


#: Bytes of an element, as the tasks' texts count them.
_ITEM_BYTES: Final = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "complex64"), 8),
    "complex128": 16,
}


def _shapes_and_dtypes(size: Size, seed: int) -> Inputs:
    """Every dtype in each check, with shapes of several ranks."""
    chance = random.Random(seed)
    names = list(_ITEM_BYTES)
    chance.shuffle(names)
    calls: list[tuple[Any, ...]] = []
    right: list[int] = []
    for number, name in enumerate(names):
        rows = size["rows"] + chance.randrange(100)
        shape = ((rows, size["width"]), (rows * size["width"],), (rows, 4, size["width"] // 4))
        chosen = shape[number % 3]
        calls.append((chosen, name))
        right.append(rows * size["width"] * _ITEM_BYTES[name])
    calls.append(((), "float32"))
    right.append(4)
    return Inputs((), tuple(functools.partial(tuple, call) for call in calls), right)


_q1 = Exercise(
    key="measure_memory.q1",
    title="Know a tensor's bytes before it exists",
    prompt="""
    Write `tensor_bytes(shape, dtype)`: how many bytes such a tensor takes. `shape` is a tuple,
    `dtype` the name of any number type, such as `"bfloat16"`. Compute it; don't make the
    tensor.
    """,
    starter=tensor_bytes_starter,
    solution_code=tensor_bytes_solution,
    inputs=_shapes_and_dtypes,
    way=Way.EACH,
    tolerance=0.0,
    shown={"rows": 1000, "width": 1024},
    graded=({"rows": 1200, "width": 1024}, {"rows": 800, "width": 2048}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: size["rows"] * size["width"] // 2,
            why="half a byte an element: less than any such tensor",
        ),
    ),
    hints=(
        "Elements times bytes an element. The elements are the product of the sides.",
        "`tf.as_dtype(dtype).size` is the number of bytes of one element.",
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


def _program(size: Size, seed: int) -> Inputs:
    """Give a program that makes some tensors, frees all but one, and makes one more."""
    chance = random.Random(seed)
    rows, width = size["rows"] + chance.randrange(50), size["width"]
    count = chance.randrange(3, 9)

    def program() -> Any:
        tensors = [tf.fill([rows, width], 1.0) for _ in range(count)]
        del tensors[1:]
        return [*tensors, tf.fill([rows, width], 2.0)]

    return Inputs((program,), right=count * floats(rows, width))


def _name_the_other_figure(inputs: Inputs, got: Any, right: Any) -> str:
    """Say which figure somebody has taken for the peak."""
    (program,) = inputs.arguments
    with ll.record() as recording:
        program()
    if not got:
        return (
            "Nothing: either the program did not run in the recorded block, or this is what is "
            "left at its end (`kept_bytes`)."
        )
    if abs(got - recording.kept_bytes) <= _NEAR * got:
        return "That is what is left at the end (`kept_bytes`)."
    if abs(got - recording.allocated_bytes) <= _NEAR * got:
        return "That is all that was allocated, freed or not (`allocated_bytes`)."
    for unit, nbytes in (("MiB", 2**20), ("KiB", 2**10), ("MB", 10**6)):
        if abs(got * nbytes - right.values) <= _NEAR * right.values:
            return f"That is the peak in {unit}: give it in bytes."
    if right.values < got <= 2 * right.values:
        return (
            "TensorFlow's allocator rounds each request up, to 256 bytes at least, and its own "
            "counter says what it has handed out: `ll.record` counts what was asked for."
        )
    return ""


_q2 = Exercise(
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
    limits=(
        Limit(Quantity.KEPT, lambda size: _s(size) // 4, why="a quarter of one of its tensors"),
    ),
    hints=(
        "`with ll.record() as recording:` sees every buffer of its block.",
        "After the block, `recording.peak_bytes` is the figure. The other attributes answer other "
        "questions.",
    ),
    explain=_name_the_other_figure,
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


_q3 = Exercise(
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
    limits=(Limit(Quantity.PEAK, lambda size: _s(size) // 2, why="half of x"),),
    # One long product of float32 numbers rounds more than a sum of parts.
    tolerance=1e-3,
    hints=(
        "Square and sum a part of x at a time. Rows `x[a:b]` are a view: they allocate nothing.",
        "A product of x with itself, as one row times one column, needs no squares at all.",
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def as_float32_starter(rows: Any) -> Any:
    """Return a float32 tensor of shape (len(rows), width) from NumPy's float64 rows."""
    ...


def as_float32_solution(rows: Any) -> Any:
    """Return a float32 tensor of shape (len(rows), width) from NumPy's float64 rows."""
    return tf.stack([tf.cast(row, tf.float32) for row in rows])


def _never_whole_in_float64(evidence: Attempt) -> str:
    rows = evidence.inputs.arguments[0]
    whole = sum(row.nbytes for row in rows)
    if evidence.largest_bytes < whole:
        return ""
    return (
        f"The value is right, but on the way all rows were together in float64: a tensor or array "
        f"of {format_bytes(evidence.largest_bytes)}."
    )


_q4 = Exercise(
    key="measure_memory.q4",
    title="Don't let float64 in",
    prompt="""
    `rows` is a list of NumPy arrays, which are float64, as NumPy makes them. Write
    `as_float32(rows)`: one float32 tensor with a row for each. On the way to it, there may be no
    array or tensor of all rows in float64.
    """,
    starter=as_float32_starter,
    solution_code=as_float32_solution,
    inputs=lambda size, seed: Inputs(
        ([row.astype(np.float64) for row in normal(seed, size["rows"], size["width"]).numpy()],)
    ),
    requires=(_never_whole_in_float64,),
    shown={"rows": 64, "width": 8192},
    graded=({"rows": 32, "width": 4096}, {"rows": 16, "width": 8192}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: 15 * _s(size) // 4,
            floor=_s,
            why="three and three quarters of the result",
        ),
        Limit(
            Quantity.KEPT,
            lambda size: 5 * _s(size) // 4,
            why="one and a quarter of the result",
        ),
    ),
    hints=(
        "Change the dtype while the pieces are small: a row at a time.",
        "`tf.cast(row, tf.float32)` of each row, then one `tf.stack`.",
    ),
)

# --- q5 -------------------------------------------------------------------------------------

_EACH: Final = 2**20
_PIECES: Final = 48


def _keeps_arrays() -> Any:
    return [np.ones(_EACH // 8) for _ in range(_PIECES)]


def _keeps_tensors() -> Any:
    return [tf.fill([_EACH // 4], 1.0) for _ in range(_PIECES)]


def _frees_all() -> None:
    tensors = [tf.fill([_EACH // 4], 2.0) for _ in range(_PIECES)]
    del tensors


def _call_and_keep(run: Any, kept: list[Any]) -> None:
    kept.append(run())


def _read_meters(program: None) -> tuple[Table]:
    programs = {"A": _frees_all, "B": _keeps_arrays, "C": _keeps_tensors}
    kept: list[Any] = []
    readings = {}
    for name, run in programs.items():
        # Kept until all are measured, so that no program gets another one's memory.
        readings[name] = ll.process_memory(functools.partial(_call_and_keep, run, kept))
    return (meters_table(readings),)


_q5 = Diagnosis(
    key="measure_memory.q5",
    title="Three programs, three meters",
    prompt="""
    Each of three programs takes 48 MiB; you see what three meters said of it, at the peak and at
    its end. Say what each program did: `{"A": "…", "B": "…", "C": "…"}`, with these words.
    """,
    evidence=_read_meters,
    causes={
        "arrays": "it keeps NumPy arrays",
        "tensors": "it keeps tensors",
        "pool": "it keeps nothing; what the process still has, the allocator keeps for later",
    },
    faults=(
        Fault(
            "A",
            "pool",
            "The tensors were there at the peak and are gone at the end: what the process still "
            "has, the allocator keeps for the next tensors.",
        ),
        Fault("B", "arrays", "Only Python's heap shows them: NumPy's arrays are no tensors."),
        Fault("C", "tensors", "Only the recorder shows them: they are not on Python's heap."),
    ),
    hints=(
        "Which meter sees NumPy's arrays, and which one tensors? One program's column is zero at "
        "the end in both.",
        "The resident set alone can't tell them apart, and does not grow where the allocator has "
        "memory left from before. Look for the ≈ 48 at the end: under "
        "Python's heap, under tensors, or under neither.",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = DiagnosisQuestion(_q5)
EXERCISES: Final = (q1, q2, q3, q4, q5)
