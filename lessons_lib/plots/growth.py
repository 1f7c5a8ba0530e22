"""Registers the pictures of growth and of living tensors, and says in words what they show.

What draws them is imported when something is drawn, and matplotlib with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lessons_lib.common.results import alt_text, draw
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.growth.trend import Series
from lessons_lib.instruments.live import LiveTensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN: Final = 5
_COUNTS: Final = (
    "live_tensors",
    "variables",
    "functions",
    "concrete_functions",
    "graphs",
    "graph_ops",
    "datasets",
)


@draw.register(Growth)
def _(result: Growth, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.growth_curves import draw_growth

    return draw_growth(result, ax, **options)


@draw.register(LiveTensors)
def _(result: LiveTensors, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.growth_curves import draw_live

    return draw_live(result, ax, **options)


def rises(evidence: Evidence) -> list[str]:
    """Say which counts grow, and how fast."""
    found: list[Series] = [getattr(evidence, name) for name in _COUNTS]
    return [f"{s.name} +{s.slope:.3g} a call" for s in found if s.grows]


@alt_text.register(Growth)
def _(result: Growth, **options: Any) -> str:
    head = (
        f"Memory of {result.label} after each of {result.iterations} calls, {result.warmup} "
        "warm-up calls before them: "
    )
    if not result.causes:
        return head + "the tensor bytes do not grow; no cause was found."
    parts = []
    for finding in result.causes[:_SHOWN]:
        holder = f", held by {finding.held[0].holder}" if finding.held else ""
        parts.append(f"{finding.cause}, {finding.size}{holder}")
    counts = rises(result.evidence)
    tail = f" Counts that grow: {', '.join(counts)}." if counts else ""
    return head + "it grows. " + "; ".join(parts) + "." + tail


@alt_text.register(LiveTensors)
def _(result: LiveTensors, **options: Any) -> str:
    head = (
        f"Bars of who holds {len(result.tensors)} tensors and {len(result.variables)} "
        f"variables that are alive, {format_bytes(result.nbytes)} in all"
    )
    said = [f"{group}, {format_bytes(group.nbytes)}" for group in result.by_holder()[:_SHOWN]]
    return f"{head}: {'; '.join(said)}." if said else f"{head}."
