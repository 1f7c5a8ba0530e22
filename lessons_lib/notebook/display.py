"""Showing things in a notebook, and as text where there is none.

Everything that the learner's tools put on the page goes through here: a text that stands for it
everywhere (also for nbval, so it is the same in every run), HTML, and a widget where widgets are
live.  Nothing is ever taken off the page again.  IPython and ipywidgets are imported only when
they are used.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from lessons_lib.common import results

WIDGET: Final = "application/vnd.jupyter.widget-view+json"

#: Stands where a control would be, in a page that has no kernel.
RUN_TO_ANSWER: Final = "<em>Run this cell to answer.</em>"

# When a kernel has gone, JupyterLab gives its widgets the class jupyter-widgets-disconnected, and
# they stay on the page as they were.  Ours then say so, and what they had answered is hidden.
_STYLE: Final = """
<style>
.lessons-live.jupyter-widgets-disconnected::before {
  content: "The kernel was restarted, so this does nothing now: run its cell again.";
  font: inherit; font-style: italic; position: static; display: block; width: auto; height: auto;
}
.lessons-live.jupyter-widgets-disconnected .lessons-answer { display: none; }
</style>
""".strip()

# ipywidgets gives its sliders no accessible name, and each radio button of a group a stop of its
# own for the Tab key.  This gives each of our sliders the text of its label, and each group a name
# and its arrow keys, with which JupyterLab moves between cells and takes the focus away; also when
# the page draws them again.  It only looks at the page that it is part of.
NAME_PARTS: Final = """
(() => {
  if (window.lessonsParts) return;
  window.lessonsParts = true;
  let groups = 0;
  const name = () => {
    for (const box of document.querySelectorAll(".lessons-slider")) {
      const label = box.querySelector(".widget-label");
      const handle = box.querySelector(".noUi-handle");
      if (label && handle && !handle.hasAttribute("aria-label")) {
        handle.setAttribute("aria-label", label.textContent);
      }
    }
    for (const box of document.querySelectorAll(".lessons-live .widget-radio-box")) {
      const buttons = box.querySelectorAll("input[type=radio]");
      if (!buttons.length || [...buttons].every((b) => b.name.startsWith("lessons-"))) continue;
      groups += 1;
      if (!box.hasAttribute("data-lm-suppress-shortcuts")) {
        box.setAttribute("data-lm-suppress-shortcuts", "true");
        box.addEventListener("keydown", (event) => {
          if (event.key !== "Enter") event.stopPropagation();
        });
      }
      const chosen = [...buttons].map((b) => b.checked);
      buttons.forEach((b) => { b.name = `lessons-${groups}`; });
      buttons.forEach((b, i) => { b.checked = chosen[i]; });
    }
  };
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; name(); }, 100);
  }).observe(document.body, { childList: true, subtree: true });
  name();
})();
""".strip()


def in_notebook() -> bool:
    """Tell whether there is a notebook kernel that can show HTML and widgets."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(text: str, html: str = "", widget: Any = None) -> None:
    """Show something once.

    Parameters
    ----------
    text : str
        What stands for it where neither HTML nor widgets are shown.
    html : str
        The same, for a notebook.
    widget : ipywidgets.Widget, optional
        The live form, shown instead of the other two where widgets are live.
    """
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    bundle: dict[str, Any] = {"text/plain": text}
    if html:
        bundle["text/html"] = html
    if widget is not None:
        bundle[WIDGET] = widget._repr_mimebundle_()[WIDGET]
    display(bundle, raw=True)


def picture_html(result: results.Result, **options: Any) -> str:
    """Draw a result as an HTML image with its alternative text; empty if it has no picture."""
    try:
        axes: Any = results.draw(result, None, **options)
    except (TypeError, ImportError):
        return ""
    return str(axes._repr_html_())


def run_in_page(script: str) -> None:
    """Run a piece of JavaScript in the page of a live notebook; nothing where there is none."""
    if in_notebook():
        from IPython.display import display

        display({"application/javascript": script, "text/plain": ""}, raw=True)


def live_box(parts: list[Any], **options: Any) -> Any:
    """Put widgets one below the other, in a box that says so when its kernel has gone."""
    from ipywidgets import HTML, Layout, VBox

    style = HTML(_STYLE, layout=Layout(height="0", margin="0", overflow="hidden"))
    box = VBox([style, *parts], **options)
    box.add_class("lessons-live")
    return box
