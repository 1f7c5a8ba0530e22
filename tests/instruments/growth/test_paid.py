"""What small variables cost the process is said, where it is much more than their bytes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.system import LEAST_CHUNK
from lessons_lib.common.units import KIB
from lessons_lib.instruments.growth.case import CacheTest
from lessons_lib.instruments.growth.causes import Cause
from lessons_lib.instruments.growth.observation import Group, HeapGain
from lessons_lib.instruments.growth.rules import judge
from lessons_lib.instruments.growth.thresholds import TENSOR_COST
from lessons_lib.instruments.holders.object_types import Kind
from tests.support.growing.by_hand import evidence, group, objects, seen
from tests.support.growing.looking import look


@pytest.mark.parametrize(
    ("nbytes", "groups", "heap", "c_heap", "paid"),
    [
        # A variable, the object that holds it, what else Python's heap gains, and the C heap.
        (8, (objects(248, target_bytes=8),), 5500, 4600, 8 + 5500 + 4600),
        (8, (), 5500, 40 * KIB, 8 + 5500 + 16 * KIB),  # the rest is another cause
        (8, (objects(6000),), 8000, 4600, 8 + 4600),  # objects that are a cause of their own
        (8, (), 0, 0, None),  # no more is known
        (3200, (), 5500, 4600, 3200 + 5500 + 4600),
        (3400, (), 5500, 4600, None),  # less than four times as much
    ],
)
def test_variables_have_their_cost(
    nbytes: int, groups: tuple[Group, ...], heap: float, c_heap: float, paid: int | None
) -> None:
    given = evidence(variables=1, variable_bytes=nbytes, tensor_bytes=nbytes, c_heap=c_heap)
    found = seen(group(Kind.VARIABLE, nbytes), *groups, heap=HeapGain(heap, known=True))
    finding = next(f for f in judge(given, found, CacheTest()) if f.cause is Cause.VARIABLES)
    assert (finding.bytes_per_call, finding.exact) == (nbytes, True)
    assert finding.process_bytes_per_call == paid


def test_what_holds_variables_and_tensors_is_paid_once() -> None:
    given = evidence(
        variables=1, variable_bytes=8, tensor_bytes=12, live_tensors=1, live_tensor_bytes=4
    )
    groups = group(Kind.VARIABLE, 8), group(Kind.TENSOR, 4), objects(1000, target_bytes=8)
    found = judge(given, seen(*groups, heap=HeapGain(1000, known=True)), CacheTest())
    paid = {finding.cause: finding.process_bytes_per_call for finding in found}
    assert paid == {Cause.VARIABLES: 8 + 1000, Cause.RETAINED_TENSORS: None}


@pytest.mark.parametrize(
    ("nbytes", "cost", "paid"),
    [
        (4, 1100, 4 + 88 + 1100),
        (0, 1100, 88 + 1100 - LEAST_CHUNK),  # of another's memory
        (0, 0, 1000),  # not measured: what Python's heap gains
        (400, 1100, None),  # less than four times as much
    ],
)
def test_tensors_have_their_cost(nbytes: int, cost: float, paid: int | None) -> None:
    given = evidence(live_tensors=1, live_tensor_bytes=nbytes, tensor_bytes=nbytes)
    around = objects(88, target_bytes=nbytes)
    found = seen(
        group(Kind.TENSOR, nbytes), around, heap=HeapGain(1000, known=True), tensor_cost=cost
    )
    (finding,) = judge(given, found, CacheTest())
    assert (finding.cause, finding.bytes_per_call) == (Cause.RETAINED_TENSORS, nbytes)
    assert finding.process_bytes_per_call == paid


@pytest.mark.further
def test_kept_reads_of_variables_have_a_cost() -> None:
    weights, snaps = [tf.Variable(tf.ones([64])) for _ in range(4)], list[Any]()
    (finding,) = look(lambda: snaps.append([tf.convert_to_tensor(w) for w in weights])).causes
    assert (finding.cause, finding.bytes_per_call) == (Cause.RETAINED_TENSORS, 0)
    # A list of four, and four of Python's objects.
    own = sys.getsizeof([0] * 4) + 4 * sys.getsizeof(tf.ones([]))
    assert own < (finding.process_bytes_per_call or 0) < own + 4 * TENSOR_COST


@pytest.mark.further
@pytest.mark.parametrize("rows", [1, 4096])
def test_kept_variables_have_a_cost_if_they_are_small(rows: int) -> None:
    kept = list[Any]()
    (finding,) = look(lambda: kept.append(tf.Variable(tf.ones([rows])))).causes
    assert (finding.cause, finding.bytes_per_call) == (Cause.VARIABLES, rows * 4)
    assert (finding.process_bytes_per_call is not None) == (rows == 1)
