"""Build an image's environment without a container and run all lessons there, on demand.

``python -m tests.tools.binder_check --python python3.12`` copies what git has of the project into a
folder of its own, makes an environment with what repo2docker puts into each image, runs the build's
own steps there (pip, then ``binder/postBuild``), starts JupyterLab through ``binder/start``, and
runs every lesson.  A watchdog ends a kernel whose proportional set size goes over 1.5 GiB.
Printed are the installed size and the time to the first result.  It needs Linux, some minutes and
2 GB of disk; ``--folder`` keeps the environment for a second run.  Sizes are bytes, times seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.notebooks import ROOT, lesson_paths

LIMIT_BYTES = 3 * 1024**3 // 2
POLL_SECONDS = 0.2
#: What repo2docker 2026.4 installs below the project's own requirements, with conda there.
BASE = (
    "jupyterlab==4.4.9", "notebook==7.4.7", "ipywidgets==8.1.7", "jupyter_server==2.17.0",
    "jupyterhub==5.4.0", "jupyter-resource-usage==1.2.0", "jupyter-offlinenotebook==0.3.2",
)  # fmt: skip


def proportional_bytes(pid: int) -> int:
    """Read a process's proportional set size; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


class Watchdog(threading.Thread):
    """Watch all processes below this one, and end one that takes more than the limit.

    Attributes
    ----------
    peak_bytes : int
        The highest proportional set size of one process so far.
    ended : list of int
        Processes that were over the limit.
    """

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        super().__init__(daemon=True)
        self.limit = limit
        self.peak_bytes = 0
        self.ended: list[int] = []
        self._stop_now = threading.Event()

    def run(self) -> None:
        import psutil

        here = psutil.Process()
        while not self._stop_now.wait(POLL_SECONDS):
            for child in here.children(recursive=True):
                size = proportional_bytes(child.pid)
                self.peak_bytes = max(self.peak_bytes, size)
                if size > self.limit:
                    self.ended.append(child.pid)
                    child.kill()

    def stop(self) -> None:
        """End watching."""
        self._stop_now.set()
        self.join()


def run_lessons(limit: int = LIMIT_BYTES) -> int:
    """Run all lessons with this Python, each under a watchdog; return how many failed.

    Printed for each: time, the time of its first cell, and the kernel's highest size.
    """
    from tests.tools.execute import run

    failed = 0
    for path in lesson_paths():
        watchdog = Watchdog(limit)
        watchdog.start()
        begun = time.perf_counter()
        try:
            result = run(path)
            said = f"{result.import_seconds:4.1f} s import + {result.seconds:5.1f} s"
        except Exception as error:  # whatever ended it, the next lesson is still of interest
            failed += 1
            said = f"FAILED after {time.perf_counter() - begun:.1f} s: {str(error)[-600:]}"
        finally:
            watchdog.stop()
        over = " OVER THE LIMIT" if watchdog.ended else ""
        print(f"{path.name:<40} {watchdog.peak_bytes / 2**20:5.0f} MiB  {said}{over}", flush=True)
    return failed


def build(folder: Path, python: str) -> Path:
    """Make the environment in a folder, as an image's build does; return its Python."""
    project, environment = folder / "project", folder / "environment"
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project / name)
    inside = environment / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        _timed("base", [str(inside), "-m", "pip", "install", "-q", *BASE], project)
    steps = [str(inside), "-m", "pip", "install", "-q", "--no-cache-dir"]
    _timed("requirements", [*steps, "-r", "binder/requirements.txt"], project)
    _timed("postBuild", ["binder/postBuild"], project, environment)
    subprocess.run([str(inside), "-m", "pip", "check"], check=False)
    return inside


def _inside(environment: Path | None) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "PYTHON", "PYTEST"))
    }
    if environment is not None:
        kept["NB_PYTHON_PREFIX"] = str(environment)
        kept["PATH"] = f"{environment / 'bin'}{os.pathsep}{kept['PATH']}"
    return kept


def _timed(what: str, command: list[str], folder: Path, environment: Path | None = None) -> None:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=_inside(environment), check=True)
    print(f"{what}: {time.perf_counter() - begun:.0f} s", flush=True)


def size_of(environment: Path) -> int:
    """Add up what an environment's files take."""
    return sum(
        path.stat().st_size
        for path in environment.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def first_page(folder: Path, environment: Path) -> tuple[float, str]:
    """Start the server as an image does; give the seconds to its first answer, and its page."""
    from tests.browser.server import free_port

    port, begun = free_port(), time.perf_counter()
    command = ["binder/start", "jupyter", "notebook", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=only-here"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder / "project", env=_inside(environment), stdout=log, stderr=log
        )
        try:
            while time.perf_counter() - begun < 90:
                try:
                    address = f"http://127.0.0.1:{port}/?token=only-here"
                    with urllib.request.urlopen(address, timeout=10) as answer:
                        return time.perf_counter() - begun, answer.url
                except urllib.error.HTTPError as error:
                    return time.perf_counter() - begun, f"{error.url}: {error}"
                except OSError:
                    time.sleep(0.1)
        finally:
            process.terminate()
            process.wait(30)
    raise RuntimeError((folder / "server.log").read_text()[-2000:])


def main(arguments: list[str] | None = None) -> int:
    """Build, start, and run the lessons; return 0 when all is well."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.binder_check", description=__doc__)
    parser.add_argument("--python", default="python3.12", help="the image's Python")
    parser.add_argument("--folder", type=Path, help="where to build, and keep what was built")
    parser.add_argument("--run-lessons", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run_lessons:
        return run_lessons()
    if options.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            return check(Path(folder), options.python)
    options.folder.mkdir(parents=True, exist_ok=True)
    return check(options.folder.resolve(), options.python)


def check(folder: Path, python: str) -> int:
    """Build in a folder and check what was built."""
    inside = build(folder, python)
    environment = inside.parent.parent
    print(f"installed: {size_of(environment) / 1e9:.2f} GB")
    settings = json.loads((ROOT / "binder" / "first_page.json").read_text(encoding="utf-8"))
    wanted = settings["LabApp"]["default_url"]
    seconds, page = first_page(folder, environment)
    print(f"server answers after {seconds:.1f} s at {page.partition('?')[0]}")
    begun = time.perf_counter()
    first = "import lessons_lib as ll; ll.preflight()"
    subprocess.run([str(inside), "-c", first], cwd=folder, env=_inside(environment), check=True)
    print(f"time to the first result: server + {time.perf_counter() - begun:.1f} s", flush=True)
    command = ["binder/start", str(inside), "-m", "tests.tools.binder_check", "--run-lessons"]
    failed = subprocess.run(
        command, cwd=folder / "project", env=_inside(environment), check=False
    ).returncode
    if wanted not in page:
        print(f"the first page is {page}, and not {wanted}")
    return int(bool(failed) or wanted not in page)


if __name__ == "__main__":
    sys.exit(main())
