"""What watching costs: slowdown, start and stop, analysis, import, memory, drawing.

``python -m tests.benchmarks.cost [--readme] [--runs 15]``.  Ratios are of the best of several runs,
bare and with the tool in turns, in one process; of three such processes, the median.  Seconds
depend on the machine and are marked as noisy; ratios are steadier.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.tools import ALLOCATOR_ALONE, SWITCHES, interleaved

#: Processes for each tool: where its memory happens to lie changes a process's speed.
PROCESSES = 3

Call = Callable[[], Any]


# ---------------------------------------------------------------- what is slowed down


def tiny_ops(tf: Any) -> Call:
    """Two thousand operations on ten numbers."""
    x, c = tf.fill([10], 1.0), tf.constant(1.0)

    def run() -> None:
        y = x
        for _ in range(2000):
            y = tf.multiply(y, c)

    return run


def mebibyte_ops(tf: Any) -> Call:
    """Two hundred operations on 1 MiB."""
    x = tf.fill([512, 512], 0.5)

    def run() -> None:
        y = x
        for _ in range(200):
            y = tf.tanh(y)

    return run


def _step(tf: Any, width: int, batch: int, layers: int, steps: int) -> Call:
    model = tf.keras.Sequential(
        [tf.keras.Input([width])]
        + [tf.keras.layers.Dense(width, activation="tanh") for _ in range(layers)]
        + [tf.keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    x, y = tf.fill([batch, width], 0.1), tf.fill([batch, 1], 0.1)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        weights = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    for _ in range(3):
        step()

    def run() -> None:
        for _ in range(steps):
            step().numpy()

    return run


def small_keras_steps(tf: Any) -> Call:
    """Train a small network for a hundred steps."""
    return _step(tf, width=32, batch=32, layers=2, steps=100)


def larger_keras_steps(tf: Any) -> Call:
    """Train a network for ten steps of some 20 ms each."""
    return _step(tf, width=768, batch=512, layers=3, steps=10)


WORK: dict[str, Callable[[Any], Call]] = {
    "tiny ops": tiny_ops,
    "1 MiB ops": mebibyte_ops,
    "small Keras steps": small_keras_steps,
    "20 ms Keras steps": larger_keras_steps,
}


# ---------------------------------------------------------------- one process each


def prepared(tool: str) -> Any:
    """Import TensorFlow as a tool needs it."""
    if "lessons_lib" in tool:
        import lessons_lib as ll

        return ll.runtime.tf
    if tool == ALLOCATOR_ALONE:
        os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    import tensorflow as tf

    return tf


def slowdown(tool: str, runs: int) -> dict[str, list[float]]:
    """Time every kind of work bare and with a tool; best seconds of each."""
    tf = prepared(tool)
    switch = SWITCHES[tool][1]
    found = {}
    for name, prepare in WORK.items():
        call = prepare(tf)
        call()
        with switch():
            call()
        found[name] = list(interleaved(call, switch, runs))
    return found


def start_and_stop(tool: str, runs: int) -> list[float]:
    """Seconds to switch a tool on and off around nothing: the best."""
    prepared(tool)
    switch = SWITCHES[tool][1]
    times = []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        with switch():
            pass
        times.append(time.perf_counter() - begun)
    return [min(times[1:])]


def analysis(operations: int) -> dict[str, float]:
    """Record so many tiny operations; tell what it takes to read them, in and after the block."""
    import lessons_lib as ll
    from lessons_lib.recording import profiler, session

    tf = ll.runtime.tf
    x, c = tf.fill([10], 1.0), tf.constant(1.0)
    spent: defaultdict[str, float] = defaultdict(float)

    def run(operations: int) -> Any:
        spent.clear()
        with ll.record(share=1) as recording:
            y = x
            for _ in range(operations):
                y = tf.multiply(y, c)
            begun = time.perf_counter()
        spent["after"] += time.perf_counter() - begun
        return recording

    def timed(original: Any, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                spent[name] += time.perf_counter() - begun

        return call

    def counting(original: Any) -> Any:
        def read(data: bytes) -> Any:
            segment = original(data)
            spent["events"] += segment.events
            spent["of memory"] += len(segment.memory)
            return segment

        return read

    run(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recording = run(operations)
    resident = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    profiler.read_profile = counting(profiler.read_profile)
    tf.profiler.experimental.stop = timed(tf.profiler.experimental.stop, "stopping")
    setattr(session.Session, "_next", timed(session.Session._next, "reading"))  # noqa: B010
    runs = []
    for _ in range(3):
        run(operations)
        runs.append(dict(spent))
    found: dict[str, float] = {name: min(each[name] for each in runs) for name in runs[0]}
    found |= {"operations": operations, "resident": resident}
    if 20_000 <= len(recording.buffers) <= 60_000:
        recording.plot()._repr_html_()
        begun = time.perf_counter()
        recording.plot()._repr_html_()
        found["plot_seconds"] = time.perf_counter() - begun
        found["plot_buffers"] = len(recording.buffers)
    return found


def import_time() -> dict[str, float]:
    """Seconds of importing this package once TensorFlow has been imported and used."""
    begun = time.perf_counter()
    import tensorflow as tf

    tf.zeros([1])
    middle = time.perf_counter()
    import lessons_lib  # noqa: F401

    return {"tensorflow": middle - begun, "beyond": time.perf_counter() - middle}


# ---------------------------------------------------------------- all of it


def ask(*arguments: str) -> Any:
    """Run a part of this in a process of its own; None if it failed."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--child", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{arguments}: {' '.join(done.stderr.strip().splitlines()[-1:])}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def child(what: str, *arguments: str) -> Any:
    """Do a part."""
    match what:
        case "slowdown":
            return slowdown(arguments[0], int(arguments[1]))
        case "start":
            return start_and_stop(arguments[0], int(arguments[1]))
        case "analysis":
            return analysis(int(arguments[0]))
        case "import":
            return import_time()
    raise ValueError(what)


