"""Steps and epochs: expected bytes come from shapes, numbers of steps from the data."""

from __future__ import annotations

import itertools
import re
import sys
import time
import types
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common.results import summary_html
from lessons_lib.recording import markers, step_log
from lessons_lib.recording.moments import MarkedMoment
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.step_log import Said, StepLog, StepMark
from lessons_lib.recording.steps import StepMemory, Steps, steps_of

tf = ll.runtime.tf

MIB = 2**20


def test_a_loop_says_its_steps():
    kept: list[Any] = []
    length, long, longest = (tf.constant([n * MIB // 4]) for n in (1, 4, 8))
    one = tf.constant(1.0)
    tf.fill(length, one)
    with ll.record() as rec:
        for number in range(5):
            kept.append(tf.fill(length, one))
            if number == 0:
                tf.fill(long, one)
            rec.step()
        tf.fill(longest, one)  # after the last step
    steps = rec.steps
    assert [step.step for step in steps] == list(range(5))
    assert [step.kept_bytes for step in steps] == [MIB] * 5
    assert [step.peak_bytes for step in steps] == [5 * MIB, *(n * MIB for n in range(2, 6))]
    assert steps.kept_per_step == MIB
    assert len(steps.steady) == 4
    assert "kept 1 MiB a step" in repr(steps)
    with pytest.raises(RuntimeError, match=r"rec\.step\(\) within its block"):
        rec.step()


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ([0, 0, 3 * MIB] * 10, "kept ≈ 1 MiB a step"),  # as a log that is written now and then
        ([0, 2 * MIB] * 10, "kept ≈ 1 MiB a step"),
        ([0] * 10 + [64 * MIB] + [0] * 10, "kept ≈ 0 B a step"),
        ([MIB, MIB, MIB, -3 * MIB] * 5, "kept ≈ 0 B a step"),
        # Each epoch fills a buffer and drains it; the second keeps 1 MiB of 30 steps: 34,953 B.
        ([29 * MIB, *[-MIB] * 29] * 3, "kept ≈ 0 B a step"),
        ([30 * MIB, *[-MIB] * 29] * 3, "kept ≈ 34.134 KiB a step"),
        ([MIB] * 20, "kept 1 MiB a step"),
        ([MIB, -MIB, -MIB], "kept ≈ -341.333 KiB a step"),  # MIB / 3
        ([3 * MIB, -MIB, 0, -2 * MIB], "kept ≈ 0 B a step"),
        ([0, 0, 0, 2 * MIB], "kept ≈ 512 KiB a step"),
        ([MIB] * 4, "kept 1 MiB a step"),
    ],
)
def test_steps_that_keep_unlike_amounts_tell_their_growth(kept: list[int], told: str) -> None:
    rows = [StepMemory(0, i, 0.0, 0.0, 0, nbytes) for i, nbytes in enumerate([8 * MIB, *kept])]
    assert repr(Steps(tuple(rows))).endswith(f"{told}>")
    assert f">{told[5:-7]}</td>" in Steps(tuple(rows))._repr_html_()


def test_steps_do_not_depend_on_how_well_two_clocks_agree(monkeypatch):
    length, one, kept = tf.constant([MIB // 4]), tf.constant(1.0), list[Any]()
    late = types.SimpleNamespace(perf_counter=lambda: time.perf_counter() + 1)
    monkeypatch.setattr(step_log, "time", late)
    with ll.record() as rec:
        for _ in range(3):
            kept.append(tf.fill(length, one))
            rec.step()
    assert [step.kept_bytes for step in rec.steps] == [MIB] * 3
    assert all(step.start < rec.seconds for step in rec.steps)


def test_the_clocks_are_tied_again_where_the_thread_was_put_off(monkeypatch):
    # Looks at the clock: 1 s apart the first time, 10 µs the second.
    looks = iter([0.0, 1.0, 2.0, 2.00001, 9.0])
    monkeypatch.setattr(markers, "time", types.SimpleNamespace(perf_counter=looks.__next__))
    monkeypatch.setattr(markers, "mark_moment", iter([7, 8, 9]).__next__)
    number, at = markers.mark_with_clock()
    assert number == 8
    assert 2.0 < at < 2.00001


def test_what_was_said_while_nobody_watched_is_placed_by_the_clock():
    log = StepLog()
    for marker, at in ((1, 10.5), (2, 11.0), (3, 11.5)):
        log.note(marker, at, Said.END)
    marks = log.marks_from(10.0, {2: MarkedMoment(0.75, 8, 9, exact=True)})
    assert [mark.at for mark in marks] == [0.5, 0.75, 1.5]
    assert [(mark.live, mark.peak) for mark in marks] == [(0, 0), (8, 9), (8, 8)]
    assert [mark.exact for mark in marks] == [False, True, False]
    early = StepLog()
    early.note(1, 9.0, Said.END)
    assert [mark.at for mark in early.marks_from(10.0, {})] == [0.0]


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_is_recognised(eagerly, tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(8)])
    model.compile("sgd", "mse", run_eagerly=eagerly)
    x, y = np.ones((96, 64), np.float32), np.ones((96, 8), np.float32)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    methods = dict(vars(sys.modules["keras.src.callbacks.callback_list"].CallbackList))
    with ll.record() as rec:
        model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    assert dict(vars(sys.modules["keras.src.callbacks.callback_list"].CallbackList)) == methods
    assert [len(epoch) for epoch in rec.steps.epochs] == [3, 3]
    assert all(a.start < b.start for a, b in zip(rec.steps, rec.steps[1:], strict=False))
    # Each step makes the outputs of a batch at least.
    assert min(step.peak_bytes for step in rec.steps) >= 32 * 8 * 4
    rec.save(tmp_path / "rec.json")
    again = Recording.load(tmp_path / "rec.json")
    assert again.steps == rec.steps
    assert again.resident_bytes == rec.resident_bytes


def test_what_is_made_between_two_fits_is_no_steps():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    kept: list[Any] = []
    keep = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: kept.append(tf.zeros((MIB,))))
    with ll.record() as rec:
        for _ in range(2):
            model.fit(np.ones((6, 4)), np.ones((6, 2)), 2, callbacks=[keep], verbose=0)
            kept.append(tf.zeros((4, MIB)))
    assert [round(step.kept_bytes / (4 * MIB)) for step in rec.steps] == [0, 0, 1, 0, 0, 1]


def fit_with(callbacks: Any, epochs: range, *, ended: Any = lambda: None) -> None:
    """Say to a list of callbacks what Keras says in a fit of two steps an epoch."""
    callbacks.on_train_begin()
    for epoch in epochs:
        callbacks.on_epoch_begin(epoch)
        for batch in range(2):
            callbacks.on_train_batch_begin(batch)
            callbacks.on_train_batch_end(batch)
        ended()
        callbacks.on_epoch_end(epoch)
    callbacks.on_train_end()


@pytest.mark.parametrize("lists", [1, 2])
def test_a_second_fit_that_goes_on_counting_epochs_is_a_fit_of_its_own(lists):
    callbacks = [tf.keras.callbacks.CallbackList([]) for _ in range(lists)]
    kept: list[Any] = []
    tf.zeros((MIB,))
    with ll.record() as rec:
        for epochs, one in zip((range(2), range(2, 4)), callbacks * (3 - lists), strict=True):
            fit_with(one, epochs)
            kept.append(tf.zeros((MIB,)))
    assert [(step.fit, step.epoch) for step in rec.steps] == [
        *((0, epoch) for epoch in (0, 0, 1, 1)),
        *((1, epoch) for epoch in (2, 2, 3, 3)),
    ]
    assert [step.step for step in rec.steps.first] == [0, 4]
    assert {step.kept_bytes for step in rec.steps} == {0}


def test_a_fit_within_a_callback_is_a_fit_of_its_own_and_the_outer_one_stays_one():
    kept: list[Any] = []

    def ended() -> None:
        fit_with(tf.keras.callbacks.CallbackList([]), range(1))
        kept.append(tf.zeros((MIB,)))

    tf.zeros((MIB,))
    with ll.record() as rec:
        fit_with(tf.keras.callbacks.CallbackList([]), range(2), ended=ended)
    epochs = [[(step.fit, step.epoch) for step in epoch] for epoch in rec.steps.epochs]
    assert epochs == [[(0, 0)] * 2, [(0, 1)] * 2, [(1, 0)] * 2, [(2, 0)] * 2]
    kept_by = [step.kept_bytes // MIB for epoch in rec.steps.epochs for step in epoch]
    assert kept_by == [0, 4, 0, 4, 0, 0, 0, 0]


@pytest.mark.further
def test_keras_fits_within_a_callback_and_after_another_are_told_apart():
    probe, model = (
        tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)]) for _ in range(2)
    )
    probe.compile("sgd", "mse")
    model.compile("sgd", "mse")
    x, y = np.ones((4, 4)), np.ones((4, 2))
    ended = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: probe.fit(x, y, 2, verbose=0))
    with ll.record() as rec:
        model.fit(x, y, 2, epochs=2, callbacks=[ended], verbose=0)
        model.fit(x, y, 2, epochs=3, initial_epoch=2, verbose=0)
    epochs = [[(step.fit, step.epoch) for step in epoch] for epoch in rec.steps.epochs]
    assert epochs == [[place] * 2 for place in [(0, 0), (0, 1), (1, 0), (2, 0), (3, 2)]]


