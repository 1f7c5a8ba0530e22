"""What a long recording costs, beside TensorFlow's own profiler in sessions of the same length.

``python -m tests.benchmarks.long [--steps 5000] [--step small|20ms]``.  Each way of watching has a
process of its own; they take turns, so that a busy machine is busy for all.  Seconds are of the
processor (user and system), which other programs disturb less than those of the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import report

WAYS = ("plain", "TensorFlow's profiler", "watched whole", "in windows")
#: Steps in a session of TensorFlow's profiler: as many events as a session of ours has.
SESSION_STEPS = 100


def prepared(tf: Any, size: str) -> Callable[[], Any]:
    """Make a training step: a small network's, or one of some 20 ms."""
    width, batch = (64, 32) if size == "small" else (768, 512)
    layers = [tf.keras.layers.Dense(width, "relu") for _ in range(2)]
    model = tf.keras.Sequential([tf.keras.Input([784]), *layers, tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = tf.random.normal([batch, 784]), tf.zeros([batch], tf.int32)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_weights
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    for _ in range(20):
        step()
    return step


def in_sessions(tf: Any, step: Callable[[], Any], steps: int) -> None:
    """Run steps under TensorFlow's profiler alone, whose profiles are read as bytes and dropped."""
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
    )
    for begin in range(0, steps, SESSION_STEPS):
        folder = tempfile.mkdtemp()
        tf.profiler.experimental.start(folder, options=options)
        for _ in range(min(SESSION_STEPS, steps - begin)):
            step()
        tf.profiler.experimental.stop()
        for profile in Path(folder).rglob("*.xplane.pb"):
            profile.read_bytes()
        shutil.rmtree(folder)


def child(way: str, steps: int, size: str) -> dict[str, float]:
    """Watch in one way; give seconds, those after the block, and the resident peak."""
    ours = way in WAYS[2:]
    if ours:
        import lessons_lib as ll

        tf: Any = ll.runtime.tf
    else:
        os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
        import tensorflow

        tf = tensorflow
    step = prepared(tf, size)
    processor, wall, end = time.process_time(), time.perf_counter(), 0.0
    if way == "TensorFlow's profiler":
        in_sessions(tf, step, steps)
    elif ours:
        with ll.record(share=1 if way == "watched whole" else 0.05):
            for _ in range(steps):
                step()
            end = time.perf_counter()
    else:
        for _ in range(steps):
            step()
    return {
        "processor": time.process_time() - processor,
        "wall": time.perf_counter() - wall,
        "after": time.perf_counter() - end if ours else 0.0,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Measure each way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--step", choices=("small", "20ms"), default="small")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.steps, options.step)))
        return
    found: dict[str, dict[str, float]] = {}
    for way in WAYS:
        done = subprocess.run(
            [
                *(sys.executable, "-m", __spec__.name, "--child", way),
                *("--steps", str(options.steps), "--step", options.step),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        found[way] = json.loads(done.stdout.splitlines()[-1])
    plain, tool = found["plain"], found["TensorFlow's profiler"]
    rows = [
        [
            way,
            f"≈ {one['processor']:.3g} s",
            f"≈ {one['processor'] / plain['processor']:.2f}",
            f"≈ {one['processor'] / tool['processor']:.2f}",
            f"≈ {one['after']:.2g} s" if one["after"] else "",
            f"≈ {(one['resident'] - plain['resident']) / 2**20:+.0f} MiB",
        ]
        for way, one in found.items()
    ]
    headers = [f"{options.steps:,} steps", "processor", "of plain", "of TensorFlow's profiler"]
    print(report.table([*headers, "after the block", "resident peak"], rows))


if __name__ == "__main__":
    main()
