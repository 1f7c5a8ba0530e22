"""What a recorder must say, to the byte, about small programs; by hand arithmetic.

Each check takes the `record` to try, so that it can be shown to fail: test_exactness.py runs
all of them with the real recorder, and with deliberately broken ones (broken_recorders.py).
Shapes, axes and scalars are tensors made beforehand, so a program allocates what it names and
nothing else.  Expected bytes come from shapes and data types, never from an earlier run.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, wraps
from math import prod
from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.recording.recording import Recording

Record = Callable[[], AbstractContextManager[Recording]]
Check = Callable[[Record], None]

#: Bytes of one element, as the data types' names say.
ITEM = {
    "bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "int16": 2, "int32": 4,
    "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the list; it runs without garbage collection, which could free in a block."""

    @wraps(function)
    def undisturbed(record: Record) -> None:
        gc.disable()
        try:
            function(record)
        finally:
            gc.enable()

    CHECKS[function.__name__] = undisturbed
    return undisturbed


def nbytes(shape: tuple[int, ...], dtype: str = "float32") -> int:
    """Bytes of a tensor: the product of its dimensions times the size of an element."""
    return prod(shape) * ITEM[dtype]


@cache
def ints(*values: int) -> Any:
    """Make a vector of int32 once and for all: shapes and axes for the programs below."""
    return tf.constant(values, tf.int32, shape=[len(values)])


@cache
def scalar(value: float = 1.0, dtype: str = "float32") -> Any:
    """Make a scalar once and for all."""
    return tf.cast(tf.constant(value), dtype)


def new(*shape: int, dtype: str = "float32") -> Any:
    """Make a tensor with a single allocation: the shape and the value are there already."""
    return tf.raw_ops.Fill(dims=ints(*shape), value=scalar(1.0, dtype))


def ready(*tensors: Any) -> None:
    """Take the helper tensors of a program, so that they are there before its block."""
    assert all(map(tf.is_tensor, tensors))


def agree(
    recording: Recording,
    *,
    peak: int | None = None,
    kept: int | None = None,
    allocated: int | None = None,
) -> None:
    """Compare a recording's figures with those worked out by hand."""
    found = {
        "peak": recording.peak_bytes,
        "kept": recording.kept_bytes,
        "allocated": recording.allocated_bytes,
    }
    wanted = {"peak": peak, "kept": kept, "allocated": allocated}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    assert {name: found[name] for name in wanted} == wanted
    assert recording.exact


# ---------------------------------------------------------------- sizes


@check
def odd_sizes(record: Record) -> None:
    for n in (1, 2, 3, 7, 63, 65, 255, 1001, 4097, 65_537):
        ready(ints(n), scalar())
        with record() as recording:
            x = new(n)
        agree(recording, peak=4 * n, kept=4 * n, allocated=4 * n)
        assert [b.nbytes for b in recording.buffers] == [4 * n]
        del x


@check
def one_element_of_each_type(record: Record) -> None:
    for dtype, size in ITEM.items():
        ready(ints(), scalar(1.0, dtype))
        with record() as recording:
            x = new(dtype=dtype)
        agree(recording, peak=size, kept=size, allocated=size)
        assert recording.buffers[0].dtype == dtype
        assert recording.buffers[0].shape == ()
        del x


@check
def no_elements(record: Record) -> None:
    ready(ints(3, 0, 5), scalar())
    with record() as recording:
        x = new(3, 0, 5)
    agree(recording, peak=0, kept=0, allocated=0)
    del x


@check
def a_hundred_mebibytes(record: Record) -> None:
    ready(ints(100, 512, 512), scalar())
    with record() as recording:
        x = new(100, 512, 512)
    size = 100 * 2**20
    agree(recording, peak=size, kept=size, allocated=size)
    with record() as recording:
        del x
    agree(recording, peak=0, kept=-size, allocated=0)


@check
def bfloat16_and_the_cast_to_it(record: Record) -> None:
    ready(ints(33, 7), scalar())
    with record() as recording:
        x = new(33, 7)
        y = tf.cast(x, tf.bfloat16)
    full, half = nbytes((33, 7)), nbytes((33, 7), "bfloat16")
    assert half == 33 * 7 * 2
    agree(recording, peak=full + half, kept=full + half, allocated=full + half)
    del x, y


@check
def strings_without_their_characters(record: Record) -> None:
    # TensorFlow's string object has 24 bytes; longer texts lie elsewhere, which is documented.
    for text in ("abc", "a much longer text " * 100):
        value = tf.constant(text)
        ready(ints(50), value)
        with record() as recording:
            x = tf.raw_ops.Fill(dims=ints(50), value=value)
        agree(recording, peak=50 * 24, kept=50 * 24, allocated=50 * 24)
        del x


@check
def ragged(record: Record) -> None:
    values, splits = new(1001), tf.constant([0, 300, 301, 1001], tf.int64)
    rows = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    tf.math.negative(rows)
    with record() as recording:
        out = tf.math.negative(rows)
    # The values are computed; the row splits are shared.
    agree(recording, peak=4 * 1001, kept=4 * 1001, allocated=4 * 1001)
    del out


# ---------------------------------------------------------------- names


@check
def names_kept(record: Record) -> None:
    x, c = new(65, 9), scalar(2.0)
    size = nbytes((65, 9))
    with record() as recording:
        a = x * c
        b = a * c
        d = b * c
    agree(recording, peak=3 * size, kept=3 * size, allocated=3 * size)
    del a, b, d


@check
def names_rebound(record: Record) -> None:
    x, c = new(65, 9), scalar(2.0)
    size = nbytes((65, 9))
    with record() as recording:
        y = x * c
        for _ in range(9):
            y = y * c
    # The new one is made while the old one still has its name.
    agree(recording, peak=2 * size, kept=size, allocated=10 * size)
    del y


