"""JupyterHub for a class on one machine: `jupyterhub -f binder/jupyterhub_config.py`.

Run it as root on Linux, with the project installed in the same Python (see README, "A class").
Each learner is a user of the system and logs in with that user's password, so that the system
itself keeps learners' files and kernels apart.  The hub listens on loopback alone: put a web server
with TLS before it, or an SSH tunnel.  There is no shared or default password.

Settings come from environment variables:

CLASS_PORT, CLASS_HUB_PORT, CLASS_PROXY_PORT
    Ports on loopback: for learners, and for the hub and the proxy among themselves; 8000, 8081 and
    8001 without them.
CLASS_USERS
    Names of the users that may log in, with commas; without it nobody may.
CLASS_DATA_MIB
    How many MiB of memory of its own a process may have: 1280 without it.
CLASS_IDLE_SECONDS
    After how long without use a server is stopped: 3600 without it; 0 never stops one.
CLASS_STATE
    Folder for the hub's database and secrets; the current one without it.

When a learner's server starts, the lessons are copied without outputs into the folder
``tensorflow_memory`` of their home.  What they change there stays; a newer version of a lesson
comes beside it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  JupyterHub brings it

STATE = Path(os.environ.get("CLASS_STATE", ".")).resolve()
DATA_BYTES = int(os.environ.get("CLASS_DATA_MIB", "1280")) * 1024 * 1024
IDLE_SECONDS = int(os.environ.get("CLASS_IDLE_SECONDS", "3600"))
BIN = Path(sys.executable).parent
COPY = Path(__file__).resolve().parents[1] / "lessons_lib" / "cli" / "lessons.py"
HOME_FOLDER = "tensorflow_memory"


class LimitedSpawner(LocalProcessSpawner):
    """Start a learner's server as that learner, with a limit that the kernel of Linux enforces.

    The hub's own ``mem_limit`` is only told to a local server, and enforced by nobody.  A limit on
    the address space would not do: TensorFlow maps far more than it uses.  So the limit is on
    private writable memory (RLIMIT_DATA).  It holds for each process, and so for each kernel.  Over
    it TensorFlow raises an error; the kernel mostly survives, and other learners notice nothing.
    """

    def make_preexec_fn(self, name: str) -> Any:
        """Give what runs in the new process before the server: it takes limits and a user."""
        become = super().make_preexec_fn(name)

        def prepare() -> None:
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
            os.umask(0o077)  # nobody else reads what a learner writes
            become()

        return prepare


c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ.get('CLASS_PORT', '8000')}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ.get('CLASS_HUB_PORT', '8081')}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ.get('CLASS_PROXY_PORT', '8001')}"
c.ConfigurableHTTPProxy.command = ["configurable-http-proxy"]
c.JupyterHub.db_url = f"sqlite:///{STATE / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(STATE / "jupyterhub_cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(STATE / "jupyterhub-proxy.pid")

c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allowed_users = {
    name.strip() for name in os.environ.get("CLASS_USERS", "").split(",") if name.strip()
}

c.JupyterHub.spawner_class = LimitedSpawner
c.Spawner.cmd = [
    sys.executable,
    str(COPY),
    "--to",
    f"~/{HOME_FOLDER}",
    "--then",
    str(BIN / "jupyterhub-singleuser"),
]
c.Spawner.default_url = f"/lab/tree/{HOME_FOLDER}/my_lessons/00_start_here.ipynb"
c.Spawner.notebook_dir = "~"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
# Learners share the processors, so each gets one thread and not one for each processor.
c.Spawner.environment = dict.fromkeys(
    (
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
    ),
    "1",
)

if IDLE_SECONDS:
    c.JupyterHub.services = [
        {
            "name": "idle-culler",
            "command": [
                sys.executable,
                "-m",
                "jupyterhub_idle_culler",
                f"--timeout={IDLE_SECONDS}",
            ],
        }
    ]
    c.JupyterHub.load_roles = [
        {
            "name": "idle-culler",
            "services": ["idle-culler"],
            "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        }
    ]
