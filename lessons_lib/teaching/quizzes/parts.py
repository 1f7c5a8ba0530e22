"""What a quiz is made of."""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """A possible answer: its text, whether it is right, and the reason why or why not."""

    text: str
    right: bool
    why: str


class QuizQuestion(NamedTuple):
    """A question about mechanism, with exactly one right answer among its options."""

    text: str
    options: tuple[Option, ...]


def right(text: str, why: str) -> Option:
    """Make the right answer."""
    return Option(text, True, why)


def wrong(text: str, why: str) -> Option:
    """Make a wrong answer, with the reason why it is wrong."""
    return Option(text, False, why)
