"""`MemoryCallback`: what a batch needs, in the logs; and that nothing stays on.

The models allocate a known amount beside little else: a step that makes N tensors of 1 MiB.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.common.results import alt_text
from lessons_lib.instruments import keras_callback
from lessons_lib.instruments.keras_callback import FitMemory, MemoryCallback
from lessons_lib.plots.keras_fit import describe_fit
from lessons_lib.plots.theme import get_alt
from tests.support.state import state

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

tf = ll.runtime.tf
S = 2**20
LITTLE = 64 * 2**10  # everything of a step beside its big tensors


def make_model(tensors: int = 1, *, fail_at: int = -1, **options: Any) -> Any:
    """Make a model whose training step holds so many tensors of 1 MiB at once."""

    class Model(tf.keras.Model):
        steps = 0

        def call(self, x: Any) -> Any:
            return x

        def train_step(self, data: Any) -> dict[str, Any]:
            if fail_at >= 0 and self.steps >= fail_at:
                raise LookupError("mine")
            self.steps += 1
            made = [tf.random.uniform([512, 512]) for _ in range(tensors)]
            return {"loss": tf.reduce_sum(tf.add_n(made))}

        def test_step(self, data: Any) -> dict[str, Any]:
            made = tf.random.uniform([1024, 1024])
            return {"loss": tf.reduce_sum(made)}

        def predict_step(self, data: Any) -> Any:
            return tf.reduce_sum(tf.random.uniform([512, 1024]), axis=1)

    model = Model()
    model.compile("sgd", "mse", **options)
    return model


def fit(model: Any, callbacks: list[Any], **options: Any) -> Any:
    x = tf.zeros([8, 2])
    options = {"batch_size": 2, "verbose": 0, **options}
    return model.fit(x, x, callbacks=callbacks, **options)


@pytest.fixture(scope="module")
def run() -> tuple[FitMemory, dict[str, list[float]]]:
    memory = MemoryCallback()
    x = tf.zeros([8, 2])
    history = fit(make_model(2, run_eagerly=True), [memory], epochs=2, validation_data=(x, x))
    return memory.result, history.history


def test_peak_of_a_batch_is_what_its_step_holds(run: Any) -> None:
    result, _ = run
    assert [len(result.epoch(e, p)) for e in (0, 1) for p in ("train", "validation")] == [4] * 4
    for batch in result.batches:
        # Two tensors and their sum; the validation holds one tensor of 4 MiB.
        held = 3 * S if batch.phase == "train" else 4 * S
        assert abs(batch.peak_bytes - held) < LITTLE
        assert abs(batch.kept_bytes) < LITTLE
        assert abs(batch.between_bytes) < LITTLE
    one = MemoryCallback()
    fit(make_model(1, run_eagerly=True), [one])
    assert one.result.peak_bytes < 3 * S  # a smaller step is seen to be smaller


def test_logs_of_an_epoch_are_made_of_its_batches(run: Any) -> None:
    result, history = run
    for prefix, phase in (("", "train"), ("val_", "validation")):
        for epoch in (0, 1):
            batches = result.epoch(epoch, phase)
            assert history[f"{prefix}peak_mib"][epoch] == max(b.peak_bytes for b in batches) / S
            kept = sum(b.kept_bytes + b.between_bytes for b in batches)
            # What happens between the epoch's end and the next step is not in its logs.
            assert abs(history[f"{prefix}kept_mib"][epoch] - kept / S) < LITTLE / S


def test_recording_is_of_the_batch_with_the_highest_peak(run: Any) -> None:
    result, _ = run
    assert result.recording.peak_bytes == result.peak_bytes
    assert result.recording.label.startswith("validation batch")
    assert "test_keras_callback.py" in str(result.recording.by_line())


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["graph", "XLA"])
def test_compiled_steps_are_seen_too(options: dict[str, Any]) -> None:
    memory = MemoryCallback()
    fit(make_model(2, **options), [memory])
    assert len(memory.result.batches) == 4
    assert memory.result.peak_bytes >= (S if not options else 1)
    assert bool(memory.result.notes) is bool(options)


def test_progress_bar_shows_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    fit(make_model(), [MemoryCallback()], verbose=2)
    assert "peak_mib: " in capsys.readouterr().out
    fit(make_model(), [], verbose=2)
    assert "peak_mib: " not in capsys.readouterr().out


def test_step_that_raises_leaves_nothing_on() -> None:
    before = state()
    model, memory = make_model(run_eagerly=True, fail_at=2), MemoryCallback()
    with pytest.raises(LookupError, match="mine"):
        fit(model, [memory])
    assert state() == before
    assert len(memory.result.batches) == 2
    plain = make_model(run_eagerly=True)
    fit(plain, [])
    assert type(model.train_function) is type(plain.train_function)


class Raises(tf.keras.callbacks.Callback):
    def __init__(self, when: str) -> None:
        super().__init__()
        setattr(self, when, self.fail)

    def fail(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            raise LookupError("mine")


@pytest.mark.parametrize("when", ["on_train_batch_begin", "on_train_batch_end"])
def test_other_callback_that_raises_leaves_nothing_on(when: str) -> None:
    before = state()
    model, memory = make_model(run_eagerly=True), MemoryCallback()
    with pytest.raises(LookupError, match="mine"):
        fit(model, [memory, Raises(when)])
    assert state() == before
    seen, another = len(memory.result.batches), MemoryCallback()
    fit(model, [another])
    assert len(another.result.batches) == 4
    assert len(memory.result.batches) == seen


class Counts(tf.keras.callbacks.Callback):
    """Wraps the model's step function, as it is when the first batch begins, for good."""

    calls = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == 0:
            step = self.model.train_function

            def counted(*args: Any, **kwargs: Any) -> Any:
                self.calls += 1
                return step(*args, **kwargs)

            self.model.train_function = counted


