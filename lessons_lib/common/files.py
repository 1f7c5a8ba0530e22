"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write text so that the file is either as it was or complete; make its folder if need be.

    Raises
    ------
    TypeError, ValueError
        If the path cannot be the name of a file.
    OSError
        Of the system's own class, if it could not be written.
    """
    target = _target(path)
    folder = os.path.dirname(target)
    try:
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".lessons_lib-")
    except OSError as error:
        raise _said(error, target) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes a private file; an ordinary one follows the user's mask.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise _said(error, target) from None
        raise


def _target(path: str | os.PathLike[str]) -> str:
    # Not a number: to Python's own open, 3 is a descriptor that someone has opened.
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a file is written to a path, not to {path!r}: give its name as text")
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file: give one, such as 'recording.json'")
    if os.path.isdir(name):
        raise IsADirectoryError(
            21, f"{name} is a folder: give the name of a file in it, such as 'recording.json'"
        )
    return os.path.abspath(name)


def _said(error: OSError, target: str) -> OSError:
    reason = error.strerror or type(error).__name__
    text = f"{target} could not be written ({reason}): give another place, or make room there"
    # The same class, so that a full disk can be told from a folder that may not be written.
    return type(error)(error.errno, text)
