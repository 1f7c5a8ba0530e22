"""What a block of code traced, and why."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import (
    CaptureKind,
    count_traces,
    trace_report,
    watch_retracing,
)
from tests.support.traced import Model, make, plain


def test_a_watch_tells_function_reason_seconds_and_line():
    fn = tf.function(plain)
    fn(tf.ones([1]))
    with watch_retracing() as watch:
        assert not watch.finished
        fn(tf.ones([1]))  # fits: no trace
        fn(tf.ones([2]))  # the call that traces
    (report,) = watch.reports
    (row,) = watch.rows
    assert (report.name, report.earlier, len(report.traces)) == ("plain", 1, 1)
    assert row.trace.number == 2
    assert row.line.text == "fn(tf.ones([2]))  # the call that traces"
    assert str(row.reason) == "x: shape [1] → [2]"
    assert row.seconds == row.trace.first_call_seconds > row.trace.trace_seconds > 0
    assert watch.retraces == 1
    assert watch.finished
    assert trace_report(fn).traces[0].first_call_seconds is None  # made before the block
    assert trace_report(fn).traces[1].first_call_seconds == row.seconds


def test_a_block_that_traces_nothing():
    fn = make()
    fn(tf.ones([1]))
    with watch_retracing() as watch:
        fn(tf.ones([1]))
        assert repr(watch) == "<watching for traces; complete when the block ends>"
    assert (watch.new_traces, watch.reports, watch.advice) == (0, (), ())
    assert "no function was traced" in repr(watch)
    with pytest.raises(KeyError, match="no function named fn"):
        watch.report("fn")


def test_a_trace_without_a_run_has_no_first_call():
    fn = make()
    with watch_retracing() as watch:
        fn.get_concrete_function(tf.ones([1]))
    (row,) = watch.rows
    assert row.trace.first_call_seconds is None
    assert row.seconds == row.trace.trace_seconds


def test_an_inner_function_is_seen_with_its_own_line():
    @tf.function
    def inner(x):
        return x * 2

    @tf.function
    def outer(x):
        return inner(x) + 1  # calls the inner one

    with watch_retracing() as watch:
        outer(tf.ones([2]))  # calls the outer one
    assert [row.function for row in watch.rows] == ["inner", "outer"]  # as they were finished
    assert watch.rows[0].line.text == "return inner(x) + 1  # calls the inner one"
    assert watch.rows[1].line.text == "outer(tf.ones([2]))  # calls the outer one"
    assert watch.rows[0].trace.first_call_seconds is None
    assert watch.rows[1].trace.trace_seconds > watch.rows[0].trace.trace_seconds


def test_the_cost_of_watching_is_not_in_the_seconds(monkeypatch):
    from lessons_lib.instruments.tracing import hooks
    from lessons_lib.instruments.tracing import retracing as module

    class Clock:
        now = 0.0

        def perf_counter(self):
            self.now += 1e-6
            return self.now

    clock, read = Clock(), module.contents_of

    def slowly(*args):
        clock.now += 100.0
        return read(*args)

    monkeypatch.setattr(hooks, "time", clock)
    monkeypatch.setattr(module, "contents_of", slowly)
    inner = tf.function(plain)
    outer = tf.function(lambda x: inner(x))
    with watch_retracing() as watch:
        outer(tf.ones([1]))
    assert len(watch.rows) == 2
    assert clock.now > 200
    assert all(0 < row.seconds < 1 for row in watch.rows)


def test_same_name_and_shape_are_told_apart():
    one, two = tf.function(plain), tf.function(plain)
    with watch_retracing() as watch:
        one(tf.ones([1]))
        two(tf.ones([1]))
        one(tf.ones([2]))
    assert [len(report.traces) for report in watch.reports] == [2, 1]
    assert [report.name for report in watch.reports] == ["plain", "plain"]


def test_a_function_made_in_a_loop_is_named_as_the_cause():
    with watch_retracing() as watch:
        for _ in range(4):
            tf.function(plain)(tf.ones([1]))
    assert [report.remade for report in watch.reports] == [4] * 4
    assert "4 functions were made from the same code" in watch.advice[0]
    fn = tf.function(plain)
    with watch_retracing() as twin:
        for _ in range(4):
            fn(tf.ones([1]))
    assert [report.remade for report in twin.reports] == [1]
    assert twin.advice == ()


def test_made_once_as_advised_a_function_gives_the_same_results():
    x, rates = tf.ones([1]), (0.1, 0.2, 0.3)
    with watch_retracing() as watch:
        results = []
        for rate in rates:

            @tf.function
            def scaled(x):
                return x * rate  # noqa: B023 - each is called before the next one is made

            results.append(float(scaled(x)[0]))
    assert "define it once" in watch.advice[0]
    assert "pass what differs as an argument, numbers that only meet tensors as" in watch.advice[0]
    once = tf.function(lambda x, rate: x * rate)
    with watch_retracing() as followed:
        assert [float(once(x, tf.constant(rate))[0]) for rate in rates] == results
    assert followed.new_traces == 1


def test_a_librarys_function_that_the_user_makes_anew_is_to_be_kept():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    x = tf.ones([1, 3])
    for called in (model, model.call, tf.nn.softmax):
        with watch_retracing() as watch:
            for _ in range(3):
                tf.function(called)(x)
        assert [report.remade for report in watch.reports] == [3] * 3
        (advice,) = watch.advice
        assert "3 functions were made from the same code" in advice
        assert "make one, keep it, and call that one" in advice


def test_what_tensorflow_traces_in_each_call_is_called_within_a_function():
    x = tf.ones([1, 3])
    with watch_retracing() as watch:
        results = [tf.vectorized_map(tf.nn.softmax, x) for _ in range(3)]
    assert watch.new_traces == 3
    (advice,) = watch.advice
    assert "make that call within a tf.function of your own" in advice
    once = tf.function(lambda x: tf.vectorized_map(tf.nn.softmax, x))
    once(x)
    with watch_retracing() as followed:
        again = [once(x) for _ in range(3)]
    assert followed.new_traces == 0
    assert all(np.array_equal(a, b) for a, b in zip(results, again, strict=True))


def test_a_pipelines_function_is_traced_once_where_the_data_set_is_made_once():
    numbers = tf.data.Dataset.range(4)

    def double(x):
        return x * 2

    with watch_retracing() as watch:
        results = [list(numbers.map(double).as_numpy_iterator()) for _ in range(3)]
    assert [report.remade for report in watch.reports] == [3] * 3
    (advice,) = watch.advice
    assert "make the data set once, and go through it again" in advice
    with watch_retracing() as followed:
        doubled = numbers.map(double)
        assert [list(doubled.as_numpy_iterator()) for _ in range(3)] == results
    assert followed.new_traces == 1
    assert followed.advice == ()


def test_what_a_factory_makes_of_several_functions_is_not_made_from_the_same_code():
    def compiled(step):
        @tf.function
        def run(x):
            return step(x)

        return run

    class Steps:
        def train(self, x):
            return x * 2

        def test(self, x):
            return x * 3

    steps, x = Steps(), tf.ones([1])
    for pair in (
        (compiled(lambda x: x * 2), compiled(lambda x: x * 3)),
        (compiled(steps.train), compiled(steps.test)),
        (compiled(compiled(steps.train)), compiled(compiled(steps.test))),
    ):
        with watch_retracing() as watch:
            for made in pair:
                made(x)
        assert {report.remade for report in watch.reports} == {1}
        assert watch.advice == ()
    with watch_retracing() as watch:
        for _ in range(2):
            compiled(steps.train)(x)
    assert "2 functions were made from the same code" in watch.advice[0]


def test_functions_whose_graphs_differ_are_not_one_made_again():
    class Scaled:
        def __init__(self, size):
            self.by = tf.ones([size])

        @tf.function
        def run(self, x):
            return x * self.by

    class Twice(Scaled):
        pass

    x = tf.ones([1])
    for pair in ((Scaled(2), Scaled(3)), (Scaled(2), Twice(2))):
        with watch_retracing() as watch:
            for scaled in pair:
                scaled.run(x)
        assert watch.advice == ()
    small, large = (tf.keras.Sequential([tf.keras.layers.Dense(n)]) for n in (1, 2))
    for model in (small, large):
        model.compile("sgd", "mse")
    with watch_retracing() as watch:
        for model in (small, large):
            model.train_on_batch(tf.ones([2, 3]), tf.ones([2, 1]))
    assert watch.advice == ()


def test_an_instance_for_each_call_is_advised_on():
    with watch_retracing() as watch:
        for _ in range(3):
            model = Model()
            model.step(tf.ones([1, 8]))
    assert "Each instance traces Model.step for itself, 3 here" in watch.advice[0]


def call_and_drop():
    tensor = tf.ones([1000])
    fn = tf.function(lambda x: x + tensor)
    fn(tf.ones([1000]))
    return weakref.ref(fn), weakref.ref(tensor)


@pytest.mark.slow
def test_watching_keeps_nothing_alive():
    with watch_retracing() as watch:
        gone, held = call_and_drop()
        gc.collect()
        assert gone() is None
        assert held() is None
    (report,) = watch.reports
    assert report.traces[0].captures[0].nbytes == 4000
    assert report.traces[0].ops > 0


def test_an_exception_in_the_block_and_in_the_function():
    fn = make()

    @tf.function
    def broken(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        with watch_retracing() as watch:
            fn(tf.ones([1]))
            broken(tf.ones([1]))
    assert watch.finished
    assert watch.new_traces == 1
    with watch_retracing() as again:
        fn(tf.ones([2]))
    assert again.new_traces == 1


def test_blocks_nest():
    fn = make()
    with watch_retracing() as outer:
        fn(tf.ones([1]))
        with watch_retracing() as inner:
            fn(tf.ones([2]))
        fn(tf.ones([3]))
    assert (outer.new_traces, inner.new_traces) == (3, 1)
    assert inner.reports[0].earlier == 1


def test_all_threads_are_watched():
    functions = [tf.function(plain) for _ in range(4)]

    def work(fn):
        for size in range(1, 6):
            fn(tf.ones([size]))

    with watch_retracing() as watch:
        threads = [threading.Thread(target=work, args=(fn,)) for fn in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watch.new_traces == 20
    assert [len(report.traces) for report in watch.reports] == [5] * 4
    assert [t.number for t in watch.reports[0].traces] == [1, 2, 3, 4, 5]
    assert watch.notes == ()


def test_keras_fit_is_seen():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones([8, 4], np.float32), np.ones([8, 1], np.float32)
    with watch_retracing() as first:
        model.fit(x, y, batch_size=4, verbose=0)  # the line that trains
    names = [report.name for report in first.reports]
    assert any("step" in name for name in names)
    kernel = [
        capture
        for row in first.rows
        for capture in row.trace.captures
        if capture.kind is CaptureKind.VARIABLE and capture.shape == (4, 1)
    ]
    assert kernel[0].nbytes == 4 * 1 * 4
    assert {row.line.text for row in first.rows} == {
        "model.fit(x, y, batch_size=4, verbose=0)  # the line that trains"
    }
    assert count_traces(model.train_function) >= 1
    assert all(report.line is None for report in first.reports)
    with watch_retracing() as second:
        model.fit(x, y, batch_size=4, verbose=0)
    assert not [report for report in second.reports if "one_step" in report.name]


@pytest.mark.slow
def test_keras_models_made_in_a_loop_are_named_as_the_cause():
    def build():
        model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    x, y = np.ones([8, 4], np.float32), np.ones([8, 1], np.float32)
    with watch_retracing() as watch:
        for _ in range(2):
            build().fit(x, y, verbose=0)
    assert any("Each Keras model traces its own" in advice for advice in watch.advice)
    model = build()
    with watch_retracing() as twin:
        for _ in range(2):
            model.fit(x, y, validation_data=(x, y), verbose=0)
    assert not any("Keras model" in advice for advice in twin.advice)


def test_a_model_that_was_not_fitted():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    with pytest.raises(TypeError, match="train_function"):
        trace_report(model)
    with pytest.raises(TypeError, match="make_train_function"):
        trace_report(model.train_function)


def test_a_pipelines_functions_carry_the_users_name():
    def double(x):
        return x * 2

    with watch_retracing() as watch:
        for _ in range(2):
            list(tf.data.Dataset.range(3).map(double))
    assert [report.name for report in watch.reports] == ["double", "double"]
    assert watch.reports[0].line.text == "def double(x):"
    assert watch.reports[0].remade == 2
