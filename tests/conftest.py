"""Settings of all tests: their order, and how many random programs are tried.

``pytest --hypothesis-profile=long`` tries a thousand of each kind instead of thirty, and the public
CI does so every week.  Programs that failed are kept outside the project, and tried first the next
time; one that showed a real mistake is added to its test as an example.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.support.cases import mark_further

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

for _name, _examples in (("short", 30), ("long", 1000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,  # nothing here depends on the clock
        print_blob=True,
        database=DirectoryBasedExampleDatabase(_CACHE / "lessons_lib" / "hypothesis"),
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("short")

# A worker of pytest-xdist is a program of ``python -c``, whose code Python calls "<string>", as it
# does what dataclasses generate.  The tests are not that program.
if sys.argv[:1] == ["-c"]:
    sys.argv[0] = pytest.__file__


def pytest_configure() -> None:
    """Let tests interrupt: a shell that starts pytest in the background has it ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose between crossed cases; begin with most slow tests, so that workers end together."""
    mark_further(items)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])
