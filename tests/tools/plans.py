"""Plans for teaching: ``python -m tests.tools.plans`` writes their tables into the teachers' page.

A plan is a list of claims and exercises with minutes.  Claims are named by their numbers in the
first edition, so that a plan survives when a lesson is arranged anew.  What is to be expected is
taken from the lesson's own wrap-up, as it was measured last; the right answers of exercises, from
the exercises.  ``chosen`` gives a notebook with the
cells that a plan needs of a lesson, which a test runs in a fresh kernel.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from lessons_lib.teaching.exercises import exercises
from lessons_lib.teaching.exercises.diagnosis import DiagnosisQuestion
from lessons_lib.teaching.exercises.question import Question
from tests.support.notebooks import LESSONS, lesson_paths
from tests.support.sections import sections
from tests.tools.claims import Verdict, all_verdicts

PAGE = LESSONS / "instructors.md"
_MARK = "<!-- plan:{}:{} -->"
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
#: A plan leaves so much of its time for questions, at least.
SLACK = 0.1


@dataclass(frozen=True)
class Step:
    """A claim (``"03.1"``) or an exercise (``"loops.q1"``) of a plan, with its minutes."""

    what: str
    minutes: int

    @property
    def is_exercise(self) -> bool:
        """Whether it is an exercise."""
        return ".q" in self.what


@dataclass(frozen=True)
class Plan:
    """A plan: its name, its minutes in all, its steps, and what comes besides them."""

    name: str
    minutes: int
    steps: tuple[Step, ...]
    besides: int
    what: str = "opening and closing question"

    @property
    def slack(self) -> int:
        """Minutes that are left for questions."""
        return self.minutes - self.besides - sum(step.minutes for step in self.steps)


def _steps(text: str) -> tuple[Step, ...]:
    """Read ``"00.1 5, loops.q1 5"``."""
    parts = [part.split() for part in text.split(",")]
    return tuple(Step(what, int(minutes)) for what, minutes in parts)


_OPENINGS = "opening and closing question, each lesson's first cell"
PLANS = (
    Plan("20", 20, _steps("00.1 4, 03.1 4, 03.12 5, loops.q6 3"), 2),
    Plan("45", 45, _steps("00.1 6, 00.2 6, 03.1 6, loops.q1 6, 03.12 7, 03.13 5"), 4),
    Plan(
        "90",
        90,
        _steps(
            "00.1 5, 01.1 7, 02.2 8, eager_and_graph.q5 6, 03.1 6, 03.12 8, loops.q6 6, 04.4 7, "
            "tracing.q5 6, 05.3 6, 06.1 8"
        ),
        8,
        _OPENINGS,
    ),
    Plan(
        "210",
        210,
        _steps(
            "00.1 5, 01.1 7, 01.6 8, measure_memory.q5 7, 02.1 7, 02.2 9, eager_and_graph.q5 8, "
            "02.11 8, 03.1 6, 03.12 9, loops.q6 7, 04.4 7, tracing.q5 7, 05.3 8, "
            "growth.q5 8, 06.1 9, 06.2 7, state.q5 7, 07.1 6, capstone.q3 15"
        ),
        32,
        f"{_OPENINGS}, two breaks",
    ),
)

#: By an exercise, or a claim's number in the first edition: the usual wrong guess, and what to say
#: or point at.
GUESSES = {
    "00.1": (
        "1 MiB: the result only",
        "The product must still be there while tanh reads it. Point at the two bands.",
    ),
    "00.2": (
        "16 MiB, or 64 MiB",
        "One name holds one tensor. Which meter saw the list, and which saw the tensors?",
    ),
    "01.1": (
        "yes: it grows by 128 MiB again",
        "The tensors took as much as before. Where did the second call's memory come from?",
    ),
    "01.6": (
        "yes: nothing is alive, so all comes back",
        "Nothing is alive after `del`. Who keeps the memory, and for whom?",
    ),
    "02.1": (
        "S for each of the eight",
        "Which of them change only the description? Let them sort the eight first.",
    ),
    "02.2": (
        "3,136 bytes: one image",
        "The row shares its batch's buffer. Then ask about 10 classes: a row of 40 bytes.",
    ),
    "02.11": (
        "2 S, as in eager mode",
        "Who reads the buffer last? Then ask about a cast to int32, of the same size.",
    ),
    "03.1": (
        "10 S, or “it explodes”",
        "Who still holds the old state? Nobody: it is freed when h is bound anew.",
    ),
    "03.12": (
        "3 S: as without a tape",
        "The stairs: each step leaves what its gradient asks for. Then ask about a larger weight.",
    ),
    "03.13": (
        "nothing, because a sum's gradient is 1",
        "The entry holds the inputs, though only their shapes are needed. Try bias_add.",
    ),
    "04.4": (
        "1 trace: a number is a number",
        "The value is in the key, because Python code can do anything with it. And a tensor's?",
    ),
    "05.3": (
        "ten whole computations, or ten batches",
        "What does an entry of the list refer to? Then ask about a list of gradients.",
    ),
    "06.1": (
        "4 S: weights, gradients, two states of Adam",
        "What does the backward pass need of each layer? Point at the activations.",
    ),
    "06.2": (
        "twice as much for twice the batch",
        "Which shapes have the batch in them? Compare the small batches first.",
    ),
    "07.1": (
        "it stays: a step needs nothing of the step before",
        "It should. So something is kept, the same amount in each step. Who could hold it?",
    ),
    "capstone.q3": (
        "the line that makes a buffer, in place of the one that holds it",
        "Everybody puts the number of their seat into `show`. Afterwards neighbours explain "
        "their scripts to each other.",
    ),
    "eager_and_graph.q5": (
        "line 3, because it makes a tensor of x's size",
        "Is it read again? Which name outlives its last use? What does one row keep?",
    ),
    "growth.q5": (
        "line 12, the list of losses",
        "How large is a loss, and how large a batch? Who holds a batch?",
    ),
    "loops.q1": (
        "a list of states, of which the last is returned",
        "Which names refer to a state while tanh runs?",
    ),
    "loops.q6": (
        "line 8, list",
        "A loss is four bytes. What does the gradient of tanh ask for?",
    ),
    "measure_memory.q5": (
        "A leaks, because the process stays large",
        "Are A's tensors there at the end? Compare both columns of each meter.",
    ),
    "state.q5": (
        "activations, because there are m parts",
        "Each part has a tape of its own. What is in the list, and how large is one of it?",
    ),
    "tracing.q5": (
        "line 12 alone",
        "Sixteen traces for eight batches: what else is new in each round?",
    ),
}


def claim_of(number: str, verdicts: list[Verdict]) -> Verdict:
    """Find the claim that stands for one of the first edition; one in a core lesson first.

    Raises
    ------
    LookupError
        If there is none.
    """
    core = {path.stem for path in lesson_paths() if path.parent == LESSONS}
    found = sorted(
        (v for v in verdicts if number in v.was), key=lambda v: (v.lesson not in core, v)
    )
    if not found:
        raise LookupError(f"no claim stands for {number} of the first edition")
    return found[0]


def measured(path: Path) -> dict[int, str]:
    """Read from a lesson's wrap-up what was measured for each claim."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code" or ".wrap_up()" not in cell.source:
            continue
        for output in cell.outputs:
            for row in _ROW.findall(output.get("data", {}).get("text/html", "")):
                cells = [html.unescape(text) for text in _CELL.findall(row)]
                if cells:
                    found[int(cells[0].partition(". ")[0])] = cells[2]
    return found


