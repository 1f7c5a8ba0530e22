"""Slides in a browser: all of a slide is in view on a projector, and headings are as written.

The cheat sheet is printed, too: it takes one page.  Slides need reveal.js, which npm brings: from
``slides-tools``, or from where the environment variable ``LESSONS_REVEAL`` says.  Without it or a
browser the tests are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from nbconvert.filters.markdown_mistune import markdown2html_mistune
from playwright.sync_api import Browser, Page, PdfMargins, sync_playwright

from tests.browser.test_in_browser import FLAGS, NAMES
from tests.support.notebooks import LESSONS, ROOT, lesson_paths
from tests.tools.slides import bring_reveal, export

REVEAL = Path(os.environ.get("LESSONS_REVEAL", ROOT / "slides-tools/node_modules/reveal.js"))
WIDTH, HEIGHT = 1280, 720
#: What is smaller than this cannot be read from the last row.
SMALLEST = 0.6
FITTED_MS = 60_000

_LEAVES = """() => [...document.querySelectorAll('.reveal .slides section')]
  .filter(slide => !slide.querySelector('section'))
  .map(slide => [Number(slide.dataset.height), Number(slide.dataset.scale)])"""
_CAPITALS = """() => [...document.querySelectorAll('h1, h2, h3')]
  .map(heading => getComputedStyle(heading).textTransform)"""
_BELOW = """() => [...document.querySelectorAll('section.present .fragment.visible')]
  .filter(part => part.getBoundingClientRect().bottom > innerHeight + 1).length"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no browser")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


def opened(browser: Browser, lesson: Path, folder: Path) -> Page:
    if not (REVEAL / "dist" / "reveal.js").is_file():
        pytest.skip(f"there is no reveal.js in {REVEAL}")
    bring_reveal(REVEAL, folder)
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(export(lesson, folder).as_uri())
    page.wait_for_function("() => document.body.dataset.fitted === 'true'", timeout=FITTED_MS)
    return page


@pytest.mark.parametrize("lesson", lesson_paths(), ids=lambda path: path.stem)
def test_every_slide_is_in_view(lesson: Path, browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, lesson, tmp_path)
    slides = page.evaluate(_LEAVES)
    assert len(slides) > 5
    too_tall = [number for number, (height, _) in enumerate(slides, 1) if height > HEIGHT]
    too_small = [number for number, (_, scale) in enumerate(slides, 1) if scale < SMALLEST]
    assert (too_tall, too_small) == ([], []), "part them: some cells are subslides of their own"
    assert set(page.evaluate(_CAPITALS)) == {"none"}
    for _ in range(2 * len(slides)):
        page.keyboard.press("Space")
        assert page.evaluate(_BELOW) == 0
    page.close()


def test_a_slide_that_is_too_long_is_noticed(browser: Browser, tmp_path: Path) -> None:
    cell = v4.new_markdown_cell("# Long\n\n" + "A line of text.\n\n" * 60)
    cell.metadata["slideshow"] = {"slide_type": "slide"}
    path = tmp_path / "long.ipynb"
    nbformat.write(v4.new_notebook(cells=[cell]), path)
    page = opened(browser, path, tmp_path)
    ((height, scale),) = page.evaluate(_LEAVES)
    assert height > HEIGHT
    assert scale < SMALLEST
    page.close()


PRINTED = """<meta charset="utf-8"><style>
body { font: 9pt sans-serif; } h1 { font-size: 14pt; margin: 0; }
table { border-collapse: collapse; width: 100%; margin: 4pt 0; font-size: 8pt; }
td, th { border: 0.5pt solid #999; padding: 1.5pt 4pt; text-align: left; }
</style>"""


def printed_pages(browser: Browser, markdown: str) -> int:
    page = browser.new_page()
    page.set_content(PRINTED + markdown2html_mistune(markdown))
    margin = PdfMargins(top="12mm", bottom="12mm", left="12mm", right="12mm")
    document = page.pdf(format="A4", margin=margin)
    page.close()
    return len(re.findall(rb"/Type\s*/Page\b", document))


def test_cheat_sheet_is_printed_on_one_page(browser: Browser) -> None:
    text = (LESSONS / "cheat_sheet.md").read_text(encoding="utf-8")
    assert printed_pages(browser, text) == 1
    assert printed_pages(browser, text + "\n\n" + text) == 2