def slowdown_table(runs: int) -> str:
    """Write how much slower each kind of work is with each tool."""
    rows = []
    for tool, (module, _) in SWITCHES.items():
        if importlib.util.find_spec(module) is None:
            continue
        found = [ask("slowdown", tool, str(runs)) for _ in range(PROCESSES)]
        start = ask("start", tool, str(runs))
        if None in found or start is None:
            continue
        ratios = [
            f"≈ {statistics.median(each[name][1] / each[name][0] for each in found):.2f}"
            for name in WORK
        ]
        rows.append([tool, *ratios, f"≈ {start[0] * 1e3:.2g} ms"])
        print(" ".join(rows[-1]), flush=True)
    return report.table(["time with it / without it", *WORK, "start and stop"], rows)


def analysis_table() -> str:
    """Write what comes after the block, by the number of events."""
    rows = []
    plot = ""
    for operations in (900, 9_000, 30_000, 91_000):
        found = ask("analysis", str(operations))
        if found is None:
            continue
        rows.append(
            [
                f"{operations:,}",
                f"{found['events']:,.0f}",
                f"{found['of memory']:,.0f}",
                f"≈ {found['after']:.2g} s",
                f"≈ {found['reading']:.2g} s",
                f"≈ {found['stopping']:.2g} s",
                f"≈ {found['reading'] / operations * 1e6:.0f} µs",
                f"≈ {found['resident'] / 2**20:.0f} MiB",
            ]
        )
        print(" ".join(rows[-1]), flush=True)
        if "plot_seconds" in found:
            plot = (
                f" Drawing {found['plot_buffers']:,} buffers takes ≈ {found['plot_seconds']:.1f} s."
            )
    headers = [
        "operations",
        "events",
        "of memory",
        "after the block",
        "reading in all",
        "TensorFlow's share",
        "an operation",
        "resident peak",
    ]
    imported = ask("import")
    words = (
        "" if imported is None else f"\n\nImport beyond TensorFlow's: ≈ {imported['beyond']:.2f} s."
    )
    return report.table(headers, rows) + words + plot


def main() -> None:
    """Measure, print, and write into the README if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=15, help="runs of which the best counts")
    parser.add_argument("--readme", action="store_true", help="write the tables into README.md")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    packages = [module for module, _ in SWITCHES.values() if module != "lessons_lib"]
    names = [name for name in dict.fromkeys(packages) if name != "tracemalloc"]
    text = "\n\n".join((slowdown_table(options.runs), analysis_table(), report.origin(*names)))
    print(f"\n{text}")
    if options.readme:
        report.put(text, "cost")


if __name__ == "__main__":
    main()