@check
def names_deleted(record: Record) -> None:
    c = scalar(2.0)
    ready(ints(1001), ints(3), ints(257))
    with record() as recording:
        a = new(1001)
        b = new(3)
        del a
        d = new(257)
        del b
        e = d * c
        del d
    live = [4004, 4004 + 12, 12, 12 + 1028, 1028, 2056, 1028]
    agree(recording, peak=max(live), kept=live[-1], allocated=4004 + 12 + 1028 + 1028)
    assert recording.timeline()[1].tolist() == [0, *live, live[-1]]
    del e


@check
def a_list_that_grows(record: Record) -> None:
    x, c = new(31, 31), scalar(0.5)
    size = nbytes((31, 31))
    with record() as recording:
        keep = [x * c for _ in range(20)]
    agree(recording, peak=20 * size, kept=20 * size, allocated=20 * size)
    with record() as recording:
        del keep[:15]
    agree(recording, peak=0, kept=-15 * size, allocated=0)


@check
def an_address_used_again(record: Record) -> None:
    # Freed blocks are handed out again at once, for other sizes too.
    sizes = [100, 97, 64, 99, 33, 100, 1, 98]
    ready(*map(ints, sizes))
    with record() as recording:
        for _ in range(10):
            for n in sizes:
                x = new(n)
                del x
        y = new(98)
    total = 4 * 10 * sum(sizes) + 4 * 98
    agree(recording, peak=4 * 100, kept=4 * 98, allocated=total)
    addresses_shared = len(recording.buffers) == 10 * len(sizes) + 1
    assert addresses_shared
    assert [b.nbytes for b in recording.buffers[:8]] == [4 * n for n in sizes]
    del y


@check
def born_before_and_freed_inside(record: Record) -> None:
    old, c = new(1001), scalar(2.0)
    ready(ints(300))
    with record() as recording:
        young = new(300)
        del old
        last = young * c
    # +1200, −4004, +1200: never above 1200 again.
    agree(recording, peak=1200, kept=2400 - 4004, allocated=2400)
    freed = [b for b in recording.buffers if b.allocated_at is None]
    assert [b.nbytes for b in freed] == [4004]
    assert freed[0].freed_at is not None
    del young, last


@check
def nothing_at_all(record: Record) -> None:
    with record() as recording:
        pass
    agree(recording, peak=0, kept=0, allocated=0)
    assert len(recording.buffers) == 0


# ---------------------------------------------------------------- operations


@check
def temporaries(record: Record) -> None:
    # To sum over axes that do not lie together, the kernel first lays the input out anew.
    shape = (4, 5, 6, 7)
    x, axes = new(*shape), ints(0, 2)
    with record() as recording:
        y = tf.raw_ops.Sum(input=x, axis=axes, keep_dims=False)
    temporary, output = nbytes(shape), nbytes((5, 7))
    agree(recording, kept=output)
    assert recording.peak_bytes >= temporary + output
    kinds = {b.kind: b.nbytes for b in recording.buffers}
    assert kinds["temp"] == temporary
    del y


@check
def views(record: Record) -> None:
    x = new(64, 16)  # rows of 64 bytes, so a row can be shared
    shape, zero, one, two = ints(16, 64), ints(0), ints(1), ints(2)
    with record() as recording:
        a = tf.raw_ops.Reshape(tensor=x, shape=shape)
        b = tf.raw_ops.Identity(input=x)
        d = tf.raw_ops.StridedSlice(input=x, begin=one, end=two, strides=one, shrink_axis_mask=1)
        e = tf.raw_ops.ExpandDims(input=x, axis=zero)
    agree(recording, peak=0, kept=0, allocated=0)
    with record() as recording:
        del x, a, b, e
    agree(recording, kept=0)  # one row holds everything
    with record() as recording:
        del d
    agree(recording, kept=-nbytes((64, 16)))


@check
def slices_that_do_not_lie_on_a_boundary(record: Record) -> None:
    x = new(10, 301)  # rows of 1204 bytes: no multiple of 64
    one, two = ints(1), ints(2)
    with record() as recording:
        row = tf.raw_ops.StridedSlice(input=x, begin=one, end=two, strides=one, shrink_axis_mask=1)
    agree(recording, peak=1204, kept=1204, allocated=1204)
    with record() as recording:
        del x
    agree(recording, kept=-12_040)
    del row


@check
def matmul_of_odd_sizes(record: Record) -> None:
    for dtype in ("float32", "float64", "bfloat16"):
        a, b = new(7, 33, dtype=dtype), new(33, 5, dtype=dtype)
        with record() as recording:
            y = tf.matmul(a, b)
        size = nbytes((7, 5), dtype)
        agree(recording, kept=size)
        outputs = [x.nbytes for x in recording.buffers if x.kind == "output"]
        assert outputs == [size]
        del y


@check
def comparison_makes_bools(record: Record) -> None:
    x, c = new(333), scalar()
    with record() as recording:
        y = tf.greater(x, c)
        z = tf.where(y, x, x)
    agree(recording, peak=333 + 1332, kept=333 + 1332, allocated=333 + 1332)
    del y, z


@check
def an_operation_that_fails(record: Record) -> None:
    a, b = new(3, 5), new(7, 9)
    ready(ints(11))
    with record() as recording:
        try:
            tf.raw_ops.MatMul(a=a, b=b)
        except tf.errors.InvalidArgumentError:
            x = new(11)
    agree(recording, peak=44, kept=44, allocated=44)
    del x


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
