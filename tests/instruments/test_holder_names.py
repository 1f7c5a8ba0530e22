"""How a holder is said to hold a thing."""

from __future__ import annotations

import collections
import functools
import sys
from typing import Any

import pytest

from lessons_lib.instruments.holders.names import (
    FunctionLink,
    bounded,
    function_link,
    instance_dict,
    link,
    locals_of,
)


def holder(x: Any = (1, 2), *, y: Any = None) -> Any:
    return x, y


class Slotted:
    __slots__ = ("kept",)


THING = [0]
HOLDER: Any = holder


def test_parts_of_functions_have_their_words() -> None:
    assert link(holder, holder.__defaults__) == " default arguments"
    assert link(holder, holder.__kwdefaults__) == " default arguments"
    assert [link(holder, part) for part in (holder.__code__, holder.__globals__)] == [
        ".__code__",
        ".__globals__",
    ]
    assert link(holder, THING) == ""
    holder.kept = THING  # type: ignore[attr-defined]
    try:
        assert function_link(HOLDER, THING) == FunctionLink("kept", "attribute")
    finally:
        del holder.kept  # type: ignore[attr-defined]
    assert function_link(HOLDER, THING) is None


def test_other_holders_have_theirs() -> None:
    slotted, text = Slotted(), "a key"
    slotted.kept = THING
    assert link(slotted, THING) == ".kept"
    assert link({"a": THING}, THING) == "['a']"
    assert link({text: 1}, text) == "[a key]"
    part = functools.partial(holder, THING)
    assert (link(part, holder), link(part, part.args)) == ("", ".args")
    assert link(THING.append, THING) is not None
    assert link((i for i in THING), THING) == ""


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (collections.deque(maxlen=3), "it holds at most 3"),
        (collections.deque(), None),
        (functools.lru_cache(5)(holder), "it holds at most 5"),
        (functools.lru_cache(None)(holder), None),
        ([], None),
    ],
)
def test_only_what_can_hold_so_many_things_is_bounded(thing: Any, said: str | None) -> None:
    assert bounded(thing) == said


def test_namespaces_and_objects_without_attributes_have_no_names_of_their_own() -> None:
    names: dict[str, Any] = {"sys": sys}
    exec("frame = sys._getframe()", names)
    assert locals_of(names["frame"]) == []
    own = type("Own", (), {"__dict__": property(lambda self: [THING])})()  # as a proxy has
    assert [instance_dict(thing) for thing in (int, sys, 3, own)] == [None] * 4
