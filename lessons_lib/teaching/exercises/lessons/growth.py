"""Exercises of lesson 05, "Growth in loops": steps that don't leave anything behind.

In most of them the learner's function makes a step; the check calls the step many times.  S stands
for the bytes of a batch.
"""

from __future__ import annotations

import random
from typing import Any, Final

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, Way
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.requirements import in_session


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


def _batches(size: Size, seed: int) -> Inputs:
    first = normal(seed, size["rows"], size["width"])

    def call(number: int) -> Any:
        # A batch is made when its turn comes, so that only the step can keep it.
        return lambda: (first * (1.0 + 0.1 * (7 * number % 10)),)

    return Inputs((), tuple(call(number) for number in range(size["calls"])))


_SHOWN = {"rows": 256, "width": 512, "calls": 20}
_GRADED = (
    {"rows": 512, "width": 512, "calls": 16},
    {"rows": 256, "width": 1024, "calls": 20},
)
_GROWTH = Limit(
    Quantity.GROWTH, lambda size: _s(size) // 16, why="a sixteenth of a batch for each call"
)

# --- q1 -------------------------------------------------------------------------------------


def make_mean_step_starter() -> Any:
    """Return ``step(batch)``, which gives the mean of the losses of all batches so far."""
    ...


def make_mean_step_solution() -> Any:
    """Return ``step(batch)``, which gives the mean of the losses of all batches so far."""
    losses = []

    def step(batch: Any) -> Any:
        losses.append(float(tf.reduce_mean(tf.square(batch))))
        return sum(losses) / len(losses)

    return step


_q1 = Exercise(
    key="growth.q1",
    title="A history of numbers",
    prompt="""
    Write `make_mean_step()`. It returns a function `step(batch)` that computes the batch's loss,
    the mean of its squares, and gives the mean of all losses so far. It is called again and
    again; no call may leave tensors or arrays behind.
    """,
    starter=make_mean_step_starter,
    solution_code=make_mean_step_solution,
    inputs=_batches,
    way=Way.STEP,
    shown=_SHOWN,
    graded=_GRADED,
    limits=(_GROWTH,),
    hints=(
        "What must be remembered of a batch? One number.",
        "Keep `float(loss)`, or a running sum and a count. Keep no batch and no tape.",
    ),
)

# --- q2 -------------------------------------------------------------------------------------


def make_window_step_starter(k: int) -> Any:
    """Return ``step(batch)``, which gives the mean of the last k batches' largest elements."""
    ...


def make_window_step_solution(k: int) -> Any:
    """Return ``step(batch)``, which gives the mean of the last k batches' largest elements."""
    recent = []

    def step(batch: Any) -> Any:
        recent.append(tf.reduce_max(batch))
        del recent[:-k]
        return tf.reduce_mean(tf.stack(recent))

    return step


_q2 = Exercise(
    key="growth.q2",
    title="Remember the last k, forget the rest",
    prompt="""
    Write `make_window_step(k)`. It returns `step(batch)`, which gives the mean of the largest
    elements of the last k batches (of fewer, in the first calls). The memory must not grow with
    the number of calls.
    """,
    starter=make_window_step_starter,
    solution_code=make_window_step_solution,
    inputs=lambda size, seed: Inputs((size["k"],), _batches(size, seed).calls),
    way=Way.STEP,
    shown={**_SHOWN, "k": 3},
    graded=tuple({**size, "k": 3} for size in _GRADED),
    limits=(_GROWTH,),
    hints=(
        "Take the largest element at once, and drop what is older than k calls.",
        "`del recent[:-k]` after each append, or a `collections.deque(maxlen=k)`. A row `batch[0]` "
        "would keep its whole batch.",
    ),
)

# --- q3 -------------------------------------------------------------------------------------


def evaluate_all_starter(values: Any) -> Any:
    """Return ``2 · value + 1`` for each value, computed in sessions of one TF1-style graph."""
    ...


def evaluate_all_solution(values: Any) -> Any:
    """Return ``2 · value + 1`` for each value, computed in sessions of one TF1-style graph."""
    graph = tf.Graph()
    with graph.as_default():
        value = tf.compat.v1.placeholder(tf.float32, [])
        result = 2.0 * value + 1.0
    with tf.compat.v1.Session(graph=graph) as session:
        return [session.run(result, {value: number}) for number in values]