def test_the_epochs_number_may_be_said_by_name():
    callbacks = tf.keras.callbacks.CallbackList([])
    with ll.record() as rec:
        callbacks.on_epoch_begin(epoch=3)
        callbacks.on_train_batch_begin(batch=0)
        callbacks.on_train_batch_end(batch=0)
    assert [step.epoch for step in rec.steps] == [3]


def test_a_fault_of_ours_does_not_reach_the_fit(monkeypatch):
    def fail(*_):
        raise ValueError("ours")

    monkeypatch.setattr(StepLog, "say", fail)
    callbacks = tf.keras.callbacks.CallbackList([])
    with ll.record() as rec:
        callbacks.on_train_batch_begin(0)
        callbacks.on_train_batch_end(0)
    assert rec.step_marks == ()


def test_without_steps_nothing_is_said():
    with ll.record() as rec:
        tf.ones((4,))
    assert len(rec.steps) == 0
    assert "none were said" in repr(rec.steps)


def test_what_lies_between_steps_is_kept_by_the_one_before():
    marks = [StepMark(0.1, Said.EPOCH, 0, 7, 900), StepMark(0.2, Said.BEGIN, 0, 7, 7)]
    marks += [StepMark(0.4, Said.END, 0, 20, 100), StepMark(0.5, Said.EPOCH, 1, 50, 800)]
    marks += [StepMark(0.6, Said.BEGIN, 0, 50, 50), StepMark(0.8, Said.END, 0, 90, 91, exact=False)]
    first, second = steps_of(marks)
    assert (first.epoch, first.peak_bytes, first.kept_bytes, first.exact) == (0, 100, 43, True)
    assert (second.epoch, second.peak_bytes, second.kept_bytes, second.exact) == (1, 91, 40, False)