def test_wrapper_of_another_callback_stays_and_each_batch_is_recorded_once() -> None:
    memory, counts = MemoryCallback(), Counts()
    fit(make_model(run_eagerly=True), [memory, counts])
    assert counts.calls == 4
    assert [batch.batch for batch in memory.result.batches] == [0, 1, 2, 3]


class Hoards(tf.keras.callbacks.Callback):
    """Keeps so much of each batch, as a callback does that collects outputs."""

    def __init__(self, shape: list[int], when: str) -> None:
        super().__init__()
        self.kept: list[Any] = []
        setattr(self, when, lambda *_, **__: self.kept.append(tf.random.uniform(shape)))


def test_two_in_one_fit_both_see_every_batch_once() -> None:
    one, other = MemoryCallback(), MemoryCallback()
    x = tf.zeros([8, 2])
    fit(make_model(1, run_eagerly=True), [one, other], validation_data=(x, x))
    assert len(one.result.batches) == 8  # 4 of the training, 4 of the validation
    assert [b.peak_bytes for b in one.result.batches] == [
        b.peak_bytes for b in other.result.batches
    ]
    fit(make_model(1, run_eagerly=True), [other])
    assert (len(one.result.batches), len(other.result.batches)) == (8, 4)


@pytest.mark.each_value
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize(
    ("when", "times"),
    [("on_train_batch_end", 20), ("on_train_batch_begin", 20), ("on_epoch_end", 2)],
)
def test_what_another_callback_hoards_is_seen(ours_first: bool, when: str, times: int) -> None:
    memory, hoards = MemoryCallback(), Hoards([256, 256], when)  # 256 KiB
    callbacks = [memory, hoards] if ours_first else [hoards, memory]
    x = tf.zeros([20, 2])
    make_model().fit(x, x, batch_size=2, epochs=2, verbose=0, callbacks=callbacks)
    assert len(hoards.kept) == times
    # What a callback keeps before our first look is where we begin.
    first = when == "on_train_batch_begin"
    expected = (times - first) * 256 * 2**10
    # The allocator does not always cut a larger piece to size, so up to twice is in use.
    for seen in (memory.result.kept_bytes, memory.result.between_bytes):
        assert expected - LITTLE < seen < 2 * expected + LITTLE
    assert all(abs(batch.kept_bytes) < LITTLE for batch in memory.result.batches)
    plain = MemoryCallback()
    make_model().fit(x, x, batch_size=2, epochs=2, verbose=0, callbacks=[plain])
    assert abs(plain.result.kept_bytes) < LITTLE


def test_second_fit_begins_anew_and_evaluate_is_watched_too() -> None:
    model, memory = make_model(run_eagerly=True), MemoryCallback()
    fit(model, [memory], epochs=2)
    assert (len(memory.result.batches), memory.result.epochs) == (8, 2)
    fit(model, [memory])
    assert (len(memory.result.batches), memory.result.epochs) == (4, 1)
    x = tf.zeros([4, 2])
    model.evaluate(x, x, batch_size=2, verbose=0, callbacks=[memory])
    assert [b.phase for b in memory.result.batches[-2:]] == ["validation"] * 2


