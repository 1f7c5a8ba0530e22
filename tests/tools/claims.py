"""The claims index of the README: ``python -m tests.tools.claims`` writes it from the lessons.

Each lesson gives its verdicts with ``lesson.verdict(number, claim, verdict, holds=...)``, which
raises when the measurement does not say so.  From there the index is made, and the wrap-up table
that a lesson has printed must say the same.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tests.support.notebooks import ROOT, lesson_paths

BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)


@dataclass(frozen=True, order=True)
class Verdict:
    """One claim of a lesson: its number, its words, and the verdict."""

    lesson: str
    number: int
    claim: str
    verdict: str


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def in_code(notebook: Any, lesson: str) -> Iterator[Verdict]:
    """Find the verdicts that a lesson's code gives."""
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
                number, claim, verdict = map(_constant, node.args[:3])
                yield Verdict(lesson, number, claim, verdict)


def in_wrap_up(notebook: Any, lesson: str) -> Iterator[Verdict]:
    """Read the verdicts from the wrap-up table that a lesson has printed."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or ".wrap_up()" not in cell.source:
            continue
        for output in cell.outputs:
            page = output.get("data", {}).get("text/html", "")
            for row in _ROW.findall(page):
                cells = [html.unescape(text) for text in _CELL.findall(row)]
                if cells:
                    number, _, claim = cells[0].partition(". ")
                    yield Verdict(lesson, int(number), claim, cells[1])


def index(verdicts: list[Verdict]) -> str:
    """Write the index as a Markdown table."""
    rows = [
        f"| {v.claim.replace('|', chr(92) + '|')} | {v.verdict} "
        f"| [{v.lesson[:2]}.{v.number}](notebooks/{v.lesson}.ipynb) |"
        for v in sorted(verdicts)
    ]
    return "\n".join([BEGIN, "| claim | verdict | lesson |", "|---|---|---|", *rows, END])


def all_verdicts() -> list[Verdict]:
    """Collect the verdicts of all lessons."""
    return [
        verdict
        for path in lesson_paths()
        for verdict in in_code(nbformat.read(path, as_version=4), path.stem)
    ]


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
