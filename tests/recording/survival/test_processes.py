"""Recordings in processes that were started in other ways."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.processes import POSIX, ROOT, in_a_new_process

REPORT = """
import lessons_lib as ll
tf = ll.runtime.tf
found = ll.preflight()
with ll.record() as recording:
    x = tf.fill([1000], 1.0)
    y = tf.fill([1000, 1000], 1.0)
print(found.exact, recording.exact, recording.allocated_bytes >= 4_004_000)
print(" ".join(found.problems), "|", " ".join(recording.notes), flush=True)
"""


@pytest.mark.further
@POSIX
@pytest.mark.child
@pytest.mark.slow
def test_a_forked_child_is_told_what_to_do_also_without_onednn() -> None:
    out = in_a_new_process(
        REPORT
        + textwrap.dedent("""
        import os

        def record():
            with ll.record():
                pass

        tools = (record, ll.preflight, lambda: ll.measure(int), lambda: ll.process_memory(int))
        with ll.record() as outer:
            tf.ones([9])
            for tool in tools:
                if os.fork() == 0:
                    try:
                        tool()
                        print("no error", flush=True)
                    except RuntimeError as error:
                        print("spawn" in str(error), flush=True)
                    os._exit(0)
                os.wait()
        print(outer.exact, outer.allocated_bytes >= 36)

        child = False
        try:
            with ll.record() as recording:
                kept = tf.fill([1000], 2.0)
                child = os.fork() == 0
                if not child:
                    os.wait()
        except RuntimeError as error:
            print("child:", "spawn" in str(error), flush=True)
            os._exit(0)
        print("parent:", recording.exact, recording.kept_bytes >= 4000)
        """),
        TF_ENABLE_ONEDNN_OPTS="0",
        TF_CPU_ALLOCATOR_USE_BFC="1",
    )
    report, _, *told, outer, child, parent = out.splitlines()
    assert report == "True True True"
    assert told == ["True"] * 4
    assert outer == "True True"
    # A child that leaves its parent's block is told, too.
    assert (child, parent) == ("child: True", "parent: True True")


@pytest.mark.child
@pytest.mark.slow
def test_tensorflow_was_imported_first() -> None:
    out = in_a_new_process("import tensorflow as tf; tf.ones([2])\n" + REPORT)
    exact, words = out.splitlines()
    assert exact.startswith("False False")
    problem, note = (part.strip() for part in words.split("|"))
    assert "imported before lessons_lib" in problem
    assert "restart the kernel" in problem
    assert note == problem


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_the_allocator_variable_is_preset_to_0() -> None:
    out = in_a_new_process(REPORT, TF_CPU_ALLOCATOR_USE_BFC="0")
    assert out.startswith("False False")
    assert "TF_CPU_ALLOCATOR_USE_BFC=0" in out


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_without_onednn_and_without_the_variable() -> None:
    out = in_a_new_process(REPORT, TF_ENABLE_ONEDNN_OPTS="0", TF_CPU_ALLOCATOR_USE_BFC="0")
    assert out.startswith("False False False")
    assert "reports no allocations" in out


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_ipython_in_a_terminal(tmp_path: Path) -> None:
    lines = (
        "import lessons_lib as ll",
        "tf = ll.runtime.tf",
        "with ll.record() as rec: x = tf.fill([1000], 1.0)",
        "",
        "print('found', rec.exact, max(b.nbytes for b in rec.buffers), rec.at_peak()[0].line)",
        "%load_ext lessons_lib",
        "%mem y = x * x",
        "rec",
    )
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"],
        input="\n".join(lines) + "\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "found True 4000 In [3]:1" in done.stdout
    assert "peak 3.906 KiB, kept 3.906 KiB" in done.stdout  # 4000 bytes
    assert "<Recording: peak" in done.stdout  # and no HTML
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_a_spawned_process() -> None:
    out = in_a_new_process(
        """
        import multiprocessing as mp, sys
        sys.path.insert(0, ".")
        import lessons_lib as ll
        from tests.support.spawned import kept
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.apply(kept))
        """
    )
    assert out.strip() == "(36, True)"
