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
