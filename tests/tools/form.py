"""How long a lesson is: ``python -m tests.tools.form notebooks/03_loops.ipynb``.

Counted are words, code cells, lines of code and those of them that the learner studies; from these
comes the time that a lesson takes.  CONTRIBUTING states the rules, which are those of this module.
Printed is what was counted, and what is over a limit.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tests.support.notebooks import lesson_paths

MAX_WORDS = 2000
MAX_LINKED = 1 / 6  # of the words, in links' texts and tables
MAX_CELLS = 45
MAX_LINES = 300
LEAST_STUDIED = 0.6  # of the lines
MAX_MINUTES = {"00": 15, "07": 45}
CORE_MINUTES, FURTHER_MINUTES = 30, 45

WORDS_A_MINUTE, LINES_A_MINUTE = 200, 12
#: Exercises that take twice as long as the others.
HARD = frozenset(["eager_and_graph.q4", "loops.q5", "state.q3", "state.q4", "capstone.q1"])
PREDICTION, PICTURE, QUIZ, EXERCISE, HARD_EXERCISE = 1.0, 0.5, 3.0, 5.0, 10.0
#: By which share a lesson may take longer, or less, than it says.
LATER, EARLIER = 0.1, 0.25

#: Names and attributes that ask, show or judge.  A statement with one of them is not under study,
#: unless it measures, too; then it is.
SHOWING = frozenset(
    ["lesson", "predict", "quiz", "explore", "bars", "progress", "print", "without_warnings",
     "plot", "reveal", "check", "hint", "solution", "verdict", "claim", "wrap_up", "show",
     "timelines", "format_bytes", "Lesson", "preflight"]
)  # fmt: skip
#: What a function that is studied has no need of.
WRITING = frozenset(["format", "join", "plot", "print", "ll", "lesson", "predict", "bars"])

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(r"\S*\w\S*")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\*\*It takes\*\* about (\d+) minutes")
_DEEP = re.compile(r"^\s*(?:from|import)\s+(lessons_lib\.\S+|matplotlib\S*)", re.MULTILINE)


@dataclass(frozen=True)
class Form:
    """What was counted in a lesson."""

    path: Path
    words: int
    linked_words: int
    cells: int
    lines: int
    studied: int
    predictions: int
    pictures: int
    quizzes: int
    exercises: int
    hard_exercises: int
    stated: int | None

    @property
    def minutes(self) -> float:
        """How long the lesson takes by the rules."""
        return (
            self.words / WORDS_A_MINUTE
            + self.studied / LINES_A_MINUTE
            + PREDICTION * self.predictions
            + PICTURE * self.pictures
            + QUIZ * self.quizzes
            + EXERCISE * self.exercises
            + HARD_EXERCISE * self.hard_exercises
        )

    def __str__(self) -> str:
        return (
            f"{self.path.name}: {self.words} words ({self.linked_words} in links and tables), "
            f"{self.cells} code cells, {self.lines} lines of code ({self.studied} under study), "
            f"{self.predictions} predictions, {self.pictures} pictures, {self.quizzes} quizzes, "
            f"{self.exercises} exercises and {self.hard_exercises} hard ones: "
            f"{self.minutes:.1f} minutes, {self.stated} stated"
        )


def is_further(path: Path) -> bool:
    """Say whether a notebook holds what goes beyond its topic's core lesson."""
    return path.parent.name == "further"


def limit_minutes(path: Path) -> int:
    """Give how long a lesson may be."""
    if is_further(path):
        return FURTHER_MINUTES
    return MAX_MINUTES.get(path.name[:2], CORE_MINUTES)


def count_words(source: str) -> tuple[int, int]:
    """Count the words of a text, and those in links' texts and tables; code blocks don't count."""
    text = _FENCE.sub("", source)
    plain = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    tables = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    in_tables = _words(_LINK.sub(r"\1", "\n".join(tables)))
    prose = "\n".join(plain)
    in_links = sum(_words(found) for found in _LINK.findall(prose))
    return _words(_LINK.sub(r"\1", prose)) + in_tables, in_links + in_tables


def _words(text: str) -> int:
    return len(_WORD.findall(text))


def parsed(source: str) -> ast.Module | None:
    """Read a cell's code without its magics; None when nothing is left."""
    lines = [
        "pass" if re.match(r"\s*[%!]", line) else re.sub(r"=\s*%.*$", "= None", line)
        for line in source.splitlines()
    ]
    return ast.parse("\n".join(lines)) if any(line.strip() for line in lines) else None


def code_lines(source: str) -> list[int]:
    """Give the numbers of a cell's lines of code.

    Empty lines, comments, imports and names alone, which only show a result, are not counted.
    """
    silent = set[int]()
    tree = parsed(source)
    for node in tree.body if tree is not None else ():
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Name()):
                silent |= set(range(node.lineno, _end(node) + 1))
    return [
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in silent
    ]


def studied_lines(source: str) -> set[int]:
    """Give the numbers of the lines that a learner studies in a cell."""
    tree = parsed(source)
    if tree is None:
        return set()
    found: set[int] = set()
    for statement in tree.body:
        found |= _studied(statement, inside=False)
    return found & {
        number
        for number in code_lines(source)
        if not re.match(r"\s*[%!]", source.splitlines()[number - 1])
    }


