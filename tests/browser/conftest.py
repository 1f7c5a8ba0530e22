"""Which test is about which lesson: a quiz is tested where there is one, and so on."""

from __future__ import annotations

import functools
import re

import nbformat
import pytest

from tests.support.notebooks import lesson_paths


@functools.cache
def lessons_with(pattern: str) -> frozenset[str]:
    """Give the names of the lessons in which a line of code matches."""
    return frozenset(
        path.stem
        for path in lesson_paths()
        if any(
            cell.cell_type == "code" and re.search(pattern, cell.source, re.MULTILINE)
            for cell in nbformat.read(path, as_version=4).cells
        )
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of what a lesson does not have."""
    left_out = []
    for item in items:
        needs = getattr(getattr(item, "module", None), "NEEDS", {})
        pattern = needs.get(getattr(item, "originalname", None))
        if pattern and item.callspec.params["lesson"] not in lessons_with(pattern):  # type: ignore[attr-defined]
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
