"""What the lessons claim, a module for each lesson: text, condition, verdict and advice.

A lesson's module has the name of its notebook without the number, and one object ``CLAIMS``.
`lessons_lib.teaching.claims` tries a claim with what was measured; nothing is measured here.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from lessons_lib.teaching.lessons.claim import Claims


def topic_of(lesson: str) -> str:
    """Give the name of a lesson's module: ``"loops"`` for ``"03_loops"``."""
    number, _, topic = lesson.partition("_")
    return topic if number.isdigit() else lesson


def known_lessons() -> tuple[str, ...]:
    """Name all lessons that have their claims here, by their modules' names."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in names if name != "claim"))


def claims_of(lesson: str) -> Claims | None:
    """Give a lesson's claims, by its notebook's name; None if it has none here."""
    topic = topic_of(lesson)
    if topic not in known_lessons():
        return None
    found: Claims = import_module(f"{__name__}.{topic}").CLAIMS
    return found
