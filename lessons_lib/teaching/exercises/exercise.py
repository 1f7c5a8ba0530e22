"""`Exercise`: one object that holds all of an exercise.

Its task, starter, inputs, promises, hints, solution and the wrong answers that people give.  The
lessons' cells are made from it (`Exercise.cells`), and so are the checks, so that they can't drift
apart.  Starters and solutions are real functions, ``NAME_starter`` and ``NAME_solution``; what
learners see is their source with the plain NAME.
"""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lessons_lib.notebook import display
from lessons_lib.teaching.exercises import grading
from lessons_lib.teaching.exercises.limits import Promise, Size
from lessons_lib.teaching.exercises.result import Result, Status

Answer = Callable[..., Any]
_TYPES: Final = re.compile(r"(?<=\w): (?:Any|int|list\[Any\])(?=[,)]| =)|(?<=\)) -> Any(?=:)")
_SUFFIX: Final = re.compile(r"_(starter|solution|wrong\w*)$")


class Cell(NamedTuple):
    """A cell of a lesson: ``"markdown"`` or ``"code"``, and its source."""

    kind: str
    source: str


class WrongAnswer(NamedTuple):
    """A plausible wrong answer: what it does, the function, and how it must fare."""

    label: str
    answer: Answer
    status: Status


class Inputs(NamedTuple):
    """What an answer is called with.

    Attributes
    ----------
    arguments : tuple
        Of the one call; or of the call that gives the step, when there are `calls`.
    calls : tuple of callables
        Each makes the arguments of one of many calls, at the moment of the call, and the same
        ones when it is called again.
    """

    arguments: tuple[Any, ...]
    calls: tuple[Callable[[], tuple[Any, ...]], ...] = ()


def call_once(answer: Answer, inputs: Inputs) -> Any:
    """Call an answer with its arguments, which is how most are run."""
    return answer(*inputs.arguments)


def call_each(answer: Answer, inputs: Inputs) -> Any:
    """Call an answer once for each of `Inputs.calls`; give the list of its results."""
    return [answer(*make()) for make in inputs.calls]


