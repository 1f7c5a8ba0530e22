"""The README's index, the lessons' verdicts and their wrap-up tables say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lessons_lib.common.results import html_table
from lessons_lib.common.units import KIB, MIB, use_unit, used_unit
from lessons_lib.teaching import claims
from lessons_lib.teaching.lessons import claims_of, known_lessons
from lessons_lib.teaching.lessons.claim import VERDICTS, Claim, Claims
from tests.support.notebooks import ROOT, lesson_paths
from tests.tools.claims import (
    Verdict,
    all_verdicts,
    in_code,
    in_wrap_up,
    index,
    lost,
    replaced,
    verdict_calls,
)

README = ROOT / "README.md"


@pytest.fixture(autouse=True)
def no_unit_stays() -> Iterator[None]:
    yield
    use_unit(None)


KNOWN = [claim for topic in known_lessons() for claim in claims_of(topic) or ()]


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_each_lesson_prints_the_verdicts_that_it_asserts(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    asserted = list(in_code(notebook, path.stem))
    assert asserted, "a lesson tries at least one claim"
    assert [v.number for v in asserted] == list(range(1, len(asserted) + 1))
    assert {v.verdict for v in asserted} <= set(VERDICTS)
    assert list(in_wrap_up(notebook, path.stem)) == asserted


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_each_verdict_hands_over_what_its_claim_takes(path: Path) -> None:
    known = claims_of(path.stem)
    assert known is not None
    calls = list(verdict_calls(nbformat.read(path, as_version=4)))
    for call in calls:
        claim = known[ast.literal_eval(call.args[0])]
        assert {keyword.arg for keyword in call.keywords} == set(claim.takes), claim.number
    assert len(calls) == len(known), "each claim is decided once"


@pytest.mark.parametrize("claim", KNOWN, ids=lambda claim: f"{claim.lesson}-{claim.number}")
def test_what_was_measured_is_taken_from_the_arguments(claim: Claim) -> None:
    if isinstance(claim.measured, str):
        assert "{" in claim.measured
        outside = re.sub(r"\{[^}]*\}", "", claim.measured)
        assert not re.search(r"\d+(\.\d+)? ?(S|W|B|KiB|MiB|GiB|%|s|ms)\b", outside)
    assert claim.text
    assert claim.advice.endswith(".")
    assert claim.source.startswith("def holds(")


def test_no_claim_of_the_first_edition_is_lost() -> None:
    assert lost(all_verdicts()) == []
    assert "03.4" in lost(v for v in all_verdicts() if "03.4" not in v.was)


def test_the_index_is_that_of_the_lessons() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == replaced(text, all_verdicts()), "run `python -m tests.tools.claims`"


def notebook_with(code: str, page: str) -> object:
    wrap_up = new_code_cell(
        "lesson.wrap_up()",
        outputs=[new_output("execute_result", {"text/html": page}, execution_count=2)],
    )
    return new_notebook(cells=[new_code_cell(code), wrap_up])


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> claims.Lesson:
    known = Claims("09_made_up")

    @known.add(
        1, "A & B", "false", measured="{size!b} and {rss!n}", advice="None.", was=("03.1", "03.2")
    )
    def _(size, rss):  # type: ignore[no-untyped-def]
        return size == 4 * MIB and rss > size

    monkeypatch.setattr(claims, "claims_of", lambda name: known)
    return claims.Lesson("09_made_up")


def test_verdict_follows_from_what_was_measured(made_up: claims.Lesson) -> None:
    tried = made_up.verdict(1, size=4 * MIB, rss=9 * MIB + 7)
    assert (tried.verdict, tried.measured) == ("false", "4 MiB and ≈ 9 MiB")
    assert repr(made_up.wrap_up()) == "<09_made_up: 1 claims tried>"


def test_code_in_a_claim_is_shown_as_code_and_data_are_left_alone() -> None:
    rows = [("Does `del x` & `<y>` help?",)]
    assert "Does <code>del x</code> &amp; <code>&lt;y&gt;</code>" in html_table(
        ("a",), rows, prose=True
    )
    assert "`del x` &amp; `&lt;y&gt;`" in html_table(("a",), rows)


def test_verdict_that_does_not_follow_says_what_to_do(made_up: claims.Lesson) -> None:
    with pytest.raises(AssertionError, match="Run the cells of this section again") as failed:
        made_up.verdict(1, size=3 * MIB, rss=9 * MIB)
    assert "3 MiB and ≈ 9 MiB" in str(failed.value)
    assert made_up.wrap_up().claims == ()
    assert "1. A &amp; B</td>" in made_up.wrap_up()._repr_html_()
    assert "not tried yet" in made_up.wrap_up()._repr_html_()


def test_verdict_says_what_it_needs(made_up: claims.Lesson) -> None:
    with pytest.raises(TypeError, match="decided by size, rss, and size was given"):
        made_up.verdict(1, size=3)
    with pytest.raises(KeyError, match="has no claim 2: give one of 1"):
        made_up.verdict(2)


def test_condition_can_be_read(made_up: claims.Lesson) -> None:
    shown = made_up.claim(1)
    assert "return size == 4 * MIB and rss > size" in repr(shown)
    assert "@known.add" not in repr(shown)
    assert "A &amp; B" in shown._repr_html_()


def test_two_claims_of_one_number_are_refused() -> None:
    known = Claims("09_made_up")
    enter = known.add(1, "A", "true", measured="{x}", advice="None.")
    enter(lambda x: True)
    with pytest.raises(ValueError, match="has a claim 1 already"):
        known.add(1, "B", "true", measured="{x}", advice="None.")(lambda x: True)
    with pytest.raises(ValueError, match="not a verdict"):
        known.add(2, "B", "maybe", measured="{x}", advice="None.")  # type: ignore[arg-type]


def test_lesson_with_a_unit_counts_in_it() -> None:
    lesson = claims.Lesson("03_loops", unit=256 * KIB)
    assert "S = 256 KiB." in repr(lesson)
    assert used_unit() == ("S", 256 * KIB)
    claims.Lesson("01_measure_memory")
    assert used_unit() is None
    with pytest.raises(ValueError, match="whole number of bytes"):
        claims.Lesson("03_loops", unit=0)


def test_a_verdict_that_differs_from_its_table_is_seen(
    made_up: claims.Lesson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tools.claims.claims_of", claims.claims_of)
    made_up.verdict(1, size=4 * MIB, rss=9 * MIB)
    page = made_up.wrap_up()._repr_html_()
    code = "lesson.verdict(1, size=size, rss=rss)"
    same = notebook_with(code, page)
    other = notebook_with(code, page.replace("false", "true"))
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
