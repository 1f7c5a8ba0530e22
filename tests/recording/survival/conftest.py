"""Whatever happens in a block, the recorder comes to an end and leaves nothing behind.

In every test, a fixture checks that the profiler is off, that TensorFlow's functions, the handler
of interrupts and the standard streams are as before, and that the temporary folder is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.state import nothing_left
from tests.support.tensors import new, scalar


@pytest.fixture(autouse=True)
def temporary(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give a temporary folder of its own to each test, and check that all is as before."""
    new(9), new(3), new(5), scalar(2.0)  # the shapes and the values are kept, and count in no test
    folder = tmp_path_factory.mktemp("temporary")
    with nothing_left(folder, monkeypatch):
        yield folder