@dataclass(frozen=True, repr=False, kw_only=True, eq=False)
class Exercise:
    """One exercise.

    Attributes
    ----------
    key : str
        Such as ``"loops.q1"``; its module and name.
    title : str
        A few words.
    prompt : str
        The task in markdown; ``{budget}`` is replaced by the budget of the shown sizes.
    starter, solution_code : callable
        Functions named ``NAME_starter`` and ``NAME_solution``.
    inputs : callable
        From sizes and a seed to fresh `Inputs`.
    shown : mapping of str to int
        Sizes of the example that the learner can look at.
    graded : tuple of mappings
        Sizes that checks use.
    promises : tuple of Promise
        What an answer keeps, besides giving the right value.
    hints : tuple of str
        From weak to strong.
    wrong : tuple of WrongAnswer
        Plausible wrong answers, for the tests.
    expected : callable, optional
        From `Inputs` to the right value; by default what the solution gives.
    run : callable
        How an answer is called: from the answer and `Inputs` to a value.
    steps : bool
        Whether the answer makes a step that is then called with each of `Inputs.calls`.
    seconds : float
        Time limit of one run.
    tolerance : float
        Relative tolerance of values.
    """

    key: str
    title: str
    prompt: str
    starter: Answer
    solution_code: Answer
    inputs: Callable[[Size, int], Inputs]
    shown: Size
    graded: tuple[Size, ...]
    promises: tuple[Promise, ...]
    hints: tuple[str, ...]
    wrong: tuple[WrongAnswer, ...] = ()
    expected: Callable[[Inputs], Any] | None = None
    run: Callable[[Answer, Inputs], Any] = call_once
    steps: bool = False
    seconds: float = 30.0
    tolerance: float = 1e-4
    _hints_given: list[int] = field(default_factory=lambda: [0], init=False)

    def __repr__(self) -> str:
        return f"<Exercise {self.key}: {self.title}>"

    @property
    def name(self) -> str:
        """Name of the function that the learner writes."""
        return _SUFFIX.sub("", self.starter.__name__)

    def example(self) -> tuple[Any, ...]:
        """Give arguments to try a function on; checks use others."""
        return self.inputs(self.shown, 0).arguments

    def check(self, answer: Any = None, *, seed: int | None = None) -> Result:
        """Grade an answer, show the outcome and return it.

        Parameters
        ----------
        answer : callable, optional
            The learner's function itself.
        seed : int, optional
            Seed of the inputs; by default they are new in every check.

        Returns
        -------
        Result
            With `status`, `message`, `peak_bytes`, `budget_bytes`; never raises because of what
            the answer does (an interrupt from the keyboard passes through).
        """
        result = grading.grade(self, answer, seed)
        if result.status is not Status.NOT_ATTEMPTED:
            from lessons_lib.teaching.progress import note_exercise

            note_exercise(
                self.key,
                passed=result.passed,
                best=result.figure.measured if result.passed and result.figure else None,
                own=answer is not self.solution_code,
            )
        result.show()
        return result

    def hint(self) -> None:
        """Show a hint; each further call gives a stronger one."""
        number = min(self._hints_given[0], len(self.hints) - 1)
        self._hints_given[0] = number + 1
        more = len(self.hints) - number - 1
        tail = f" ({more} more)" if more else " (the last one)"
        text = f"Hint {number + 1}{tail}: {self.hints[number]}"
        display.show(text, f"<div>{html.escape(text)}</div>")

    def solution(self) -> Answer:
        """Show the reference solution's code and return it as a function."""
        from lessons_lib.teaching.progress import note_solution

        note_solution(self.key)
        code = source_of(self.solution_code)
        display.show(code, f"<pre><code>{html.escape(code)}</code></pre>")
        return self.solution_code

    def cells(self) -> tuple[Cell, Cell]:
        """Give the lesson's cells: the task, and the starter with its check."""
        module, _, number = self.key.partition(".")
        task = f"### {number.upper()}. {self.title}\n\n{self.task()}"
        code = f"{source_of(self.starter)}\n\n\n{module}.{number}.check({self.name})"
        return Cell("markdown", task), Cell("code", code)

    def task(self) -> str:
        """Give the task as markdown, with the budget for the shown sizes."""
        budgets = " and ".join(
            promise.quantity.limited(promise.budget(self.shown))
            + (f" ({promise.why})" if promise.why else "")
            for promise in self.promises
        )
        sizes = ", ".join(f"`{name} = {value}`" for name, value in self.shown.items())
        note = f"**Budget** with {sizes}: {budgets}. Checks use fresh inputs and other sizes."
        return f"{textwrap.dedent(self.prompt).strip()}\n\n{note}"


def source_of(function: Answer) -> str:
    """Give a function's source under the name that learners know.

    Functions beside it whose names end in the same way are named in the same way.
    """
    function = inspect.unwrap(getattr(function, "python_function", function))
    source = textwrap.dedent(inspect.getsource(function)).strip()
    # Types are for this package: a notebook need not import their names.
    source = _TYPES.sub("", source)
    return re.sub(r"\b(\w+?)_(?:starter|solution)\b", r"\1", source)


def lesson_cells(exercises: Sequence[Exercise]) -> list[Cell]:
    """Give all cells of a lesson's exercises, for the drift check between notebook and objects."""
    module = exercises[0].key.partition(".")[0]
    head = Cell("code", f"from lessons_lib.teaching.exercises.lessons import {module}")
    return [head, *(cell for exercise in exercises for cell in exercise.cells())]


def of_module(namespace: Mapping[str, Any]) -> tuple[Exercise, ...]:
    """Give the exercises that a module defines, in order."""
    return tuple(value for value in namespace.values() if isinstance(value, Exercise))
