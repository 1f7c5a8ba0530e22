"""The claims index of the README: ``python -m tests.tools.claims`` writes it from the lessons.

The claims of a lesson lie in its module in `lessons_lib.teaching.lessons`; the lesson tries each
with ``lesson.verdict(number, ...)``, which raises when the measurement does not say so.  The
wrap-up table that the lesson has printed must say the same.  Claims that were moved or merged
since an earlier edition keep their numbers of then, so that none is lost.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from lessons_lib.teaching.lessons import claims_of
from tests.support.notebooks import LESSONS, ROOT, lesson_paths

BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
_CODE = re.compile("</?code>")

#: How many claims each lesson had in the first edition; each is still decided somewhere.
FIRST_EDITION = {"00": 2, "01": 7, "02": 21, "03": 22, "04": 17, "05": 18, "06": 20, "07": 6}


@dataclass(frozen=True, order=True)
class Verdict:
    """One claim of a lesson: its number, its words, the verdict, and what it was before."""

    lesson: str
    number: int
    claim: str
    verdict: str
    was: tuple[str, ...] = field(default=(), compare=False)


def verdict_calls(notebook: Any) -> Iterator[ast.Call]:
    """Find the calls of ``verdict`` in a lesson's code."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or ".verdict(" not in cell.source:
            continue
        lines = (line for line in cell.source.splitlines() if not line.startswith(("%", "!")))
        for node in ast.walk(ast.parse("\n".join(lines))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "verdict"
            ):
                yield node


def in_code(notebook: Any, lesson: str) -> Iterator[Verdict]:
    """Give the verdicts that a lesson's code gives."""
    known = claims_of(lesson)
    for call in verdict_calls(notebook):
        assert known is not None, f"{lesson} has no claims in lessons_lib.teaching.lessons"
        claim = known[ast.literal_eval(call.args[0])]
        yield Verdict(lesson, claim.number, claim.text, claim.verdict, claim.was)


def in_wrap_up(notebook: Any, lesson: str) -> Iterator[Verdict]:
    """Read the verdicts from the wrap-up table that a lesson has printed."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or ".wrap_up()" not in cell.source:
            continue
        for output in cell.outputs:
            page = output.get("data", {}).get("text/html", "")
            for row in _ROW.findall(page):
                cells = [html.unescape(_CODE.sub("`", text)) for text in _CELL.findall(row)]
                if cells:
                    number, _, claim = cells[0].partition(". ")
                    yield Verdict(lesson, int(number), claim, cells[1])


def index(verdicts: list[Verdict]) -> str:
    """Write the index as a Markdown table."""
    places = {path.stem: path.relative_to(ROOT).as_posix() for path in lesson_paths(LESSONS)}
    rows = []
    for verdict in verdicts:
        claim = verdict.claim.replace("|", "\\|")
        number, _, topic = verdict.lesson.partition("_")
        place = places.get(verdict.lesson, f"notebooks/{verdict.lesson}.ipynb")
        further = "" if place.count("/") == 1 else f" {topic.replace('_', ' ')}"
        name = f"{number}{further}, claim {verdict.number}"
        before = ", ".join(verdict.was)
        rows.append(f"| {claim} | {verdict.verdict} | [{name}]({place}) | {before} |")
    heads = "| claim | verdict | lesson | first edition |\n|---|---|---|---|"
    return "\n".join([BEGIN, heads, *rows, END])


def all_verdicts() -> list[Verdict]:
    """Collect the verdicts of all lessons, a lesson's further notebooks after it."""
    found = []
    for path in sorted(lesson_paths(), key=lambda path: (path.name[:2], len(path.parts), path)):
        notebook = nbformat.read(path, as_version=4)
        found += sorted(in_code(notebook, path.stem))
    return found


def lost(verdicts: Iterable[Verdict]) -> list[str]:
    """List the claims of the first edition that no verdict stands for any more."""
    kept = Counter(number for verdict in verdicts for number in verdict.was)
    first = [f"{lesson}.{n}" for lesson, most in FIRST_EDITION.items() for n in range(1, most + 1)]
    return [number for number in first if not kept[number]]


def replaced(readme: str, verdicts: list[Verdict]) -> str:
    """Give the README's text with the index made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the README has no {BEGIN} … {END}: put these marks where the index goes")
    return before + index(verdicts) + after


def main(path: Path = ROOT / "README.md") -> int:
    """Write the index into the README."""
    text = path.read_text(encoding="utf-8")
    verdicts = all_verdicts()
    path.write_text(replaced(text, verdicts), encoding="utf-8")
    print(f"{len(verdicts)} claims")
    for number in lost(verdicts):
        print(f"claim {number} of the first edition stands nowhere", file=sys.stderr)
    return 1 if lost(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
