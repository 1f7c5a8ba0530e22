"""Run a script or a module as Python's command line does.

What the program can see of how it was started (``sys.argv``, ``sys.path[0]``, ``__main__`` and its
names) is as without this package.  Nothing is measured here.
"""

from __future__ import annotations

import importlib.util
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any


def script(path: str, arguments: Sequence[str]) -> Callable[[], None]:
    """Prepare to run a script, or a folder or archive that holds a ``__main__.py``.

    Raises
    ------
    ValueError
        If there is no such file; then nothing was changed.
    """
    if not os.path.exists(path):
        raise ValueError(
            f"there is no file {path!r}: give the path of a script, or -m and a module"
        )
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise ValueError(f"the folder {path!r} has no __main__.py: give the path of a script")

    def run() -> None:
        sys.argv[:] = [path, *arguments]
        if os.path.isdir(path) or not _is_source(path):
            _first_on_path(None)
            runpy.run_path(path, run_name="__main__")
            return
        _first_on_path(os.path.dirname(os.path.realpath(path)))
        _run_source(os.path.abspath(path))

    return run


def module(name: str, arguments: Sequence[str]) -> Callable[[], None]:
    """Prepare to run a module, as ``python -m`` does.

    Raises
    ------
    ValueError
        If there is no such module; then nothing was run but its parent packages.
    """
    _first_on_path(os.getcwd())
    spec, why = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec, why = _find(f"{name}.__main__")
        why = why or f"; the package {name} cannot be run itself"
    loader: Any = None if spec is None else spec.loader
    if spec is None or not hasattr(loader, "get_code"):
        raise ValueError(
            f"there is no module named {name!r} that could be run{why}: "
            "give a name that can be imported"
        )

    def run() -> None:
        sys.argv[:] = [spec.origin or name, *arguments]
        # Compiling it belongs to the run: an error in it is the program's.
        _run_code(
            loader.get_code(spec.name),
            __file__=spec.origin,
            __cached__=spec.cached,
            __loader__=loader,
            __package__=spec.parent,
            __spec__=spec,
        )

    return run


def _find(name: str) -> tuple[ModuleSpec | None, str]:
    try:
        return importlib.util.find_spec(name), ""
    except (ImportError, ValueError, AttributeError) as error:
        return None, f" ({error})"


def _is_source(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) not in (b"PK\x03\x04", importlib.util.MAGIC_NUMBER)


def _first_on_path(folder: str | None) -> None:
    """Replace what ``python -m lessons_lib`` put first; with -P or -I it put nothing there."""
    if sys.flags.safe_path:
        return
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    if folder is not None:
        sys.path.insert(0, folder)


def _run_source(path: str) -> None:
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    _run_code(
        code,
        __file__=path,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", path),
        __package__=None,
        __spec__=None,
    )


def _run_code(code: Any, **names: Any) -> None:
    # Not runpy: it would take __main__ away at the end, and with it what the program keeps.
    main = ModuleType("__main__")
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__dict__.update(names, __builtins__=sys.modules["builtins"])
    sys.modules["__main__"] = main
    exec(code, main.__dict__)
