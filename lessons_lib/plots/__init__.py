"""Pictures of results: importing this package registers them, and loads nothing else.

`lessons_lib.common.results` asks by the class of a result; what draws it is imported when
something is drawn, and matplotlib with it.  Alternative texts need no matplotlib at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lessons_lib.common.results import alt_text, draw
from lessons_lib.recording.breakdown import Breakdown, RecordingDiff
from lessons_lib.recording.recording import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@draw.register(Recording)
def _(result: Recording, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.timeline import draw_recording

    return draw_recording(result, ax, **options)


@draw.register(Breakdown)
def _(result: Breakdown, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.bars import draw_breakdown

    return draw_breakdown(result, ax, **options)


@draw.register(RecordingDiff)
def _(result: RecordingDiff, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.bars import draw_diff

    return draw_diff(result, ax, **options)


@alt_text.register(Recording)
def _(result: Recording, **options: Any) -> str:
    from lessons_lib.plots.alt_text import describe_recording

    return describe_recording(result, **options)


@alt_text.register(Breakdown)
def _(result: Breakdown, **options: Any) -> str:
    from lessons_lib.plots.alt_text import describe_breakdown

    return describe_breakdown(result, **options)


@alt_text.register(RecordingDiff)
def _(result: RecordingDiff, **options: Any) -> str:
    from lessons_lib.plots.alt_text import describe_diff

    return describe_diff(result, **options)
