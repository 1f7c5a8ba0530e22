"""The picture of the largest batch."""

from __future__ import annotations

from lessons_lib.common.units import MIB
from lessons_lib.instruments.training import BatchEstimate


def test_the_label_of_the_largest_batch_is_off_the_line() -> None:
    measured = ((1024, 9 * MIB), (2048, 17 * MIB), (1536, 13 * MIB), (1280, 11 * MIB))
    fit = BatchEstimate(12 * MIB, 1280, 1280, 1535, True, 11 * MIB, 11 * MIB, measured)
    ax = fit.plot()
    ax.figure.canvas.draw()
    (label,) = [text for text in ax.texts if text.get_text() == "≈ 1280 examples fit"]
    box = label.get_window_extent()
    dots = ax.transData.transform(measured)
    assert dots[:, 1].min() > box.y1
    assert box.x1 < ax.transData.transform((1280, 0))[0]
