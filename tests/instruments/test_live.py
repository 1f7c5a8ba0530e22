"""`live_tensors`: bytes by arithmetic, shared buffers once, names of holders, nothing kept."""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

import numpy as np
import pytest

from lessons_lib.common import runtime
from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.holders import budget, object_types
from lessons_lib.instruments.live import LiveTensors, lies_within, live_tensors
from lessons_lib.recording.recorder import record

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

# Sizes that nothing else in the process has, so that rows can be told from what other tests left.
ODD, SIZE = (37, 41), 37 * 41 * 4


def named(result: LiveTensors, text: str) -> list[Any]:
    return [row for row in result.rows if text in row.holder]


def test_rows_have_sizes_and_holders() -> None:
    shelf = {"first": [tf.ones(ODD)]}
    weights = tf.Variable(tf.zeros(ODD), name="weights")
    result = live_tensors()
    (tensor,) = named(result, "shelf")
    assert (tensor.what, tensor.shape, tensor.dtype) == ("tf.Tensor", ODD, "float32")
    assert tensor.nbytes == SIZE
    assert tensor.holder == (
        "shelf in test_rows_have_sizes_and_holders() (dict) → ['first'] (list) → tf.Tensor"
    )
    (variable,) = [row for row in result.variables if row.shape == ODD]
    assert variable.nbytes == SIZE
    assert variable.name.startswith("weights")
    assert "weights in test_rows" in variable.holder
    assert tensor in result.tensors
    assert len(result) == len(result.rows)
    sizes = [row.nbytes for row in result.rows]
    assert sizes == sorted(sizes, reverse=True)
    del shelf, weights


def test_shared_buffers_count_once() -> None:
    gc.collect()
    before = live_tensors().nbytes
    base = tf.ones([64, 128])  # 32 KiB
    kept = [base, tf.reshape(base, [128, 64]), base[3], tf.identity(base)]
    result = live_tensors()
    assert result.nbytes - before == 64 * 128 * 4
    rows = named(result, "kept")
    assert len(rows) >= 2  # base itself may be named by its own name
    shared = [row for row in result.rows if row.shape in ((64, 128), (128, 64)) and row.shared]
    assert len(shared) == 2
    variable = tf.Variable(base)
    assert live_tensors().nbytes - before == 64 * 128 * 4
    variable.assign_add(tf.ones([64, 128]))
    assert live_tensors().nbytes - before == 2 * 64 * 128 * 4
    del kept, base, variable
    gc.collect()
    assert live_tensors().nbytes == before


@pytest.mark.parametrize(
    ("make", "nbytes"),
    [
        (lambda: tf.zeros([10], tf.bfloat16), 20),
        (lambda: tf.zeros([10], tf.complex128), 160),
        (lambda: tf.constant(["a", "bcd"]), 48),  # two heads of 24 bytes
        (lambda: tf.zeros([0, 5]), 0),
        (lambda: tf.constant(True), 1),
    ],
)
def test_types_of_all_kinds_have_sizes(make: Any, nbytes: int) -> None:
    tensor = make()
    assert object_types.tensor_bytes(tensor) == nbytes
    box = [tensor]
    rows = [row for row in live_tensors().rows if row.dtype == tensor.dtype.name]
    assert any(row.nbytes == nbytes and row.shape == tuple(tensor.shape) for row in rows)
    del box


def test_composite_tensors_show_their_parts_and_handles_do_not_show() -> None:
    ragged = tf.RaggedTensor.from_row_lengths(tf.zeros([41], tf.float64), [40, 1])
    sparse = tf.sparse.from_dense(tf.linalg.diag(tf.ones([43], tf.float64)))
    dataset = tf.data.Dataset.range(3)
    result = live_tensors()
    assert [row.nbytes for row in result.rows if row.shape == (41,)] == [41 * 8]
    assert [row.nbytes for row in result.rows if row.shape == (43, 2)] == [43 * 2 * 8]
    assert not [row for row in result.rows if row.dtype in ("variant", "resource")]
    del ragged, sparse, dataset


def test_line_comes_from_a_recording() -> None:
    tf.zeros(ODD)
    with record() as recording:
        kept = tf.fill(ODD, 3.0)
    (row,) = [row for row in live_tensors(recording).rows if row.shape == ODD]
    assert row.line is not None
    assert row.line.text == "kept = tf.fill(ODD, 3.0)"
    assert [row.line for row in live_tensors().rows if row.shape == ODD] == [None]
    del kept


def test_only_what_the_recording_saw_being_made_has_a_line() -> None:
    old = tf.zeros(ODD)
    with record() as recording:
        new, gone = tf.zeros(ODD), tf.zeros([53])
        flat = tf.reshape(new, [-1])  # made on a line of its own, in memory that was not
        parsed = tf.io.parse_tensor(tf.io.serialize_tensor(old), tf.float32)
        more = [tf.fill([53], 1.0)]
        more.append(tf.fill([53], 2.0))
    del gone  # which leaves its place to the next one
    late = [tf.zeros(ODD), tf.zeros([53])]
    rows = live_tensors(recording).rows
    lines = {row.holder.partition(" ")[0]: row.line for row in rows if row.shape == ODD}
    assert {name: line and line.text.partition(" ")[0] for name, line in lines.items()} == {
        "old": None,
        "late": None,
        "new": "new,",
        "parsed": "parsed",
    }
    told = [row.line.text for row in rows if row.shape == (53,) and row.line is not None]
    assert sorted(told) == ["more = [tf.fill([53], 1.0)]", "more.append(tf.fill([53], 2.0))"]
    assert [row.line for row in rows if row.shape == tuple(flat.shape)] == [None]
    del old, new, flat, parsed, more, late


