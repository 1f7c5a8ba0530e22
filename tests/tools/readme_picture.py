"""The README's picture: ``python -m tests.tools.readme_picture`` draws it anew.

One training step of a six-layer chain, eager and as a graph, recorded and drawn by the package.
"""

from __future__ import annotations

from pathlib import Path

import lessons_lib as ll
from lessons_lib.plots.theme import get_alt, png
from lessons_lib.plots.timeline import timelines
from tests.support.notebooks import ROOT

tf = ll.runtime.tf
PICTURE = ROOT / "notebooks" / "images" / "timeline.png"


def main(path: Path = PICTURE) -> None:
    """Record the step in both modes, draw both, and print the alternative text."""
    x = tf.random.stateless_uniform([2048, 512], seed=(0, 1))
    weights = [
        tf.Variable(tf.random.stateless_normal([512, 512], seed=(0, i)) / 23.0) for i in range(6)
    ]

    def step() -> None:
        with tf.GradientTape() as tape:
            y = x
            for w in weights:
                y = tf.tanh(y @ w)
            loss = tf.reduce_mean(y * y)
        for w, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * gradient)

    graph = tf.function(step)
    runs = {
        "an eager training step": ll.measure(step, repeats=1).recording,
        "the same step as a tf.function": ll.measure(graph, repeats=1).recording,
    }
    axes = timelines(runs)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(png(axes[0].figure))
    print(" ".join(get_alt(ax) for ax in axes))


if __name__ == "__main__":
    main()
