"""Source lines: which line of the user's own code a Python frame belongs to.

"The user's own code" is every file and notebook cell that is neither the standard library, nor an
installed package, nor this package, nor code that Python or AutoGraph generated.  Lines are named
by file and number, and in a notebook by cell and number.  Nothing here touches TensorFlow.
"""

from __future__ import annotations

import ast
import linecache
import os
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Final

from lessons_lib.common.internals import cell_numbers

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


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Tell whether a file name, as code objects carry it, is the user's own code."""
    if filename.startswith("<ipython-input"):
        return True
    if filename.startswith("<frozen") or "__autograph_generated_file" in filename:
        return False
    if filename.startswith("<"):
        return filename in ("<stdin>", "<string>")
    path = os.path.abspath(filename)
    if path in _SHOWN:
        return True
    if any(part in path for part in _INSTALLED) or path.startswith(_PACKAGE):
        return False
    return not os.path.realpath(path).startswith(_LIBRARY)


def cell_of(filename: str) -> int | None:
    """Give the number of the notebook cell that a code object's file name stands for."""
    if filename.startswith("<ipython-input-"):
        digits = filename[len("<ipython-input-") :].split("-", 1)[0]
        return int(digits) if digits.isdigit() else None
    return cell_numbers().get(filename)


def line_of(filename: str, number: int) -> Line:
    """Make a `Line` from a file name and a line number; the text is read from the source."""
    return Line(filename, number, linecache.getline(filename, number).strip(), cell_of(filename))


def statement_of(line: Line) -> Line:
    """Give the first line of the simple statement that a line lies in, or the line itself.

    For lines that are known only as far as the statement, as AutoGraph's are: it writes each
    statement anew on one line.
    """
    text = "".join(linecache.getlines(line.file))
    first = _statements(text).get(line.number, line.number)
    return line if first == line.number else line_of(line.file, first)


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


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Walk outwards from a frame to the innermost one in the user's own code."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line_of_frame(frame: FrameType | None) -> Line | None:
    """Give the innermost line of the user's own code at or outside a frame."""
    frame = user_frame(frame)
    return None if frame is None else line_of(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def number_in_code(code: CodeType, instruction: int) -> int:
    """Give the line number of a bytecode offset, which is cheaper to store than the line.

    Parameters
    ----------
    code : types.CodeType
        The code object.
    instruction : int
        A frame's ``f_lasti``.
    """
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return number
