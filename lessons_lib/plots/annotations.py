"""What is written around the bands: the peak, what was kept, the limit, or that nothing was there.

None of it covers data or another text: the peak's label stands above all bands, what was kept right
of the end of the data, and the limit right of the axes.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from lessons_lib.common.units import format_bytes
from lessons_lib.plots.band_labels import View
from lessons_lib.plots.colours import FAINT_INK, INK, PAPER, luminance
from lessons_lib.plots.layout import PEAK_GAP, PEAK_SIZE, Panel
from lessons_lib.plots.theme import TEXT, TITLE, fit_text, label_colour, text_size


def say_nothing(ax: Axes) -> None:
    """Say in the middle of the axes that the recording is empty."""
    ax.text(
        0.5,
        0.5,
        "nothing was allocated",
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=TITLE,
        color=FAINT_INK,
        gid="nothing",
    )
    ax.set_yticks([0])


def mark_peak(ax: Axes, panel: Panel, view: View) -> tuple[float, float]:
    """Mark the peak; give the right end and the lower edge of its label in pixels."""
    peak = panel.recording.peak_bytes
    if not peak:
        return 0.0, view.height
    at = min(panel.recording.peak_at, view.seconds)
    _dot(ax, at, peak, 7)
    text, note = f"peak {format_bytes(peak)}", panel.peak_note(view.per_second)
    end = max(panel.seconds * view.per_second, view.width / 2)
    note = fit_text(note, view.width - 4, dpi=view.dpi) if note else ""
    wide, high = text_size(text, PEAK_SIZE, bold=True, dpi=view.dpi)
    note_wide, note_high = text_size(note, dpi=view.dpi) if note else (0.0, 0.0)
    rise = PEAK_GAP
    if panel.limit is not None:
        apart = (panel.limit - peak) * view.per_byte
        if -2 <= apart < rise + high + note_high:
            rise = apart + 5
    right = 0.0
    for words, size, across, lift, gid in (
        (text, PEAK_SIZE, wide, note_high, "peak"),
        (note, TEXT, note_wide, 0.0, "note"),
    ):
        if words:
            middle = max(min(at * view.per_second, end - across / 2 - 2), across / 2 + 2)
            right = max(right, middle + across / 2)
            ax.annotate(
                words,
                (middle / view.per_second, peak),
                xytext=(0, (rise + lift) * 72 / view.dpi),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=size,
                fontweight="bold" if gid == "peak" else "normal",
                color=INK,
                zorder=6,
                annotation_clip=False,
                gid=gid,
                path_effects=[withStroke(linewidth=3, foreground=PAPER)],
            )
    return right, (peak - view.low) * view.per_byte + rise


def _dot(ax: Axes, x: float, y: float, size: float) -> None:
    ax.plot(
        [x], [y], "o", color=INK, markeredgecolor=PAPER, markersize=size, zorder=6, clip_on=False
    )


def write_margin(ax: Axes, panel: Panel, view: View, label: tuple[float, float]) -> None:
    """Write what was kept right of the data's end, and the limit right of the axes.

    `label` is the right end and the lower edge of the peak's label, which is to be kept clear.
    """
    texts = panel.margin_texts(view.high)
    room: float = ax.figure.bbox.x1 - ax.get_window_extent().x1
    end = panel.seconds * view.per_second
    if not texts or room + view.width - end < panel.margin(view.dpi) - 8:
        return
    apart = max(text_size(text, dpi=view.dpi)[1] for _, text, _ in texts)
    outside = label_colour(ax)
    floor = apart / 2  # not into the tick labels below
    for value, text, colour in texts:
        place = max((value - view.low) * view.per_byte, floor)
        floor = place + apart
        left = view.width
        if colour == INK:
            _dot(ax, panel.seconds, value, 5.5)
            left = end
            if place + apart / 2 > label[1]:
                left = max(left, min(label[0], view.width))
        ax.text(
            (left + 11) / view.width,
            place / view.height,
            text,
            transform=ax.transAxes,
            ha="left",
            va="center",
            fontsize=TEXT,
            linespacing=1.1,
            color=outside if colour == INK or luminance(outside) > 0.3 else colour,
            gid="margin",
        )
