"""Registers the pictures of comparisons, single operations and Keras training runs.

What draws them is imported when something is drawn, and matplotlib with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lessons_lib.common.results import alt_text, draw
from lessons_lib.instruments.compare import Comparison
from lessons_lib.instruments.keras_callback import FitMemory
from lessons_lib.instruments.operations.atlas import OpAtlas
from lessons_lib.instruments.operations.op_memory import OpMemory

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@draw.register(Comparison)
def _(result: Comparison, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.comparison import draw_comparison

    return draw_comparison(result, ax, **options)


@alt_text.register(Comparison)
def _(result: Comparison, **options: Any) -> str:
    from lessons_lib.plots.comparison import describe_comparison

    return describe_comparison(result, **options)


@draw.register(OpMemory)
def _(result: OpMemory, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.operations import draw_op

    return draw_op(result, ax, **options)


@alt_text.register(OpMemory)
def _(result: OpMemory, **options: Any) -> str:
    from lessons_lib.plots.operations import describe_op

    return describe_op(result, **options)


@draw.register(OpAtlas)
def _(result: OpAtlas, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.operations import draw_atlas

    return draw_atlas(result, ax, **options)


@alt_text.register(OpAtlas)
def _(result: OpAtlas, **options: Any) -> str:
    from lessons_lib.plots.operations import describe_atlas

    return describe_atlas(result, **options)


@draw.register(FitMemory)
def _(result: FitMemory, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.keras_fit import draw_fit

    return draw_fit(result, ax, **options)


@alt_text.register(FitMemory)
def _(result: FitMemory, **options: Any) -> str:
    from lessons_lib.plots.keras_fit import describe_fit

    return describe_fit(result, **options)
