"""Where each buffer lies in the stack, at each moment: every byte is drawn once."""

from __future__ import annotations

import numpy as np
import pytest

from lessons_lib.common.units import KIB, MIB
from lessons_lib.plots.stacking import Bands, stack
from lessons_lib.recording.recording import Recording
from tests.support.drawn import (
    CASES,
    all_small,
    many,
    negative,
    one_huge,
    small,
    step,
)


def alive_bytes(bands: Bands, recording: Recording) -> np.ndarray:
    """Add up, at each moment, what is drawn: bands, layers and what was there before."""
    total = bands.floor + bands.before.astype(np.int64)
    for buffer, first, last in zip(bands.index, bands.first, bands.last, strict=True):
        total[first:last] += int(recording.buffers.nbytes[buffer])
    return total + sum((layer.height for layer in bands.layers), np.zeros_like(total))


def gaps(bands: Bands, recording: Recording) -> int:
    """Count the moments at which the pieces of the stack do not lie exactly on each other."""
    count = 0
    sizes = recording.buffers.nbytes[bands.index]
    for moment in range(len(bands.live)):
        top = bands.floor + int(bands.before[moment])
        for size, first, last, bottom in zip(
            sizes, bands.first, bands.last, bands.bottoms, strict=True
        ):
            if first <= moment < last:
                count += int(bottom[moment - first]) != top
                top += int(size)
        for layer in bands.layers:
            count += int(layer.bottom[moment]) != top
            top += int(layer.height[moment])
        count += top != int(bands.live[moment])
    return count


@pytest.mark.parametrize("name", CASES)
def test_heights_add_up_to_live_bytes(name: str) -> None:
    recording = CASES[name]()
    bands = stack(recording)
    assert (alive_bytes(bands, recording) == bands.live).all()
    assert gaps(bands, recording) == 0
    assert bands.live.max() == recording.peak_bytes
    assert bands.live[-1] == recording.kept_bytes


def test_a_missing_band_or_a_shifted_one_would_be_noticed() -> None:
    recording = step()
    bands = stack(recording)
    fewer = Bands(**{**vars(bands), "first": bands.last})
    assert (alive_bytes(fewer, recording) != bands.live).any()
    bands.bottoms[3][0] += 1
    assert gaps(bands, recording) == 1


def test_bands_sink_when_one_below_is_freed() -> None:
    bands = stack(small())
    # Three of 4 MiB; the middle one is freed, so the last one sinks from 8 MiB to 4 MiB.
    assert [b.tolist() for b in bands.bottoms[:2]] == [[0] * 4, [4 * MIB] * 2]
    assert bands.bottoms[2].tolist() == [8 * MIB, 4 * MIB]


def test_buffers_from_before_lie_below_zero() -> None:
    bands = stack(negative())
    assert bands.floor == -12 * MIB
    assert bands.before.tolist() == [12 * MIB, 12 * MIB, 4 * MIB, 4 * MIB, 0, 0]
    assert bands.live.tolist() == [0, 3 * MIB, -5 * MIB, -3 * MIB, -7 * MIB, -10 * MIB]


def test_small_buffers_are_folded_with_their_exact_maximum() -> None:
    (layer,) = stack(one_huge()).layers
    assert (layer.op, layer.count) == (None, 50)
    assert layer.most_bytes == 4 * 50 * 51 // 2


def test_many_small_buffers_of_one_operation_keep_its_colour() -> None:
    (layer,) = stack(all_small(1000)).layers
    assert (layer.op, layer.count) == ("Tanh", 1000)
    assert layer.most_bytes == 1000 * KIB


@pytest.mark.parametrize("count", [3_000, 30_000])
def test_what_is_drawn_does_not_grow_with_the_events(count: int) -> None:
    bands = stack(many(count))
    assert bands.dense
    assert len(bands.live) <= 2 * 500 + 1
    assert sum(map(len, bands.bottoms)) <= 120 * len(bands.live)


def test_a_dense_picture_keeps_the_peak_of_every_column() -> None:
    recording = many(5_000)
    bands = stack(recording)
    times, live = recording.timeline()
    column = np.minimum((times / recording.seconds * 500).astype(int), 499)
    drawn = np.minimum((bands.times[:-1] / recording.seconds * 500 + 1e-6).astype(int), 499)
    for c in np.unique(column[1:-1]):
        assert live[column == c].max() in (bands.live[drawn == c].max(), live[0])
