"""`growth` tells tensors that only TensorFlow holds from slices, and from what Python holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause
from lessons_lib.instruments.growth.hidden import Left, divided
from lessons_lib.instruments.growth.observation import HiddenBytes
from tests.support.cases import or_further
from tests.support.growing.looking import assert_none_grows, explain, look

pytestmark = pytest.mark.usefixtures("quick", "time_enough")

#: 16 KiB, float32.
NUMBERS = 4096


def stage(name: str) -> Any:
    return lambda: tf.raw_ops.Stage(values=[tf.fill([NUMBERS], 1.0)], shared_name=name)


def stack(name: str) -> Any:
    handle = tf.raw_ops.StackV2(max_size=-1, elem_type=tf.float32, stack_name=name)
    return lambda: tf.raw_ops.StackPushV2(handle=handle, elem=tf.fill([NUMBERS], 1.0))


def keyed_stage(name: str) -> Any:
    def step(i: int) -> None:
        tf.raw_ops.MapStage(
            key=tf.constant(i, tf.int64), indices=[0], values=[tf.fill([NUMBERS], 1.0)],
            dtypes=[tf.float32], shared_name=name,
        )  # fmt: skip

    return step


RESOURCES = {"stage": stage, "stack": stack, "keyed stage": keyed_stage}


@pytest.mark.further
@pytest.mark.parametrize("name", RESOURCES)
def test_tensors_that_only_a_resource_holds_are_growth(name: str) -> None:
    result = look(RESOURCES[name](f"grows: {name}"))
    (finding,) = result.causes
    assert finding.cause is Cause.RETAINED_TENSORS, explain(result)
    assert (finding.bytes_per_call, finding.exact, finding.held) == (NUMBERS * 4, True, ())
    assert "Python has no object" in finding.text


@pytest.mark.further
def test_a_seed_fills_the_kernel_cache_beside_what_a_resource_holds() -> None:
    put = stage("seeded")

    def step() -> None:
        put()
        tf.random.uniform([4])  # with a seed, each call has another kernel

    tf.random.set_seed(5)
    try:
        found = {finding.cause: finding.bytes_per_call for finding in look(step).causes}
    finally:
        tf.random.set_seed(None)
    assert set(found) == {Cause.RUNTIME_CACHE, Cause.RETAINED_TENSORS}
    assert found[Cause.RETAINED_TENSORS] == NUMBERS * 4


def pipeline(data: Any) -> Any:
    """Iterate over a data set to which TensorFlow adds no stage that works ahead."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return iter(data.with_options(options))


@pytest.mark.further
@pytest.mark.parametrize("hole", [0, NUMBERS * 10])
def test_what_a_living_pipeline_caches_is_its_own(hole: int) -> None:
    # The allocator gives a hole of its pool whole where it is less than twice as large.
    between = [tf.zeros([hole if i % 2 else 1], tf.uint8) for i in range(80)][::2]
    rows = pipeline(tf.data.Dataset.range(100).map(lambda i: tf.fill([NUMBERS], i)).cache())
    (finding,) = look(lambda: next(rows)).causes
    assert finding.cause is Cause.DATASET_BUFFERS
    assert finding.bytes_per_call == NUMBERS * 8 * len(between) // 40  # int64


def rows_of_batches(ahead: int) -> Any:
    batches = tf.data.Dataset.range(200).map(lambda i: tf.fill([4, NUMBERS], i))
    return pipeline(batches.prefetch(ahead) if ahead else batches)


#: Ahead: nothing; fewer than the calls that are recorded first, more than these, more than all.
@pytest.mark.further
@pytest.mark.parametrize("ahead", [0, 2, 5, 20])
def test_slices_of_a_pipelines_elements_keep_these(ahead: int) -> None:
    kept, rows = list[Any](), rows_of_batches(ahead)
    (finding,) = look(lambda: kept.append(next(rows)[:1])).causes
    assert finding.cause is Cause.RETAINED_TENSORS
    assert finding.bytes_per_call == 4 * NUMBERS * 8
    assert "slices" in finding.text
    assert finding.held[0].holder == "kept (list) → tf.Tensor"


@pytest.mark.further
def test_what_a_pipeline_caches_beside_slices_of_it_is_its_own() -> None:
    large = tf.data.Dataset.range(200).map(lambda i: tf.fill([4 * NUMBERS], i)).cache()
    rows = pipeline(large.map(lambda x: tf.cast(x[: 2 * NUMBERS], tf.float32)))
    kept = list[Any]()
    found = {
        f.cause: f.bytes_per_call for f in look(lambda: kept.append(next(rows)[:NUMBERS])).causes
    }
    assert found == {
        Cause.DATASET_BUFFERS: 4 * NUMBERS * 8,
        Cause.RETAINED_TENSORS: 2 * NUMBERS * 4,
    }


