"""What is wrong with what a page shows: each function lists complaints, empty when all is well.

Only what the notebook puts out is judged, never JupyterLab around it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import BrowserContext, Page, Route

_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
_HERE = {"127.0.0.1", "localhost"}
#: JupyterLab gives a picture without alternative text this one.
_NO_ALT = "Image"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]

# Relative luminance and contrast ratio as WCAG 2.1 defines them.
_CONTRAST = """() => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const over = (top, below) => {
    const mix = key => top[key] * top.a + below[key] * (1 - top.a);
    return {r: mix("r"), g: mix("g"), b: mix("b"), a: 1};
  };
  const luminance = colour => {
    const [r, g, b] = [colour.r, colour.g, colour.b].map(part => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = element => {
    if (!element) return {r: 255, g: 255, b: 255, a: 1};
    const own = parse(getComputedStyle(element).backgroundColor);
    return own.a === 1 ? own : over(own, background(element.parentElement));
  };
  const found = [];
  let count = 0;
  for (const area of document.querySelectorAll(".jp-OutputArea-output")) {
    if (area.dataset.mimeType === "application/vnd.jupyter.stderr") continue;
    const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim();
      const element = walker.currentNode.parentElement;
      if (!text || element.closest("style, script, :disabled")) continue;
      if (!element.checkVisibility({visibilityProperty: true})) continue;
      const style = getComputedStyle(element);
      const below = background(element);
      const [a, b] = [luminance(over(parse(style.color), below)), luminance(below)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      count += 1;
      if (ratio < (large ? 3 : 4.5)) {
        found.push(`contrast ${ratio.toFixed(2)} of "${text.slice(0, 60)}"`);
      }
    }
  }
  return [count, found];
}"""


def kept_here(context: BrowserContext) -> list[str]:
    """Stop every request that would leave this machine; the list fills with their addresses."""
    left: list[str] = []

    def elsewhere(address: str) -> bool:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in _HERE

    def stop(route: Route) -> None:
        left.append(route.request.url)
        route.abort()

    context.route(elsewhere, stop)
    context.on(
        "page",
        lambda page: page.on(
            "websocket", lambda socket: left.append(socket.url) if elsewhere(socket.url) else None
        ),
    )
    return left


def output_faults(cells: list[dict[str, Any]]) -> list[str]:
    """List errors that are not meant, and everything on stderr, by cell."""
    found = []
    for number, cell in enumerate(cells):
        expected = "raises-exception" in cell["metadata"].get("tags", [])
        for output in cell.get("outputs", []):
            match output["output_type"]:
                case "error" if not expected:
                    found.append(f"cell {number}: {output['ename']}: {output['evalue']}")
                case "stream" if output["name"] == "stderr":
                    found.append(f"cell {number} on stderr: {str(output['text'])[:200]}")
    return found


def picture_faults(page: Page) -> list[str]:
    """List pictures that are not drawn, that nobody describes, or that stick out."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.jp-OutputArea img')].every(i => i.complete)",
        timeout=30_000,
    )
    return list(
        page.evaluate(
            """none => [...document.querySelectorAll(".jp-OutputArea img")].flatMap((image, i) => {
              const found = [];
              const room = image.closest(".jp-OutputArea-output").getBoundingClientRect();
              const box = image.getBoundingClientRect();
              if (!image.naturalWidth || !box.width) found.push(`picture ${i} is not drawn`);
              const alt = (image.alt ?? "").trim();
              if (!alt || alt === none) found.push(`picture ${i} has no alternative text`);
              if (box.right > room.right + 1) found.push(`picture ${i} is cut off on the right`);
              return found;
            })""",
            _NO_ALT,
        )
    )


def count_pictures(page: Page) -> int:
    """Count the pictures that cells have put out."""
    return page.locator(".jp-OutputArea img").count()


def accessibility_faults(page: Page) -> list[str]:
    """List what axe-core finds in the cells' outputs (WCAG 2.1, levels A and AA).

    Contrast is not among it: `contrast_faults` judges that, because axe passes over all text that
    is scrolled out of sight.
    """
    # In a page whose body has no height, as JupyterLab's, axe takes all for hidden.
    page.add_style_tag(content="body { height: 100vh }")
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(_AXE.read_text(encoding="utf-8"))
    result = page.evaluate(
        """rules => window.axe.run({include: [[".jp-OutputArea-output"]]}, {
             runOnly: {type: "tag", values: rules},
             rules: {"color-contrast": {enabled: false}},
             resultTypes: ["violations"]})""",
        _RULES,
    )
    return [
        f"{violation['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]


def contrast_faults(page: Page) -> list[str]:
    """List text in the cells' outputs whose contrast is under WCAG's 4.5 (3 for large text).

    The background is that of the nearest element around the text that has one.  Left out are
    disabled controls, as in WCAG, and JupyterLab's own colours of a traceback
    (which `output_faults` reports unless it is meant).
    """
    count, found = page.evaluate(_CONTRAST)
    return list(found) if count else ["there is no text to judge"]
