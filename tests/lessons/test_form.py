"""How long each lesson is, and what its code consists of; and proof that each check can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.support.notebooks import lesson_paths
from tests.support.sections import NameBook, sections
from tests.tools.form import code_lines, count_words, form_faults, form_of, helpers, studied_lines


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_lesson_keeps_to_its_form(path: Path) -> None:
    assert form_faults(path) == [], str(form_of(path))


def short_lesson() -> nbformat.NotebookNode:
    first = "# Measure\n\n**It takes** about 7 minutes.\n\n" + "word " * 800
    opening = 'import lessons_lib as ll\nimport tensorflow as tf\n\nlesson = ll.Lesson("x")\nlesson'
    study = "\n".join(["def step(x):", *["    x = tf.tanh(x)"] * 20, "    return x"])
    cells = [
        v4.new_markdown_cell(first),
        v4.new_code_cell(opening),
        v4.new_markdown_cell('### Claim 1. "A"'),
        v4.new_code_cell(study),
        v4.new_code_cell("found = ll.peak(step, tf.ones([2]))\nfound.plot()"),
        v4.new_code_cell("lesson.verdict(1, found=found)"),
    ]
    return v4.new_notebook(cells=cells)


def write(notebook: nbformat.NotebookNode, folder: Path, name: str = "03_made_up.ipynb") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


def test_short_lesson_has_no_fault(tmp_path: Path) -> None:
    path = write(short_lesson(), tmp_path)
    assert form_faults(path) == []
    form = form_of(path)
    assert (form.words, form.lines, form.studied, form.stated) == (809, 26, 23, 7)
    assert form.minutes == pytest.approx(809 / 200 + 23 / 12)


def too_many_words(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += "\n\n" + "word " * 1300


def too_many_links(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += "\n\n" + "[two words](a.md) " * 180


def too_many_cells(notebook: nbformat.NotebookNode) -> None:
    notebook.cells += [v4.new_code_cell("x = 1") for _ in range(43)]


def too_many_lines(notebook: nbformat.NotebookNode) -> None:
    notebook.cells.append(v4.new_code_cell("x = tf.ones([1])\n" * 290))


def much_printing(notebook: nbformat.NotebookNode) -> None:
    notebook.cells.append(v4.new_code_cell("print(1)\n" * 20))


def deep_import(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].source += "\nfrom lessons_lib.plots.theme import new_axes"


def helper(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[3].source += '\n\n\ndef span(peak):\n    return f"{peak} S"'


def no_time(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source = notebook.cells[0].source.replace("**It takes**", "It takes")


def too_long(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source = notebook.cells[0].source.replace("7 minutes", "40 minutes")


def said_too_short(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source = notebook.cells[0].source.replace("7 minutes", "3 minutes")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (too_many_words, "words; at most 2000"),
        (too_many_links, "words in links and tables; at most 333"),
        (too_many_cells, "code cells; at most 45"),
        (too_many_lines, "lines of code; at most 300"),
        (much_printing, "at least 60%"),
        (deep_import, "cell 2: imports lessons_lib.plots.theme"),
        (helper, "cell 4: span is a helper"),
        (no_time, "does not say how long it takes"),
        (too_long, "40 minutes are stated; at most 30"),
        (said_too_short, "minutes, and 3 are stated"),
    ],
)
def test_each_fault_is_found(
    change: Callable[[nbformat.NotebookNode], None], complaint: str, tmp_path: Path
) -> None:
    notebook = short_lesson()
    change(notebook)
    found = form_faults(write(notebook, tmp_path))
    assert any(complaint in fault for fault in found), found


def test_further_notebook_may_have_more_words_and_less_time_than_45_minutes(
    tmp_path: Path,
) -> None:
    notebook = short_lesson()
    too_many_words(notebook)
    notebook.cells[0].source = notebook.cells[0].source.replace("7 minutes", "13 minutes")
    assert form_faults(write(notebook, tmp_path / "further")) == []


def test_words_are_counted_as_they_are_read() -> None:
    assert count_words("# A title\n\nFour words [and a link](x.md) · `code`") == (8, 3)
    assert count_words("| a | b |\n|---|---|\n| [one](x) two | 3 |") == (5, 5)
    assert count_words("text\n\n```python\nno words here\n```\n") == (1, 0)


@pytest.mark.parametrize(
    ("source", "studied"),
    [
        ("import os\nx = tf.ones([2])", {2}),
        ("x = 1  # a number\n\n# comment\nx", {1}),
        ("with ll.record() as rec:\n    y = x @ x\n\nrec.plot()", {1, 2}),
        ("p.reveal(ll.peak(f, x))", {1}),
        ("p.reveal(rec.peak_bytes)\nprint(x)", set()),
        ("for n in (1, 2):\n    print(n)", set()),
        ("@tf.function\ndef f(x):\n    # why\n    return x", {1, 2, 4}),
        ("%load_ext lessons_lib", set()),
        ("%%mem\nz = x + x", {2}),
        ("lesson.verdict(\n    1,\n    x=x,\n)", set()),
    ],
)
def test_lines_under_study(source: str, studied: set[int]) -> None:
    assert studied_lines(source) == studied
    assert studied <= set(code_lines(source))


def test_functions_that_write_or_measure_are_helpers() -> None:
    functions = ["def a(x):", "    return x @ x", "def b(x):", "    return ll.peak(a, x)"]
    source = "\n".join([*functions, "def c():", "    print(1)"])
    assert list(helpers(source)) == ["b", "c"]


def test_sections_begin_at_headings_and_the_opening_ends_at_the_first() -> None:
    notebook = short_lesson()
    assert [(part.title, part.cells) for part in sections(notebook)] == [
        ("the opening", (1,)),
        ('Claim 1. "A"', (3, 4, 5)),
    ]


def test_each_section_keeps_its_own_names_only() -> None:
    notebook = short_lesson()
    more = [v4.new_markdown_cell("## More"), v4.new_code_cell("b = 1")]
    book = NameBook.of(v4.new_notebook(cells=[*notebook.cells, *more]))
    assert [book.ends(place) for place in (0, 1, 4, 5, 7)] == [None, 0, None, 1, 2]
    book.note(0, ["ll", "x"])
    book.note(1, ["ll", "x", "a"])
    book.note(2, ["ll", "x", "a", "b"])
    assert {"ll", "x", "b"} <= set(book.kept(2))
    assert "a" not in book.kept(2)
    assert "b" not in book.kept(1)
