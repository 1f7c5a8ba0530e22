"""However a program ends under `run`: its own exit code and output, a report, nothing left over.

The children run side by side: most of their time is the import of TensorFlow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import os, signal, subprocess, sys, time
import tensorflow as tf
kept = tf.fill([2**20], 1.0)
# What was there before a handler of its own is put back, as programs do: the default.
before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGTERM, before)
ten, one = tf.constant([10]), tf.constant(1.0)
print("begun", flush=True)
"""
#: What each program does when it has begun.
PROGRAMS = {
    "killed": "while True: tf.fill([10], 1.0); time.sleep(0.01)",
    "asked to end": "while True: tf.fill([10], 1.0); time.sleep(0.01)",
    # TensorFlow itself crashes when an interrupt comes while it makes a tensor of a list.
    "interrupted": (
        "try:\n    while True: tf.fill(ten, one); time.sleep(0.01)\n"
        "finally:\n    print('own end', flush=True)"
    ),
    "os._exit": "print('last', flush=True); os._exit(7)",
    # A child that is killed, a full temporary folder, little memory, and an exit code.
    "in trouble": """
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
child.kill()
print(child.wait(), flush=True)
with open(os.path.join(os.environ['TMPDIR'], 'fill'), 'wb', 0) as file:
    try:
        for i in range(int(sys.argv[1])): file.write(bytes(2**20))
    except OSError: pass
import resource
grown = int(open('/proc/self/statm').read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (grown + 2**26, -1))
for i in range(100): tf.fill([10], 1.0)
sys.exit(3)
""",
}
#: How each ends: its exit code, what it prints, what its report says.
ENDS = {
    "asked to end": (-15, "begun\n", "ended by SIGTERM"),
    "interrupted": (-2, "begun\nown end\n", "was interrupted"),
    "os._exit": (7, "begun\nlast\n", "os._exit, with exit code 7"),
    "in trouble": (3, "begun\n-9\n", "with exit code 3"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.child,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals, tmpfs"),
]


class Child:
    """A program under `run`."""

    def __init__(self, folder: Path, name: str, temporary: Path) -> None:
        place = folder / name.replace(" ", "_")
        place.mkdir()
        (place / "program.py").write_text(BEGIN + PROGRAMS[name])
        self.report = place / "report.html"
        fill = "100" if os.path.ismount(temporary) else "0"
        self._out = place / "out"
        with self._out.open("w") as out, (place / "err").open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *"-m lessons_lib run -o report.html program.py".split(), fill],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
                stdout=out,
                stderr=err,
            )

    def wrote(self, text: str, where: str = "out") -> None:
        """Wait until it has written a text."""
        ended = False
        while text not in self._out.with_name(where).read_text():
            assert not ended, self._out.with_name("err").read_text()
            ended = self.process.poll() is not None
            time.sleep(0.05)

    def ended(self) -> tuple[int, str, str]:
        code = self.process.wait(timeout=300)
        return code, self._out.read_text(), self._out.with_name("err").read_text()


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """Give a temporary folder: a small file system of its own where that is allowed."""
    place = tmp_path / "temporary"
    place.mkdir()
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", place],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    yield place
    if mounted:
        subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.further
def test_however_a_program_ends(tmp_path: Path, temporary: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    killed = Child(tmp_path, "killed", other)
    killed.wrote("begun")
    killed.process.send_signal(signal.SIGKILL)
    killed.ended()
    assert list(other.glob("lessons_lib-*"))

    children = {
        name: Child(tmp_path, name, temporary if name == "in trouble" else other) for name in ENDS
    }
    for child in children.values():
        child.wrote("begun")
    children["asked to end"].process.send_signal(signal.SIGTERM)
    interrupted = children["interrupted"]
    interrupted.process.send_signal(signal.SIGINT)
    interrupted.wrote("KeyboardInterrupt", "err")  # and now the report is being written
    interrupted.process.send_signal(signal.SIGINT)
    for name, child in children.items():
        code, out, err = child.ended()
        assert (code, out) == ENDS[name][:2], (name, err)
        page = child.report.read_text(encoding="utf-8")
        assert ENDS[name][2] in page, name
        assert "4 MiB" in page, name
        assert ("Traceback" in err) == (name == "interrupted")
        assert err.count("KeyboardInterrupt") == (name == "interrupted")
        assert err.splitlines()[-1] == f"lessons_lib: peak 4 MiB; report: {child.report}"
    # What the killed one left went when the next ones began; they left nothing.
    assert list(other.glob("lessons_lib-*")) == list(temporary.glob("lessons_lib-*")) == []
