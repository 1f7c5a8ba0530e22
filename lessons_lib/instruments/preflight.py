"""`preflight`: whether figures are exact in this process, and what they depend on."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from lessons_lib.common import runtime
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.system import memory_limit, usable_processors
from lessons_lib.common.units import format_bytes
from lessons_lib.recording.recorder import exactness_here


@dataclass(frozen=True, repr=False)
class Preflight(Result):
    """What figures in this process are worth, and what they depend on.

    Attributes
    ----------
    exact : bool
        True when every buffer is reported with its exact size.
    problems : tuple of str
        What stands in the way, each with what to do.
    python, tensorflow, keras : str
        Versions.
    allocator : str
        The allocator that serves tensors; empty when it reports nothing.
    devices : tuple of str
        Devices that TensorFlow sees.
    memory_bytes : int
        Memory that this process may use: the control group's limit where there is one, else the
        machine's.
    memory_from : str
        Where that figure comes from.
    platform : str
        Operating system and processor.
    threads : int
        Processors that this process may use.
    """

    exact: bool
    problems: tuple[str, ...]
    python: str
    tensorflow: str
    keras: str
    allocator: str
    devices: tuple[str, ...]
    memory_bytes: int
    memory_from: str
    platform: str
    threads: int

    def __repr__(self) -> str:
        verdict = "exact" if self.exact else f"not exact: {' '.join(self.problems)}"
        return f"<Preflight: TensorFlow {self.tensorflow}, figures are {verdict}>"


@summary_html.register
def _(result: Preflight) -> str:
    rows = [
        ("figures", "exact, every buffer is seen" if result.exact else "not exact"),
        *(("to do", problem) for problem in result.problems),
        ("TensorFlow, Keras", f"{result.tensorflow}, {result.keras}"),
        ("Python", result.python),
        ("allocator", result.allocator or "does not report"),
        ("devices", ", ".join(result.devices)),
        ("platform", f"{result.platform}, {result.threads} threads"),
        ("memory", f"≈ {format_bytes(result.memory_bytes)} ({result.memory_from})"),
    ]
    return html_table(("preflight", ""), rows, align="ll")


def preflight() -> Preflight:
    """Check whether figures are exact in this process.

    Returns
    -------
    Preflight
        With `exact`, and `problems` that say what to do.
    """
    tf = runtime.tf
    runtime.require_home_process()
    found = exactness_here()
    memory, source = memory_limit()
    return Preflight(
        exact=found.exact,
        problems=found.notes,
        python=platform.python_version(),
        tensorflow=tf.__version__,
        keras=tf.keras.__version__,
        allocator=found.allocator,
        devices=tuple(
            device.name.removeprefix("/physical_device:")
            for device in tf.config.list_physical_devices()
        ),
        memory_bytes=memory,
        memory_from=source,
        platform=f"{platform.system()} {platform.machine()}",
        threads=usable_processors(),
    )
