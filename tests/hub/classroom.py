"""A hub with learners, as `binder/jupyterhub_config.py` sets it up, for tests and for sizing.

The learners are users of the system that are made for this and removed afterwards, with passwords
of chance.  The hub and its proxy listen on loopback.  It needs Linux and root.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.browser.server import free_port
from tests.support.notebooks import ROOT

CONFIG = ROOT / "binder" / "jupyterhub_config.py"
START_SECONDS = 120
CELL_SECONDS = 120


def missing() -> str:
    """Say what this machine lacks for a class; empty when nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a class needs Linux, and root to start servers as other users"
    for program in ("useradd", "userdel", "chpasswd", "configurable-http-proxy"):
        if shutil.which(program) is None:
            return f"{program} is not installed (see tests/hub/requirements.txt)"
    try:
        subprocess.run([sys.executable, "-c", ""], user="nobody", check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return f"other users may not run {sys.executable}"
    try:
        page = str(ROOT / "README.md")
        subprocess.run(["cat", page], user="nobody", check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return f"other users may not read {ROOT}"
    return ""


@dataclass
class Said:
    """What a cell led to: its text, and the name of its error (empty: none)."""

    text: str = ""
    error: str = ""


@dataclass
class Learner:
    """A user who is logged in and whose server runs."""

    name: str
    address: str
    token: str
    start_seconds: float
    kernel: str = field(default="")

    def get(self, path: str) -> requests.Response:
        """Ask the hub for a path with this learner's token."""
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"token {self.token}"}
        return requests.request(
            method, f"{self.address}{path}", headers=headers, timeout=60, **options
        )

    def start_kernel(self) -> None:
        """Start a kernel of one's own."""
        answer = self._ask("POST", f"/user/{self.name}/api/kernels", json={"name": "python3"})
        answer.raise_for_status()
        self.kernel = answer.json()["id"]

    def run(self, *cells: str) -> list[Said]:
        """Run cells in the kernel, one after another."""
        return asyncio.run(self._run(cells))

    async def _run(self, cells: tuple[str, ...]) -> list[Said]:
        address = self.address.replace("http", "ws", 1)
        path = f"/user/{self.name}/api/kernels/{self.kernel}/channels"
        request = HTTPRequest(f"{address}{path}", headers={"Authorization": f"token {self.token}"})
        socket = await websocket_connect(request)
        try:
            return [await asyncio.wait_for(_cell(socket, code), CELL_SECONDS) for code in cells]
        finally:
            socket.close()


async def _cell(socket: Any, code: str) -> Said:
    number = uuid.uuid4().hex
    header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": number}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = {"header": header | {"version": "5.3"}, "parent_header": {}, "metadata": {}}
    await socket.write_message(json.dumps(message | {"content": content, "channel": "shell"}))
    said = Said()
    # Output and reply come by two ways; only both together say that nothing more follows.
    open_ways = {"reply", "output"}
    while open_ways:
        text = await socket.read_message()
        if text is None:
            said.error = said.error or "the connection ended"
            return said
        answer = json.loads(text)
        if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "restarting":
            said.error = "the kernel died"
            return said
        if answer.get("parent_header", {}).get("msg_id") != number:
            continue
        match answer["msg_type"]:
            case "stream":
                said.text += answer["content"]["text"]
            case "error":
                said.error = answer["content"]["ename"]
            case "execute_reply":
                open_ways.discard("reply")
            case "status" if answer["content"]["execution_state"] == "idle":
                open_ways.discard("output")
    return said


@dataclass(frozen=True)
class Classroom:
    """A running hub: its address, its process and its learners' passwords."""

    address: str
    process: subprocess.Popen[bytes]
    passwords: dict[str, str]

    def login(self, name: str) -> Learner:
        """Log a learner in as a browser does, start the server and wait for it."""
        session = requests.Session()
        page = f"{self.address}/hub/login"
        session.get(page, timeout=30)
        form = {"username": name, "password": self.passwords[name], "_xsrf": _xsrf(session)}
        answer = session.post(page, data=form, timeout=60, allow_redirects=False)
        if answer.status_code != 302:
            raise PermissionError(f"{name} can't log in: {answer.status_code}")
        headers = {"X-XSRFToken": _xsrf(session), "Referer": page}
        user = f"{self.address}/hub/api/users/{name}"
        made = session.post(f"{user}/tokens", headers=headers, json={}, timeout=30)
        made.raise_for_status()
        token = made.json()["token"]
        begun = time.perf_counter()
        own = {"Authorization": f"token {token}"}
        requests.post(f"{user}/server", headers=own, timeout=90).raise_for_status()
        while time.perf_counter() - begun < START_SECONDS:
            servers = requests.get(user, headers=own, timeout=30).json().get("servers", {})
            if servers.get("", {}).get("ready"):
                return Learner(name, self.address, token, time.perf_counter() - begun)
            time.sleep(0.2)
        raise TimeoutError(f"the server of {name} does not start")


def _xsrf(session: requests.Session) -> str:
    return next(cookie.value or "" for cookie in session.cookies if cookie.name == "_xsrf")


@contextmanager
def classroom(folder: Path, learners: int, data_mib: int = 1280) -> Iterator[Classroom]:
    """Make users, start hub and proxy; stop and remove everything afterwards.

    Parameters
    ----------
    folder : Path
        Where the hub keeps its state; nobody else may read it.
    learners : int
        How many users.
    data_mib : int
        Limit on a process's own memory, in MiB.
    """
    folder.chmod(0o700)
    mark = secrets.token_hex(2)
    passwords = {f"class{mark}{number}": secrets.token_hex(8) for number in range(1, learners + 1)}
    port = free_port()
    own = {
        "CLASS_PORT": str(port), "CLASS_USERS": ",".join(passwords), "CLASS_STATE": str(folder),
        "CLASS_DATA_MIB": str(data_mib), "CLASS_IDLE_SECONDS": "0", "PYTHONPATH": str(ROOT),
        "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16), "CLASS_PROXY_PORT": str(free_port()),
        "CLASS_HUB_PORT": str(free_port()),
    }  # fmt: skip
    process = None
    try:
        for name, password in passwords.items():
            subprocess.run(["useradd", "-m", "-s", "/bin/bash", name], check=True)
            subprocess.run(["chpasswd"], input=f"{name}:{password}", text=True, check=True)
        with (folder / "hub.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(CONFIG)],
                cwd=folder, env=os.environ | own, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        room = Classroom(f"http://127.0.0.1:{port}", process, passwords)
        _wait(room, folder / "hub.log")
        yield room
    finally:
        if process is not None:
            _stop(process)
        for name in passwords:
            _end_processes(name)
            subprocess.run(["userdel", "-r", name], check=False, capture_output=True)


def _wait(room: Classroom, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while room.process.poll() is None and time.monotonic() < deadline:
        try:
            if requests.get(f"{room.address}/hub/api", timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.2)
    raise RuntimeError(f"the hub does not answer. It said:\n{log.read_text()[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        # The session is the hub's own, so this ends the proxy too and nothing else.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processes_of(name: str) -> list[int]:
    """List the processes that belong to a user."""
    import pwd

    number = pwd.getpwnam(name).pw_uid
    found = []
    for entry in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", entry.name):
            try:
                owner = entry.stat().st_uid
            except OSError:
                continue
            if owner == number:
                found.append(int(entry.name))
    return found


def _end_processes(name: str) -> None:
    try:
        left = processes_of(name)
    except KeyError:
        return  # the user was never made
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
