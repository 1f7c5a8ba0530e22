"""Which series grow: steps, plateaus, saw-teeth and noise are told from growth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lessons_lib.instruments.growth.sampler import without_jumps
from lessons_lib.instruments.growth.trend import (
    Shape,
    fit,
    noise_floor,
    persistence,
    shape_of,
    theil_sen,
)

N = 30
CALLS = np.arange(N, dtype=float)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (np.zeros(N), Shape.FLAT),
        (CALLS, Shape.GROWS),
        (5.0 * CALLS + 100, Shape.GROWS),
        (-CALLS, Shape.FLAT),
        (CALLS // 5, Shape.GROWS),  # a staircase
        ((CALLS >= 7).astype(float), Shape.STEP),
        ((CALLS >= 25).astype(float), Shape.STEP),
        (np.minimum(CALLS, 10), Shape.PLATEAU),
        (np.minimum(CALLS, 19), Shape.PLATEAU),
        (CALLS % 6, Shape.SAWTOOTH),
        (CALLS % 6 + CALLS, Shape.GROWS),  # a saw-tooth on a slope
        (np.maximum(0, CALLS - 20), Shape.LATE),
        (CALLS**2, Shape.GROWS),
        (np.array([1.0, 2.0]), Shape.FLAT),
    ],
)
def test_shape(values: np.ndarray, shape: Shape) -> None:
    assert shape_of(values) == shape


def test_small_changes_are_nothing() -> None:
    assert shape_of(0.5 * CALLS, least=1.0) == Shape.FLAT
    assert shape_of(2.0 * CALLS, least=1.0) == Shape.GROWS


def test_slope_is_not_moved_by_outliers() -> None:
    values = 3.0 * CALLS
    values[[4, 11]] += 1e9
    assert theil_sen(CALLS, values) == pytest.approx(3.0)
    assert theil_sen(CALLS[:1], values[:1]) == 0


def test_noise_floor_of_a_line_is_zero_and_of_scatter_is_not() -> None:
    assert noise_floor(CALLS, 2.0 * CALLS, 2.0) == 0
    scatter: Any = 10.0 * (-1) ** np.arange(N)
    # Three standard errors: 3 · 1.4826 · 10 / sqrt(Σ (i − 14.5)²), the sum being N(N² − 1)/12.
    expected = 3 * 1.4826 * 10 / np.sqrt(N * (N**2 - 1) / 12)
    assert noise_floor(CALLS, scatter, 0.0) == pytest.approx(expected)


def test_slope_within_the_noise_does_not_count() -> None:
    rng = np.random.default_rng(0)
    quiet = fit("n", "bytes", CALLS + 0.1 * rng.random(N), np.zeros(1))
    loud = fit("n", "bytes", 0.01 * CALLS + 50 * rng.random(N), np.zeros(1))
    assert quiet.grows
    assert not loud.grows


def queue(seed: int, added: float = 0.0) -> np.ndarray:
    """Make the bytes of the five things kept last, of random sizes of 1 on average, and a leak."""
    sizes = 2 * np.random.default_rng(seed).random(N + 4)
    return np.convolve(sizes, np.ones(5), "valid") + added * CALLS


def test_a_queue_of_random_sizes_is_rarely_taken_for_growth_and_a_leak_beside_it_is_found() -> None:
    def accused(added: float) -> int:
        return sum(fit("n", "bytes", queue(s, added), np.zeros(1)).grows for s in range(200))

    assert accused(0) <= 6  # 3%, as for a chance of three standard errors on a few tries
    assert accused(0.5) >= 190
    shapes = {fit("n", "bytes", queue(s), np.zeros(1)).shape for s in range(200)}
    assert Shape.UNCLEAR in shapes


def test_noise_grows_where_neighbours_scatter_alike() -> None:
    steps = np.repeat([0.0, 1.0, 0.0], 10)
    # Less their mean they are −1/3 and 2/3, with mean square 2/9; of the 29 products of neighbours
    # two are −2/9, nine 4/9 and eighteen 1/9.
    rho = (2 * -2 / 9 + 9 * 4 / 9 + 18 / 9) / 29 / (2 / 9)
    expected = np.sqrt((1 + rho) / (1 - rho))
    assert persistence(CALLS, steps, 0.0) == pytest.approx(expected)
    assert persistence(CALLS, CALLS**2, 29.0) == 1  # never falls
    assert persistence(CALLS, CALLS % 6 + CALLS, 1.0) == 1  # repeats itself
    turns: Any = (-1.0) ** np.arange(N)
    assert persistence(CALLS, turns, 0.0) == 1


def test_floor_and_unknown_values() -> None:
    values = 10.0 * CALLS
    values[3:7] = np.nan
    series = fit("n", "bytes", values, np.array([0.0, 7.0]), floor=5)
    assert series.grows
    assert series.known
    assert series.slope == pytest.approx(10)
    assert series.rise == 10.0 * (N - 1)
    assert series.first_step == 7
    assert series.second_half_rise() > 0
    assert not fit("n", "bytes", values, np.zeros(1), floor=20).grows
    unknown = fit("n", "bytes", np.full(N, np.nan), np.full(1, np.nan))
    assert not unknown.known
    assert not unknown.grows
    assert unknown.rise == unknown.first_step == 0


def test_jumps_of_a_pool_are_taken_out() -> None:
    values = 1000.0 * CALLS
    values[12:] += 64 * 2**20
    assert without_jumps(values) == pytest.approx(1000.0 * CALLS)
    large = 4.0 * 2**20 * CALLS  # a steady rise of any size stays
    assert without_jumps(large) == pytest.approx(large)