def test_what_the_program_keeps_between_two_runs_of_keras_is_its_own() -> None:
    model, memory = make_model(run_eagerly=True), MemoryCallback()
    hoards = Hoards([256, 256], "on_test_batch_end")  # 256 KiB
    x = tf.zeros([4, 2])
    fit(model, [memory])
    kept = [tf.ones([1024, 1024])]
    model.predict(x, batch_size=2, verbose=0, callbacks=[memory])
    kept.append(tf.ones([1024, 1024]))
    assert abs(memory.result.between_bytes) < LITTLE
    model.evaluate(x, x, batch_size=2, verbose=0, callbacks=[memory, hoards])
    assert len(hoards.kept) == 2
    assert 2 * 2**18 - LITTLE < memory.result.between_bytes < 4 * 2**18 + LITTLE


def test_predict_is_watched_too() -> None:
    model, memory = make_model(run_eagerly=True), MemoryCallback()
    told: list[dict[str, float]] = []
    told_by = tf.keras.callbacks.LambdaCallback()
    told_by.on_predict_batch_end = lambda batch, logs: told.append(dict(logs))
    result = model.predict(tf.zeros([8, 2]), batch_size=2, verbose=0, callbacks=[memory, told_by])
    assert result.shape == (4 * 512,)
    batches = memory.result.epoch(0, "prediction")
    assert batches == memory.result.batches
    assert [batch.batch for batch in batches] == [0, 1, 2, 3]
    assert all(2 * S <= batch.peak_bytes < 2 * S + LITTLE for batch in batches)
    assert [logs["peak_mib"] for logs in told] == [batch.peak_bytes / S for batch in batches]
    assert "prediction" in memory._repr_html_()
    (outline,) = memory.plot().collections
    assert outline.get_datalim(outline.axes.transData).ymax == memory.result.peak_bytes
    before = memory.result
    model.predict(tf.zeros([8, 2]), batch_size=2, verbose=0)  # another's work
    assert memory.result == before


def test_it_is_a_keras_callback_and_can_be_derived_from_and_copied() -> None:
    class Mine(MemoryCallback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, logs)
            self.epochs_seen = epoch + 1

    mine = Mine()
    assert isinstance(mine, tf.keras.callbacks.Callback)
    assert isinstance(mine, Mine)
    assert type(MemoryCallback()) is type(MemoryCallback())
    assert isinstance(copy.deepcopy(mine), Mine)
    fit(make_model(), [mine], epochs=2)
    assert mine.epochs_seen == 2


def test_class_itself_needs_no_keras_until_one_is_made() -> None:
    base = tf.keras.callbacks.Callback
    assert not issubclass(MemoryCallback, base)
    assert issubclass(type(MemoryCallback()), base)


def test_picture_shows_each_batch_and_what_was_kept(run: Any) -> None:
    result, _ = run
    ax = result.plot()
    assert len(ax.collections) == 2  # training and validation
    kept = ax.get_lines()[0].get_ydata()
    assert len(kept) == len(result.batches) + 1
    assert kept[-1] == result.kept_bytes
    assert [t.get_text() for t in ax.texts if "epoch" in t.get_text()] == ["epoch 1", "epoch 2"]
    assert get_alt(ax) == describe_fit(result) == alt_text(result)
    assert "16 batches in 2 epochs" in get_alt(ax)


def test_without_the_allocators_count_nothing_is_between_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keras_callback, "allocator_bytes", lambda: None)
    memory, hoards = MemoryCallback(), Hoards([256, 256], "on_train_batch_end")
    fit(make_model(run_eagerly=True), [memory, hoards])
    assert [batch.between_bytes for batch in memory.result.batches] == [0] * 4
    assert abs(memory.result.kept_bytes) < LITTLE
    assert memory._repr_html_().count("<tr>") == 1 + 1  # there was no validation


def test_in_a_loop_that_runs_no_step_of_keras_nothing_is_seen() -> None:
    memory, logs = MemoryCallback(), dict[str, float]()
    callbacks = tf.keras.callbacks.CallbackList([memory], model=make_model())
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    callbacks.on_train_batch_begin(0)
    callbacks.on_train_batch_end(0, logs)
    callbacks.on_epoch_end(0, logs)
    callbacks.on_train_end()
    assert (memory.result.batches, logs) == ((), {})


def test_another_backend_of_keras_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.keras.config, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"runs on jax here.*KERAS_BACKEND=tensorflow"):
        fit(make_model(), [MemoryCallback()])


def test_callback_that_saw_nothing_shows_that() -> None:
    memory = MemoryCallback()
    assert memory.result.peak_bytes == 0
    assert "no batch was run" in get_alt(memory.plot())
    assert (
        repr(memory) == "<MemoryCallback: <FitMemory: 0 batches in 0 epochs, peak 0 B, kept ≈ 0 B>>"
    )


def test_table_has_a_row_for_each_epoch_and_phase(run: Any) -> None:
    result, _ = run
    html = result._repr_html_()
    assert html.count("<tr>") == 1 + 4
    assert html.count("validation") == 2
