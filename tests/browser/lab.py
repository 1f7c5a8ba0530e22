"""A notebook that is open in JupyterLab, and what can be done with it.

What cells put out is read from the notebook's own model, where an error and a line on stderr are
told apart; what a learner sees and uses is looked for in the page.  Cells count from 0.
"""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page

OPEN_MS = 60_000
RUN_MS = 240_000
ANSWER_MS = 60_000

_NOTEBOOK = "window.jupyterapp.shell.currentWidget"
# The idle sign shows before the kernel is reached, and what runs then hangs.
_READY = f"""() => {{
  const kernel = window.jupyterapp && {_NOTEBOOK}?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}}"""


class Lab:
    """A notebook in a page of a browser.

    Parameters
    ----------
    page : Page
        A page that has nothing open.
    address : str
        Where the notebook opens.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        page.goto(address, timeout=OPEN_MS)
        page.wait_for_function("() => window.jupyterapp?.restored", timeout=OPEN_MS)
        page.wait_for_function(_READY, timeout=OPEN_MS)

    def command(self, name: str, arguments: dict[str, Any] | None = None, ms: int = OPEN_MS) -> str:
        """Carry out one of JupyterLab's commands and wait for its end.

        Returns
        -------
        str
            ``"true"`` or ``"false"`` where the command tells success; its error, if it has one.
        """
        self.page.evaluate(
            """([name, given]) => {
              window.lastCommand = undefined;
              window.jupyterapp.commands.execute(name, given ?? {}).then(
                done => { window.lastCommand = String(done); },
                error => { window.lastCommand = "error: " + error; });
            }""",
            [name, arguments],
        )
        self.page.wait_for_function("() => window.lastCommand !== undefined", timeout=ms)
        return str(self.page.evaluate("window.lastCommand"))

    def run_all(self) -> str:
        """Run all cells; ``"true"`` when all ran."""
        done = self.command("notebook:run-all-cells", ms=RUN_MS)
        self.page.wait_for_function(_READY, timeout=ANSWER_MS)
        return done

    def cells(self) -> list[dict[str, Any]]:
        """Give the cells with their sources and outputs, as the notebook's model has them."""
        model: dict[str, Any] = self.page.evaluate(f"() => {_NOTEBOOK}.content.model.toJSON()")
        for cell in model["cells"]:
            cell["source"] = _joined(cell["source"])
        return list(model["cells"])

    def find(self, pattern: str, after: int = -1) -> int | None:
        """Find the first code cell beyond another one whose source matches."""
        for number, cell in enumerate(self.cells()):
            if number > after and cell["cell_type"] == "code":
                if re.search(pattern, cell["source"], re.MULTILINE):
                    return number
        return None

    def cell(self, number: int) -> Locator:
        """Give a cell's place in the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def select(self, number: int) -> None:
        """Make a cell the active one, in command mode, without the mouse."""
        self.page.evaluate(
            f"""number => {{
              const content = {_NOTEBOOK}.content;
              content.activeCellIndex = number;
              content.mode = "command";
              content.activate();
            }}""",
            number,
        )

    def run(self, number: int) -> None:
        """Run one cell and wait for its end."""
        self.select(number)
        self.command("notebook:run-cell", ms=ANSWER_MS)
        self.page.wait_for_function(_READY, timeout=ANSWER_MS)

    def theme(self, name: str) -> None:
        """Choose a theme: ``"JupyterLab Light"`` or ``"JupyterLab Dark"``."""
        self.command("apputils:change-theme", {"theme": name})
        light = "false" if "Dark" in name else "true"
        self.page.wait_for_selector(f'[data-jp-theme-light="{light}"]', state="attached")

    def end(self) -> None:
        """Shut the kernel down and close the page."""
        self.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        self.page.close()


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def outputs_text(cell: dict[str, Any]) -> str:
    """Put together all text and HTML that a cell has put out."""
    parts = []
    for output in cell["outputs"]:
        parts.append(_joined(output.get("text", "")))
        data = output.get("data", {})
        parts += [_joined(data.get(kind, "")) for kind in ("text/plain", "text/html")]
    return "\n".join(parts)
