"""Each lesson in JupyterLab in a browser: run whole, looked at, and used by hand.

One server and one browser serve all tests of this file; each lesson is opened and run once, one
after another.  Pictures of the screen go into the folder that the environment variable
``LESSONS_SCREENSHOTS`` names, else into pytest's own.  Without a browser the tests are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.browser import looks
from tests.browser.bad_notebook import write_bad_notebook
from tests.browser.conftest import lessons_with
from tests.browser.lab import ANSWER_MS, Lab, outputs_text
from tests.browser.server import PROGRESS, Server, jupyterlab, started
from tests.support.notebooks import ROOT, lesson_paths

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NEWS_MS = 5_000  # a question about news would show by then
LAPTOP: ViewportSize = {"width": 1366, "height": 768}
PROJECTOR: ViewportSize = {"width": 1920, "height": 1080}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

#: Where the lessons lie below the notebooks' folder, by name.
PLACES = {path.stem: path.relative_to(ROOT / "notebooks").as_posix() for path in lesson_paths()}
_DRAWS = r"\.plot\(|timelines\(|\bbars\("
#: What a lesson must have for a test to be about it; ``conftest.py`` leaves the others out.
NEEDS = {
    "test_every_picture_is_drawn_and_described": _DRAWS,
    "test_lesson_is_legible_in_both_themes": _DRAWS,
    "test_prediction_is_entered_and_revealed": r"^\w+ = predict\(",
    "test_quiz_tells_right_from_wrong": r"^quiz\(",
    "test_slider_measures_where_it_is_moved": r"\bexplore\(",
    "test_exercise_tells_right_from_wrong": r"^measure_memory\.q1\.check\(",
    "test_exercise_is_done_by_keyboard_alone": r"^measure_memory\.q1\.check\(",
    "test_controls_of_a_kernel_that_has_gone_say_so": r'^quiz\("start_here"\)',
}
RIGHT = (
    "def tensor_bytes(shape, dtype):",
    "return int(np.prod(shape)) * tf.as_dtype(dtype).size",
    "measure_memory.q1.check(tensor_bytes)",
)
WRONG = (RIGHT[0], "return int(np.prod(shape)) * 4", RIGHT[2])
LOUD = (RIGHT[0], f"tf.print(90 * 'what I see ')\n    {RIGHT[1]}", RIGHT[2])


# Of this module, not of the session: while Playwright runs, no other test could use asyncio.
@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not any(shutil.which(name) for name in NAMES):
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[Browser]:
    program = next(path for name in NAMES if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport=LAPTOP)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def left(context: BrowserContext) -> list[str]:
    """Collect requests for other machines; each is stopped."""
    return looks.kept_here(context)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = os.environ.get("LESSONS_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module", params=PLACES)
def lesson(
    request: pytest.FixtureRequest, server: Server, context: BrowserContext, left: list[str]
) -> Iterator[tuple[str, Lab]]:
    """Open a lesson and run it whole; its tests follow one another."""
    yield from _run_lesson(request.param, server, context)


def _run_lesson(name: str, server: Server, context: BrowserContext) -> Iterator[tuple[str, Lab]]:
    lab = Lab(context.new_page(), server.page(PLACES[name]))
    lab.page.set_default_timeout(ANSWER_MS)
    lab.run_all()
    yield name, lab
    lab.end()


def test_lesson_runs_without_errors(lesson: tuple[str, Lab]) -> None:
    cells = lesson[1].cells()
    assert looks.output_faults(cells) == []
    code = [cell for cell in cells if cell["cell_type"] == "code" and cell["source"].strip()]
    assert all(cell["execution_count"] for cell in code)


def test_every_picture_is_drawn_and_described(lesson: tuple[str, Lab]) -> None:
    _, lab = lesson
    for size in (PROJECTOR, LAPTOP):
        lab.page.set_viewport_size(size)
        assert looks.picture_faults(lab.page) == []
    # All that the cells have put out is on the page.
    drawn = sum(outputs_text(cell).count("<img ") for cell in lab.cells() if "outputs" in cell)
    assert looks.count_pictures(lab.page) >= drawn > 0


def test_lesson_is_legible_in_both_themes(lesson: tuple[str, Lab], pictures: Path) -> None:
    name, lab = lesson
    image = lab.page.locator(".jp-OutputArea img").first
    for theme, title in reversed(THEMES.items()):  # ends in the light one
        lab.theme(title)
        faults = looks.contrast_faults(lab.page)
        for place, size in (("projector", PROJECTOR), ("laptop", LAPTOP)):
            lab.page.set_viewport_size(size)
            image.evaluate("image => image.scrollIntoView({block: 'center'})")
            lab.page.screenshot(path=pictures / f"{name}_{theme}_{place}.png")
        assert faults == []


def test_outputs_are_accessible(lesson: tuple[str, Lab]) -> None:
    assert looks.accessibility_faults(lesson[1].page) == []


def test_prediction_is_entered_and_revealed(lesson: tuple[str, Lab], pictures: Path) -> None:
    name, lab = lesson
    number = _place(lab, "test_prediction_is_entered_and_revealed")
    asked = lab.cell(number)
    variable = re.search(r"^(\w+) = predict\(", lab.cells()[number]["source"], re.MULTILINE)
    assert variable
    revealing = lab.find(rf"\b{variable[1]}\.reveal\(")
    assert revealing is not None
    radio = asked.locator("input[type=radio]")
    if radio.count():
        radio.first.check()
    else:
        box = asked.locator("input[type=text]").first
        box.fill("two")
        expect(asked.get_by_role("status")).to_contain_text("“two” can't be read")
        box.fill("3")
        expect(asked.get_by_role("status")).to_contain_text("Noted: 3")
        lab.run(number)  # again: what was entered stays
        expect(asked.locator("input[type=text]").first).to_have_value("3")
    lab.run(revealing)
    assert "You said" in outputs_text(lab.cells()[revealing])
    lab.cell(revealing).get_by_text("You said").first.scroll_into_view_if_needed()
    lab.page.screenshot(path=pictures / f"{name}_prediction.png")


def test_quiz_tells_right_from_wrong(lesson: tuple[str, Lab], pictures: Path) -> None:
    name, lab = lesson
    number = _place(lab, "test_quiz_tells_right_from_wrong")
    cell = lab.cell(number)
    check = cell.get_by_role("button", name="Check answer 1", exact=True)
    check.click()
    expect(cell.get_by_text("Choose an answer first.")).to_be_visible()
    options = cell.locator(".widget-radio").first.locator("input[type=radio]")
    said = []
    options.first.check()
    for place in range(options.count()):
        if place:
            options.nth(place - 1).focus()
            lab.page.keyboard.press("ArrowDown")  # within the group, and not to the next cell
        expect(options.nth(place)).to_be_checked()
        expect(cell.get_by_role("alert")).to_have_count(0)  # it was about another answer
        options.nth(place).focus()
        lab.page.keyboard.press("Tab")  # a group is one stop
        expect(check).to_be_focused()
        check.click()
        alert = cell.get_by_role("alert").first
        expect(alert).to_contain_text(re.compile("✓ Right|✗ Not so"))
        said.append(alert.inner_text())
    assert sum(text.startswith("✓") for text in said) == 1
    assert sum(text.startswith("✗") for text in said) == len(said) - 1 > 0
    lab.page.screenshot(path=pictures / f"{name}_quiz.png")


def test_slider_measures_where_it_is_moved(lesson: tuple[str, Lab], pictures: Path) -> None:
    name, lab = lesson
    slider = lab.page.locator(".lessons-slider .noUi-handle").first
    cell = lab.page.locator(".jp-Cell", has=lab.page.locator(".lessons-slider")).first
    image, number = cell.locator("img").first, cell.locator("input[type=number]").first
    source, value = image.get_attribute("src"), number.input_value()
    slider.focus()
    slider.press("ArrowRight")
    expect(number).not_to_have_value(value)
    expect(image).not_to_have_attribute("src", source or "")
    source, description = image.get_attribute("src"), image.get_attribute("alt")
    number.fill(value)
    number.press("Tab")
    expect(image).not_to_have_attribute("src", source or "")
    expect(image).not_to_have_attribute("alt", description or "")
    image.scroll_into_view_if_needed()
    lab.page.screenshot(path=pictures / f"{name}_slider.png")
    assert looks.output_faults(lab.cells()) == []


def test_exercise_tells_right_from_wrong(
    lesson: tuple[str, Lab], server: Server, pictures: Path
) -> None:
    name, lab = lesson
    number = _place(lab, "test_exercise_tells_right_from_wrong")
    for lines, passes in ((WRONG, False), (LOUD, True), (RIGHT, True)):
        editor = lab.cell(number).locator(".cm-content")
        editor.fill("\n".join([lines[0], f"    {lines[1]}", lines[2]]))
        editor.press("Control+Enter")
        _expect_outcome(lab.cell(number), passes)
        said = outputs_text(lab.cells()[number])
        assert ("printed more than 10,000 characters" in said) is (lines is LOUD)
        assert said.count("what I see") < 1000  # in fifteen calls, 1,350 of eleven characters
        lab.page.screenshot(path=pictures / f"{name}_exercise_{'right' if passes else 'wrong'}.png")
    assert (server.lessons.parent / PROGRESS).exists(), "progress is noted where it was told to"


def test_exercise_is_done_by_keyboard_alone(lesson: tuple[str, Lab]) -> None:
    _, lab = lesson
    number = _place(lab, "test_exercise_is_done_by_keyboard_alone")
    lab.select(number - 1)
    keys = lab.page.keyboard
    keys.press("ArrowDown")  # to the exercise
    for lines, passes in ((WRONG, False), (RIGHT, True)):
        keys.press("Enter")  # into the cell
        keys.press("Control+a")
        keys.press("Delete")
        keys.type(lines[0])
        keys.press("Enter")  # the editor indents what follows
        keys.type(lines[1])
        keys.press("Enter")
        keys.press("Backspace")  # and ends the function
        keys.type(lines[2])
        keys.press("Control+Enter")
        _expect_outcome(lab.cell(number), passes)


def test_controls_of_a_kernel_that_has_gone_say_so(lesson: tuple[str, Lab]) -> None:
    _, lab = lesson
    cell = lab.cell(_place(lab, "test_controls_of_a_kernel_that_has_gone_say_so"))
    cell.locator(".widget-radio").first.locator("input[type=radio]").first.check()
    cell.get_by_role("button", name="Check answer 1", exact=True).click()
    expect(cell.get_by_role("alert").first).to_be_visible()
    lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(cell.get_by_role("alert").first).to_be_hidden()
    said = cell.locator(".lessons-live").evaluate(
        "box => getComputedStyle(box, '::before').content"
    )
    assert "The kernel was restarted" in said


def _place(lab: Lab, test: str) -> int:
    number = lab.find(NEEDS[test])
    assert number is not None
    return number


def _expect_outcome(cell: Locator, passes: bool) -> None:
    status = cell.get_by_role("status").first
    expect(status).to_contain_text("✓" if passes else "✗")
    expect(status).to_contain_text("passed" if passes else "wrong value")


def test_no_request_leaves_the_machine(lesson: tuple[str, Lab], left: list[str]) -> None:
    assert left == []


def test_every_kind_of_control_is_in_some_lesson() -> None:
    assert {test: bool(lessons_with(pattern)) for test, pattern in NEEDS.items()} == dict.fromkeys(
        NEEDS, True
    )


def test_the_command_opens_the_first_lesson_of_a_copy(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "notebooks", project / "notebooks")
    (project / "README.md").write_text("# The project's page")
    command = [sys.executable, str(ROOT / "lessons_lib" / "cli" / "lessons.py")]
    with started(tmp_path, project, command) as server:
        page = browser.new_page(viewport=LAPTOP)
        request.addfinalizer(page.close)
        lab = Lab(page, f"{server.address}/?token={server.token}")
        current = "window.jupyterapp.shell.currentWidget"
        assert page.evaluate(f"{current}.context.path") == "my_lessons/00_start_here.ipynb"
        assert page.evaluate(f"{current}.context.model.dirty") is False
        assert not any(cell.get("outputs") for cell in lab.cells())
        page.wait_for_timeout(NEWS_MS)
        expect(page.locator(".Toastify__toast")).to_have_count(0)
        page.locator(".jp-MarkdownOutput a", has_text="false or half true").first.click()
        expect(page.get_by_role("heading", name="The project's page")).to_be_visible()
        lab.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


def test_what_must_be_noticed_is_noticed(
    server: Server, browser: Browser, request: pytest.FixtureRequest
) -> None:
    """A notebook with every fault: each check complains of its own."""
    write_bad_notebook(server.lessons / "bad.ipynb")
    context = browser.new_context(viewport=LAPTOP)
    request.addfinalizer(context.close)
    left = looks.kept_here(context)
    lab = Lab(context.new_page(), server.page("bad.ipynb"))
    assert lab.run_all() == "false"
    expect(lab.page.locator(".noUi-handle")).to_be_visible()
    expect(lab.page.get_by_text("ZeroDivisionError").first).to_be_visible()
    said = " ".join(looks.output_faults(lab.cells()))
    assert "on stderr: to stderr" in said
    assert "ZeroDivisionError" in said
    assert "meant" not in said
    seen = " ".join(looks.picture_faults(lab.page))
    assert "is not drawn" in seen
    assert "has no alternative text" in seen
    assert "is cut off on the right" in seen
    rules = " ".join(looks.accessibility_faults(lab.page))
    assert "aria-input-field-name" in rules
    assert 'of "hardly to be read"' in " ".join(looks.contrast_faults(lab.page))
    assert any("picture.invalid" in address for address in left)
    lab.end()
