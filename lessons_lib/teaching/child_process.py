"""`plain_process`: what a program finds in a process of TensorFlow alone.

This package asks for an allocator that reports every buffer.  What that changes, such as how much
memory goes back to the system, has to be measured in a process where it is not asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from lessons_lib.common.runtime import ALLOCATOR_VARIABLE, LOG_VARIABLE


def plain_process(program: str, **variables: str) -> list[float]:
    """Run a program in a new process of TensorFlow alone, and give the numbers that it prints.

    Parameters
    ----------
    program : str
        Python source.  It may use ``tf`` and ``resident()``, the resident set size in MiB.
    **variables : str
        Environment variables for it, such as ``TF_ENABLE_ONEDNN_OPTS="1"``.

    Returns
    -------
    list of float
        What the program printed, as numbers, in order.

    Raises
    ------
    RuntimeError
        If the program failed, or printed something else; the sentence has its last words.
    """
    source = _HEAD + textwrap.dedent(program)
    environment = {key: text for key, text in os.environ.items() if key != ALLOCATOR_VARIABLE}
    ran = subprocess.run(
        [sys.executable, "-c", source],
        env={**environment, LOG_VARIABLE: "3", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        if ran.returncode:
            raise ValueError
        return [float(word) for word in ran.stdout.split()]
    except ValueError:
        # TensorFlow writes log lines of its own to stderr: they matter only where it failed.
        said = (ran.stderr, ran.stdout) if ran.returncode else (ran.stdout, ran.stderr)
        last = (said[0].strip() or said[1].strip()).splitlines()[-1:] or ["nothing"]
        raise RuntimeError(
            f"the program in a process of its own should print numbers, and said: {last[0]}"
        ) from None


_HEAD = """
import psutil
import tensorflow as tf

def resident():
    return psutil.Process().memory_info().rss / 2**20

tf.zeros([1])
"""
