"""The leak clinic: programs that grow, to be diagnosed and fixed.

``case = clinic.draw(seed)`` gives a program without a label; ``clinic.four_for(seed)`` gives four
with different causes.  Neighbours with consecutive seeds have different ones.  Run ``case.step`` in
``ll.growth``, say what you found with `Case.diagnose`, and hand a fixed maker of a step to
`Case.fix`.  Nothing of this is graded or stored.
"""

from __future__ import annotations

import html
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np

from lessons_lib.common import results
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import MIB
from lessons_lib.instruments.growth import Cause, growth
from lessons_lib.notebook import display
from lessons_lib.teaching.clinic_programs import FAULTS, ProgramFault
from lessons_lib.teaching.exercises.expected import difference, is_nothing
from lessons_lib.teaching.exercises.warnings import without_warnings
from lessons_lib.teaching.exercises.watchdog import Tripped, Watchdog

#: Values of so many calls are compared, and so many calls are watched for growth.
_COMPARED: Final = 6
_WATCHED: Final = 12
_SECONDS: Final = 60.0
_CEILING: Final = 1024 * MIB

#: What would be seen in ``growth``'s evidence if a cause were the right one.
_SIGNS: Final = {
    Cause.RETRACING: "the count of tf.functions or of their traces would rise with each call",
    Cause.GRAPH_GROWTH: "a graph that lives on would gain operations in each call",
    Cause.VARIABLES: "the count of living variables would rise with each call",
    Cause.RETAINED_TENSORS: "the count of living tensors would rise with each call",
    Cause.PYTHON_OBJECTS: "Python's heap would rise, and no tensors, variables or functions",
    Cause.DATASET_BUFFERS: "datasets or iterators would multiply, or a cache fill without end",
    Cause.NATIVE_MEMORY: "only the C heap would rise, and no cache would give it back",
    Cause.RUNTIME_CACHE: "only the C heap would rise, and emptying the caches would give it back",
    Cause.ALLOCATOR: "nothing that can be counted would rise, only the resident set",
}


@dataclass(frozen=True, repr=False)
class Outcome(results.Result):
    """What the clinic says to a diagnosis or a fix.

    Attributes
    ----------
    right : bool
        Whether it is right.
    text : str
        Why, or why not.
    attempted : bool
        False when there was nothing to judge yet.
    """

    right: bool
    text: str
    attempted: bool = True

    def __str__(self) -> str:
        mark = "✓" if self.right else "✗" if self.attempted else "○"
        return f"{mark} {self.text}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _ipython_display_(self) -> None:
        """Show nothing: it was shown when it was made."""


@results.summary_html.register
def _(result: Outcome) -> str:
    return f'<div role="status">{html.escape(str(result))}</div>'


def _outcome(right: bool, text: str, *, attempted: bool = True) -> Outcome:
    outcome = Outcome(right, text, attempted)
    display.show(str(outcome), results.summary_html(outcome))
    return outcome


