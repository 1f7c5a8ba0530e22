"""`Exercise`: all of an exercise as data: its task, starter, inputs, limits, hints and solution.

The lessons' cells are made from it, and so are the checks, so that they can't drift apart.
Starters and solutions are real functions, ``NAME_starter`` and ``NAME_solution``; what learners see
is their source with the plain NAME.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from lessons_lib.teaching.exercises.graph_counter import GraphCount
from lessons_lib.teaching.exercises.limits import Limit, Size

Answer = Callable[..., Any]
_TYPES: Final = re.compile(
    r"(?<=\w): (?:Any|int|list\[Any\]|dict\[Any, Any\])(?=[,)\]]| =)|(?<=\)) -> (?:Any|None)(?=:)"
)
_SUFFIX: Final = re.compile(r"_(starter|solution)$")


class Way(StrEnum):
    """How an answer is called."""

    #: Once, with `Inputs.arguments`.
    ONCE = "once"
    #: With what each of `Inputs.calls` makes.
    EACH = "each"
    #: Once, with `Inputs.arguments`; it gives a step, which is called with each of `Inputs.calls`.
    STEP = "step"


class Inputs(NamedTuple):
    """What an answer is called with.

    Attributes
    ----------
    arguments : tuple
        Of the one call; or of the call that gives the step.
    calls : tuple of callables
        Each makes the arguments of one of many calls, at the moment of the call.
    right : object
        The right value (a list of them where there are calls); None where the reference solution
        tells it.  No answer gets to see it.
    """

    arguments: tuple[Any, ...]
    calls: tuple[Callable[[], tuple[Any, ...]], ...] = ()
    right: Any = None


@dataclass(frozen=True)
class Attempt:
    """What a requirement looks at.

    Attributes
    ----------
    value : object
        The answer's result; the step, where it makes one.
    inputs : Inputs
        Those of this run.
    graphs : GraphCount
        What the run traced and ran.
    largest_bytes : int
        Bytes of the largest buffer or array that it made.
    """

    value: Any
    inputs: Inputs
    graphs: GraphCount
    largest_bytes: int = 0


#: Gives a sentence that says what is missing, or an empty one.
Requirement = Callable[[Attempt], str]


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
        The task in markdown.
    starter, solution_code : callable
        Functions named ``NAME_starter`` and ``NAME_solution``.
    inputs : callable
        From sizes and a seed to `Inputs`, each time new ones.
    shown : mapping of str to int
        Sizes that the task names.
    graded : tuple of mappings
        Sizes that checks use.
    limits : tuple of Limit
        What an answer may take, besides giving the right value.
    hints : tuple of str
        From weak to strong.
    requires : tuple of Requirement
        What else the task asks for: a graph, a variable.
    explain : callable, optional
        From `Inputs`, a wrong value and the right one to a sentence that names the mistake, or an
        empty one.
    way : Way
    seconds : float
        Time limit of one run.
    tolerance : float
        Relative tolerance of values; 0 for exact ones.
    """

    key: str
    title: str
    prompt: str
    starter: Answer
    solution_code: Answer
    inputs: Callable[[Size, int], Inputs]
    shown: Size
    graded: tuple[Size, ...]
    limits: tuple[Limit, ...]
    hints: tuple[str, ...]
    requires: tuple[Requirement, ...] = ()
    explain: Callable[[Inputs, Any, Any], str] | None = None
    way: Way = Way.ONCE
    seconds: float = 30.0
    tolerance: float = 1e-4

    def __repr__(self) -> str:
        return f"<Exercise {self.key}: {self.title}>"

    @property
    def name(self) -> str:
        """Name of the function that the learner writes."""
        return _SUFFIX.sub("", self.starter.__name__)

    def task(self) -> str:
        """Give the task as markdown, with the budget for the shown sizes."""
        budgets = " and ".join(
            limit.quantity.limited(limit.budget(self.shown))
            + (f" ({limit.why})" if limit.why else "")
            for limit in self.limits
        )
        sizes = ", ".join(f"`{name} = {value}`" for name, value in self.shown.items())
        note = f"**Budget** with {sizes}: {budgets}. Checks use fresh inputs and other sizes."
        return f"{textwrap.dedent(self.prompt).strip()}\n\n{note}"


def function_of(answer: Any) -> Any:
    """Give the Python function behind an answer: the body of a ``tf.function``, say."""
    return inspect.unwrap(getattr(answer, "python_function", answer))


def source_of(function: Answer) -> str:
    """Give a function's source under the name that learners know.

    Functions beside it whose names end in the same way are named in the same way.
    """
    source = textwrap.dedent(inspect.getsource(function_of(function))).strip()
    # Types are for this package: a notebook need not import their names.
    source = _TYPES.sub("", source)
    return re.sub(r"\b(\w+?)_(?:starter|solution)\b", r"\1", source)