@pytest.mark.further
def test_a_resource_that_is_emptied_does_not_grow() -> None:
    put = stage("emptied")

    def step() -> None:
        put()
        tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="emptied")

    assert_none_grows([lambda: lambda _: step()])


@pytest.mark.slow
@pytest.mark.parametrize("rows", or_further([64, 1], set()))
def test_beside_what_a_resource_holds_kept_tensors_are_slices_only_if_they_were_cut(
    rows: int,
) -> None:
    put, kept = stage(f"beside {rows}"), list[Any]()
    idle = iter(tf.data.Dataset.range(3))  # which keeps nothing of it

    def step() -> None:
        put()
        kept.append(tf.fill([64, 64], 1.0)[:rows])

    found = sorted(("slices" in f.text, f.bytes_per_call) for f in look(step).causes)
    assert found == [(False, NUMBERS * 4), (rows < 64, 64 * 64 * 4)]
    assert next(idle) == 0


@pytest.mark.further
@pytest.mark.parametrize("size", [lambda i: 1 + i, lambda i: 60 - i], ids=["larger", "smaller"])
def test_tensors_of_other_sizes_in_each_call_are_no_slices(size: Callable[[int], int]) -> None:
    kept = list[Any]()
    result = look(lambda i: kept.append(tf.fill([NUMBERS * size(i)], 1.0)))
    (finding,) = result.causes
    assert "slices" not in finding.text
    # The measured calls are the third to the twelfth, of which each is a unit from the next.
    sizes = [size(i) * NUMBERS * 4 for i in range(2, 12)]
    assert min(sizes) < finding.bytes_per_call < max(sizes)
    assert finding.exact


@pytest.mark.further
def test_slices_of_ever_larger_tensors_cost_what_the_measured_calls_kept() -> None:
    kept = list[Any]()
    result = look(lambda i: kept.append(tf.random.uniform([1 + i, NUMBERS])[:1]))
    (finding,) = result.causes
    assert "slices" in finding.text
    assert 3 * NUMBERS * 4 < finding.bytes_per_call < 12 * NUMBERS * 4


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([], (0, [(1000, 100), (2000, 50)])),
        ([(1000, 100)], (0, [(2000, 50)])),
        ([(1000, 40), (1020, 40)], (100 - 60, [(2000, 50)])),  # two that overlap, in one buffer
        ([(1060, 40), (2000, 50)], (100 - 40, [])),
    ],
)
def test_a_buffer_is_a_tensors_where_one_lies_in_it(
    tensors: list[tuple[int, int]], expected: tuple[int, list[tuple[int, int]]]
) -> None:
    assert divided([(1000, 100), (2000, 50)], tensors) == expected


#: Three calls made three elements of 100 B; of each that they took, 40 B are kept.
MADE = [(1000, 100), (2000, 100), (3000, 100)]
#: What was taken of elements that had been made before.
EARLIER = [(7000, 40), (8000, 40), (9000, 40)]


@pytest.mark.parametrize(
    ("ahead", "cached", "expected"),
    [
        (0, [], HiddenBytes(0, 0, 0, 100 - 40)),
        (2, [], HiddenBytes(0, 0, 0, 100 - 40)),
        (3, [], HiddenBytes(0, 0, 0, 100 - 40)),
        (0, [(4000, 100), (5000, 100), (6000, 100)], HiddenBytes(0, 0, 100, 100 - 40)),
        (2, [(4000, 100), (5000, 100), (6000, 100)], HiddenBytes(0, 0, 100, 100 - 40)),
        (2, [(4000, 9), (5000, 9), (6000, 9)], HiddenBytes(0, 0, 9, 100 - 40)),
    ],
)
def test_elements_that_wait_stand_for_those_that_were_taken_of_earlier_ones(
    ahead: int, cached: list[tuple[int, int]], expected: HiddenBytes
) -> None:
    taken = [(at, 40) for at, _ in MADE[: 3 - ahead]]
    left = Left([*MADE, *cached], [], taken, taken, EARLIER[:ahead], 0)
    assert left.a_call(3) == expected


def test_what_is_no_part_of_an_element_stands_for_none() -> None:
    taken = [(1000, 40), (2000, 40), (3000, 40)]
    adopted = [(7000, 4), (8000, 4), (9000, 4)]  # memory of NumPy's, which no allocator knows
    left = Left([*MADE, (4000, 100)], [(100, 30)], taken, taken, adopted, 3)
    assert left.a_call(1) == HiddenBytes(0, 30 - 3, 100, 3 * (100 - 40))
