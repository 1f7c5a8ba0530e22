"""Exercises of lesson 04, "tf.function and tracing".

Traces and operations are counted over all runs of a check at one size.  S stands for the bytes of
the float32 tensor in play.
"""

from __future__ import annotations

import random
from typing import Any, Final

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.evidence import traces_by_line
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, Way
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.requirements import in_graph, is_function, loop_in_graph


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


# --- q1 -------------------------------------------------------------------------------------


def wave_starter(x: Any, factor: Any) -> Any:
    """Return ``sin(factor · x) + 1`` for a tensor x and a Python number."""
    ...


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def wave_solution(x: Any, factor: Any) -> Any:
    """Return ``sin(factor · x) + 1`` for a tensor x and a Python number."""
    return tf.sin(factor * x) + 1.0


def _one_tensor_many_numbers(size: Size, seed: int) -> Inputs:
    x = normal(seed, size["rows"], size["width"], scale=0.5) + 0.7
    chance = random.Random(seed)

    def call(factor: float) -> Any:
        return lambda: (x, factor)

    calls = tuple(call(chance.uniform(0.5, 2.0)) for _ in range(size["calls"]))
    return Inputs((x, 1.5), calls)


_q1 = Exercise(
    key="tracing.q1",
    title="One trace for all numbers",
    prompt="""
    Write `wave(x, factor)`: sin(factor · x) + 1. It is called many times, with a Python number
    that is another one each time. It must run as a graph, and be traced once.
    """,
    starter=wave_starter,
    solution_code=wave_solution,
    inputs=_one_tensor_many_numbers,
    way=Way.EACH,
    requires=(in_graph("Sin"),),
    shown={"rows": 512, "width": 512, "calls": 10},
    graded=(
        {"rows": 768, "width": 512, "calls": 12},
        {"rows": 512, "width": 1024, "calls": 20},
    ),
    limits=(
        Limit(Quantity.TRACES, lambda size: 1, why="one for all calls"),
        Limit(Quantity.PEAK, lambda size: 3 * _s(size) // 2, floor=_s, why="one and a half of x"),
    ),
    hints=(
        "A Python number is part of the key of a trace by its value; a tensor is not.",
        "Let the number become a tensor before it reaches the `tf.function`: convert it in a "
        "function around it, or give the `tf.function` an `input_signature`.",
    ),
    tolerance=1e-3,
)

# --- q2 -------------------------------------------------------------------------------------


def energy_starter(batch: Any) -> Any:
    """Return the sum of ``tanh(2 · batch)`` for batches of any number of rows."""
    ...


@tf.function(reduce_retracing=True)
def energy_solution(batch: Any) -> Any:
    """Return the sum of ``tanh(2 · batch)`` for batches of any number of rows."""
    return tf.reduce_sum(tf.tanh(2.0 * batch))


def _many_shapes(size: Size, seed: int) -> Inputs:
    first = size["rows"] - size["calls"] - random.Random(seed).randrange(100)

    numbers = normal(seed, size["rows"], size["width"], scale=2.0)

    def call(number: int) -> Any:
        return lambda: (numbers[: first + number] + 0.1 * number,)

    return Inputs(call(0)(), tuple(call(number) for number in range(size["calls"])))


_q2 = Exercise(
    key="tracing.q2",
    title="Two traces for all shapes",
    prompt="""
    Write `energy(batch)`: the sum of tanh(2 · batch). Batches have between `rows - 200` and `rows`
    rows, another number each time. It must run as a graph, and be traced at most twice.
    """,
    starter=energy_starter,
    solution_code=energy_solution,
    inputs=_many_shapes,
    way=Way.EACH,
    requires=(in_graph("Tanh"),),
    shown={"rows": 600, "width": 512, "calls": 10},
    graded=(
        {"rows": 800, "width": 512, "calls": 12},
        {"rows": 640, "width": 1024, "calls": 16},
    ),
    limits=(
        Limit(Quantity.TRACES, lambda size: 2, why="one exact, one relaxed"),
        Limit(
            Quantity.PEAK,
            # The batch itself is made in the call: it counts too.
            lambda size: 9 * _s(size) // 2,
            floor=lambda size: floats(size["rows"] - 200, size["width"]),
            why="four and a half of the largest batch, which is made in the run",
        ),
    ),
    hints=(
        "The shape of a tensor is part of the key, unless the function says that a side may vary.",
        "`@tf.function(reduce_retracing=True)`, or an `input_signature` with "
        "`tf.TensorSpec([None, None])`.",
    ),
    tolerance=1e-3,
)

# --- q3 -------------------------------------------------------------------------------------


def make_lookup_starter(table: Any) -> Any:
    """Return a ``tf.function`` that gives ``x @ table``, for a NumPy table."""
    ...


def make_lookup_solution(table: Any) -> Any:
    """Return a ``tf.function`` that gives ``x @ table``, for a NumPy table."""
    weights = tf.constant(table)  # a tensor from outside is captured, not copied into the graph

    @tf.function
    def lookup(x: Any) -> Any:
        return x @ weights

    return lookup


def _table(size: Size, seed: int) -> Inputs:
    table = normal(seed, size["width"], size["width"]).numpy()
    x = normal(seed + 1, size["rows"], size["width"])
    return Inputs((table,), (lambda: (x,),))


_q3 = Exercise(
    key="tracing.q3",
    title="Keep a table out of the graph",
    prompt="""
    `table` is a NumPy array. Write `make_lookup(table)`: it returns a `tf.function` that gives
    `x @ table`. The description of its graph must stay small: the table must not be in it.
    """,
    starter=make_lookup_starter,
    solution_code=make_lookup_solution,
    inputs=_table,
    way=Way.STEP,
    requires=(is_function,),
    shown={"rows": 16, "width": 512},
    graded=({"rows": 16, "width": 512}, {"rows": 24, "width": 768}),
    limits=(
        Limit(
            Quantity.GRAPH,
            lambda size: floats(size["width"], size["width"]) // 16,
            why="a sixteenth of the table",
        ),
    ),
    hints=(
        "A NumPy array that a traced function uses becomes a constant in the graph. What becomes "
        "of a tensor?",
        "Make `weights = tf.constant(table)` before the function is traced, outside of it; inside, "
        "use `weights`. It is captured.",
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def decay_starter(x: Any, n: int) -> Any:
    """Apply ``x → 0.9 · tanh(x) + 0.01`` n times in a graph and return the last x."""
    ...


@tf.function
def decay_solution(x: Any, n: int) -> Any:
    """Apply ``x → 0.9 · tanh(x) + 0.01`` n times in a graph and return the last x."""
    for _ in tf.range(n):
        x = 0.9 * tf.tanh(x) + 0.01
    return x


_q4 = Exercise(
    key="tracing.q4",
    title="A loop that stays a loop",
    prompt="""
    Write `decay(x, n)`: apply x → 0.9 · tanh(x) + 0.01 n times, in a graph. `n` is a Python number,
    and the graph must not grow with it: a `while` loop has its body in the graph once.
    """,
    starter=decay_starter,
    solution_code=decay_solution,
    inputs=lambda size, seed: Inputs((normal(seed, size["rows"], size["width"]), size["n"])),
    requires=(loop_in_graph,),
    shown={"rows": 256, "width": 512, "n": 100},
    graded=({"rows": 512, "width": 512, "n": 48}, {"rows": 400, "width": 512, "n": 72}),
    limits=(
        Limit(Quantity.OPS, lambda size: size["n"], why="one for every step"),
        Limit(
            Quantity.PEAK,
            lambda size: 3 * _s(size) // 2,
            floor=_s,
            why="one and a half of x",
        ),
    ),
    hints=(
        "Python's `range` runs while the function is traced, and so puts n bodies into the graph.",
        "`for _ in tf.range(n)` in a `tf.function` becomes one `While` operation.",
    ),
)

# --- q5 -------------------------------------------------------------------------------------


def weighted_sum(batches: Any) -> Any:
    """Return the sum of all batches, each scaled and weighted."""

    @tf.function
    def score(batch: Any, weight: Any) -> Any:
        return tf.reduce_sum(batch * weight)

    total = 0.0
    for i, batch in enumerate(batches):
        largest = tf.function(tf.reduce_max)
        batch = batch / largest(batch)
        total += score(batch, 1.0 / (i + 1))
    return total


def _count_traces(program: Any) -> tuple[Any, ...]:
    _, table = traces_by_line(lambda: program([normal(seed, 64, 32) for seed in range(8)]))
    return (table,)


_q5 = Diagnosis(
    key="tracing.q5",
    title="Sixteen traces for eight batches",
    prompt="""
    `weighted_sum(batches)` is called with eight batches of one shape, and traces sixteen times: the
    table says which calls. Two lines are at fault. Name them with their causes:
    `{line: cause, line: cause}`.
    """,
    program=weighted_sum,
    evidence=_count_traces,
    causes={
        "value": "a Python value is an argument, and each value is a trace",
        "shape": "a shape is new in each call",
        "function": "the tf.function itself is made anew, with no traces yet",
        "array": "an array is written into the graph as a constant",
    },
    faults=(
        Fault(
            "largest = tf.function(tf.reduce_max)",
            "function",
            "Each round makes a tf.function that has never been traced. Made once, before the "
            "loop, it would be traced once.",
            also=("batch = batch / largest(batch)",),
        ),
        Fault(
            "total += score(batch, 1.0 / (i + 1))",
            "value",
            "The weight is a Python number, another one in each call, and numbers are part of the "
            "key by their value. `tf.constant(1.0 / (i + 1))` is part of it by dtype and shape.",
        ),
    ),
    near={
        "return tf.reduce_sum(batch * weight)": "this is what is traced; the question is which "
        "call asks for it again and again.",
    },
    hints=(
        "The batches have one shape. What else differs from call to call, and what is new?",
        "A trace belongs to one tf.function and one key. Where is each tf.function made, and what "
        "is in the key of the call?",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = DiagnosisQuestion(_q5)
EXERCISES: Final = (q1, q2, q3, q4, q5)
