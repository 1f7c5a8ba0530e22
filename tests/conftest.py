"""Settings of all tests: how many random programs are tried, and where failures are kept.

``pytest --hypothesis-profile=long`` tries a thousand of each kind instead of a hundred.  Programs
that failed are kept outside the project, and tried first the next time; one that showed a real
mistake is added to its test as an example.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

for _name, _examples in (("short", 100), ("long", 1000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,  # nothing here depends on the clock
        print_blob=True,
        database=DirectoryBasedExampleDatabase(_CACHE / "lessons_lib" / "hypothesis"),
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("short")


def pytest_configure() -> None:
    """Let tests interrupt: a shell that starts pytest in the background has it ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
