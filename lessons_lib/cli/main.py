"""Record a whole program: ``python -m lessons_lib run script.py [arguments]``.

The program runs as it does without: same arguments, same ``__main__``, same output, same exit
code.  When it ends, also by an exception, a report is written (see `lessons_lib.cli.html_report`).
What is said about it goes to the error stream, in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from lessons_lib import __version__
from lessons_lib.cli import lessons, program
from lessons_lib.cli.ending import (
    before_the_end,
    ignoring_interrupts,
    progress,
    say,
    wait_for_threads,
)
from lessons_lib.cli.html_report import ProgramReport
from lessons_lib.common import runtime
from lessons_lib.common.files import write_atomically
from lessons_lib.common.interrupts import DeferredSignals
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.tracing import RetracingWatch, watch_retracing
from lessons_lib.recording.pacing import SHARE, WHOLE_EVENTS
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

_UNUSABLE: Final = 2
#: Variables that TensorFlow reads when it is loaded, by the beginning of their name.
_READ_EARLY: Final = ("TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "ONEDNN_")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lessons_lib", description="Measure TensorFlow's memory."
    )
    parser.add_argument("--version", action="version", version=f"lessons_lib {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,lessons}")
    commands.add_parser("lessons", add_help=False, help="open the lessons in JupyterLab")
    run = commands.add_parser(
        "run",
        usage="python -m lessons_lib run [-o FILE] [-s PART] (script.py | -m module) [argument …]",
        help="run a program, record its memory, and write a report",
        description="Run a program as Python does, record its memory, and write an HTML report.",
    )
    run.add_argument("-o", "--output", metavar="FILE", help="the report (NAME_memory.html)")
    run.add_argument(
        "-s",
        "--share",
        metavar="PART",
        type=float,
        help="share of the time that watching may take from the first steps on; 1: all (without: "
        f"the first {WHOLE_EVENTS:,} events are watched whole, then {SHARE} of the time)",
    )
    run.add_argument("-m", "--module", action="store_true", help="run a module, as python -m does")
    run.add_argument("program", help="a script, a folder with __main__.py, or a module")
    return parser


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part our own arguments from the program's, which may look like ours."""
    ours: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        ours.append(word)
        if word in ("-o", "--output", "-s", "--share") and rest:
            ours.append(rest.pop(0))
        elif not word.startswith("-") and (word != "run" or "run" in ours[:-1]):
            break  # the program: all that follows is its own
    return ours, rest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if list(words[:1]) == ["lessons"]:
        return lessons.main(words[1:])
    ours, theirs = _split(words)
    options = _parser().parse_args(ours)
    name = options.program if options.module else Path(options.program).stem
    output = Path(options.output or f"{name or 'program'}_memory.html").absolute()
    try:
        run = (
            program.module(options.program, theirs)
            if options.module
            else program.script(options.program, theirs)
        )
        _check_place(output)
        if options.share is not None and not 0 < options.share <= 1:
            raise ValueError(f"--share is over 0 and up to 1, not {options.share}")
    except ValueError as problem:
        print(f"python -m lessons_lib run: {problem}", file=sys.stderr)
        return _UNUSABLE
    command = shlex.join([*(["-m"] if options.module else []), options.program, *theirs])
    return _run(run, command, output, options.share)


def _check_place(output: Path) -> None:
    if output.is_dir():
        raise ValueError(f"{output} is a folder: give the name of a file with --output")
    if not os.access(output.parent, os.W_OK):
        raise ValueError(
            f"the report cannot be written to {output.parent}: give another place with --output"
        )


def _run(program: Callable[[], None], command: str, output: Path, share: float | None) -> int:
    """Run a program, write its report, and give the exit code; its failures are passed on."""
    run = _Run(command, output, share)
    run.begin()
    error: BaseException | None = None
    code = 0
    with before_the_end(run.finish):
        try:
            program()
        except BaseException as raised:  # it is passed on, as Python would
            error = raised
        try:
            code = _pass_on(error)
            if os.getpid() != runtime.home_process:
                return code  # a forked child: the recording and the report are its parent's
            wait_for_threads()
        except KeyboardInterrupt as late:
            error = error or late
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # it came before it could be answered
                run.finish(_outcome(error), _failure(error))
                break
    if isinstance(error, KeyboardInterrupt):
        sys.excepthook = lambda *_: None  # it has been printed
        raise error
    return code


