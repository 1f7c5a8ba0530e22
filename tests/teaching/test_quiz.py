"""Quizzes: one right answer each, a reason for every answer, and the same page each time."""

from __future__ import annotations

from typing import Any

import pytest

from lessons_lib.notebook import display
from lessons_lib.teaching import progress, quizzes
from lessons_lib.teaching.exercises import LESSONS
from lessons_lib.teaching.quiz_widget import Quiz, quiz
from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = [
    pytest.param(question, id=f"{lesson}-{number}")
    for lesson in quizzes.LESSONS
    for number, question in enumerate(quizzes.questions(lesson), 1)
]


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "progress.json"))


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_whole(question: QuizQuestion) -> None:
    assert question.text.endswith(("?", "."))
    assert len(question.options) >= 3
    assert sum(option.right for option in question.options) == 1
    assert len({option.text for option in question.options}) == len(question.options)
    assert all(
        option.text and option.why and option.why != option.text for option in question.options
    )


def test_every_lesson_has_three_to_five_questions() -> None:
    assert quizzes.LESSONS == ("start_here", *LESSONS.values())  # lesson 00 has no exercises
    assert all(3 <= len(quizzes.questions(lesson)) <= 5 for lesson in quizzes.LESSONS)


def test_right_answers_are_not_all_in_one_place() -> None:
    places = [
        [option.right for option in question.options].index(True)
        for lesson in quizzes.LESSONS
        for question in quizzes.questions(lesson)
    ]
    assert max(map(places.count, set(places))) < 0.7 * len(places)


@pytest.fixture
def small() -> Quiz:
    return Quiz(
        "loops",
        (
            QuizQuestion("One <1>?", (right("yes & no", "because"), wrong("no", "since it is"))),
            QuizQuestion("Two?", (wrong("no", "it isn't"), right("yes", "it is"))),
        ),
    )


def test_answers_by_letter_and_number(small: Quiz) -> None:
    assert str(small.answer(1, "b")) == "✗ Not so. since it is"
    assert str(small.answer(1, " A ")) == "✓ Right. because"
    assert small.answer(2, 2).right
    assert progress.load().quizzes == {"loops": {"1": 2, "2": 1}}


@pytest.mark.parametrize(
    ("number", "choice"), [(0, "a"), (3, "a"), (1, "c"), (1, ""), (1, 0), (1, "ab")]
)
def test_answers_that_are_none(small: Quiz, number: int, choice: Any) -> None:
    with pytest.raises(ValueError, match="give a"):
        small.answer(number, choice)


def test_unknown_quizzes() -> None:
    with pytest.raises(ValueError, match="give one of start_here, measure_memory"):
        quiz("cooking")


def test_as_text(small: Quiz, capsys: pytest.CaptureFixture[str]) -> None:
    small.show()
    shown = capsys.readouterr().out
    assert "1. One <1>?" in shown
    assert "   b) yes" in shown
    assert "because" not in shown


def test_as_widgets(small: Quiz, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, Any]] = []
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.setattr(
        display, "show", lambda text, html="", widget=None: calls.append((text, html, widget))
    )
    monkeypatch.setattr(display, "run_in_page", lambda script: None)
    small.show()
    small.show()
    (text, html, widget), (text2, html2, _) = calls
    assert (text, html) == (text2, html2)
    assert "&lt;1&gt;" in html
    assert "because" not in text + html  # answers are not in the page
    assert "lessons-live" in widget._dom_classes
    title, choice, button, feedback = widget.children[1].children
    assert "lessons-answer" in feedback._dom_classes
    assert "&lt;1&gt;" in title.value
    assert choice.value is None
    assert choice.description == "Answer to question 1:"
    button.click()
    assert "Choose an answer first" in feedback.value
    choice.value = 1
    button.click()
    assert "Not so. since it is" in feedback.value
    assert 'role="alert"' in feedback.value
    choice.value = 0
    assert feedback.value == ""  # what it said was about another answer
    button.click()
    assert "Right. because" in feedback.value
    assert progress.load().quizzes == {"loops": {"1": 2}}


def test_the_same_questions_each_time() -> None:
    assert str(quiz("loops")) == str(quiz("loops"))
    assert repr(quiz("loops")) == "<Quiz loops: 5 questions>"