_q3 = Exercise(
    key="growth.q3",
    title="Build the graph once",
    prompt="""
    Old code evaluates a list of numbers in a TF1-style graph, and adds operations to the graph in
    every round. Write `evaluate_all(values)`: the list of 2 · value + 1, computed by
    `tf.compat.v1.Session` in a `tf.Graph` whose size does not depend on the number of values.
    """,
    starter=evaluate_all_starter,
    solution_code=evaluate_all_solution,
    inputs=lambda size, seed: Inputs(
        ([random.Random(seed + i).uniform(-5, 5) for i in range(size["count"])],)
    ),
    shown={"count": 30},
    graded=({"count": 40}, {"count": 56}),
    limits=(Limit(Quantity.OPS, lambda size: size["count"] // 2, why="one for every two values"),),
    requires=(in_session,),
    hints=(
        "What changes from round to round has to be fed, not built.",
        "A `tf.compat.v1.placeholder` before the loop; in the loop only "
        "`session.run(result, {placeholder: number})`.",
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def make_average_step_starter(shape: Any) -> Any:
    """Return ``step(batch)``: update ``a ← 0.9 · a + 0.1 · batch``, give the mean of a squared."""
    ...


def make_average_step_solution(shape: Any) -> Any:
    """Return ``step(batch)``: update ``a ← 0.9 · a + 0.1 · batch``, give the mean of a squared."""
    average = tf.Variable(tf.zeros(shape))

    @tf.function
    def step(batch: Any) -> Any:
        average.assign(0.9 * average + 0.1 * batch)
        return tf.reduce_mean(tf.square(average))

    return step


_q4 = Exercise(
    key="growth.q4",
    title="State that stays the size it is",
    prompt="""
    Write `make_average_step(shape)`. It returns `step(batch)`, which updates a moving average,
    a ← 0.9 · a + 0.1 · batch, beginning with zeros, and gives the mean of its squares. There is one
    average, however often the step is called, and at most two traces if you use a `tf.function`.
    """,
    starter=make_average_step_starter,
    solution_code=make_average_step_solution,
    inputs=lambda size, seed: Inputs(((size["rows"], size["width"]),), _batches(size, seed).calls),
    way=Way.STEP,
    shown=_SHOWN,
    graded=_GRADED,
    limits=(
        _GROWTH,
        Limit(Quantity.TRACES, lambda size: 2, why="for each step that is made"),
    ),
    hints=(
        "One variable outside the step, assigned in it.",
        "If you use `tf.function`, make it once, and pass the batch as its argument.",
    ),
)

# --- q5 -------------------------------------------------------------------------------------


class Monitor:
    """Remembers losses, and a row of each batch."""

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.worst: dict[Any, Any] = {}
        self.best = 1e9
        self.axes = tf.range(2)

    def step(self, number: int, batch: Any) -> Any:
        """Give the loss of a batch."""
        loss = tf.reduce_mean(tf.square(batch), self.axes)
        self.losses.append(loss)
        if loss < self.best:
            self.best = float(loss)
        self.worst[number] = batch[0]
        return loss


# The axes are a tensor: TensorFlow sometimes adopts NumPy's array of them, and then nobody sees it.
def _monitor(program: Any) -> tuple[Any, ...]:
    monitor = program()
    calls = _batches({"rows": 256, "width": 512, "calls": 16}, 9).calls
    with ll.record("16 steps") as recording:
        for number, make in enumerate(calls):
            monitor.step(number, *make())
    return (recording,)


_q5 = Diagnosis(
    key="growth.q5",
    title="Find the holder",
    prompt="""
    Each call of `Monitor().step(number, batch)` leaves 512 KiB behind, the size of a batch. Which
    line of the class holds the batches, and how? `{line: cause}`
    """,
    program=Monitor,
    evidence=_monitor,
    causes={
        "list": "it puts whole batches into a container",
        "view": "it keeps a part of each batch, which shares the whole buffer",
        "tape": "it keeps tapes, and with them what they recorded",
        "variable": "it makes a variable in each call, and keeps it",
    },
    faults=(
        Fault(
            "self.worst[number] = batch[0]",
            "view",
            "A row of a batch shares the batch's buffer, and 2 KiB keep 512 KiB. "
            "`tf.gather(batch, 0)` copies the row; keeping fewer rows helps as well.",
        ),
    ),
    near={
        "self.losses.append(loss)": "a loss is four bytes of TensorFlow's memory, and about a "
        "kilobyte of the process with its Python object: little beside 512 KiB.",
        "self.best = float(loss)": "that is one Python number, whatever the calls.",
    },
    hints=(
        "Three names of the object remember something. What is it each time: a number, a small "
        "tensor with a buffer of its own, or a part of a larger one?",
        "`batch[0]` is no copy where a row's bytes are a multiple of 64.",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = DiagnosisQuestion(_q5)
EXERCISES: Final = (q1, q2, q3, q4, q5)
