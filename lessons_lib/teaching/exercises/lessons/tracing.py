"""Exercises of lesson 04, "tf.function and tracing".

Traces and operations are counted over all runs of a check at one size.  S stands for the bytes of
the float32 tensor in play.
"""

from __future__ import annotations

import random
from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Answer, Exercise, Inputs, WrongAnswer
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Promise, Quantity, Size
from lessons_lib.teaching.exercises.result import Status


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


def _means(answer: Answer, inputs: Inputs) -> Any:
    """Call an answer many times; keep only the mean of each result."""
    means = []
    for make in inputs.calls:
        value = answer(*make())
        means.append(None if value is None else float(tf.reduce_mean(value)))
        del value
    return means


# --- q1 -------------------------------------------------------------------------------------


def wave_starter(x: Any, factor: Any) -> Any:
    """Return ``sin(factor · x) + 1`` for a tensor x and a Python number."""
    ...


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def wave_solution(x: Any, factor: Any) -> Any:
    """Return ``sin(factor · x) + 1`` for a tensor x and a Python number."""
    return tf.sin(factor * x) + 1.0


@tf.function
def _wave_wrong_number(x: Any, factor: Any) -> Any:
    return tf.sin(factor * x) + 1.0


@tf.function(reduce_retracing=True)
def _wave_wrong_relaxed(x: Any, factor: Any) -> Any:
    return tf.sin(factor * x) + 1.0


def _wave_wrong_eager(x: Any, factor: Any) -> Any:
    x = factor * x
    x = tf.sin(x)
    return x + 1.0


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def _wave_wrong_order(x: Any, factor: Any) -> Any:
    return tf.sin(factor * (x + 1.0))


def _one_tensor_many_numbers(size: Size, seed: int) -> Inputs:
    x = normal(seed, size["rows"], size["width"], scale=0.5) + 0.7
    chance = random.Random(seed)

    def call(factor: float) -> Any:
        return lambda: (x, factor)

    calls = tuple(call(chance.uniform(0.5, 2.0)) for _ in range(size["calls"]))
    return Inputs((x, 1.5), calls)


