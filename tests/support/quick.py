"""Fixtures that make the collections of garbage in a module's tests quick."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lessons_lib.common.gc_control import quick_collection


@pytest.fixture(scope="module")
def set_aside() -> Iterator[None]:
    """Set aside once what each collection would look at again: most of a million objects."""
    with quick_collection():
        yield


@pytest.fixture
def quick(set_aside: None) -> None:
    """Set aside what the tests before left alive, too, until the module's end."""
    gc.collect()
    gc.freeze()