class _Run:
    """A recorded run of a program, which is finished once."""

    def __init__(self, command: str, output: Path, share: float | None) -> None:
        self._share = share
        self._command = command
        self._output = output
        self._settings = _early_settings()
        self._stack = contextlib.ExitStack()
        self._lock = threading.RLock()
        self._recording: Recording | None = None
        self._traces: RetracingWatch | None = None
        self._problem = ""
        self._done = False

    def begin(self) -> None:
        """Begin to record; a program that cannot be recorded is run all the same."""
        self._traces = self._stack.enter_context(watch_retracing())
        try:
            self._recording = self._stack.enter_context(record(self._command, share=self._share))
        except ProfileError as problem:
            self._problem = str(problem)

    def finish(self, outcome: str, failure: str = "") -> None:
        """End the recording and write the report."""
        waiting = f"the report is being written to {self._output}"
        with self._lock, DeferredSignals(), ignoring_interrupts(waiting), progress(waiting):
            if self._done:
                return
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            with contextlib.suppress(ProfileError):  # the recording has a note of it
                self._stack.close()
            self._done = True
            say(self._report(outcome, failure))

    def _report(self, outcome: str, failure: str) -> str:
        """Write the report; give what is to be said about it."""
        if self._recording is None:
            return f"nothing was recorded: {self._problem}"
        peak = f"peak {format_bytes(self._recording.peak_bytes)}"
        try:
            report = ProgramReport(
                command=self._command,
                recording=self._recording,
                traces=self._traces,
                outcome=outcome,
                failure=failure,
                notes=tuple(_setting_notes(self._settings)),
            )
            write_atomically(self._output, report.html())
        except OSError as problem:
            return f"{peak}; there is no report: {problem.strerror or problem}"
        except MemoryError:
            return f"{peak}; there is no report: there was too little memory to make it"
        return f"{peak}; report: {self._output}"


def _early_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_READ_EARLY)}


def _setting_notes(before: dict[str, str]) -> Iterator[str]:
    after = _early_settings()
    for name in sorted(after.keys() | before.keys()):
        if after.get(name) != before.get(name):
            yield (
                f"The program changed {name} after TensorFlow was loaded, which had no effect: "
                "set it in the shell."
            )


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Skip this package's and the import system's frames at the outer end of a traceback."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((here, "<frozen")):
            return trace
        trace = trace.tb_next
    return None


def _traceback(error: BaseException) -> str:
    trace = _own_frames(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _outcome(error: BaseException | None) -> str:
    match error:
        case None:
            return "The program ran to its end."
        case SystemExit(code=None | 0):
            return "The program ended by sys.exit, with exit code 0."
        case SystemExit(code=int(code)):
            return f"The program ended by sys.exit, with exit code {code}."
        case SystemExit(code=message):
            return f"The program ended by sys.exit, with exit code 1: {message}"
        case KeyboardInterrupt():
            return "The program was interrupted."
        case _:
            return f"The program raised {type(error).__name__}."


def _failure(error: BaseException | None) -> str:
    return "" if error is None or isinstance(error, SystemExit) else _traceback(error)


def _pass_on(error: BaseException | None) -> int:
    """Print what Python would print, and give the exit code."""
    match error:
        case None:
            return 0
        case SystemExit():
            return _exit_code(error.code)
        case _:
            error = error.with_traceback(_own_frames(error.__traceback__))
            sys.excepthook(type(error), error, error.__traceback__)
            return 1


def _exit_code(code: object) -> int:
    match code:
        case None:
            return 0
        case int():
            return code & 0xFF if os.name == "posix" else code
        case _:
            print(code, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