def notebook_of(stem: str) -> Path:
    """Find a lesson by its name."""
    return next(path for path in lesson_paths() if path.stem == stem)


def exercise_place(key: str) -> tuple[Path, int]:
    """Find the notebook and the cell in which an exercise is checked."""
    for path in lesson_paths():
        for place, cell in enumerate(nbformat.read(path, as_version=4).cells):
            if cell.cell_type == "code" and f"{key}.check(" in cell.source:
                return path, place
    raise LookupError(f"no notebook has the exercise {key}")


def right_answer(key: str) -> str:
    """Write what is right in an exercise: the lines and causes, or the budget of a function."""
    module, _, _ = key.partition(".")
    (question,) = [q for q in exercises(module) if q.key == key]
    if isinstance(question, Question):
        exercise = question.exercise
        budgets = [x.quantity.limited(x.budget(exercise.shown)) for x in exercise.limits]
        return " and ".join(budgets)
    assert isinstance(question, DiagnosisQuestion)
    answers = []
    for diagnosis in getattr(question, "diagnoses", [question.diagnosis]):
        named = f"{diagnosis.program.__name__}, " if hasattr(question, "diagnoses") else ""
        pairs = [
            f"{'line ' * isinstance(place, int)}{place}: {cause}"
            for place, cause in diagnosis.solution().items()
        ]
        answers.append(named + ", ".join(pairs))
    return "; ".join(answers)


