"""Graphs, loops, variables, threads and windows: what more than single operations allocate."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from lessons_lib.common.runtime import tf
from tests.support.exactness.checking import Record, agree, check
from tests.support.tensors import ints, nbytes, new, ready, scalar

# ---------------------------------------------------------------- graphs


@cache
def forwarded() -> Any:
    @tf.function
    def chain(x: Any) -> Any:
        return tf.tanh(tf.exp(tf.negative(x)))

    return chain


@check
def forwarding(record: Record) -> None:
    x = new(65, 33)
    chain = forwarded()
    chain(x)
    size = nbytes((65, 33))
    with record() as recording:
        y = chain(x)
    agree(recording, peak=size, kept=size, allocated=size)
    with record() as recording:
        z = tf.tanh(tf.exp(tf.negative(x)))  # eager: each has a buffer of its own
    agree(recording, peak=2 * size, kept=size, allocated=3 * size)
    del y, z


@cache
def looping() -> Any:
    @tf.function
    def loop(x: Any, n: Any) -> Any:
        return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]

    return loop


@check
def a_loop_in_a_graph(record: Record) -> None:
    x, loop = new(129, 65), looping()
    loop(x, scalar(3, "int32"))
    size = nbytes((129, 65))
    for n in (3, 30):
        ready(scalar(n, "int32"))
        with record() as recording:
            y = loop(x, scalar(n, "int32"))
        # The body works in place after its first step; counters are a few bytes each.
        agree(recording, kept=size)
        big = [b for b in recording.buffers if b.nbytes == size]
        assert len(big) == 1
        assert size <= recording.peak_bytes < size + 64
        del y


@check
def an_eager_loop(record: Record) -> None:
    x, w = new(33, 33), new(33, 33)
    size = nbytes((33, 33))
    for n in (10, 100):
        with record() as recording:
            y = x
            for _ in range(n):
                y = tf.matmul(y, w)
        agree(recording, peak=2 * size, kept=size, allocated=n * size)
        del y


@check
def a_tape(record: Record) -> None:
    x, w = new(33, 17), new(17, 17)
    size, n = nbytes((33, 17)), 7
    with record() as recording:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = x
            for _ in range(n):
                y = tf.matmul(y, w)
        del tape
    # The tape keeps each product, since the next one's gradient needs it.
    agree(recording, peak=n * size, kept=size, allocated=n * size)
    with record() as recording:
        y = x
        for _ in range(n):
            y = tf.matmul(y, w)
    # The old y goes first; then there are one and two in turn, as against one before.
    agree(recording, peak=size, kept=0, allocated=n * size)
    del y


@cache
def branching() -> Any:
    @tf.function
    def branch(condition: Any, x: Any) -> Any:
        return tf.cond(
            condition, lambda: tf.concat([x, x, x], 0), lambda: tf.concat([x, x, x, x, x], 0)
        )

    return branch


@check
def only_the_branch_that_is_taken(record: Record) -> None:
    branch, x = branching(), new(33, 11)
    yes, no = scalar(1.0, "bool"), tf.logical_not(scalar(1.0, "bool"))
    branch(yes, x), branch(no, x)
    for condition, parts in ((yes, 3), (no, 5)):
        with record() as recording:
            y = branch(condition, x)
        size = parts * nbytes((33, 11))
        agree(recording, kept=size)
        assert max(b.nbytes for b in recording.buffers) == size
        assert recording.peak_bytes < size + 64  # a branch's index and axis
        del y


@cache
def compiled() -> Any:
    @tf.function(jit_compile=True)
    def chain(x: Any) -> Any:
        return tf.tanh(tf.exp(tf.negative(x)))

    return chain


@check
def xla(record: Record) -> None:
    x, chain = new(65, 33), compiled()
    chain(x)
    size = nbytes((65, 33))
    with record() as recording:
        y = chain(x)
    agree(recording, kept=size)
    assert [b.nbytes for b in recording.buffers].count(size) == 1
    del y


# ---------------------------------------------------------------- variables


@check
def a_variable_that_shares_until_it_is_written(record: Record) -> None:
    x = new(65, 11)
    size = nbytes((65, 11))
    warm = tf.Variable(new(2))
    warm.assign_add(new(2))
    with record() as recording:
        v = tf.Variable(x)
    # Only the handle by which TensorFlow knows it; its value is x's own buffer.
    assert [b.op for b in recording.buffers] == ["VarHandleOp"]
    assert recording.allocated_bytes < 256 < size
    with record() as recording:
        v.assign_add(x)  # x still has the old value: a copy is needed
    agree(recording, peak=size, kept=size, allocated=size)
    with record() as recording:
        v.assign_add(x)
        v.assign_add(x)  # now it has a buffer of its own, and adds in place
    agree(recording, peak=0, kept=0, allocated=0)
    with record() as recording:
        held = v.read_value()
        v.assign_add(x)
    agree(recording, peak=size, kept=size, allocated=size)
    del held


@check
def a_variable_that_copies_when_read(record: Record) -> None:
    v, c = tf.Variable(new(64, 16)), scalar()
    size = nbytes((64, 16))
    rows, value = ints(3), new(1, 16)
    with record() as recording:
        y = v * c
    agree(recording, peak=size, kept=size, allocated=size)
    v.scatter_nd_update(tf.reshape(rows, [1, 1]), value)
    with record() as recording:
        z = v * c
    agree(recording, peak=2 * size, kept=size, allocated=2 * size)
    del y, z


# ---------------------------------------------------------------- threads and windows


@check
def threads(record: Record) -> None:
    c = scalar(0.5)
    shapes = [(101 + k, 7) for k in range(4)]
    inputs = [new(*shape) for shape in shapes]
    results: list[Any] = [None] * 4
    # All live until the last is done: TensorFlow 2.16 loses what a thread did when another one
    # gets its number.
    together = threading.Barrier(4)

    def work(k: int) -> None:
        y = inputs[k] * c
        for _ in range(24):
            y = y * c
        results[k] = y
        together.wait(60)

    with record() as recording:
        workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    sizes = [nbytes(shape) for shape in shapes]
    agree(recording, kept=sum(sizes), allocated=25 * sum(sizes))
    # One thread after the other, or all in step.
    assert sum(sizes) <= recording.peak_bytes <= 2 * sum(sizes)
    results.clear()


@check
def windows(record: Record) -> None:
    c = scalar(2.0)
    ready(ints(1001), ints(11))
    with record() as outer:
        a = new(1001)
        with record() as inner:
            b = a * c
            del a
        d = new(11)
        with record() as empty:
            pass
        del b
    agree(inner, peak=4004, kept=0, allocated=4004)
    agree(empty, peak=0, kept=0, allocated=0)
    agree(outer, peak=8008, kept=44, allocated=8008 + 44)
    assert inner.buffers[-1].allocated_at is None
    del d


@check
def three_runs_alike(record: Record) -> None:
    x, w, axis = new(33, 33), new(33, 33), ints(1)

    def program() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.tanh(tf.matmul(x, w))
            loss = tf.raw_ops.Sum(input=y * y, axis=axis, keep_dims=False)
        return tape.gradient(loss, w)

    program()
    figures = []
    for _ in range(3):
        with record() as recording:
            g = program()
        figures.append((recording.peak_bytes, recording.kept_bytes))
        agree(recording, kept=nbytes((33, 33)))
        del g
    assert figures[0] == figures[1] == figures[2]
    assert figures[0][0] >= 3 * nbytes((33, 33))
