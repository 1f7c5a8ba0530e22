"""A plugin for pytest: every test of somebody else's runs inside a recording.

``pytest -p tests.support.recorded_tests``; see `tests.tools.foreign`.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from lessons_lib.recording.recorder import record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the test, without what its fixtures do."""
    with record(item.name):
        return (yield)