class Case:
    """A program that grows.

    Parameters
    ----------
    number : int
        Which of the clinic's programs; used in its name only.
    rows : int
        A size in it.

    Attributes
    ----------
    name : str
        Such as ``"case 3"``.
    source : str
        The program; its ``make_step()`` makes the step.
    step : callable
        A step: call it with 0, 1, 2, …
    """

    def __init__(self, number: int, rows: int) -> None:
        self._fault: ProgramFault = FAULTS[number]
        self.name = f"case {number + 1}"
        self._rows = rows
        self.source = _source(self._fault.faulty, rows)
        self.step: Callable[[int], Any] = self.make_step()

    def __repr__(self) -> str:
        return f"<{self.name} of the leak clinic>"

    def make_step(self) -> Callable[[int], Any]:
        """Run the program anew: give a step with a fresh state."""
        # A file and module of its own make the program the user's code: its lines are shown, and
        # AutoGraph can read it.
        name = f"clinic_{self.name.replace(' ', '_')}"
        text = f"{self.source}\n"
        linecache.cache[f"{name}.py"] = (len(text), None, text.splitlines(True), f"{name}.py")
        module: Any = ModuleType(name)
        module.tf, module.np = tf, np
        sys.modules[name] = module
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
        step: Callable[[int], Any] = module.make_step()
        return step

    def show(self) -> None:
        """Show the program."""
        display.show(self.source, f"<pre><code>{html.escape(self.source)}</code></pre>")

    def _ipython_display_(self) -> None:
        self.show()

    def diagnose(self, cause: str) -> Outcome:
        """Say why the program grows, and see whether that is right.

        Parameters
        ----------
        cause : str
            One of the causes that ``ll.growth`` names, such as ``"retained tensors"``; capitals
            do not matter.  With ``"?"`` the clinic lists them.

        Raises
        ------
        ValueError
            If it is none of them.
        """
        wanted = str(cause).strip()
        known = {str(one).lower(): one for one in Cause}
        names = ", ".join(repr(str(one)) for one in Cause if one is not Cause.NONE)
        if wanted == "?":
            text = f"{self.name}: not diagnosed yet. Why does it grow? Give one of {names}."
            return _outcome(False, text, attempted=False)
        if wanted.lower() not in known:
            raise ValueError(f"{cause!r} is not a cause: give one of {names}")
        named = known[wanted.lower()]
        if named is self._fault.cause:
            return _outcome(True, f"{self.name}: {named}. {self._fault.why}")
        look = "Run its step in ll.growth: what rises with each call, and who holds it?"
        if named is Cause.NONE:
            return _outcome(False, f"{self.name}: it does grow. {look}")
        return _outcome(False, f"{self.name}: not {named}: if it were, {_SIGNS[named]}. {look}")

    def fix(self, make_step: Any) -> Outcome:
        """Check a fixed program: it gives the same numbers and does not grow.

        Parameters
        ----------
        make_step : callable
            Your version of the program's ``make_step``: it takes nothing and returns the step.
        """
        if not callable(make_step):
            return _outcome(False, "fix needs your make_step itself, without calling it.")
        try:
            inspect.signature(make_step).bind()
        except TypeError:
            return _outcome(
                False, "fix needs your make_step, which takes nothing and returns the step."
            )
        except ValueError:  # some callables tell nothing: calling it will show
            pass
        with without_warnings():
            expected_step = self.make_step()
            expected = [expected_step(i) for i in range(_COMPARED)]
        del expected_step
        try:
            with without_warnings(), Watchdog(_SECONDS, _CEILING):
                step = make_step()
                if is_nothing(step):
                    text = f"{self.name}: nothing is fixed yet. Write a make_step that returns "
                    return _outcome(False, f"{text}the step, a function of i.", attempted=False)
                if not callable(step):
                    return _outcome(False, "make_step has to return the step, a function of i.")
                got = [step(i) for i in range(_COMPARED)]
                if where := difference(got, expected):
                    where = re.sub(r"^element \[(\d+)\]", r"step(\1)", where)
                    return _outcome(False, f"It computes something else: {where}.")
                grown = growth(step, iterations=_WATCHED, warmup=4)
        except Tripped as stopped:
            return _outcome(False, f"It gave no result: {stopped}.")
        except Exception as error:
            text = next((t for t in str(error).splitlines() if t.strip()), "")
            text = f"It raised {type(error).__name__}: {text}".rstrip(": .") + "."
            if isinstance(error, NameError) and error.name == "ROWS":
                text += f" Copy the program's first line too: ROWS = {self._rows}."
            return _outcome(False, text)
        if grown.grows:
            size = grown.causes[0].size
            return _outcome(
                False, f"The numbers are right, but it still grows: {grown.cause}, {size}."
            )
        return _outcome(True, f"{self.name} is fixed: same numbers, no growth.")


def _source(maker: Callable[[], Any], rows: int) -> str:
    text = textwrap.dedent(inspect.getsource(maker)).strip()
    text = re.sub(r"\b_make_\w+?_(?:faulty|fixed)\b", "make_step", text)
    # Types and names of rooms are for this package, not for the learner.
    text = re.sub(r": Any\b|: int\b| -> Any\b", "", text)
    return f"ROWS = {rows}\n\n\n{text}"


def draw(seed: int) -> Case:
    """Draw one program.

    Parameters
    ----------
    seed : int
        Your seat, for example; the seats beside it get other programs.

    Raises
    ------
    TypeError
        If it is no whole number.
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"a seed is a whole number, not {seed!r}: give your seat's number")
    return Case(seed % len(FAULTS), 128 + 32 * (seed // len(FAULTS) % 4))


def four_for(seed: int) -> tuple[Case, Case, Case, Case]:
    """Draw four programs with four different causes, for one learner.

    Parameters
    ----------
    seed : int
        As for `draw`.

    Raises
    ------
    TypeError
        If it is no whole number.
    """
    first, second, third, fourth = (draw(seed + 2 * n) for n in range(4))
    return first, second, third, fourth