def _studied(node: ast.stmt, *, inside: bool) -> set[int]:
    """Give the lines under study of a statement; `inside` says that it belongs to a function."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return set()
        case ast.FunctionDef() | ast.ClassDef():
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            head = set(range(first, node.body[0].lineno))
            return head.union(*(_studied(inner, inside=True) for inner in node.body))
        case ast.With() | ast.For() | ast.If() | ast.While() | ast.Try():
            blocks = [node.body, *(getattr(node, name, []) for name in ("orelse", "finalbody"))]
            blocks += [handler.body for handler in getattr(node, "handlers", [])]
            inner = [statement for block in blocks for statement in block]
            body = set[int]().union(*(_studied(statement, inside=inside) for statement in inner))
            covered = set(range(inner[0].lineno, max(_end(s) for s in inner) + 1))
            head = set(range(node.lineno, _end(node) + 1)) - covered
            return body | (head if body else set())
        case ast.Expr(value=ast.Name() | ast.Attribute()):
            return set()  # a name alone shows a result
    return set() if _only_shows(node) else set(range(node.lineno, _end(node) + 1))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def _measures(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "ll"
        and part.attr not in SHOWING
        for part in ast.walk(node)
    )


def _only_shows(node: ast.AST) -> bool:
    return not SHOWING.isdisjoint(_names(node)) and not _measures(node)


def helpers(source: str) -> Iterator[str]:
    """Name the functions that are no part of what is studied: they write, draw or measure."""
    tree = parsed(source)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.FunctionDef):
            continue
        parts = [part for statement in node.body for part in ast.walk(statement)]
        writes = any(isinstance(part, ast.JoinedStr) for part in parts)
        if writes or not all(WRITING.isdisjoint(_names(part)) for part in parts):
            yield node.name


def form_of(path: Path) -> Form:
    """Count a lesson."""
    notebook = nbformat.read(path, as_version=4)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    counted = [count_words(text) for text in texts]
    checks = [key for source in code for key in re.findall(r"\b(\w+\.q\d+)\.check\(", source)]
    stated = _TIME.search(texts[0]) if texts else None
    return Form(
        path=path,
        words=sum(words for words, _ in counted),
        linked_words=sum(linked for _, linked in counted),
        cells=len(code),
        lines=sum(len(code_lines(source)) for source in code),
        studied=sum(len(studied_lines(source)) for source in code),
        predictions=sum(len(re.findall(r"\bpredict\(", source)) for source in code),
        pictures=sum(_pictures(cell) for cell in notebook.cells if cell.cell_type == "code"),
        quizzes=sum(len(re.findall(r"\bquiz\(", source)) for source in code),
        exercises=sum(not _is_hard(key) for key in checks),
        hard_exercises=sum(map(_is_hard, checks)),
        stated=int(stated[1]) if stated else None,
    )


def _pictures(cell: Any) -> int:
    pages = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
    return sum("".join(page).count("<img ") for page in pages)


def _is_hard(key: str) -> bool:
    return key in HARD


def form_faults(path: Path) -> list[str]:
    """List what is wrong with a lesson's length, and with what its code consists of."""
    form = form_of(path)
    found = []
    limits = [
        (form.words, MAX_WORDS, "words"),
        (form.cells, MAX_CELLS, "code cells"),
        (form.lines, MAX_LINES, "lines of code"),
    ]
    if not is_further(path):
        found += [f"{n} {what}; at most {most}" for n, most, what in limits if n > most]
        if form.linked_words > MAX_LINKED * MAX_WORDS:
            most = int(MAX_LINKED * MAX_WORDS)
            found.append(f"{form.linked_words} words in links and tables; at most {most}")
    if form.lines and form.studied < LEAST_STUDIED * form.lines:
        found.append(
            f"{form.studied} of {form.lines} lines of code are under study; "
            f"at least {LEAST_STUDIED:.0%}"
        )
    found += _time_faults(form)
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code":
            for name in _DEEP.findall(cell.source):
                if name != "lessons_lib.teaching":
                    found.append(f"cell {number}: imports {name}, which is not for lessons")
            if ".check(" not in cell.source:
                found += [f"cell {number}: {name} is a helper" for name in helpers(cell.source)]
    return found


def _time_faults(form: Form) -> Iterator[str]:
    if form.stated is None:
        yield "the first cell does not say how long it takes (**It takes** about 30 minutes)"
        return
    if form.stated > limit_minutes(form.path):
        yield f"{form.stated} minutes are stated; at most {limit_minutes(form.path)}"
    if not (1 - EARLIER) * form.stated <= form.minutes <= (1 + LATER) * form.stated:
        yield f"it takes {form.minutes:.1f} minutes, and {form.stated} are stated"


def main(arguments: list[str] | None = None) -> int:
    """Count the lessons that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.form", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    code = 0
    for path in options.notebooks or lesson_paths():
        print(form_of(path))
        for fault in form_faults(path):
            code = 1
            print(f"    {fault}")
    return code


if __name__ == "__main__":
    sys.exit(main())
