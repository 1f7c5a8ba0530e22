"""Open the lessons in JupyterLab: ``python -m lessons_lib lessons``.

A learner works in a copy without outputs, in the folder ``my_lessons`` of the project, which git
ignores.  A second start keeps what was done there: a lesson that was changed is never written over,
and when the project has a newer version of it, that is put beside it.  JupyterLab's root is the
project, so links work; it opens lesson 00, without news.  Other arguments go to JupyterLab.

Images and classes use the same: ``--to FOLDER`` makes the copy elsewhere, with the project's
pages, and ``--then COMMAND ...`` runs that instead of JupyterLab.  They run this file by its path,
so it needs nothing but Python, and does not load TensorFlow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "my_lessons"
FIRST: Final = "00_start_here.ipynb"
_STATE: Final = ".copied.json"
_UNUSABLE: Final = 2
#: What JupyterLab is told: no news, no question about them.
SETTINGS: Final = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    }
}
#: What is copied as it is, besides lessons.
_PAGES: Final = (".md", ".png", ".svg")
#: What a cell has from a run, or only for those who read it.
_OF_A_RUN: Final = ("execution", "jupyter", "collapsed", "scrolled", "ExecuteTime", "trusted")


@dataclass
class Copy:
    """What a start has done in the learner's folder, by the files' names.

    Attributes
    ----------
    folder : Path
        The learner's folder.
    added, updated : list of str
        Files that were not there, and files that nobody had changed and that have a newer version.
    kept : list of str
        Files that the learner changed and that have a newer version; it lies beside them.
    """

    folder: Path
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def said(self) -> str:
        """Say what was done, in a few sentences."""
        parts = []
        if self.added:
            parts.append(f"{len(self.added)} files were copied.")
        if self.updated:
            parts.append(f"New versions: {', '.join(self.updated)}.")
        parts += [
            f"There is a newer version of {name}: yours is kept, and the new one is "
            f"{_beside(name)}."
            for name in self.kept
        ]
        return " ".join([f"Your copy of the lessons is {self.folder}.", *parts])


def find_project() -> Path:
    """Find the project: the current folder, or that of this package.

    Raises
    ------
    FileNotFoundError
        If the lessons are in neither.
    """
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (folder / "notebooks" / FIRST).is_file():
            return folder
    raise FileNotFoundError(
        "the lessons are not here: run this in the folder of the project, which has notebooks/"
    )


def without_outputs(source: bytes) -> bytes:
    """Give a notebook as a learner gets it: no outputs, and nothing that a run left behind."""
    notebook: dict[str, Any] = json.loads(source)
    for cell in notebook["cells"]:
        for key in _OF_A_RUN:
            cell["metadata"].pop(key, None)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    # JupyterLab writes the kernel's version when it opens a notebook: with it, nothing is unsaved.
    notebook["metadata"].setdefault("language_info", {})["version"] = platform.python_version()
    return _written(notebook)


def _written(notebook: dict[str, Any]) -> bytes:
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _version(made: bytes, name: str) -> str:
    """Tell versions of a lesson apart, whatever Python it is for."""
    if name.endswith(".ipynb"):
        notebook = json.loads(made)
        notebook["metadata"]["language_info"].pop("version", None)
        made = _written(notebook)
    return hashlib.sha256(made).hexdigest()


def _beside(name: str) -> str:
    path = Path(name)
    return path.with_name(f"{path.stem}_new{path.suffix}").as_posix()


def _sources(lessons: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(lessons.rglob("*")):
        name = path.relative_to(lessons).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in Path(name).parts):
            continue
        if path.suffix == ".ipynb":
            yield name, without_outputs(path.read_bytes())
        elif path.suffix in _PAGES:
            yield name, path.read_bytes()


def prepare(project: Path, target: Path | None = None) -> Copy:
    """Make the learner's copy, or bring it up to date without touching what was done.

    Parameters
    ----------
    project : Path
        The project's folder.
    target : Path, optional
        Where the copy goes, with the project's pages; by default the project itself.

    Returns
    -------
    Copy
        What was done.

    Raises
    ------
    OSError
        If something cannot be read or written.
    """
    place = project if target is None else target
    folder = place / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    done = Copy(folder)
    state = _read_state(folder)
    for name, made in _sources(project / "notebooks"):
        _bring(done, state, name, made)
    _replace(folder / _STATE, json.dumps(state, indent=1, sort_keys=True).encode())
    settings = folder / ".jupyter" / "labconfig"
    settings.mkdir(parents=True, exist_ok=True)
    _replace(settings / "default_setting_overrides.json", json.dumps(SETTINGS, indent=1).encode())
    if target is not None:
        _bring_pages(project, target)
    return done


def _read_state(folder: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _bring(done: Copy, state: dict[str, dict[str, str]], name: str, made: bytes) -> None:
    """Bring one file; what the learner changed is never written over."""
    path = done.folder / name
    entry = {"version": _version(made, name), "written": hashlib.sha256(made).hexdigest()}
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        done.added.append(name)
    else:
        known = state.get(name, {})
        now = hashlib.sha256(path.read_bytes()).hexdigest()
        if now == entry["written"]:
            state[name] = entry
            return
        if now != known.get("written"):
            if known.get("version") != entry["version"] and not Path(name).stem.endswith("_new"):
                done.kept.append(name)
                _bring(Copy(done.folder), state, _beside(name), made)
            return
        if known.get("version") != entry["version"]:
            done.updated.append(name)
    _replace(path, made)
    state[name] = entry


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _bring_pages(project: Path, target: Path) -> None:
    """Bring the project's pages, and a way to its lessons, so that all links lead somewhere."""
    for page in project.glob("*.md"):
        shutil.copyfile(page, target / page.name)
    link = target / "notebooks"
    if not link.exists():
        try:
            link.symlink_to(project / "notebooks", target_is_directory=True)
        except OSError:  # a system without links
            shutil.copytree(project / "notebooks", link)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lessons_lib lessons",
        usage="python -m lessons_lib lessons [--to FOLDER] [JupyterLab's arguments ...]",
        description="Open the lessons in JupyterLab, in a copy of your own.",
        allow_abbrev=False,
    )
    parser.add_argument("--to", metavar="FOLDER", help="where the copy goes (here)")
    parser.add_argument("--only-copy", action="store_true", help="make the copy, open nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the copy and open it; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    then: list[str] = []
    if "--then" in words:
        place = words.index("--then")
        words, then = words[:place], words[place + 1 :]
    options, rest = _parser().parse_known_args(words)
    try:
        project = find_project()
        target = None if options.to is None else Path(options.to).expanduser().resolve()
        done = prepare(project, target)
    except OSError as problem:
        reason = problem if problem.strerror is None else f"{problem.strerror}: {problem.filename}"
        print(f"python -m lessons_lib lessons: {reason}", file=sys.stderr)
        if not then:
            return _UNUSABLE
        return _become(then, None)  # an image's server starts all the same
    print(done.said(), file=sys.stderr if then else sys.stdout, flush=True)
    if options.only_copy:
        return 0
    return _become(then or _jupyterlab(done.folder, rest), done.folder)


def _jupyterlab(folder: Path, rest: Sequence[str]) -> list[str]:
    root = folder.parent
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command.append(f"--LabApp.default_url=/lab/tree/{FOLDER}/{FIRST}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # a container; JupyterLab refuses otherwise
    return [*command, *rest]


def _become(command: list[str], folder: Path | None) -> int:
    """Go over to a command, with our settings of JupyterLab."""
    environment = dict(os.environ)
    if folder is not None:
        paths = [str(folder / ".jupyter"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
        environment["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    if os.name != "nt":
        os.execvpe(command[0], command, environment)
    return subprocess.call(command, env=environment)  # Windows cannot go over


if __name__ == "__main__":
    sys.exit(main())
