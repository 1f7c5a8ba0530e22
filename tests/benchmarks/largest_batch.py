"""Is the largest batch the same in every answer, and right?  Nets × optimizers, beside the truth.

``python -m tests.benchmarks.largest_batch [--answers 10] [NET:OPTIMIZER ...]``, by default all; it
takes up to an hour.  The answers of a case come from two processes, half of them each, and begin at
different batch sizes.  The truth comes from a third: the step is recorded many times at a size, the
highest peak counts, and the size of which it just fits is found by halving.  A graph's highest peak
may belong to an order of execution that is rare, and less so on a busy machine: the truth, too, is
one of so many runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from tests.benchmarks import report

STARTS = (16, 24, 100, 7, 64)
RUNS = 200
MIB = 2**20
#: Shape of an example, and the budget in MiB.
NETS = {
    "dense": ((128,), 12),
    "convolution": ((16, 16, 1), 48),  # most of it a fixed workspace of its gradient
    "recurrent": ((20, 16), 8),
    "attention": ((16, 32), 12),
    "embedding": ((20,), 6),
}
PLAIN = ("sgd", "momentum", "adam")
CASES = [f"{net}:{how}" for net in NETS for how in PLAIN] + [
    f"{net}:mixed_{kind}" for net in ("dense", "convolution") for kind in ("float16", "bfloat16")
]


def model_of(net: str, how: str) -> Any:
    """Make a compiled model."""
    import lessons_lib as ll

    keras = ll.runtime.tf.keras
    layers = keras.layers
    mixed = how.startswith("mixed")
    keras.mixed_precision.set_global_policy(how if mixed else "float32")
    x = inputs = keras.Input(NETS[net][0], dtype="int32" if net == "embedding" else None)
    if net == "dense":
        x = layers.Dropout(0.2)(layers.Dense(256, "gelu")(x))
        x = layers.Dense(256, "relu")(x)
    elif net == "convolution":
        x = layers.MaxPooling2D()(layers.Conv2D(8, 3, activation="relu")(x))
        x = layers.GlobalAveragePooling2D()(layers.Conv2D(16, 3, activation="relu")(x))
    elif net == "recurrent":
        x = layers.LSTM(32)(x)
    elif net == "attention":
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 16)(x, x))
        x = layers.GlobalAveragePooling1D()(x + layers.Dense(32)(layers.Dense(64, "relu")(x)))
    else:
        x = layers.GlobalAveragePooling1D()(layers.Embedding(2000, 64)(x))
        x = layers.Dense(64, "relu")(x)
    model = keras.Model(inputs, layers.Dense(10, dtype="float32")(x))
    optimizer = {"sgd": "sgd", "momentum": keras.optimizers.SGD(0.01, momentum=0.9)}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer.get(how, "adam"), loss)
    return model


def data_of(net: str, size: int) -> tuple[Any, Any]:
    """Make a batch."""
    rows = np.ones((size, *NETS[net][0]), np.int32 if net == "embedding" else np.float32)
    return rows, np.zeros(size, np.int32)


def answers(net: str, how: str, number: int) -> list[dict[str, Any]]:
    """Ask several times."""
    import lessons_lib as ll

    found = []
    for i in range(number):
        data = data_of(net, STARTS[i % len(STARTS)])
        begin = time.perf_counter()
        most = ll.training_memory(model_of(net, how), *data, budget=NETS[net][1] * MIB)
        fit = most.largest_batch
        assert fit is not None
        took = time.perf_counter() - begin
        found.append({"batch": fit.batch, "high": fit.high, "ok": fit.verified, "seconds": took})
    return found


def truth(net: str, how: str, lowest: int, highest: int) -> dict[str, Any]:
    """Find the largest size whose highest peak fits, and the peaks of the answers."""
    import lessons_lib as ll
    from lessons_lib.instruments.training import inputs
    from lessons_lib.instruments.training.one_piece import one_piece

    tf = ll.runtime.tf
    model, limit = model_of(net, how), NETS[net][1] * MIB
    batch = inputs.of_model(*data_of(net, 16), None)
    step = tf.function(model.train_step, input_signature=[batch.any_size()], autograph=False)
    step(batch.data)
    state = sum(int(tf.size(v)) * v.dtype.size for v in step.get_concrete_function().variables)

    def peaks(size: int) -> list[int]:
        data = batch.sized(size)
        used = state + sum(int(tf.size(part)) * part.dtype.size for part in data)
        step(data)
        highest = []
        for _ in range(RUNS):
            with one_piece(2 * limit), ll.record(lines=False, share=1) as recording:
                step(data)
            store = recording.buffers
            # What was there before counts as in `used`.
            sizes = np.where(store.born < 0, store.nbytes, store.reserved)
            live = np.zeros(len(store.times) + 1, np.int64)
            for moments, sign in ((store.born, 1), (store.died, -1)):
                seen = moments >= 0
                np.add.at(live, moments[seen], sign * sizes[seen])
            highest.append(used + max(recording.peak_bytes, int(live.cumsum().max())))
        return highest

    low, high = int(lowest * 0.85), int(highest * 1.2)
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if max(peaks(middle)) <= limit else (low, middle)
    at = peaks(highest)
    more = peaks(-(-highest * 103 // 100))
    return {"size": low, "at": [min(at), max(at)], "more": [min(more), max(more)]}


def child(case: str, *what: str) -> Any:
    """Run a part in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, case, "--child", *what],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def row(case: str, number: int) -> list[str]:
    """Measure a case; give its line of the table."""
    net, _, how = case.partition(":")
    found = [one for _ in range(2) for one in child(case, str(-(-number // 2)))]
    sizes = [one["batch"] for one in found]
    low, high = min(sizes), max(sizes)
    true = child(case, str(low), str(high))
    limit = NETS[net][1] * MIB
    return [
        *(net, how, f"{len(sizes)}: ≈ {low} to ≈ {high}", f"≈ {100 * (high / low - 1):.1f}%"),
        f"≈ {max(one['high'] for one in found)}",
        f"≈ {true['size']}",
        f"≈ {100 * (low / true['size'] - 1):+.1f}% to ≈ {100 * (high / true['size'] - 1):+.1f}%",
        *(f"≈ {a / limit:.3f} to ≈ {b / limit:.3f}" for a, b in (true["at"], true["more"])),
        f"≈ {np.median([one['seconds'] for one in found]):.0f} s",
    ]


def main() -> None:
    """Print a table, a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument("--child", nargs="+", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        net, _, how = options.cases[0].partition(":")
        (number, *highest) = options.child
        part = truth(net, how, number, *highest) if highest else answers(net, how, number)
        print(json.dumps(part))
        return
    rows = [row(case, options.answers) for case in options.cases]
    headers = ["net", "optimizer", "answers", "spread", "up to", "truth", "off the truth"]
    headers += ["peak of the largest answer / budget", "of 3 % more", "an answer"]
    print(report.table(headers, rows))
    print(f"\n{RUNS} runs of a size for the truth. {report.origin('tensorflow')}")


if __name__ == "__main__":
    main()
