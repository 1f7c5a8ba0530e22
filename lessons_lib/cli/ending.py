"""See to it that something is done once before a program ends, however it ends.

Not when nothing can be done any more: ``kill -9``, a crash of the interpreter.  A child that was
forked ends without it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from lessons_lib.common.interrupts import get_handler, set_handler
from lessons_lib.common.patching import patched

#: Signals by which a program is asked to end, and which would end it at once.
_ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextlib.contextmanager
def before_the_end(finish: Callable[[str], None]) -> Iterator[None]:
    """Call `finish` with a sentence when the program ends itself, or is asked to, in this block.

    The program ends as it would have: by the signal, or with the code that it gave.  Meanwhile it
    sees, sets and gets back the handlers that it would without.
    """
    home = os.getpid()

    def asked(number: int, frame: FrameType | None) -> None:
        if os.getpid() == home:
            finish(f"The program was ended by {signal.Signals(number).name}.")
        set_handler(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
        def _exit(status: int) -> None:
            if os.getpid() == home:
                finish(f"The program ended by os._exit, with exit code {status}.")
            original(status)

        return _exit

    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [n for n in _ENDING if get_handler(n) is signal.SIG_DFL]

    def seen(handler: Any) -> Any:
        return signal.SIG_DFL if handler is asked else handler

    def getting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def getsignal(signalnum: Any) -> Any:
            return seen(original(signalnum))

        return getsignal

    def setting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(signalnum: Any, handler: Any) -> Any:
            default = isinstance(handler, int) and handler == signal.SIG_DFL
            ours = default and signalnum in taken and setter.active
            return seen(original(signalnum, asked if ours else handler))

        return wrapper

    for number in taken:
        set_handler(number, asked)
    try:
        with (
            patched(os, "_exit", leaving),
            patched(signal, "getsignal", getting),
            patched(signal, "signal", setting) as setter,
        ):
            yield
    finally:
        for number in taken:
            if get_handler(number) is asked:
                set_handler(number, signal.SIG_DFL)


@contextlib.contextmanager
def ignoring_interrupts(said: str) -> Iterator[None]:
    """Answer Ctrl-C with a sentence on the error stream in this block."""

    def answer(number: int, frame: FrameType | None) -> None:
        say(said)

    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if mine else None
    if before is not None:
        signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def progress(said: str, after: float = 5.0) -> Iterator[None]:
    """Say what is going on if the block takes longer than so many seconds."""
    timer = threading.Timer(after, say, (said,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def say(text: str) -> None:
    """Write a line to the error stream, if there is one."""
    with contextlib.suppress(Exception):
        print(f"lessons_lib: {text}", file=sys.stderr, flush=True)


def wait_for_threads() -> None:
    """Wait for the program's threads as Python does at its end; daemons are left alone."""
    here = threading.current_thread()
    while True:
        working = [t for t in threading.enumerate() if t is not here and not t.daemon]
        if not working:
            return
        for thread in working:
            thread.join()
