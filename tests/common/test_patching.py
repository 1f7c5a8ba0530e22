"""Wrappers are put back, unless somebody has wrapped them."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lessons_lib.common import patching
from lessons_lib.common.patching import Patch, patched


def _module() -> Any:
    module = types.ModuleType("somebodys")
    module.function = lambda: ["original"]  # type: ignore[attr-defined]
    return module


def _adding(word: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda original: lambda *args: [*original(*args), word]


def test_a_function_is_replaced_and_put_back() -> None:
    module = _module()
    original = module.function
    patch = Patch(module, "function", _adding("ours"))
    for _ in range(2):
        patch.install()
        patch.install()
        assert patch.active
        assert module.function() == ["original", "ours"]
        patch.remove()
        patch.remove()
        assert not patch.active
        assert module.function is original


def test_what_somebody_else_put_there_stays() -> None:
    module = _module()
    patch = Patch(module, "function", _adding("ours"))
    patch.install()
    theirs = module.function = _adding("theirs")(module.function)
    patch.remove()
    assert module.function is theirs
    # Ours is still beneath theirs, and must not come on top a second time.
    patch.install()
    assert module.function() == ["original", "ours", "theirs"]
    patch.remove()
    assert module.function is theirs


def test_what_somebody_else_replaced_is_wrapped_anew() -> None:
    module = _module()
    patch = Patch(module, "function", _adding("ours"))
    patch.install()
    patch.remove()
    module.function = lambda: ["new"]
    with patched(module, "function", _adding("other")):
        assert module.function() == ["new", "other"]
    patch.install()
    assert module.function() == ["new", "ours"]


def test_what_was_inherited_is_inherited_again() -> None:
    class Base:
        def method(self) -> list[str]:
            return ["base"]

    class Derived(Base):
        pass

    one = Derived()
    for holder in (Derived, one):
        with patched(holder, "method", _adding("ours")):
            assert one.method() == ["base", "ours"]
        assert "method" not in vars(holder)
    assert one.method() == ["base"]


def test_it_is_put_back_when_the_block_raises() -> None:
    module = _module()
    original = module.function
    with pytest.raises(ValueError, match="mine"), patched(module, "function", _adding("ours")):
        raise ValueError("mine")
    assert module.function is original


def test_what_is_wrapped_is_listed() -> None:
    assert patching.__doc__
    listed = set(re.findall(r"\w+", " ".join(re.findall(r"``(.+?)``", patching.__doc__))))
    code = "".join(
        file.read_text("utf-8") for file in Path(patching.__file__).parents[1].rglob("*.py")
    )
    named = set(re.findall(r'\b[Pp]atch(?:ed)?\(\s*[\w.]+,\s*"(\w+)"', code))
    assert {"imperative_grad", "handle", "name_scope"} < named  # the search finds them
    # One is of our own class, and one is too long for the table.
    assert named - listed == {"_next", "_variable_handle_from_shape_and_dtype"}