def test_many_epochs_are_put_together_in_the_table():
    def table(epochs: int) -> str:
        rows = [StepMemory(n // 2, n, float(n), 1.0, n, 1) for n in range(2 * epochs)]
        return summary_html(Steps(tuple(rows)))

    assert "epoch 12<" in table(12)
    assert "epochs" not in table(12)
    many = table(120)
    assert many.count("<tr>") == 1 + 1 + 12  # the head, the first step, and the groups
    assert "epochs 1 to 10<" in many
    assert "epochs 111 to 120<" in many
    assert "the others" in table(1)


def test_marks_of_other_recordings_part_no_step():
    log = StepLog(mark=iter([1, 4]).__next__)
    log.say(Said.BEGIN)
    log.say(Said.END)
    rows = {1: (5, 5), 2: (7, 30), 3: (6, 7), 4: (6, 6), 5: (0, 99)}
    seen = {n: MarkedMoment(float(n), *row, exact=True) for n, row in rows.items()}
    (step,) = steps_of(log.marks_from(0.0, seen))
    assert (step.peak_bytes, step.kept_bytes) == (30, 1)


def test_three_figures_are_at_the_top():
    with ll.record() as rec:
        x = tf.random.normal((1000,))
        del x
    assert rec.peak_bytes >= 4000
    # The allocator sets aside whole pieces of 256 bytes, or a larger one that it has.
    assert rec.held_bytes >= 4096
    assert rec.held_bytes % 256 == 0
    assert "held by the allocator" in rec._repr_html_()
    if sys.platform == "linux":
        assert rec.resident_bytes is not None
        assert rec.resident_bytes > rec.held_bytes


def test_the_table_of_steps_has_the_first_step_and_the_others_of_each_epoch():
    marks = [StepMark(0.0, Said.EPOCH), StepMark(0.1, Said.END, 0, 1024, 1024)]
    marks += [StepMark(0.2, Said.END, 0, 3072, 3072), StepMark(0.3, Said.EPOCH, 1, 3072, 3072)]
    marks += [StepMark(0.4, Said.END, 0, 7168, 8192)]
    steps = steps_of(marks)
    assert "3 steps in 2 epochs" in repr(steps)
    rows = re.findall(r"<tr>(.*?)</tr>", steps._repr_html_(), re.DOTALL)[1:]
    cells = [[re.sub("<.*?>", "", cell) for cell in row.split("</td>")] for row in rows]
    assert [row[:4] for row in cells] == [
        ["first step", "1", "1 KiB", "1 KiB"],
        ["epoch 1", "1", "3 KiB", "2 KiB"],
        ["epoch 2", "1", "8 KiB", "4 KiB"],
    ]
    assert steps_of(marks[:1])._repr_html_().count("<tr>") == 1


def marks_of(fits: list[list[int]], kept: int) -> list[StepMark]:
    """Say fits with so many steps in each epoch; the first step of a fit makes 1 KiB for good."""
    marks: list[StepMark] = []
    live = 0
    for epochs in fits:
        live += 1024
        for epoch, steps in enumerate(epochs):
            marks.append(StepMark(float(len(marks)), Said.EPOCH, epoch, live, live))
            for _ in range(steps):
                live += kept
                marks.append(StepMark(float(len(marks)), Said.END, 0, live, live))
    return marks


def test_a_fit_keeps_to_its_end() -> None:
    marks = marks_of([[2], [3, 1]], 8)
    marks.insert(3, StepMark(2.5, Said.EPOCH_END, 0, 1024 + 16 + 4, 5000))
    steps = steps_of(marks)
    assert [step.kept_bytes for step in steps] == [1024 + 8, 8 + 4, 1024 - 4 + 8, 8, 8, 8]


@pytest.mark.parametrize("kept", [0, 8])
def test_epochs_of_several_fits_are_told_apart(kept: int) -> None:
    steps = steps_of(marks_of([[3, 2], [4, 4, 4]], kept))
    assert [len(epoch) for epoch in steps.epochs] == [3, 2, 4, 4, 4]
    assert [step.fit for step in steps] == [0] * 5 + [1] * 12
    assert [step.step for step in steps.first] == [0, 5]
    assert steps.kept_per_step == kept  # not what the second model's first step makes
    html = steps._repr_html_()
    assert "first step of each fit" in html
    names = [f"fit {fit}, epoch {epoch}<" for fit, epoch in [(1, 1), (1, 2), (2, 1), (2, 3)]]
    assert all(name in html for name in names)


def test_a_loop_of_fits_of_one_step_each_is_a_loop_of_steps() -> None:
    steps = steps_of([StepMark(0.0, Said.END, 0, 0, 0), *marks_of([[1]] * 30, 0)][1:])
    assert len(steps.first) == 1
    assert steps.kept_per_step == 1024
    assert len(steps.epochs) == 30
    html = steps._repr_html_()
    assert "fit 4, epoch 1 to fit 6, epoch 1<" in html
    assert "of each fit" not in html


def test_a_fit_that_goes_on_with_the_epochs_numbers_is_the_same() -> None:
    marks = [StepMark(0.0, Said.EPOCH, 0), StepMark(1.0, Said.END, 0)]
    marks += [StepMark(2.0, Said.EPOCH, 1), StepMark(3.0, Said.END, 0)]
    assert [step.fit for step in steps_of(marks)] == [0, 0]
    assert "fit" not in steps_of(marks)._repr_html_()


def test_what_steps_within_a_step_keep_is_theirs() -> None:
    begin, end, done = Said.BEGIN, Said.END, Said.EPOCH_END
    said = [(begin, 0, 1), (begin, 1, 2), (end, 3, 2), (done, 7, 2), (end, 15, 1), (done, 31, 1)]
    marks = [StepMark(float(i), what, 0, n, n, fit=fit) for i, (what, n, fit) in enumerate(said)]
    marks.append(StepMark(9.0, end, 0, 63, 63))  # a loop of one's own around them
    steps = steps_of(marks)
    assert [step.kept_bytes for step in steps] == [63 - 31, 31 - 6, 7 - 1]
    assert [step.peak_bytes for step in steps] == [63, 15, 3]
    assert [step.seconds for step in steps] == [9, 4, 1]


def test_a_program_without_keras_has_no_steps(monkeypatch):
    monkeypatch.delitem(sys.modules, "keras.src.callbacks.callback_list", raising=False)
    with ll.record() as rec:
        tf.ones((4,))
    assert (len(rec.steps), rec.exact) == (0, True)


def test_of_clocks_that_are_never_read_close_together_the_closest_pair_counts(monkeypatch):
    # Each look at the clock takes a second longer than the one before.
    looks = itertools.accumulate(itertools.count(1), lambda at, step: at + step)
    clock = types.SimpleNamespace(perf_counter=lambda: float(next(looks)))
    monkeypatch.setattr(markers, "time", clock)
    monkeypatch.setattr(markers, "mark_moment", itertools.count(7).__next__)
    assert markers.mark_with_clock() == (7, 2.0)  # between 1 and 3
