"""What a program does with TensorFlow in a block, or does not."""

from __future__ import annotations

import gc
import threading

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording.recorder import record
from tests.support.sessions import cut_after
from tests.support.tensors import nbytes, new


def test_xla() -> None:
    compiled = tf.function(lambda x: tf.tanh(x) * x, jit_compile=True)
    x = new(33, 65)
    gc.collect()  # compiling takes long enough for Python to collect what other tests left
    with record() as first:  # compiles inside the block
        y = compiled(x)
    with record() as second:
        z = compiled(x)
    assert first.kept_bytes >= nbytes((33, 65))
    assert second.kept_bytes == nbytes((33, 65))
    assert second.exact
    del y, z


@pytest.mark.slow
def test_keras_fit() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = tf.ones([64, 8]), tf.ones([64, 1])
    model.fit(x, y, batch_size=16, verbose=0)
    # On a busy machine a step may take so long that the session is cut, while the pipeline runs.
    with cut_after(10**9), record() as recording:
        model.fit(x, y, batch_size=16, verbose=0)
    assert recording.exact
    assert recording.peak_bytes > 0
    rows = recording.by_line().rows
    assert "test_programs.py" in " ".join(row.key for row in rows)


def test_an_empty_block() -> None:
    with record() as recording:
        pass
    assert (recording.peak_bytes, recording.kept_bytes, recording.allocated_bytes) == (0, 0, 0)
    assert len(recording.buffers) == 0
    assert recording.at_peak() == ()
    assert recording.by_op().rows == recording.by_line().rows == ()
    times, live = recording.timeline()
    assert live.tolist() == [0, 0]
    assert times[0] == 0.0 <= times[1] == recording.seconds
    assert repr(recording).startswith("<Recording: peak 0 B")


def test_born_before_and_freed_in_another_thread() -> None:
    x = [new(9)]
    with record() as recording:
        thread = threading.Thread(target=x.clear)
        thread.start()
        thread.join()
    assert (recording.peak_bytes, recording.kept_bytes) == (0, -36)


@pytest.mark.slow
def test_the_instruments_themselves_do_not_grow() -> None:
    import tracemalloc

    def several() -> None:
        for _ in range(30):
            with record():
                new(9)

    def growth() -> int:
        before = tracemalloc.get_traced_memory()[0]
        several()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    several()
    gc.collect()
    tracemalloc.start()
    try:
        growth()
        # A recording that stayed would be some 10 KiB each, in every round; the interpreter's own
        # noise is far less, and a table of protobuf's that doubles does so in one round.
        assert any(growth() < 30 * 500 for _ in range(3))
    finally:
        tracemalloc.stop()
