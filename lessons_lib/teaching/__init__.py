"""What the lessons are made of: predictions, quizzes, sliders, pictures, exercises, the clinic.

Lessons import from here and from ``lessons_lib`` itself, never from deeper.  The exercises of a
lesson come under the name of its topic (``from lessons_lib.teaching import loops``).  Everything is
loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lessons_lib.notebook.explore import explore
    from lessons_lib.notebook.predict import predict
    from lessons_lib.plots.figures import draw_bars as bars
    from lessons_lib.teaching import clinic, progress
    from lessons_lib.teaching.child_process import plain_process
    from lessons_lib.teaching.exercises.warnings import without_warnings
    from lessons_lib.teaching.quiz_widget import quiz

__all__ = [
    "bars",
    "clinic",
    "explore",
    "plain_process",
    "predict",
    "progress",
    "quiz",
    "without_warnings",
]

#: Where each name lies; modules are given as such.
_NAMES: Final = {
    "bars": ("lessons_lib.plots.figures", "draw_bars"),
    "clinic": ("lessons_lib.teaching.clinic", ""),
    "explore": ("lessons_lib.notebook.explore", "explore"),
    "plain_process": ("lessons_lib.teaching.child_process", "plain_process"),
    "predict": ("lessons_lib.notebook.predict", "predict"),
    "progress": ("lessons_lib.teaching.progress", ""),
    "quiz": ("lessons_lib.teaching.quiz_widget", "quiz"),
    "without_warnings": ("lessons_lib.teaching.exercises.warnings", "without_warnings"),
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, attribute = _NAMES[name]
        found = import_module(module)
        return getattr(found, attribute) if attribute else found
    if not name.startswith("_"):
        from lessons_lib.teaching.exercises import LESSONS

        if name in LESSONS.values():
            return import_module(f"{__name__}.exercises.lessons.{name}")
    raise AttributeError(
        f"there is no {name} in lessons_lib.teaching: it has {', '.join(__all__)}, and the "
        "exercises of each lesson under the name of its topic, such as loops"
    )
