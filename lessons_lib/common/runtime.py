"""TensorFlow, loaded once, quietly and with an allocator that can be measured.

Importing this module sets ``TF_CPU_ALLOCATOR_USE_BFC=1`` (unless it is set already), so that
every tensor on the CPU goes through the one allocator that reports each buffer, and lowers the
C++ log level to errors (unless the user chose one).  What TensorFlow writes to file descriptor 2
while it is imported is held back; when that fails, it is written out in full.  These two
environment variables are the only global settings that the package leaves changed: no operation
runs and no device is set up, so a program can still configure both.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final

ALLOCATOR_VARIABLE: Final = "TF_CPU_ALLOCATOR_USE_BFC"
LOG_VARIABLE: Final = "TF_CPP_MIN_LOG_LEVEL"

#: True when TensorFlow had been imported before this package could prepare its allocator.
imported_first: Final = "tensorflow" in sys.modules
#: What the allocator variable held before this module was imported (None: not set).
allocator_variable_found: Final = os.environ.get(ALLOCATOR_VARIABLE)
#: The process in which TensorFlow was loaded; after a fork it cannot be used.
home_process: Final = os.getpid()


@contextlib.contextmanager
def held_back_stderr() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; write it out if the block raises.

    Python's own ``sys.stderr`` goes on working, so warnings and errors of Python still show.
    Where there is no such descriptor (some graphical programs), nothing is held back.
    """
    try:
        sys.stderr.flush()
        original = os.dup(2)
    except (OSError, AttributeError, ValueError):
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, original)
        try:
            store = stack.enter_context(tempfile.TemporaryFile())
        except OSError:  # no temporary folder: a noisy import is better than none
            yield
            return
        python_stream = sys.stderr
        if _writes_to_descriptor_2(python_stream):
            sys.stderr = stack.enter_context(
                open(
                    os.dup(original),
                    "w",
                    encoding=python_stream.encoding,
                    errors="backslashreplace",
                )
            )
        try:
            os.dup2(store.fileno(), 2)
            yield
        except BaseException:
            store.seek(0)
            with contextlib.suppress(OSError):
                os.write(original, store.read())
            raise
        finally:
            sys.stderr.flush()
            _hand_back(sys.stderr, python_stream)
            sys.stderr = python_stream
            os.dup2(original, 2)


def _hand_back(stand_in: Any, stream: Any) -> None:
    """Give loggers that were made meanwhile the real stream: the stand-in is about to close."""
    for name in ("", "absl", "tensorflow"):
        for handler in logging.getLogger(name).handlers:
            if getattr(handler, "stream", None) is stand_in is not stream:
                handler.setStream(stream)  # type: ignore[attr-defined]


def _writes_to_descriptor_2(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 2)
    except (OSError, AttributeError, ValueError):  # a notebook's stream has no descriptor
        return False


def _load() -> Any:
    os.environ.setdefault(ALLOCATOR_VARIABLE, "1")
    os.environ.setdefault(LOG_VARIABLE, "2")
    try:
        with held_back_stderr():
            import tensorflow
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ModuleNotFoundError(
            "lessons_lib needs TensorFlow, which is not installed: "
            "run `pip install tensorflow` (or `tensorflow-cpu`)",
            name="tensorflow",
        ) from None
    return tensorflow


tf: Final = _load()


def require_home_process() -> None:
    """Refuse to work in a forked child.

    Raises
    ------
    RuntimeError
        If the process was forked after TensorFlow was loaded; TensorFlow hangs there.
    """
    if os.getpid() != home_process:
        raise RuntimeError(
            "this process was forked after TensorFlow was loaded, and TensorFlow hangs in such a "
            "child: start it with multiprocessing's 'spawn' method instead"
        )
