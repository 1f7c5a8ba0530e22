"""Wrong answers to the exercises of `growth`."""

from __future__ import annotations

from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.lessons.growth import (
    evaluate_all_solution,
    make_window_step_solution,
)
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def make_mean_step_batches() -> Any:
    seen: list[Any] = []

    def step(batch: Any) -> Any:
        seen.append(batch)
        return sum(float(tf.reduce_mean(tf.square(b))) for b in seen) / len(seen)

    return step


def make_mean_step_tapes() -> Any:
    losses, tapes = [], []

    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            losses.append(tf.reduce_mean(tf.square(batch)))
        tapes.append(tape)
        return sum(float(loss) for loss in losses) / len(losses)

    return step


def make_mean_step_numpy() -> Any:
    seen: list[Any] = []

    def step(batch: Any) -> Any:
        seen.append(batch.numpy())
        return sum(float((b**2).mean()) for b in seen) / len(seen)

    return step


def make_mean_step_attribute() -> Any:
    def step(batch: Any) -> Any:
        step.seen.append(batch)  # type: ignore[attr-defined]
        return tf.reduce_mean(tf.square(tf.stack(step.seen)))  # type: ignore[attr-defined]

    step.seen = []  # type: ignore[attr-defined]
    return step


def make_mean_step_concat() -> Any:
    squares = tf.zeros([0])

    def step(batch: Any) -> Any:
        nonlocal squares
        squares = tf.concat([squares, tf.reshape(tf.square(batch), [-1])], 0)
        return tf.reduce_mean(squares)

    return step


def make_mean_step_last() -> Any:
    return lambda batch: tf.reduce_mean(tf.square(batch))


def make_window_step_all(k: int) -> Any:
    seen: list[Any] = []

    def step(batch: Any) -> Any:
        seen.append(batch)
        return tf.reduce_mean(tf.stack([tf.reduce_max(b) for b in seen[-k:]]))

    return step


def make_window_step_rows(k: int) -> Any:
    # A view of one row keeps the whole batch alive.
    recent: list[Any] = []

    def step(batch: Any) -> Any:
        recent.append((tf.reduce_max(batch), batch[0]))
        return tf.reduce_mean(tf.stack([largest for largest, _ in recent[-k:]]))

    return step


def make_window_step_width(k: int) -> Any:
    return make_window_step_solution(k + 1)


def evaluate_all_inside(values: Any) -> Any:
    graph, results = tf.Graph(), []
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        for number in values:
            results.append(session.run(2.0 * tf.constant(number) + 1.0))
    return results


def evaluate_all_sessions(values: Any) -> Any:
    # Closing the session changes nothing: the graph keeps its operations.
    graph, results = tf.Graph(), []
    for number in values:
        with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
            results.append(session.run(2.0 * tf.constant(number) + 1.0))
    return results


def evaluate_all_value(values: Any) -> Any:
    return evaluate_all_solution([number + 1.0 for number in values])


def make_average_step_variables(shape: Any) -> Any:
    averages = [tf.Variable(tf.zeros(shape))]

    def step(batch: Any) -> Any:
        averages.append(tf.Variable(0.9 * averages[-1] + 0.1 * batch))
        return tf.reduce_mean(tf.square(averages[-1]))

    return step


def make_average_step_functions(shape: Any) -> Any:
    average = tf.Variable(tf.zeros(shape))
    kept: list[Any] = []

    def step(batch: Any) -> Any:
        # A new tf.function in each call, kept, with the batch in its closure.
        update = tf.function(lambda: average.assign(0.9 * average + 0.1 * batch))
        kept.append(update)
        update()
        return tf.reduce_mean(tf.square(average))

    return step


def make_average_step_weights(shape: Any) -> Any:
    average = tf.Variable(tf.zeros(shape))

    def step(batch: Any) -> Any:
        average.assign(0.1 * average + 0.9 * batch)
        return tf.reduce_mean(tf.square(average))

    return step


WRONG = {
    "q1": (
        Wrong("keeps the batches", make_mean_step_batches, Status.OVER_BUDGET),
        Wrong("keeps unused tapes", make_mean_step_tapes, Status.OVER_BUDGET),
        Wrong("an attribute", make_mean_step_attribute, Status.OVER_BUDGET, "`step.seen`"),
        Wrong("a tensor that grows", make_mean_step_concat, Status.OVER_BUDGET, "tf.concat"),
        Wrong("keeps NumPy copies", make_mean_step_numpy, Status.OVER_BUDGET),
        Wrong("only the last loss", make_mean_step_last, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("keeps all batches", make_window_step_all, Status.OVER_BUDGET),
        Wrong("keeps a row of each", make_window_step_rows, Status.OVER_BUDGET),
        Wrong("one too many", make_window_step_width, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("builds in the loop", evaluate_all_inside, Status.OVER_BUDGET),
        Wrong("a session a round", evaluate_all_sessions, Status.OVER_BUDGET),
        Wrong("other numbers", evaluate_all_value, Status.WRONG_VALUE),
        Wrong(
            "no graph at all",
            lambda values: [2.0 * v + 1.0 for v in values],
            Status.NOT_AS_ASKED,
            "Session",
        ),
    ),
    "q4": (
        Wrong("a variable a call", make_average_step_variables, Status.OVER_BUDGET),
        Wrong("a function a call", make_average_step_functions, Status.OVER_BUDGET),
        Wrong("weights exchanged", make_average_step_weights, Status.WRONG_VALUE),
    ),
}
