"""Each lesson as slides: which cell is on which, and that they need no network."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.support.notebooks import lesson_paths
from tests.tools.slides import bring_reveal, export, loaded_from_elsewhere

KINDS = {"slide", "subslide", "fragment", "skip", "notes", "-"}


def slide_faults(path: Path) -> list[str]:
    """List cells that are on no slide by decision, and claims that do not start one."""
    found = []
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells, start=1):
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if kind not in KINDS:
            found.append(f"cell {number} has no slide_type")
        claim = cell.cell_type == "markdown" and re.match(r"#+ Claim \d", cell.source)
        if claim and kind != "slide":
            found.append(f"cell {number} is a claim, and does not start a slide")
    return found


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_lesson_has_a_slide_track(path: Path) -> None:
    assert slide_faults(path) == []


def test_missing_track_is_noticed(tmp_path: Path) -> None:
    claim = v4.new_markdown_cell("### Claim 1. Something")
    claim.metadata["slideshow"] = {"slide_type": "skip"}
    path = tmp_path / "bad.ipynb"
    nbformat.write(v4.new_notebook(cells=[claim, v4.new_code_cell("1")]), path)
    assert slide_faults(path) == [
        "cell 1 is a claim, and does not start a slide",
        "cell 2 has no slide_type",
    ]


def test_slides_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    lesson = lesson_paths()[0]
    page = export(lesson, tmp_path).read_text(encoding="utf-8")
    heading = nbformat.read(lesson, as_version=4).cells[0].source.splitlines()[0]
    assert heading.removeprefix("# ").split(":")[0] in page
    assert page.count("<section") > 10
    assert set(re.findall(r'(?:src|href)="([^"#:]+\.(?:js|css))"', page)) == {
        "reveal.js/dist/reveal.js",
        "reveal.js/dist/reveal.css",
        "reveal.js/dist/theme/white.css",
    }


def test_lesson_that_loads_from_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "far.ipynb"
    cell = v4.new_markdown_cell("![a picture](https://picture.invalid/a.png)")
    nbformat.write(v4.new_notebook(cells=[cell]), path)
    with pytest.raises(ValueError, match=r"picture\.invalid"):
        export(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ('<script async src="https://a.invalid/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//a.invalid/x.css">', 1),
        ("<style>@import url(https://a.invalid/x.css);</style>", 1),
        ('<a href="https://a.invalid/">a link</a> <img src="data:image/png;base64,AAAA">', 0),
    ],
)
def test_what_a_page_loads_is_told_from_where_it_links(page: str, count: int) -> None:
    assert len(loaded_from_elsewhere(page)) == count


def test_without_reveal_there_is_a_clear_word(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="npm install"):
        bring_reveal(tmp_path, tmp_path / "out")
