"""What the recorder may change while it runs, to see that all of it is put back."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorflow.python import pywrap_tfe
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import backprop
from tensorflow.python.framework import constant_op
from tensorflow.python.profiler import profiler_v2

from lessons_lib.recording import recorder
from lessons_lib.recording.gradient_calls import gradients

_HOOKED = (
    (pywrap_tfe, "TFE_Py_FastPathExecute"),
    (pywrap_tfe, "TFE_Py_Execute"),
    (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
    (constant_op, "convert_to_eager_tensor"),
    (backprop, "_gradient_function"),
    (BaseSession, "run"),
)


def state() -> dict[str, Any]:
    """Take down all that a recording may touch outside itself."""
    session = recorder._session
    return {
        "profiler": profiler_v2._profiler,
        "hooks": [getattr(module, name) for module, name in _HOOKED],
        "gradients": gradients.log,
        "open recordings": list(session.open),
        "session": (session.profiler, session.watcher, session.ledger),
        "interrupt handler": signal.getsignal(signal.SIGINT),
        "stderr": sys.stderr,
        "threads": [t for t in threading.enumerate() if not isinstance(t, threading._DummyThread)],
        "lock free": _free(session.lock),
    }


def _free(lock: Any) -> bool:
    # Another thread must be able to take it.
    taken: list[bool] = []

    def take() -> None:
        if lock.acquire(timeout=5):
            taken.append(True)
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken)


@contextlib.contextmanager
def nothing_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a block leaves everything as it was, with nothing of ours in `folder`."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = state()
    yield
    after = state()
    assert after == before
    # TensorFlow puts files of its own there, such as AutoGraph's.
    assert list(folder.glob("*lessons_lib*")) == []
