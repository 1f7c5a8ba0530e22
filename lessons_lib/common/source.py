"""Source lines: which line of the user's own code a Python frame belongs to.

"The user's own code" is every file and notebook cell that is neither the standard library, nor an
installed package, nor this package, nor code that was generated: a line of AutoGraph's counts as
the line that it was made from.  Lines are named by file and number, and in a notebook by cell and
number.  `user_place` finds the innermost line of the user's in every kind of stack.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any, Final, NamedTuple

from lessons_lib.common.internals import autograph_lines, cell_numbers

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY: Final = tuple(
    os.path.realpath(path) + os.sep
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if path
)
# Programs of this package that learners read and measure: for them these are the user's code.
_SHOWN: Final = frozenset(
    os.path.join(_PACKAGE, "teaching", *parts)
    for parts in (("exercises", "lessons", "capstone.py"), ("clinic_programs.py",))
)
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# A folder and a file of TensorFlow: both say that code was rewritten by AutoGraph.
_AUTOGRAPH: Final = f"{os.sep}autograph"
_GENERATED: Final = "__autograph_generated_file"
# The program of `python -c`; in any other one it is what a library has generated and executed, as
# dataclasses do.
_COMMAND: Final = "<string>" if sys.argv[:1] == ["-c"] else None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of source code.

    Attributes
    ----------
    file : str
        Path of the file, or the name that Python gives to a notebook cell.
    number : int
        Line number, from 1.
    text : str
        The line itself without surrounding blanks; empty when it cannot be read.
    cell : int or None
        Number of the notebook cell (``In [cell]``), or None for a file.
    """

    file: str
    number: int
    text: str = ""
    cell: int | None = None

    def __str__(self) -> str:
        where = f"In [{self.cell}]" if self.cell is not None else os.path.basename(self.file)
        return f"{where}:{self.number}"

    @property
    def described(self) -> str:
        """Place and text, for tables: ``train.py:12  y = tf.tanh(x)``."""
        return f"{self}  {self.text}".rstrip()


class Place(NamedTuple):
    """A line by its facts alone: cheap to note, and nothing is kept alive."""

    file: str
    number: int

    def line(self) -> Line:
        """Read the line."""
        return line_of(self.file, self.number)


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Tell whether a file name, as code objects carry it, is the user's own code."""
    if filename.startswith("<ipython-input"):
        return True
    if filename.startswith("<frozen") or _GENERATED in filename:
        return False
    if filename.startswith("<"):
        return filename in ("<stdin>", _COMMAND)
    path = os.path.abspath(filename)
    if path in _SHOWN:
        return True
    if any(part in path for part in _INSTALLED) or path.startswith(_PACKAGE):
        return False
    return not os.path.realpath(path).startswith(_LIBRARY)


@lru_cache(maxsize=256)
def _origins(filename: str) -> dict[int, Place]:
    """Map the lines of a file that AutoGraph generated to those that they were made from."""
    return {number: Place(*origin) for number, origin in autograph_lines(filename).items()}


def _origin(filename: str, number: int) -> Place | None:
    """Give the line that a generated one was made from; for what has none, the one above it."""
    origins = _origins(filename)
    above = max((line for line in origins if line <= number), default=None)
    return None if above is None else origins[above]


def is_users(filename: str) -> bool:
    """Tell whether a file is the user's own code, or was generated from it."""
    if _GENERATED in filename:
        return any(is_user_file(origin.file) for origin in _origins(filename).values())
    return is_user_file(filename)


def user_place(frames: Iterable[tuple[str, int]]) -> Place | None:
    """Find the innermost line of the user's own code.

    Parameters
    ----------
    frames : iterable of (str, int)
        File names and line numbers, innermost first; see `frames_at`.
    """
    return next(user_places(frames), None)


def user_places(frames: Iterable[tuple[str, int]]) -> Iterator[Place]:
    """Find the lines of the user's own code, from the innermost outwards."""
    for filename, number in frames:
        if not is_users(filename):
            continue
        if _GENERATED not in filename:
            yield Place(filename, number)
            continue
        origin = _origin(filename, number)
        if origin is not None and is_user_file(origin.file):
            yield statement_of(origin)


def frames_at(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """Give file names and line numbers of a frame and of those around it."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def local_of(frame: FrameType, name: str) -> Any:
    """Give a variable of a running function of a library, or None; leaves no copy of it behind."""
    values = frame.f_locals
    value = values.get(name)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # Up to Python 3.12 this dictionary stays with the frame and would keep its objects alive.
        values.clear()
    return value


def user_place_in_trace(trace: Iterable[Any]) -> Place | None:
    """Find the innermost line of the user's in a stack that TensorFlow or Python extracted.

    Parameters
    ----------
    trace : iterable
        With ``filename`` and ``lineno``, outermost first.
    """
    frames = [(frame.filename, frame.lineno or 0) for frame in trace]
    place = user_place(reversed(frames))
    if place is not None and is_converted(filename for filename, _ in frames):
        return statement_of(place)
    return place


def is_converted(filenames: Iterable[str]) -> bool:
    """Tell whether a stack passes through AutoGraph, which knows statements, not their lines."""
    return any(_AUTOGRAPH in filename for filename in filenames)


def cell_of(filename: str) -> int | None:
    """Give the number of the notebook cell that a code object's file name stands for."""
    if filename.startswith("<ipython-input-"):
        digits = filename[len("<ipython-input-") :].split("-", 1)[0]
        return int(digits) if digits.isdigit() else None
    return cell_numbers().get(filename)


def line_of(filename: str, number: int) -> Line:
    """Make a `Line` from a file name and a line number; the text is read from the source."""
    linecache.checkcache(filename)  # it may have been edited since
    return Line(filename, number, linecache.getline(filename, number).strip(), cell_of(filename))


def statement_of(place: Place) -> Place:
    """Give the first line of the simple statement that a line lies in, or the line itself.

    For lines that are known only as far as the statement, as AutoGraph's are: it writes each
    statement anew on one line.
    """
    text = "".join(linecache.getlines(place.file))
    return Place(place.file, _statements(text).get(place.number, place.number))


@lru_cache(maxsize=64)
def _statements(text: str) -> dict[int, int]:
    """Map each line of a simple statement over several lines to the first of them."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a cell with magics, say
        return {}
    return {
        number: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }


def user_line_of_frame(frame: FrameType | None) -> Line | None:
    """Give the innermost line of the user's own code at or outside a frame."""
    place = user_place(frames_at(frame))
    return None if place is None else place.line()


def definition_of(function: Any) -> Place | None:
    """Find where the user defined a function, below what decorators and TensorFlow put around."""
    for _ in range(8):
        code = getattr(function, "__code__", None)
        if code is not None and is_user_file(code.co_filename):
            return Place(code.co_filename, code.co_firstlineno)
        function = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
    return None
