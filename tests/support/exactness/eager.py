"""Sizes, names and operations: what eager programs allocate."""

from __future__ import annotations

from lessons_lib.common.runtime import tf
from tests.support.exactness.checking import Record, agree, check
from tests.support.tensors import ITEM, ints, nbytes, new, ready, scalar

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
