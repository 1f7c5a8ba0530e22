"""What a long recording costs, beside TensorFlow's own profiler in sessions of the same length.

``python -m tests.benchmarks.long [--steps 5000] [--step small|20ms|fit] [--ways plain windows …]``.
Each way of watching has a process of its own; they take turns, so that a busy machine is busy for
all.  Seconds are of the processor (user and system), which other programs disturb less than those
of the wall clock.  ``fit`` trains a small convolution net with Keras on images of 64×64 pixels,
some 20 ms a step: 30,000 steps are ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
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

WAYS = {
    "plain": "plain",
    "profiler": "TensorFlow's profiler",
    "whole": "watched whole",
    "windows": "in windows",
}
#: Steps in a session of TensorFlow's profiler: as many events as a session of ours has.
SESSION_STEPS = 100
#: Steps in an epoch of the training with Keras.
EPOCH_STEPS = 500
#: The resident peak is read after this share of the steps, too: what follows should not add to it.
BEGINNING = 0.2


def prepared(tf: Any, size: str) -> Callable[[int], Any]:
    """Make a training by steps, which has begun: a small network's, or one of some 20 ms a step."""
    train = fit_prepared(tf) if size == "fit" else loop_prepared(tf, size)
    train(20)
    return train


def fit_prepared(tf: Any) -> Callable[[int], Any]:
    """Make Keras train a small convolution net on images of 64×64 pixels."""
    layers = [tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu") for _ in range(3)]
    model = tf.keras.Sequential(
        [
            *(tf.keras.Input([64, 64, 3]), *layers),
            *(tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    images, labels = tf.random.normal([1024, 64, 64, 3]), tf.zeros([1024], tf.int32)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1024).repeat().batch(128)
    # An iterator's end waits for TensorFlow's tuning thread, up to ten seconds after ten.
    options = tf.data.Options()
    options.autotune.enabled = False
    data = data.with_options(options)

    def train(steps: int) -> None:
        for one, epochs in ((EPOCH_STEPS, steps // EPOCH_STEPS), (steps % EPOCH_STEPS, 1)):
            if one and epochs:
                model.fit(data, steps_per_epoch=one, epochs=epochs, verbose=0)

    return train


def loop_prepared(tf: Any, size: str) -> Callable[[int], Any]:
    """Make a custom loop train a dense network."""
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

    def train(steps: int) -> None:
        for _ in range(steps):
            step()

    return train


def in_sessions(tf: Any, train: Callable[[int], Any], steps: int) -> None:
    """Run steps under TensorFlow's profiler alone, whose profiles are read as bytes and dropped."""
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
    )
    for begin in range(0, steps, SESSION_STEPS):
        folder = tempfile.mkdtemp()
        tf.profiler.experimental.start(folder, options=options)
        train(min(SESSION_STEPS, steps - begin))
        tf.profiler.experimental.stop()
        for profile in Path(folder).rglob("*.xplane.pb"):
            profile.read_bytes()
        shutil.rmtree(folder)


def child(way: str, steps: int, size: str) -> dict[str, float]:
    """Watch in one way; give seconds, those after the block, and the resident peak, twice."""
    ours = way in ("whole", "windows")
    if ours:
        import lessons_lib as ll
        from lessons_lib.recording import pacing

        tf: Any = ll.runtime.tf
        # A short run would be watched whole if no share were asked for.
        share = 1 if way == "whole" else None if size == "fit" else pacing.SHARE
    else:
        os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
        import tensorflow

        tf = tensorflow
    train = prepared(tf, size)
    run = functools.partial(in_sessions, tf, train) if way == "profiler" else train
    beginning, parts = 0.0, [int(steps * BEGINNING), steps - int(steps * BEGINNING)]
    processor, wall, end = time.process_time(), time.perf_counter(), 0.0
    with ll.record(share=share) if ours else contextlib.nullcontext():
        for part in parts:
            run(part)
            beginning = beginning or resident_peak()
        end = time.perf_counter()
    return {
        "processor": time.process_time() - processor,
        "wall": time.perf_counter() - wall,
        "after": time.perf_counter() - end if ours else 0.0,
        "beginning": beginning,
        "resident": resident_peak(),
    }


def resident_peak() -> float:
    """Give the highest resident set size of this process so far, in bytes."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    """Measure each way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--step", choices=("small", "20ms", "fit"), default="small")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.steps, options.step)))
        return
    found: dict[str, dict[str, float]] = {}
    for way in options.ways:
        done = subprocess.run(
            [
                *(sys.executable, "-m", __spec__.name, "--child", way),
                *("--steps", str(options.steps), "--step", options.step),
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found[way] = json.loads(done.stdout.splitlines()[-1])
    print(report.table(*compared(found, options.steps)))


def compared(found: dict[str, dict[str, float]], steps: int) -> tuple[list[str], list[list[str]]]:
    """Make the table's head and rows: each way beside the plain one and TensorFlow's profiler."""
    nothing = {"processor": math.nan, "wall": math.nan, "resident": math.nan}
    plain, tool = found.get("plain", nothing), found.get("profiler", nothing)
    rows = [
        [
            WAYS[way],
            *(f"≈ {one[clock]:.3g} s" for clock in ("wall", "processor")),
            *(f"≈ {one[clock] / plain[clock]:.3f}" for clock in ("wall", "processor")),
            f"≈ {one['processor'] / tool['processor']:.2f}",
            f"≈ {one['after']:.2g} s" if one["after"] else "",
            f"≈ {(one['resident'] - plain['resident']) / 2**20:+.0f} MiB",
            f"≈ {(one['resident'] - one['beginning']) / 2**20:.0f} MiB",
        ]
        for way, one in found.items()
    ]
    headers = [f"{steps:,} steps", "wall", "processor", "wall, of plain", "processor, of plain"]
    headers += ["of TensorFlow's profiler", "after the block", "resident peak"]
    return [*headers, f"after {BEGINNING:.0%} of the steps"], rows


if __name__ == "__main__":
    main()
