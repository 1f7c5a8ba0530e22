"""The README's index, the lessons' verdicts and their wrap-up tables say the same."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lessons_lib.teaching import claims
from tests.support.notebooks import ROOT, lesson_paths
from tests.tools.claims import Verdict, all_verdicts, in_code, in_wrap_up, index, replaced

README = ROOT / "README.md"


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_each_lesson_prints_the_verdicts_that_it_asserts(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    asserted = list(in_code(notebook, path.stem))
    assert asserted, "a lesson tries at least one claim"
    assert [v.number for v in asserted] == list(range(1, len(asserted) + 1))
    assert {v.verdict for v in asserted} <= set(get_args(claims.Verdict))
    assert list(in_wrap_up(notebook, path.stem)) == asserted


def test_the_index_is_that_of_the_lessons() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == replaced(text, all_verdicts()), "run `python -m tests.tools.claims`"


def notebook_with(code: str, page: str) -> object:
    wrap_up = new_code_cell(
        "lesson.wrap_up()",
        outputs=[new_output("execute_result", {"text/html": page}, execution_count=2)],
    )
    return new_notebook(cells=[new_code_cell(code), wrap_up])


def test_a_verdict_that_differs_from_its_table_is_seen() -> None:
    lesson = claims.Lesson("09_made_up")
    lesson.verdict(1, "A & B", "false", holds=True, measured="4 MiB", advice="none")
    page = lesson.wrap_up()._repr_html_()
    code = 'lesson.verdict(1, "A & B", "{}", holds=x, measured=f"{{x}}", advice="none")'
    same = notebook_with(code.format("false"), page)
    other = notebook_with(code.format("true"), page)
    assert list(in_code(same, "09")) == list(in_wrap_up(same, "09"))
    assert list(in_code(other, "09")) != list(in_wrap_up(other, "09"))


def test_an_index_that_differs_is_seen() -> None:
    one = [Verdict("09_made_up", 1, "A", "false")]
    two = [Verdict("09_made_up", 1, "A", "true")]
    text = f"# Title\n\n{index(one)}\n\nmore\n"
    assert replaced(text, one) == text
    assert replaced(text, two) != text
    with pytest.raises(ValueError, match="put these marks"):
        replaced("# Title\n", one)


def test_a_verdict_must_follow_from_its_measurement() -> None:
    lesson = claims.Lesson("09_made_up")
    with pytest.raises(AssertionError, match="claim 1 of 09_made_up"):
        lesson.verdict(1, "A", "true", holds=False, measured="0 B", advice="none")
    with pytest.raises(ValueError, match="not a verdict"):
        lesson.verdict(1, "A", "maybe", holds=True, measured="0 B", advice="none")
    assert lesson.wrap_up().claims == ()
