"""Every result has its picture, which is loaded when it is drawn."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from lessons_lib.plots.registry import PICTURES


@pytest.mark.child
def test_what_draws_is_loaded_when_it_draws() -> None:
    code = (
        "import sys, lessons_lib; from lessons_lib.common.results import alt_text, draw;"
        "ours = lambda: {m[18:] for m in sys.modules if m.startswith('lessons_lib.plots.')};"
        "before = ours(); made = lessons_lib.Recording(); alt_text(made); print(*ours());"
        "draw(made); print('timeline' in ours())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(out.stdout.splitlines()[0].split()) == {"registry", "alt_text"}
    assert out.stdout.splitlines()[1:] == ["True"]


@pytest.mark.parametrize("result", PICTURES, ids=lambda cls: cls.__name__)
def test_every_result_has_functions_that_draw_and_describe_it(result: type) -> None:
    for place, takes in zip(PICTURES[result], ("ax", "result"), strict=True):
        module, _, name = place.partition(".")
        function = getattr(importlib.import_module(f"lessons_lib.plots.{module}"), name)
        assert takes in (*inspect.signature(function).parameters, "result")
        assert function.__doc__
