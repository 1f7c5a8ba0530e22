"""A JupyterLab of our own on loopback, with a copy of the lessons.

Nothing that it or a lesson writes lands in the project or in the user's own Jupyter folders: all
of it goes into the folder that is given.  It has a token, and a port that was free.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lessons_lib.cli.lessons import SETTINGS
from tests.support.notebooks import LESSONS

PROGRESS = "progress.json"  # what a learner has solved
START_SECONDS = 90
STOP_SECONDS = 20

#: For the tests alone: all cells are in the page at once, also those out of sight, so that every
#: picture can be looked at.
IN_FULL = {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its address, its token and the folder with the lessons."""

    address: str
    token: str
    lessons: Path

    def page(self, notebook: str) -> str:
        """Give the address at which a notebook opens, without what was open before."""
        return f"{self.address}/lab/tree/{notebook}?reset&token={self.token}"


def free_port() -> int:
    """Find a port on loopback that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def jupyterlab(folder: Path, python: str = sys.executable) -> Iterator[Server]:
    """Start JupyterLab with a copy of the lessons, and stop it and all its kernels afterwards.

    Parameters
    ----------
    folder : Path
        An empty folder, for everything that is written.
    python : str
        The Python whose JupyterLab it is.

    Raises
    ------
    RuntimeError
        If it does not answer in time; with the end of what it logged.
    """
    lessons = folder / "lessons"
    shutil.copytree(LESSONS, lessons, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    _settings(folder)
    command = [python, "-m", "jupyterlab", "--allow-root", f"--ServerApp.root_dir={lessons}"]
    with started(folder, lessons, command) as server:
        yield server


@contextmanager
def started(folder: Path, lessons: Path, command: list[str]) -> Iterator[Server]:
    """Start a command that goes over to JupyterLab, in the lessons' folder; stop it afterwards."""
    port, token = free_port(), secrets.token_hex(16)
    command = [*command, "--no-browser", "--expose-app-in-browser", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=lessons, env=_environment(folder), stdout=out, stderr=out,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        server = Server(f"http://127.0.0.1:{port}", token, lessons)
        _wait(server, process, log)
        yield server
    finally:
        process.terminate()  # it ends its kernels, then itself
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _settings(folder: Path) -> None:
    labconfig = folder / "config" / "labconfig"
    labconfig.mkdir(parents=True)
    overrides = json.dumps(SETTINGS | IN_FULL)
    (labconfig / "default_setting_overrides.json").write_text(overrides, encoding="utf-8")


def _environment(folder: Path) -> dict[str, str]:
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "LESSONS_LIB_PROGRESS": PROGRESS,
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "PYTEST"))
    }
    return kept | {name: str(folder / place) for name, place in own.items()}


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{server.address}/api?token={server.token}", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    raise RuntimeError(f"JupyterLab does not answer at {server.address}. It said:\n{said}")
