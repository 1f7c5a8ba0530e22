"""The largest batch that fits a budget: searched in steps that are known, and tried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import (
    BatchEstimate,
    Stop,
    largest_batch,
    run,
    training_memory,
)
from lessons_lib.instruments.training.batch_size import CannotRunError
from lessons_lib.instruments.training.one_piece import one_piece
from lessons_lib.instruments.training.recorded_step import Mode, Step, set_aside
from tests.support.cases import first_of_each
from tests.support.trained import (
    FLOAT,
    LAYER,
    WEIGHTS,
    WIDTH,
    build,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


tf = ll.runtime.tf


@pytest.mark.further
def test_largest_batch_is_run_and_fits(batch):
    budget = WEIGHTS * 3 + 40 * LAYER
    step = training_memory(build(run_eagerly=True), *batch, budget=budget)
    found = step.largest_batch
    assert found.verified
    assert 0 < found.peak_bytes <= found.held_bytes <= budget
    assert found.low == found.batch <= found.high
    sizes = [size for size, _ in found.measured]
    assert found.batch in sizes
    assert all(size <= 2 * max(sizes[:i]) for i, size in enumerate(sizes) if i)


@pytest.mark.parametrize("start", first_of_each([16, 100, 700]))
def test_largest_batch_follows_from_shapes(start, monkeypatch):
    monkeypatch.setattr(run, "_SECONDS", 0)  # this graph has one order
    wide, budget = 1024, 2**20
    x, w = np.ones((start, WIDTH), np.float32), tf.ones((WIDTH, wide))

    def step(rows):
        return tf.reduce_sum(tf.tanh(rows @ w))

    # In a graph tanh writes into the product; eagerly both are there.
    for way, parts in ((tf.function(step), 1), (step, 2)):
        found = training_memory(way, x, budget=budget).largest_batch
        right = budget // ((WIDTH + parts * wide) * FLOAT)
        assert found.verified
        assert 0.98 * right - 1 <= found.batch <= right
        assert found.high <= 1.02 * right + 1


def test_what_is_set_aside_follows_from_shapes():
    weight, rows = tf.Variable(tf.ones([100])), tf.ones([2**18])

    def peak(parts: int) -> int | None:
        step = Step("step", Mode.EAGER, lambda x: len([x + x for _ in range(parts)]), (weight,))
        return set_aside(step, rows, room=2**25)

    info = tf.config.experimental.get_memory_info
    before = info("CPU:0")["peak"]
    # The weight's 400 bytes are rounded up.
    assert [peak(2), peak(5)] == [512 + 3 * 2**20, 512 + 6 * 2**20]
    assert info("CPU:0")["peak"] == before
    with ll.record():  # which reads the allocator's counters itself
        assert peak(2) is None


def search(peak_of, budget, start=16, free=10**9, **options):
    tried: list[int] = []

    def peaks(batch: int) -> tuple[int, int]:
        tried.append(batch)
        return (peak_of(batch),) * 2

    found = largest_batch(peaks, budget, start, free_bytes=lambda: free, **options)
    assert all(size <= 2 * max(tried[:i]) for i, size in enumerate(tried) if i)
    return found


@pytest.mark.parametrize(
    "peak_of",
    [
        lambda b: 10 * b,
        lambda b: 4000 + 10 * b,
        lambda b: b * b,
        lambda b: max(4900, 40 * b),  # the update's peak, then the activations'
        lambda b: 1000 * (1 + b // 32),  # in steps
    ],
    ids=["line", "fixed part", "square", "two lines", "steps"],
)
@pytest.mark.parametrize("start", [1, 16, 4096])
def test_search_is_right_within_three_percent(peak_of, start):
    found = search(peak_of, 5005, start)
    right = max(b for b in range(1, 600) if peak_of(b) <= 5005)
    assert found.verified
    assert right * 0.97 - 1 <= found.batch <= right
    assert found.low <= right <= max(found.high, found.batch)


@pytest.mark.parametrize("start", [1, 16, 100, 4096])
def test_search_looks_many_times_where_runs_differ(start):
    # From 300 examples on, every other series takes a tenth more.
    calls: dict[int, int] = {}

    def peak_of(batch):
        calls[batch] = calls.get(batch, 0) + 1
        return 143 * batch if batch >= 300 and calls[batch] % 2 == 0 else 130 * batch

    found = search(peak_of, 50_050, start)
    # 350 × 143 bytes fit in the worst series, 385 × 130 in the best: one series takes 384 for it.
    assert 350 * 0.97 <= found.batch <= 350
    assert found.low == found.batch
    assert 385 <= found.high <= 385 * 1.03
    hasty = search(lambda b: 130 * b if b < 386 else 143 * b, 50_050, start, repeats=1)
    assert hasty.batch > 350 * 1.03


def test_searches_agree_while_peaks_vary():
    chance = np.random.default_rng(13)

    def peak_of(batch):
        # The highest of three runs, each up to a tenth above what is requested.
        return int(1000 + 100 * batch * (1 + 0.1 * chance.random(3).max()))

    answers = [search(peak_of, 51_000, start) for start in (1, 16, 24, 100, 700) for _ in range(4)]
    sizes = [found.batch for found in answers]
    assert max(sizes) <= 1.03 * min(sizes) + 1
    # 50,000 bytes do for 454 examples in the worst run and for 500 in the best.
    assert all(0.97 * 454 <= found.low <= 500 <= 1.1 * found.high for found in answers)


def test_searches_agree_where_one_order_in_ten_needs_a_tenth_more():
    chance = np.random.default_rng(13)
    tried: list[int] = []

    def peak_of(batch):
        tried.append(batch)
        return int(1000 + 100 * batch * (1.1 if (chance.random(3) < 0.1).any() else 1))

    answers = [search(peak_of, 51_000, start).batch for start in (1, 16, 24, 100, 700) * 2]
    assert max(answers) <= 1.03 * min(answers)
    # 50,000 bytes do for 454 examples in the order that needs most.
    assert all(0.97 * 454 <= found <= 454 for found in answers)
    assert len(tried) <= 60 * len(answers)
    # Of so few runs, the order that needs most is often not among them.
    hasty = [search(peak_of, 51_000, repeats=1).batch for _ in range(10)]
    assert max(hasty) > 1.03 * 454


def test_gaps_do_not_count_where_memory_is_in_one_piece():
    asked = 8191 * 256
    # Each gap is under twice what is asked for, so the allocator would hand out a whole one.
    parts = [tf.zeros([size // FLOAT]) for size in 8 * (3 * 2**20, 2**20)]
    walls = parts[1::2]
    parts.clear()

    def set_aside(room: int) -> int:
        with one_piece(room), ll.record(share=1) as recording:
            tf.zeros([asked // FLOAT])
        (largest, *_) = recording.at_peak()
        assert largest.nbytes == asked
        return largest.reserved_bytes

    assert set_aside(room=0) > asked
    assert set_aside(room=16 * 2**20) == asked
    assert set_aside(room=0) > asked  # the gaps are given back
    assert len(walls) == 8


def test_no_size_fits_above_one_that_failed_at_the_edge():
    found = search(lambda b: 6000 if b in (496, 504) else 10 * b, 5005)
    assert 496 * 0.97 <= found.batch < 496


def test_search_needs_what_the_allocator_holds_to_fit_too():
    found = largest_batch(lambda b: (10 * b, 20 * b), 5000, 16, free_bytes=lambda: 10**9)
    assert 243 <= found.batch <= 250
    assert (found.peak_bytes, found.held_bytes) == (10 * found.batch, 20 * found.batch)


def test_search_stops_where_memory_would_not_do_and_says_so():
    found = search(lambda b: 10 * b, 10**9, free=20_000)
    assert found.stop is Stop.MEMORY
    assert "memory" in found.note
    # 2 × 10 × 700 bytes are 70 % of what is free.
    assert 0.95 * 700 <= found.batch <= 700
    endless = search(lambda b: 1, 10**9, most=1000)
    assert (endless.stop, endless.batch) == (Stop.LARGEST, 1000)


def test_search_takes_a_lack_of_memory_as_an_answer():
    found = largest_batch(
        lambda b: (b, b) if b <= 300 else None, 10**9, 16, free_bytes=lambda: 10**9
    )
    assert 0.97 * 300 <= found.batch <= 300
    assert max(size for size, _ in found.measured) <= 300


def test_a_budget_needs_a_batch():
    with pytest.raises(ValueError, match="is given no batch, whose size a budget asks for"):
        training_memory(lambda: tf.ones((2,)), budget="1 MiB")
    assert training_memory(lambda: tf.ones((2,))).largest_batch is None


def test_nothing_fits():
    found = search(lambda b: 100 + b, 50)
    assert (found.batch, found.verified, found.stop) == (0, False, Stop.NOTHING_FITS)


@pytest.mark.parametrize(("unit", "start"), [(3, 12), (10, 20), (16, 16), (1, 16)])
def test_a_step_may_take_multiples_only(unit, start):
    def peaks(batch: int) -> tuple[int, int]:
        if batch % unit:
            raise CannotRunError
        return 10 * batch, 10 * batch

    found = largest_batch(peaks, 5000, start, free_bytes=lambda: 10**9)
    assert (found.stop, found.unit, found.batch % unit) == (Stop.FOUND, unit, 0)
    assert 500 - max(unit, 0.03 * 500) < found.batch <= found.high < 500 + max(unit, 0.03 * 500)
    assert ("multiples" in str(found)) == (unit > 1)


def test_a_step_that_fails_with_some_sizes_is_not_said_to_take_one_only():
    def search_where(runs: Callable[[int], bool], budget: int) -> BatchEstimate:
        def peaks(batch: int) -> tuple[int, int]:
            if not runs(batch):
                raise CannotRunError
            return 10 * batch, 10 * batch

        return largest_batch(peaks, budget, 16, free_bytes=lambda: 10**9)

    upto = search_where(lambda b: b <= 100, 5000)
    assert (upto.stop, upto.batch) == (Stop.FAILS, 64)
    one = search_where(lambda b: b == 16, 5000)
    assert (one.stop, one.batch) == (Stop.FIXED_SIZE, 16)
    over = search_where(lambda b: b == 16, 50)
    assert (over.stop, over.batch) == (Stop.NOTHING_FITS, 0)
    assert "not even 16 examples fit 50 B, and the step takes no smaller batch" in str(over)
    assert str(search_where(lambda b: True, 5)) == "<BatchEstimate: not even one example fits 5 B>"


def test_where_what_is_set_aside_decides_that_is_said():
    found = largest_batch(lambda b: (10 * b, 60 * b), 50, 16, free_bytes=lambda: 10**9)
    said = "not even one example fits 50 B: it asks for ≈ 10 B, and ≈ 60 B are set aside for it"
    assert (found.batch, str(found)) == (0, f"<BatchEstimate: {said}>")


def test_a_step_for_one_batch_size_only_says_so():
    @tf.function
    def step(x):
        return tf.ensure_shape(x, (8, 4)) * 2

    found = training_memory(step, np.ones((8, 4), np.float32), budget="1 MiB").largest_batch
    assert (found.batch, found.stop) == (8, Stop.FIXED_SIZE)
