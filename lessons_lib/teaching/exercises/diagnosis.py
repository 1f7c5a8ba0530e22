"""`Diagnosis`: name the line and the cause, from a program's listing and what was measured of it.

A program is a real function or class; it runs from the listing that learners see, so that pictures
and tables name its lines by the numbers of the listing.  The answer is a dict from line to cause.
"""

from __future__ import annotations

import html
import linecache
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import lessons_lib as ll
from lessons_lib.common import results
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import counted, plain_units
from lessons_lib.notebook import display
from lessons_lib.teaching import progress
from lessons_lib.teaching.exercises.exercise import source_of
from lessons_lib.teaching.exercises.question import Cell, Hints
from lessons_lib.teaching.exercises.result import CheckResult, Status
from lessons_lib.teaching.exercises.warnings import without_warnings

Place = int | str


@dataclass(frozen=True)
class Fault:
    """What is to be found.

    Attributes
    ----------
    at : str
        Text of its line, which is in the listing once; without a listing, the letter in the table.
    cause : str
        One of the diagnosis' causes.
    why : str
        Why, in a sentence or two, for who has found it.
    also : tuple of str
        Texts of lines that are as right.
    """

    at: str
    cause: str
    why: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False, kw_only=True, eq=False)
class Diagnosis:
    """One exercise in naming causes.

    Attributes
    ----------
    key, title, prompt : str
        As in an `Exercise`.
    program : callable, optional
        The function or class whose listing is shown.
    evidence : callable
        Takes the program, as it runs from the listing, and gives the results to look at.
    causes : dict of str to str
        What may be answered, and what it means.
    faults : tuple of Fault
    near : dict of str to str
        By text of a line that is not at fault: why not.
    hints : tuple of str
    """

    key: str
    title: str
    prompt: str
    evidence: Callable[[Any], Iterable[results.Result]]
    causes: Mapping[str, str]
    faults: tuple[Fault, ...]
    hints: tuple[str, ...]
    program: Any = None
    near: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Diagnosis {self.key}: {self.title}>"

    def listing(self) -> tuple[str, ...]:
        """Give the program's lines, as learners see them; empty when it is not shown."""
        return () if self.program is None else tuple(source_of(self.program).splitlines())

    def place(self, text: str) -> Place:
        """Give the number of the line that a text is in; without a listing, the text itself."""
        lines = self.listing()
        if not lines:
            return text
        (number,) = [n for n, line in enumerate(lines, 1) if text in line]
        return number

    def build(self) -> Any:
        """Make the program from its listing."""
        if self.program is None:
            return None
        file = f"{self.key.replace('.', '_')}.py"
        source = "\n".join(self.listing()) + "\n"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"tf": tf, "np": np, "ll": ll, "__name__": "program"}
        exec(compile(source, file, "exec"), namespace)
        name = source.partition("(")[0].partition(":")[0].split()[-1]
        return namespace[name]

    def solution(self) -> dict[Place, str]:
        """Give the right answer."""
        return {self.place(fault.at): fault.cause for fault in self.faults}


def judge(diagnosis: Diagnosis, answer: Any) -> CheckResult:
    """Compare an answer with what is to be found; never raises."""

    def outcome(status: Status, message: str) -> CheckResult:
        return CheckResult(diagnosis.key, diagnosis.title, status, message)

    if not isinstance(answer, Mapping) or not answer or ... in answer or ... in answer.values():
        form = "{line: cause, …}" if diagnosis.program is not None else "{letter: cause, …}"
        return outcome(Status.NOT_ATTEMPTED, f"Look at {diagnosis.key}.show(), then give {form}.")
    if wrong := _unknown(diagnosis, answer):
        return outcome(Status.WRONG_VALUE, wrong)
    found, said = set(), []
    for place, cause in answer.items():
        fault = _at(diagnosis, place)
        if fault is None:
            said.append(_not_it(diagnosis, place))
        elif cause != fault.cause:
            said.append(
                f"{_named(place)} is right, but its cause is not {cause!r} "
                f"({diagnosis.causes[cause]})."
            )
        else:
            found.add(fault.at)
            said.append(f"{_named(place)}, {cause}: right. {fault.why}")
    missing = len(diagnosis.faults) - len(found)
    if missing == 0 and len(answer) == len(diagnosis.faults):
        return outcome(Status.PASSED, " ".join(said))
    if missing:
        said.append(f"{len(found)} of {counted(len(diagnosis.faults), 'fault')} found.")
    return outcome(Status.WRONG_VALUE, " ".join(said))