q1 = Exercise(
    key="tracing.q1",
    title="One trace for all numbers",
    prompt="""
    Write `wave(x, factor)`: sin(factor · x) + 1. It is called many times, with a Python number
    that is another one each time. It must run as a graph (its buffers show whether it does), and
    be traced once.
    """,
    starter=wave_starter,
    solution_code=wave_solution,
    inputs=_one_tensor_many_numbers,
    run=_means,
    shown={"rows": 512, "width": 512, "calls": 10},
    graded=(
        {"rows": 768, "width": 512, "calls": 12},
        {"rows": 512, "width": 1024, "calls": 20},
    ),
    promises=(
        Promise(Quantity.TRACES, lambda size: 1, why="one for all calls"),
        Promise(Quantity.PEAK, lambda size: 3 * _s(size) // 2, floor=_s, why="one and a half of x"),
    ),
    hints=(
        "A Python number is part of the key of a trace by its value; a tensor is not.",
        "Let the number become a tensor before it reaches the `tf.function`: convert it in a "
        "function around it, or give the `tf.function` an `input_signature`.",
    ),
    wrong=(
        WrongAnswer("a trace for each number", _wave_wrong_number, Status.OVER_BUDGET),
        WrongAnswer("reduce_retracing alone", _wave_wrong_relaxed, Status.OVER_BUDGET),
        WrongAnswer("no graph at all", _wave_wrong_eager, Status.OVER_BUDGET),
        WrongAnswer("adds before the sine", _wave_wrong_order, Status.WRONG_VALUE),
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


@tf.function
def _energy_wrong_shapes(batch: Any) -> Any:
    return tf.reduce_sum(tf.tanh(2.0 * batch))


def _energy_wrong_eager(batch: Any) -> Any:
    return tf.reduce_sum(tf.tanh(2.0 * batch))


@tf.function(reduce_retracing=True)
def _energy_wrong_mean(batch: Any) -> Any:
    return tf.reduce_mean(tf.tanh(2.0 * batch))


def _many_shapes(size: Size, seed: int) -> Inputs:
    first = size["rows"] - size["calls"] - random.Random(seed).randrange(100)

    def call(number: int) -> Any:
        return lambda: (normal(seed + number, first + number, size["width"], scale=2.0) + 0.3,)

    return Inputs(call(0)(), tuple(call(number) for number in range(size["calls"])))


def _numbers(answer: Answer, inputs: Inputs) -> Any:
    values = [answer(*make()) for make in inputs.calls]
    return None if all(value is None for value in values) else [float(value) for value in values]


q2 = Exercise(
    key="tracing.q2",
    title="Two traces for all shapes",
    prompt="""
    Write `energy(batch)`: the sum of tanh(2 · batch). Batches have between `rows - 200` and `rows`
    rows, another number each time. It must run as a graph, and be traced at most twice.
    """,
    starter=energy_starter,
    solution_code=energy_solution,
    inputs=_many_shapes,
    run=_numbers,
    shown={"rows": 600, "width": 512, "calls": 10},
    graded=(
        {"rows": 800, "width": 512, "calls": 12},
        {"rows": 640, "width": 1024, "calls": 16},
    ),
    promises=(
        Promise(Quantity.TRACES, lambda size: 2, why="one exact, one relaxed"),
        Promise(
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
    wrong=(
        WrongAnswer("a trace for each shape", _energy_wrong_shapes, Status.OVER_BUDGET),
        WrongAnswer("the mean", _energy_wrong_mean, Status.WRONG_VALUE),
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


def _make_lookup_wrong_baked(table: Any) -> Any:
    return tf.function(lambda x: x @ table)


def _make_lookup_wrong_inside(table: Any) -> Any:
    @tf.function
    def lookup(x: Any) -> Any:
        return x @ tf.constant(table)

    return lookup


def _make_lookup_wrong_transposed(table: Any) -> Any:
    weights = tf.transpose(tf.constant(table))
    return tf.function(lambda x: x @ weights)


def _table(size: Size, seed: int) -> Inputs:
    table = normal(seed, size["width"], size["width"]).numpy()
    x = normal(seed + 1, size["rows"], size["width"])
    return Inputs((table,), (lambda: (x,),))


def _made(answer: Answer, inputs: Inputs) -> Any:
    function = answer(*inputs.arguments)
    if function is None:
        return None
    if not hasattr(function, "get_concrete_function"):
        raise TypeError(f"return a tf.function, not a {type(function).__name__}")
    return [function(*make()) for make in inputs.calls]


q3 = Exercise(
    key="tracing.q3",
    title="Keep a table out of the graph",
    prompt="""
    `table` is a NumPy array. Write `make_lookup(table)`: it returns a `tf.function` that gives
    `x @ table`. The description of its graph must stay small: the table must not be in it.
    """,
    starter=make_lookup_starter,
    solution_code=make_lookup_solution,
    inputs=_table,
    run=_made,
    shown={"rows": 16, "width": 512},
    graded=({"rows": 16, "width": 512}, {"rows": 24, "width": 768}),
    promises=(
        Promise(
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
    wrong=(
        WrongAnswer("the array itself inside", _make_lookup_wrong_baked, Status.OVER_BUDGET),
        WrongAnswer("tf.constant inside", _make_lookup_wrong_inside, Status.OVER_BUDGET),
        WrongAnswer("transposed", _make_lookup_wrong_transposed, Status.WRONG_VALUE),
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


@tf.function
def _decay_wrong_unrolled(x: Any, n: int) -> Any:
    for _ in range(n):
        x = 0.9 * tf.tanh(x) + 0.01
    return x


def _decay_wrong_eager(x: Any, n: int) -> Any:
    for _ in range(n):
        x = 0.9 * tf.tanh(x) + 0.01
    return x


@tf.function
def _decay_wrong_once(x: Any, n: int) -> Any:
    if n > 0:
        x = 0.9 * tf.tanh(x) + 0.01
    return x


q4 = Exercise(
    key="tracing.q4",
    title="A loop that stays a loop",
    prompt="""
    Write `decay(x, n)`: apply x → 0.9 · tanh(x) + 0.01 n times, in a graph. `n` is a Python number,
    and the graph must not grow with it: a `while` loop has its body in the graph once.
    """,
    starter=decay_starter,
    solution_code=decay_solution,
    inputs=lambda size, seed: Inputs(
        (normal(seed, size["rows"] + seed % 50, size["width"]), size["n"])
    ),
    shown={"rows": 256, "width": 512, "n": 100},
    graded=({"rows": 512, "width": 512, "n": 160}, {"rows": 400, "width": 512, "n": 240}),
    promises=(
        Promise(Quantity.OPS, lambda size: size["n"] // 3, why="one for every three steps"),
        Promise(
            Quantity.PEAK,
            lambda size: 3 * floats(size["rows"] + 50, size["width"]) // 2,
            floor=_s,
            why="one and a half of x",
        ),
    ),
    hints=(
        "Python's `range` runs while the function is traced, and so puts n bodies into the graph.",
        "`for _ in tf.range(n)` in a `tf.function` becomes one `While` operation.",
    ),
    wrong=(
        WrongAnswer("unrolls the loop", _decay_wrong_unrolled, Status.OVER_BUDGET),
        WrongAnswer("no graph at all", _decay_wrong_eager, Status.OVER_BUDGET),
        WrongAnswer("one step only", _decay_wrong_once, Status.WRONG_VALUE),
    ),
)

EXERCISES = (q1, q2, q3, q4)