def test_nothing_is_kept_and_nothing_is_made() -> None:
    tensor, variable = tf.ones(ODD), tf.Variable(tf.ones(ODD))
    variable.assign_add(tf.ones(ODD))
    refs = [weakref.ref(tensor), weakref.ref(variable)]
    pointer = variable.read_value().numpy()
    result = live_tensors()
    np.testing.assert_array_equal(variable.numpy(), pointer)
    result.plot()
    del tensor, variable
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_reading_variables_is_not_recorded_by_a_tape() -> None:
    variable = tf.Variable(tf.ones([3]))
    with tf.GradientTape() as tape:
        live_tensors()
    assert tape.watched_variables() == ()
    del variable


def test_result_shows_itself() -> None:
    # Larger than what other tests of this process may have left alive.
    shelf = [tf.ones([4096, 1024]) for _ in range(3)]
    result = live_tensors()
    assert "tensors" in repr(result)
    assert "alive" in repr(result)
    (group,) = [group for group in result.by_holder() if "shelf" in group.holder]
    assert (group.count, group.nbytes) == (3, 3 * 4096 * 1024 * 4)
    assert "shelf" in result._repr_html_()
    assert "3 × shelf" in alt_text(result)
    ax = result.plot()
    assert any("3 × shelf" in label.get_text() for label in ax.get_yticklabels())
    del shelf


def test_wrong_argument_and_fork_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="give the Recording"):
        live_tensors("recording")  # type: ignore[arg-type]
    monkeypatch.setattr(runtime, "home_process", os.getpid() + 1)
    with pytest.raises(RuntimeError, match="forked"):
        live_tensors()


def test_bytes_of_overlapping_extents() -> None:
    assert object_types.union_bytes([]) == 0
    assert object_types.union_bytes([(100, 10), (200, 10)]) == 20
    assert object_types.union_bytes([(100, 10), (100, 10)]) == 10
    assert object_types.union_bytes([(100, 10), (105, 10)]) == 15
    assert object_types.union_bytes([(100, 50), (110, 10), (140, 20)]) == 60
    assert object_types.union_bytes([(-1, 10), (-2, 10)]) == 20  # unknown places never overlap


def test_shared_is_what_lies_within_another() -> None:
    rng = np.random.default_rng(0)
    starts, sizes = rng.integers(0, 60, 300), rng.integers(0, 12, 300)
    extents = [*zip(starts.tolist(), sizes.tolist(), strict=True), (-5, 8), (-5, 8)]

    def within(i: int, j: int) -> bool:
        (a, n), (b, m) = extents[i], extents[j]
        first = (m, -j) > (n, -i)  # the larger first, and of equal ones the first
        return i != j and first and a >= 0 and b >= 0 and n > 0 and b <= a and a + n <= b + m

    expected = [any(within(i, j) for j in range(len(extents))) for i in range(len(extents))]
    assert lies_within(extents) == expected
    assert any(expected)
    assert not all(expected)
    assert lies_within([]) == []


@pytest.mark.parametrize("share", [lambda x: x[3], lambda x: tf.reshape(x[0], [32, 32])])
def test_the_rest_of_a_slices_buffer_is_told(share: Any) -> None:
    whole = tf.ones([16 * 1024, 1024])  # 64 MiB
    before = live_tensors()
    kept = share(whole)
    with_both = live_tensors()
    assert with_both.beyond_bytes == before.beyond_bytes  # what is whole costs nothing more
    del whole
    after = live_tensors()
    rest = (16 * 1024 - 1) * 1024 * 4
    assert after.beyond_bytes - with_both.beyond_bytes == rest
    assert with_both.nbytes - after.nbytes == rest
    assert any("x[0] keeps all of x" in note for note in after.notes)
    del kept


def test_names_that_are_missing_are_said() -> None:
    kept = [tf.ones([i + 1]) for i in range(5)]
    result = live_tensors(names=2)
    missing = sum(not row.chain for row in result.rows)
    assert missing == len(result) - 2
    note = result.notes[0]
    assert f"the 2 largest: {missing} of {len(result)} are without a name" in note
    assert note in result._repr_html_()
    assert not any("without a name" in note for note in live_tensors(names=10**6).notes)
    del kept


def test_search_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SEARCH_SECONDS", -1.0)
    kept: list[Any] = [[] for _ in range(5000)]  # more than is looked at between looks at the clock
    kept.append([tf.ones(ODD)])
    result = live_tensors()
    assert "ended after" in result.notes[0]
    assert any(row.shape == ODD for row in result.rows)
    del kept
