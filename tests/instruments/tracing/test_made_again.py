"""Functions of the same code over different variables: what is least, and what is advised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import first_difference, snapshot
from lessons_lib.instruments.tracing import watch_retracing


class Member(tf.Module):
    def __init__(self, start: float) -> None:
        super().__init__()
        self.weight = tf.Variable([start, 1.0])


def step_of(member: Any) -> Any:
    @tf.function
    def step(x: Any) -> Any:
        return member.weight.assign(member.weight * x)

    return step


def run(steps: list[Any], x: Any) -> list[Any]:
    return [snapshot(step(x)) for step in steps]


def members() -> list[Member]:
    return [Member(start) for start in (1.0, 2.0, 3.0)]


@pytest.mark.parametrize("times", [1, 2])
def test_over_different_variables_a_function_for_each_set_is_the_least(times: int) -> None:
    x, ensemble = tf.constant([2.0, 3.0]), members()
    with watch_retracing() as watch:
        results = [run([step_of(member) for member in ensemble], x) for _ in range(times)]
    assert watch.new_traces == 3 * times
    (advice,) = watch.advice
    assert f"{3 * times} functions were made from the same code" in advice
    assert "They use 3 different sets of variables: make one function for each set" in advice
    assert "define it once" not in advice
    # As advised.
    steps = [step_of(member) for member in members()]
    with watch_retracing() as kept:
        again = [run(steps, x) for _ in range(times)]
    assert kept.new_traces == 3
    assert first_difference(results, again) is None


def test_what_is_passed_in_their_place_is_traced_as_the_advice_says() -> None:
    x = tf.constant([2.0, 3.0])
    expected = run([step_of(member) for member in members()], x)

    def step(weight: Any, x: Any) -> Any:
        return weight.assign(weight * x)

    by_object = tf.function(lambda member, x: step(member.weight, x))
    assert first_difference(expected, [snapshot(by_object(m, x)) for m in members()]) is None
    assert by_object.experimental_get_tracing_count() == 3
    by_variable = tf.function(step)
    again = [snapshot(by_variable(member.weight, x)) for member in members()]
    assert first_difference(expected, again) is None
    assert by_variable.experimental_get_tracing_count() == 1


def test_over_the_same_variables_it_is_defined_once() -> None:
    x, member = tf.constant([2.0, 3.0]), Member(1.0)
    with watch_retracing() as watch:
        results = [run([step_of(member)], x) for _ in range(3)]
    (advice,) = watch.advice
    assert "define it once, outside the loop" in advice
    assert "sets of variables" not in advice
    once = step_of(Member(1.0))
    with watch_retracing() as followed:
        again = [run([once], x) for _ in range(3)]
    assert followed.new_traces == 1
    assert first_difference(results, again) is None


def test_variables_that_are_gone_are_still_told_apart() -> None:
    with watch_retracing() as watch:
        for _ in range(4):  # each may lie where the one before it lay
            step_of(Member(1.0))(tf.ones([2]))
    assert "They use 4 different sets of variables" in watch.advice[0]


def test_what_tensorflow_makes_of_a_function_is_not_told_beside_it() -> None:
    class Late(tf.Module):
        weight = None

        def use(self, x: Any) -> Any:
            if self.weight is None:
                self.weight = tf.Variable(lambda: tf.ones([2]))
            return self.weight * x

    def step_of_late(late: Late) -> Any:
        @tf.function
        def step(x: Any) -> Any:
            y = late.use(x)
            return tf.cond(tf.reduce_sum(y) > 0, lambda: late.use(y), lambda: y)

        return step

    with watch_retracing() as watch:
        for _ in range(3):
            step_of_late(Late())(tf.ones([2]))
    assert "initialize_variables" in {report.name for report in watch.reports}
    (advice,) = watch.advice
    assert "They use 3 different sets of variables" in advice


@pytest.mark.further
def test_a_librarys_function_over_different_models_is_made_for_each() -> None:
    def model() -> Any:
        return tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])

    models = [model() for _ in range(3)]
    with watch_retracing() as watch:
        for each in models:
            tf.function(each)(tf.ones([1, 3]))
    assert watch.new_traces == 3
    (advice,) = watch.advice
    assert "They use 3 different sets of variables" in advice
    assert "call that one" not in advice


def windows(numbers: Any) -> Any:
    """Give the batches of a data set that a Keras utility makes, with functions of its own."""
    return tf.keras.utils.timeseries_dataset_from_array(numbers, None, 2, batch_size=4)


def test_data_sets_that_keras_utilities_make_are_no_fits() -> None:
    numbers = np.arange(12, dtype=np.float32)
    with watch_retracing() as parts:
        tf.keras.utils.timeseries_dataset_from_array(numbers[:6], None, 2, batch_size=4)
        tf.keras.utils.timeseries_dataset_from_array(numbers[6:], None, 2, batch_size=4)
    assert parts.new_traces > 2
    assert parts.advice == ()
    with watch_retracing() as repeated:
        results = [snapshot(list(windows(numbers))) for _ in range(2)]
    assert repeated.new_traces > 2
    assert len(repeated.advice) > 0
    for advice in repeated.advice:
        assert "2 here" in advice
        assert "for the same data, make the data set once" in advice
        assert "fit" not in advice
    once = windows(numbers)
    with watch_retracing() as followed:
        again = [snapshot(list(once)) for _ in range(2)]
    assert followed.new_traces == 0
    assert first_difference(results, again) is None