def _unknown(diagnosis: Diagnosis, answer: Mapping[Any, Any]) -> str:
    """Say what in an answer is neither a place nor a cause."""
    last = len(diagnosis.listing())
    letters = [fault.at for fault in diagnosis.faults]
    for place, cause in answer.items():
        if last and not (type(place) is int and 1 <= place <= last):
            return f"{place!r} is no line of the program: they are numbered from 1 to {last}."
        if not last and place not in letters:
            return f"{place!r} is not in the table: it has {', '.join(letters)}."
        if cause not in list(diagnosis.causes):
            return f"{cause!r} is none of the causes: choose from {', '.join(diagnosis.causes)}."
    return ""


def _at(diagnosis: Diagnosis, place: Place) -> Fault | None:
    for fault in diagnosis.faults:
        if place in {diagnosis.place(text) for text in (fault.at, *fault.also)}:
            return fault
    return None


def _named(place: Place) -> str:
    return f"Line {place}" if isinstance(place, int) else str(place)


def _not_it(diagnosis: Diagnosis, place: Place) -> str:
    for text, why in diagnosis.near.items():
        if diagnosis.place(text) == place:
            return f"Line {place} is not at fault: {why}"
    return f"{_named(place)} is not at fault."


class DiagnosisQuestion:
    """A diagnosis as learners use it: `show`, `check`, `hint`, `solution`, and its cells.

    Attributes
    ----------
    diagnosis : Diagnosis
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self._hints = Hints(diagnosis.key, diagnosis.hints)

    def __repr__(self) -> str:
        return repr(self.diagnosis)

    @property
    def key(self) -> str:
        """Such as ``"loops.q6"``."""
        return self.diagnosis.key

    @plain_units()  # the listing has sizes of its own, whatever the lesson's unit
    def show(self) -> None:
        """Show the listing, run the program, and show what was measured."""
        lines = self.diagnosis.listing()
        if lines:
            text = "\n".join(f"{number:3d}  {line}" for number, line in enumerate(lines, 1))
            display.show(text, f"<pre>{html.escape(text)}</pre>")
        with without_warnings():
            shown = list(self.diagnosis.evidence(self.diagnosis.build()))
        for result in shown:
            # A recording's own line counts buffers, some of which TensorFlow may have had in store.
            told = isinstance(result, ll.Recording)
            table = "" if told else results.summary_html(result)
            text = results.alt_text(result) if told else repr(result)
            display.show(text, table + display.picture_html(result))

    def check(self, answer: Any = None) -> CheckResult:
        """Grade an answer, show the outcome and return it.

        Parameters
        ----------
        answer : dict, optional
            From line numbers (or letters of the table) to causes.
        """
        result = judge(self.diagnosis, answer)
        if not result.passed:
            result = replace(result, next_step=self._hints.next_step)
        if result.status is not Status.NOT_ATTEMPTED:
            progress.note_exercise(self.key, passed=result.passed, best=None)
        result.show()
        return result

    def hint(self) -> None:
        """Show a hint; each further call gives a stronger one."""
        self._hints.show()

    def solution(self) -> dict[Place, str]:
        """Show the right answer with its reasons, and return it."""
        progress.note_solution(self.key)
        diagnosis = self.diagnosis
        lines = [
            f"{_named(diagnosis.place(fault.at))}, {fault.cause}: {fault.why}"
            for fault in diagnosis.faults
        ]
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        display.show("\n".join(lines), f"<ul>{items}</ul>")
        return diagnosis.solution()

    def cells(self) -> tuple[Cell, ...]:
        """Give the lesson's cells: the task, what to look at, and the check."""
        diagnosis = self.diagnosis
        module, _, number = self.key.partition(".")
        causes = "\n".join(f"- `{name}`: {meaning}" for name, meaning in diagnosis.causes.items())
        prompt = textwrap.dedent(diagnosis.prompt).strip()
        task = f"### {number.upper()}. {diagnosis.title}\n\n{prompt}\n\n{causes}"
        return (
            Cell("markdown", task),
            Cell("code", f"{module}.{number}.show()"),
            Cell("code", f"{module}.{number}.check({{...: ...}})"),
        )
