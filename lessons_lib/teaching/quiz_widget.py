"""Quizzes about mechanism: a question, a few answers, and the reason why each is right or wrong.

``quiz("loops")`` shows a lesson's questions with ipywidgets' own parts, which need no network and
can be used by keyboard and screen reader.  Answers are checked in the kernel, so they are not in
the page.  What is shown at first is the same in every run.  Where there are no widgets, the
questions are text, and ``quiz("loops").answer(1, "b")`` checks one.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from lessons_lib.notebook import display
from lessons_lib.teaching import quizzes
from lessons_lib.teaching.progress import note_question
from lessons_lib.teaching.quizzes.parts import Option, QuizQuestion

_LETTERS = "abcdefgh"


@dataclass(frozen=True, repr=False)
class Feedback:
    """What an answer to a question led to.

    Attributes
    ----------
    right : bool
        Whether the answer is right.
    text : str
        The reason.
    """

    right: bool
    text: str

    def __str__(self) -> str:
        return f"{'✓ Right.' if self.right else '✗ Not so.'} {self.text}"

    __repr__ = __str__


class Quiz:
    """A lesson's questions.

    Parameters
    ----------
    lesson : str
        Name of the lesson's module of exercises, such as ``"loops"``.
    questions : tuple of QuizQuestion
        What is asked.
    """

    def __init__(self, lesson: str, questions: tuple[QuizQuestion, ...]) -> None:
        self.lesson = lesson
        self.questions = questions
        self._tries = [0] * len(questions)

    def __repr__(self) -> str:
        return f"<Quiz {self.lesson}: {len(self.questions)} questions>"

    def __str__(self) -> str:
        parts = []
        for number, question in enumerate(self.questions, 1):
            lines = [f"{number}. {question.text}"]
            lines += [
                f"   {letter}) {option.text}"
                for letter, option in zip(_LETTERS, question.options, strict=False)
            ]
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def answer(self, number: int, choice: str | int) -> Feedback:
        """Check an answer.

        Parameters
        ----------
        number : int
            Of the question, from 1.
        choice : str or int
            A letter, or the option's number from 1.

        Raises
        ------
        ValueError
            If there is no such question or option.
        """
        if not isinstance(number, int) or not 1 <= number <= len(self.questions):
            raise ValueError(
                f"there is no question {number!r}: give a number from 1 to {len(self.questions)}"
            )
        options = self.questions[number - 1].options
        letters = _LETTERS[: len(options)]
        place = choice - 1 if not isinstance(choice, str) else -1
        if isinstance(choice, str) and len(choice.strip()) == 1:
            place = letters.find(choice.strip().lower())
        if not 0 <= place < len(options):
            raise ValueError(
                f"question {number} has no answer {choice!r}: give a letter from a to {letters[-1]}"
            )
        return self._chosen(number - 1, place)

    def _chosen(self, question: int, place: int) -> Feedback:
        option = self.questions[question].options[place]
        self._tries[question] += 1
        if option.right:
            note_question(self.lesson, str(question + 1), self._tries[question])
        return Feedback(option.right, option.why)

    def show(self) -> None:
        """Show the questions."""
        if not display.in_notebook():
            display.show(str(self))
            return
        display.show(str(self), _static_html(self), self._widget())
        display.run_in_page(display.NAME_PARTS)

    def _ipython_display_(self) -> None:
        self.show()

    def _widget(self) -> Any:
        return display.live_box([self._question_widget(i) for i in range(len(self.questions))])

    def _question_widget(self, index: int) -> Any:
        from ipywidgets import HTML, Button, Layout, RadioButtons, VBox

        question, number = self.questions[index], index + 1
        options = [(option.text, place) for place, option in enumerate(question.options)]
        # Each label can wrap; a width of its own keeps long answers on the page.
        choice = RadioButtons(
            options=options,
            value=None,
            description=f"Answer to question {number}:",
            style={"description_width": "initial"},
            layout=Layout(width="auto", max_width="60em"),
        )
        button = Button(
            description=f"Check answer {number}", layout=Layout(width="12em"), tooltip=""
        )
        feedback = HTML("")
        feedback.add_class("lessons-answer")

        def chosen_anew(_: Any) -> None:
            feedback.value = ""  # it was about another answer

        def check(_: Any) -> None:
            if choice.value is None:
                feedback.value = '<div role="alert">Choose an answer first.</div>'
                return
            text = str(self._chosen(index, choice.value))
            # An alert is read out by screen readers as soon as it appears.
            feedback.value = f'<div role="alert">{html.escape(text)}</div>'

        button.on_click(check)
        choice.observe(chosen_anew, names="value")
        title = HTML(f"<p><strong>{number}. {html.escape(question.text)}</strong></p>")
        return VBox([title, choice, button, feedback], layout=Layout(margin="0 0 1em 0"))


def _static_html(shown: Quiz) -> str:
    def items(options: tuple[Option, ...]) -> str:
        return "".join(f"<li>{html.escape(option.text)}</li>" for option in options)

    parts = [
        f"<li><p>{html.escape(question.text)}</p>"
        f'<ol style="list-style-type:lower-alpha">{items(question.options)}</ol></li>'
        for question in shown.questions
    ]
    return f"<ol>{''.join(parts)}</ol><p>{display.RUN_TO_ANSWER}</p>"


def quiz(lesson: str) -> Quiz:
    """Give a lesson's quiz; as the last expression of a cell it shows itself.

    Parameters
    ----------
    lesson : str
        Name of the lesson's module of exercises, such as ``"loops"``.

    Raises
    ------
    ValueError
        If there is no such quiz.
    """
    questions = quizzes.questions(lesson)
    if not questions:
        known = ", ".join(quizzes.LESSONS)
        raise ValueError(f"there is no quiz {lesson!r}: give one of {known}")
    return Quiz(lesson, questions)
