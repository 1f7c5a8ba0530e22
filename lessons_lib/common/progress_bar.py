"""Progress of work that takes seconds, for people who wait: in a notebook or a terminal."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any


def progress_bar(what: str, things: Any = None, *, delay: float = 0.0, **options: Any) -> Any:
    """Make a bar of tqdm's, or give None where tqdm is missing or switched off.

    It is switched off by ``TQDM_DISABLE=1``, tqdm's own variable: where outputs are compared, it
    may not matter whether a machine was slow enough for a bar.

    Parameters
    ----------
    what : str
        What is going on, for people.
    things : iterable, optional
        What the work goes through; without it, call the bar's `update` and `close`.
    delay : float
        Seconds before it appears.
    options
        Passed to tqdm.
    """
    if os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets the plain bar
            from tqdm.auto import tqdm
    except ImportError:
        return None
    # Where nobody looks (a log file), None switches the plain bar off; a notebook is no terminal.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    off = False if hasattr(shell, "kernel") else None
    return tqdm(things, desc=what, disable=off, ncols=80, delay=delay, **options)
