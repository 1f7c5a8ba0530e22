"""The form of every committed lesson; and proof that each check can fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.support.notebooks import (
    LESSONS,
    MAX_CELL_LINES,
    METADATA,
    ROOT,
    faults,
    lesson_paths,
    text_faults,
)

Change = Callable[[nbformat.NotebookNode], None]


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.name)
def test_committed_lesson_has_no_fault_of_form(path: Path) -> None:
    assert faults(path) == []


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("*.md")), *sorted(LESSONS.rglob("*.md"))], ids=lambda path: path.name
)
def test_page_has_no_broken_link_and_no_silent_image(path: Path) -> None:
    assert list(text_faults(path.read_text(encoding="utf-8"), path.parent)) == []


def test_readme_links_to_every_lesson() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = [path.relative_to(ROOT).as_posix() for path in lesson_paths()]
    assert [name for name in names if f"({name})" not in readme] == []


LINES_OF_A_PAGE = 60  # of tables in a small font; tests/browser prints the page
LONGEST_ROW = 150  # characters that stand on one line of it


def printed_lines(text: str) -> int:
    """Count the lines that the rows of tables and the paragraphs take when they are printed."""
    return sum(1 + len(line) // LONGEST_ROW for line in text.splitlines() if line.strip())


def test_cheat_sheet_is_one_page_of_tables() -> None:
    text = (LESSONS / "cheat_sheet.md").read_text(encoding="utf-8")
    assert printed_lines(text) <= LINES_OF_A_PAGE
    assert printed_lines(text + text) > LINES_OF_A_PAGE
    prose = [line for line in text.splitlines() if line.strip() and not line.startswith(("|", "#"))]
    assert len(prose) <= 2


def html_output(markup: str) -> nbformat.NotebookNode:
    return v4.new_output("display_data", data={"text/html": markup, "text/plain": "<Axes>"})


def good_notebook() -> nbformat.NotebookNode:
    picture = html_output('<img src="data:image/png;base64,AAAA" alt="Two bands, 8 MiB each">')
    printed = v4.new_output("stream", name="stdout", text="8 MiB\n")
    raised = v4.new_output("error", ename="ValueError", evalue="on purpose", traceback=[])
    cells = [
        v4.new_markdown_cell(
            "# See what a matrix costs\n\n[Words](glossary.md#peak), [this page](#top), "
            "[elsewhere](https://www.tensorflow.org/guide) and `[no](link)`.\n\n"
            "```python\n[no](link)\n```\n\n![a shape](shape.svg)"
        ),
        v4.new_code_cell("print(size)", execution_count=1, outputs=[printed]),
        v4.new_code_cell("rec.plot()", execution_count=2, outputs=[picture]),
        v4.new_code_cell(
            "fail()", execution_count=3, outputs=[raised], metadata={"tags": ["raises-exception"]}
        ),
    ]
    return v4.new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))


def faults_of(notebook: nbformat.NotebookNode, folder: Path) -> list[str]:
    (folder / "glossary.md").write_text("# Words")
    (folder / "shape.svg").write_text("<svg/>")
    path = folder / "lesson.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return faults(path)


def test_good_notebook_has_no_fault(tmp_path: Path) -> None:
    assert faults_of(good_notebook(), tmp_path) == []


def no_heading(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source = "See what a matrix costs"


def no_outputs(notebook: nbformat.NotebookNode) -> None:
    for cell in notebook.cells[1:]:
        cell.outputs = []


def out_of_order(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].execution_count, notebook.cells[2].execution_count = 2, 1


def not_executed(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[2].execution_count = None


def someones_metadata(notebook: nbformat.NotebookNode) -> None:
    notebook.metadata.language_info["version"] = "3.11.7"


def writes_to_stderr(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].outputs[0].name = "stderr"


def untagged_error(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[3].metadata = {}


def long_cell(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].source = "\n".join("x = 1" for _ in range(MAX_CELL_LINES + 1))


def picture_without_alt(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[2].outputs = [html_output('<img src="data:image/png;base64,AAAA">')]


def picture_with_blank_alt(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[2].outputs = [html_output('<p><img alt=" " src="data:image/png;base64,AA=="/>')]


def bare_png(notebook: nbformat.NotebookNode) -> None:
    data = {"image/png": "AAAA", "text/plain": "<Figure>"}
    notebook.cells[2].outputs = [v4.new_output("display_data", data=data)]


def text_image_without_alt(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += "\n\n![](shape.svg)"


def text_html_image_without_alt(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += '\n\n<img src="shape.svg">'


def broken_link(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += "\n\n[next](99_nowhere.ipynb#start)"


def broken_html_link(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += '\n\n<a href="99_nowhere.ipynb">next</a>'


def broken_image(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += '\n\n![a shape](nowhere.svg "title")'


def absolute_link(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[0].source += "\n\n[words](/home/me/glossary.md)"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (no_heading, "must be text that starts with a heading"),
        (no_outputs, "there are no outputs"),
        (out_of_order, "not run from top to bottom"),
        (not_executed, "not run from top to bottom"),
        (someones_metadata, "metadata is not the standard one"),
        (writes_to_stderr, "cell 2: writes to stderr"),
        (untagged_error, "cell 4: ends with ValueError"),
        (long_cell, "cell 2: 26 lines of code"),
        (picture_without_alt, "cell 3: an image without alternative text"),
        (picture_with_blank_alt, "cell 3: an image without alternative text"),
        (bare_png, "cell 3: a picture without alternative text"),
        (text_image_without_alt, "cell 1: the image shape.svg has no alternative text"),
        (text_html_image_without_alt, "cell 1: an image without alternative text"),
        (broken_link, "cell 1: the link to 99_nowhere.ipynb#start leads nowhere"),
        (broken_html_link, "cell 1: the link to 99_nowhere.ipynb leads nowhere"),
        (broken_image, "cell 1: the link to nowhere.svg leads nowhere"),
        (absolute_link, "cell 1: the link to /home/me/glossary.md is not relative"),
    ],
)
def test_each_fault_is_found_and_nothing_else(
    change: Change, complaint: str, tmp_path: Path
) -> None:
    notebook = good_notebook()
    change(notebook)
    found = faults_of(notebook, tmp_path)
    assert len(found) == 1, found
    assert complaint in found[0]