def table(plan: Plan, verdicts: list[Verdict]) -> str:
    """Write a plan as a Markdown table."""
    heads = ("step", "minutes", "you will see", "usual wrong guess", "what to say")
    lines = ["| " + " | ".join(heads) + " |", "|---|--:|---|---|---|"]
    for step in plan.steps:
        if step.is_exercise:
            path, _ = exercise_place(step.what)
            name = f"[{path.stem[:2]}](" + path.relative_to(LESSONS).as_posix() + ")"
            what, seen = f"exercise {step.what}", right_answer(step.what)
        else:
            claim = claim_of(step.what, verdicts)
            path = notebook_of(claim.lesson)
            name = f"[{path.stem[:2]}](" + path.relative_to(LESSONS).as_posix() + ")"
            what, seen = f"claim {claim.number}", measured(path)[claim.number]
        cells = [f"{name}, {what}", str(step.minutes), seen, *GUESSES[step.what]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines.append(f"| {plan.what} | {plan.besides} | | | |")
    lines.append(f"| left for questions | {plan.slack} | | | |")
    return "\n".join(lines)


def replaced(page: str, verdicts: list[Verdict]) -> str:
    """Give the page with all plans made anew.

    Raises
    ------
    ValueError
        If a plan has no place in the page.
    """
    for plan in PLANS:
        begin, end = (_MARK.format(plan.name, word) for word in ("begin", "end"))
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page has no {begin} … {end}: put these marks where it goes")
        page = f"{before}{begin}\n{table(plan, verdicts)}\n{end}{after}"
    return page


def lessons_of(plan: Plan, verdicts: list[Verdict]) -> Iterator[tuple[Path, set[int], list[int]]]:
    """Give each notebook of a plan, with its claims' numbers and its exercises' cells."""
    wanted: dict[Path, tuple[set[int], list[int]]] = {}
    for step in plan.steps:
        if step.is_exercise:
            path, place = exercise_place(step.what)
            wanted.setdefault(path, (set(), []))[1].append(place)
        else:
            claim = claim_of(step.what, verdicts)
            wanted.setdefault(notebook_of(claim.lesson), (set(), []))[0].add(claim.number)
    for path, (claims, cells) in wanted.items():
        yield path, claims, cells


def chosen(path: Path, claims: set[int], exercises: list[int]) -> Any:
    """Give a notebook with the opening of a lesson, the sections of claims, and exercises."""
    notebook = nbformat.read(path, as_version=4)
    places: set[int] = set()
    for number, part in enumerate(sections(notebook)):
        text = "\n".join(notebook.cells[place].source for place in part.cells)
        tried = {int(found) for found in re.findall(r"\.verdict\(\s*(\d+)", text)}
        if number == 0 or tried & claims:
            places |= set(part.cells)
    notebook.cells = [notebook.cells[place] for place in sorted(places | set(exercises))]
    return notebook


def main(path: Path = PAGE) -> int:
    """Write the plans into the teachers' page."""
    path.write_text(replaced(path.read_text(encoding="utf-8"), all_verdicts()), encoding="utf-8")
    for plan in PLANS:
        print(f"{plan.name} minutes: {len(plan.steps)} steps, {plan.slack} minutes of slack")
    return 0


if __name__ == "__main__":
    sys.exit(main())
