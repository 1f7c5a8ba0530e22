"""A notebook with one fault for each check of the browser tests; it never leaves their folder."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import v4

_DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)

#: Each cell's code, and whether its error is said to be meant.
_CELLS = (
    ("import sys\nprint('to stderr', file=sys.stderr)", False),
    ("raise ValueError('meant')", True),
    ("from IPython.display import HTML", False),
    (f"HTML('<img src=\"{_DOT}\">')", False),
    ('HTML(\'<img alt="of another machine" src="http://picture.invalid/a.png">\')', False),
    (
        f'HTML(\'<img alt="wide" style="width: 4000px; max-width: none" src="{_DOT}">\')',
        False,
    ),
    ("HTML('<p style=\"color: #ccc; background: #fff\">hardly to be read</p>')", False),
    ("import ipywidgets\nipywidgets.IntSlider()", False),
    ("1 / 0", False),
)


def write_bad_notebook(path: Path) -> None:
    """Write the notebook."""
    cells = []
    for code, meant in _CELLS:
        cell = v4.new_code_cell(code)
        cell.metadata["tags"] = ["raises-exception"] if meant else []
        cells.append(cell)
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)
