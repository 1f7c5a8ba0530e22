"""Call chains: the lines that led to an allocation, as a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.recording.recording import Recording
from tests.support.sessions import cut_after
from tests.support.tensors import new, scalar

tf = ll.runtime.tf

FLOAT = 4


def fill(size: Any) -> Any:
    return tf.fill(size, 1.0)  # innermost


def first(size: Any) -> Any:
    return fill(size)  # by first


def second(size: Any) -> Any:
    return fill(size)  # by second


def texts(rec: Recording) -> list[tuple[int, str, int]]:
    """Give depth, comment and allocated bytes of rows of this file."""
    rows = []
    for row in rec.by_line(chains=True).rows:
        text = "" if row.line is None else row.line.text.rpartition("# ")[2]
        rows.append((row.depth, text, row.allocated_bytes))
    return rows


def below(rows: list[tuple[int, str, int]], text: str) -> list[tuple[int, str, int]]:
    """Give the rows from one on that are deeper, with depths counted from it."""
    start = next(i for i, row in enumerate(rows) if row[1] == text)
    depth = rows[start][0]
    found = [(0, *rows[start][1:])]
    for row in rows[start + 1 :]:
        if row[0] <= depth:
            break
        found.append((row[0] - depth, *row[1:]))
    return found


def test_eager_operations_are_told_apart_by_their_callers(tmp_path):
    small, large = tf.constant([1000]), tf.constant([3000])
    first(small)
    with ll.record(chains=True) as rec:
        for _ in range(2):
            kept = first(small)  # the loop
        kept = second(large)  # the other
        del kept
    rows = texts(rec)
    assert below(rows, "the loop")[:3] == [
        (0, "the loop", 8000),
        (1, "by first", 8000),
        (2, "innermost", 8000),
    ]
    assert below(rows, "the other")[:3] == [
        (0, "the other", 12000),
        (1, "by second", 12000),
        (2, "innermost", 12000),
    ]
    rec.save(tmp_path / "rec.json")
    assert Recording.load(tmp_path / "rec.json").by_line(chains=True) == rec.by_line(chains=True)
    with ll.record() as plain:
        first(small)
    assert {depth for depth, _, _ in texts(plain)} == {0}
    assert [r.line for r in plain.by_line().rows] == [
        r.line for r in plain.by_line(chains=True).rows
    ]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_layers_line_lies_below_that_of_fit(compiled):
    class Wide(tf.keras.layers.Layer):
        def call(self, x):
            return tf.concat([x, x], 1)  # in the layer

    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.head = Wide(), tf.keras.layers.Dense(1)

        def call(self, x):
            return self.head(self.wide(x))  # in the model

    model = Net()
    model.compile("sgd", "mse", run_eagerly=not compiled)
    x = np.ones((32, 64), np.float32)
    model.fit(x, x[:, :1], batch_size=32, verbose=0)
    with ll.record(chains=True) as rec:
        model.fit(x, x[:, :1], batch_size=32, verbose=0)  # fitted
    rows = below(texts(rec), "fitted")
    inside = below(rows, "in the model")
    assert inside[0][0] == 0
    assert next(row for row in rows if row[1] == "in the model")[0] == 1
    layer = next(row for row in inside if row[1] == "in the layer")
    assert layer[0] == 1
    assert layer[2] >= 2 * x.nbytes
    # All parts together are the whole.
    tops = [row for row in rec.by_line(chains=True).rows if row.depth == 0]
    assert sum(row.allocated_bytes for row in tops) == rec.allocated_bytes
    assert sum(row.peak_bytes for row in tops) == rec.at_peak().nbytes
    own = sum(row.own_peak_bytes for row in rec.by_line(chains=True).rows)
    assert own == rec.at_peak().nbytes
    assert "in the layer" in rec.by_line(chains=True)._repr_html_()


def test_chains_of_what_was_folded_and_of_nothing() -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(100, 40), ll.record(chains=True) as rec:
        for _ in range(300):
            x * c
    tops = [row for row in rec.by_line(chains=True).rows if row.depth == 0]
    assert sum(row.allocated_bytes for row in tops) == rec.allocated_bytes == 300 * 36
    assert sum(row.buffers for row in tops) == 300
    assert Recording("an empty block", 1.0).by_line(chains=True).rows == ()
