"""`growth` names what holds each thing that stays, with its bytes from shapes."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB
from lessons_lib.instruments.growth import Cause, Growth
from lessons_lib.instruments.growth.groups import text_bytes
from tests.support.cases import first_of_each, or_further
from tests.support.growing import holding
from tests.support.growing.looking import assert_none_grows, explain, in_groups, look, together
from tests.support.growing.unit import UNIT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]

#: What stays in the check: each cause, and each sort of holder.
IN_THE_CHECK = frozenset({"rows"})


#: Ways of holding: the cause, what the chain says, and the bytes of a call where shapes tell them.
HELD: dict[str, tuple[Cause, str, int | None]] = {
    "attribute": (Cause.RETAINED_TENSORS, ".saved (list) → tf.Tensor", UNIT),
    "class_attribute": (Cause.RETAINED_TENSORS, "Trainer.seen (list) → tf.Tensor", UNIT),
    "dictionary": (Cause.RETAINED_TENSORS, "registry (dict) → ['step ", UNIT),
    "closures": (Cause.RETAINED_TENSORS, "callbacks (list) → function", UNIT),
    "generator": (Cause.RETAINED_TENSORS, "kept in generator", UNIT),
    "memoized": (Cause.RETAINED_TENSORS, "cache of memoized.feature (lru_cache)", UNIT),
    "default_argument": (Cause.RETAINED_TENSORS, "default argument memory of", UNIT),
    "thread": (Cause.RETAINED_TENSORS, "mine in worker() (list) → tf.Tensor", UNIT),
    "bounded": (Cause.RETAINED_TENSORS, "recent (deque) → tf.Tensor", UNIT),
    "slots": (Cause.RETAINED_TENSORS, "boxes (list) → Slotted → tf.Tensor", UNIT),
    "partial": (Cause.RETAINED_TENSORS, "partial → .args", UNIT),
    "exceptions": (Cause.RETAINED_TENSORS, "errors (list) → ValueError", UNIT),
    # The tape keeps the output of tanh, which its gradient is computed from.
    "tapes": (Cause.RETAINED_TENSORS, "kept (list) → GradientTape → tf.Tensor", UNIT),
    # 64 outputs of 4 float32
    "keras_subclass": (Cause.RETAINED_TENSORS, "net (Net) → ", 64 * 4 * 4),
    "module": (Cause.RETAINED_TENSORS, "owner (Module) → .states", UNIT),
    # 1000 float32, and row splits and lengths: 3 and 2 int64
    "ragged": (Cause.RETAINED_TENSORS, "kept (list) → RaggedTensor", 4000 + 24 + 16),
    "nested": (Cause.RETAINED_TENSORS, "trainer (Trainer) → .log (defaultdict)", UNIT),
    "table": (Cause.RETAINED_TENSORS, "entries (MutableHashTable)", None),
    "rows": (Cause.RETAINED_TENSORS, "examples (list) → tf.Tensor", None),
    "arrays": (Cause.PYTHON_OBJECTS, "log (list) → dict → numpy.ndarray", UNIT),
    "array_cache": (Cause.PYTHON_OBJECTS, "cache (dict) → numpy.ndarray", UNIT),
    "shared_arrays": (Cause.PYTHON_OBJECTS, "views (list) → numpy.ndarray", None),
    "texts": (Cause.PYTHON_OBJECTS, "lines (list) → str", None),
    "objects": (Cause.PYTHON_OBJECTS, "registry (dict) → ", None),
    "functions": (Cause.RETRACING, "made (dict) → tf.function", None),
    "concrete": (Cause.GRAPH_GROWTH, "made (list) → ConcreteFunction → FuncGraph", None),
    "sliced_datasets": (Cause.RETAINED_TENSORS, "datasets (list) → ", 16 * UNIT),
}


@functools.cache
def grown(name: str) -> Growth:
    """Look at a growing step of `HELD` once for all tests."""
    return look(getattr(holding, name)(True))


#: Named at once: tensors, of which a finding lists five holders.
TENSORS = [
    n for n, (cause, _, nbytes) in HELD.items() if cause == Cause.RETAINED_TENSORS and nbytes
]


GROUPS = [TENSORS[first : first + 5] for first in range(0, len(TENSORS), 5)]


ALONE = [name for name in HELD if name not in TENSORS]


@pytest.mark.parametrize("names", first_of_each(GROUPS), ids=" ".join)
def test_ways_of_holding_tensors_are_named_beside_each_other(names: list[str]) -> None:
    result = look(together([functools.partial(getattr(holding, name), True) for name in names]))
    finding = result.causes[0]
    assert finding.cause == Cause.RETAINED_TENSORS, explain(result)
    holders = [held.holder for held in finding.held]
    for name in names:
        assert any(HELD[name][1] in holder for holder in holders), (name, explain(result))
    assert finding.bytes_per_call == sum(HELD[name][2] or 0 for name in names), explain(result)
    assert finding.exact


@pytest.mark.parametrize("name", or_further(ALONE, IN_THE_CHECK))
def test_way_of_holding_is_named(name: str) -> None:
    cause, chain, nbytes = HELD[name]
    result = grown(name)
    assert result.cause == cause, explain(result)
    assert chain in result.holder, explain(result)
    if nbytes is not None:
        assert result.causes[0].bytes_per_call == nbytes, explain(result)
        assert result.causes[0].exact


@pytest.mark.parametrize("names", first_of_each(in_groups(HELD), keep=2), ids=" ".join)
def test_no_twin_of_a_way_of_holding_grows(names: list[str]) -> None:
    assert_none_grows(functools.partial(getattr(holding, name), False) for name in names)


@pytest.mark.further
def test_what_a_partial_of_the_step_holds_is_named() -> None:
    result = look(holding.partial(True))
    assert "the step (partial) → .args" in result.holder, explain(result)


def test_kept_slice_counts_with_what_it_pins() -> None:
    finding = grown("rows").causes[0]
    # A row is 256 bytes; the tensor that it was cut from has 64 of them.
    assert finding.bytes_per_call == pytest.approx(UNIT, abs=16)
    assert not finding.exact
    assert "slices" in finding.text


@pytest.mark.parametrize("kept", or_further([32, 48, 64], {48}))
def test_a_slice_of_half_a_tensor_or_more_keeps_it_whole(kept: int) -> None:
    x, parts = tf.ones([64, 64]), list[Any]()
    finding = look(lambda: parts.append((x * 2)[:kept])).causes[0]
    assert finding.cause is Cause.RETAINED_TENSORS
    assert finding.bytes_per_call == 64 * 64 * 4
    assert ("slices" in finding.text) == (kept < 64)


SHARED = {
    "tensor": lambda x: x,
    "a tensor of its own": lambda x: x * 2,
    "an array that TensorFlow took over": lambda x: np.ones([64, 64], "f4"),
}


@pytest.mark.parametrize("name", or_further(SHARED, {"tensor"}))
def test_variables_that_share_a_tensors_memory_cost_no_copy_of_it(name: str) -> None:
    x, kept = tf.ones([64, 64]), list[Any]()
    finding = look(lambda: kept.append(tf.Variable(SHARED[name](x)))).causes[0]
    assert finding.cause is Cause.VARIABLES
    assert ("share the memory of the tensors" in finding.text) == (name == "tensor")
    if name == "tensor":
        assert finding.bytes_per_call < 1024
    else:
        assert (finding.bytes_per_call, finding.exact) == (64 * 64 * 4, True)


@pytest.mark.parametrize(
    ("tensor", "nbytes"),
    [
        (lambda: tf.constant(["x" * 2000] * 4), 4 * (2000 + 16)),
        (lambda: tf.constant("é" * 50), 100 + 16),
        (lambda: tf.constant(["x" * 22, "short"]), 0),  # within their heads
        (lambda: tf.ones([4]), 0),
        (lambda: tf.fill([100_001], "x" * 30), 0),  # too many to look at
    ],
)
def test_texts_of_tensors_have_their_bytes(tensor: Callable[[], Any], nbytes: int) -> None:
    assert text_bytes(tensor()) == nbytes


@pytest.mark.further
def test_kept_texts_belong_to_their_tensors() -> None:
    kept: list[Any] = []
    finding = look(lambda: kept.append(tf.constant(["x" * 20_000] * 4))).causes[0]
    # Four heads of 24 bytes, and four texts.
    assert finding.cause is Cause.RETAINED_TENSORS
    assert finding.bytes_per_call == 4 * 24 + 4 * 20_016
    assert not finding.exact
    assert finding.held[0].holder.startswith("kept")


def test_a_view_keeps_its_tensor_and_the_trace_beside_it_bakes_none_in() -> None:
    rows: list[Any] = []
    score = tf.function(lambda t, rate: tf.reduce_mean(t) * rate)

    def step(i: int) -> None:
        batch = tf.fill([512, 512], float(i))  # 1 MiB
        score(batch, i)
        rows.append(batch[0])

    found = {finding.cause: finding for finding in look(step).causes}
    kept, traced = found[Cause.RETAINED_TENSORS], found[Cause.RETRACING]
    assert 2**20 <= kept.bytes_per_call <= 2 * 2**20
    assert "slices" in kept.text
    # A trace of three operations: Python's objects and TensorFlow's, but no batch.
    assert 2**16 <= traced.bytes_per_call < 2**19
    assert "baked into" not in traced.text


@pytest.mark.further
def test_a_tensor_whose_memory_is_anothers_has_no_size_of_its_own() -> None:
    kept: list[Any] = []
    variable, old = tf.Variable(tf.ones([160, 256])), tf.ones([64, 64])

    def step() -> None:
        new = old + 1.0  # 16 KiB; the three others lie in it, in the variable, and in `old`
        kept.append((new, tf.reshape(new, [4096]), variable.value(), tf.reshape(old, [8, 512])))

    (finding,) = look(step).causes
    sizes = {held.shape: (held.nbytes, held.what) for held in finding.held}
    none = (0, "tf.Tensor of shared memory")
    assert sizes.pop((160, 256)) == sizes.pop((8, 512)) == none
    assert sorted(sizes.values()) == [none, (16 * KIB, "tf.Tensor")]
    assert finding.bytes_per_call == 16 * KIB


@pytest.mark.further
@pytest.mark.parametrize("is_read", [True, False])
def test_kept_tapes_hold_the_read_of_a_variable_beside_their_own_tensors(is_read: bool) -> None:
    kept: list[Any] = []
    variable = tf.Variable(tf.ones([160, 256]))

    def step() -> None:
        x = variable if is_read else tf.ones([160, 256])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.tanh(x * x)  # its gradient needs x, its own result, and no more
        kept.append((tape, y))

    (finding,) = look(step).causes
    counted = sum(held.nbytes * held.per_call for held in finding.held)
    assert counted == finding.bytes_per_call == (1 if is_read else 2) * 160 * KIB


def test_several_causes_come_largest_first() -> None:
    history: list[Any] = []
    add = tf.function(lambda x, k: x + k)
    x = tf.ones([4])

    def step(i: int) -> None:
        add(x, i)
        history.append(tf.fill([512, 1024], np.float32(i)))  # 2 MiB
        history.append(np.full((128, 1024), i, np.float32))  # 512 KiB
        history.append(tf.reshape(x, [2, 2]))  # of the memory of `x`, which is no new one

    result = look(step)
    assert result.causes[0].cause == Cause.RETAINED_TENSORS, explain(result)
    assert result.causes[0].bytes_per_call == 2 * 2**20
    assert [(h.shape, h.nbytes) for h in result.causes[0].held] == [
        ((512, 1024), 2**21),
        ((2, 2), 0),
    ]
    found = {finding.cause: finding for finding in result.causes}
    assert set(found) == {Cause.RETAINED_TENSORS, Cause.PYTHON_OBJECTS, Cause.RETRACING}
    assert found[Cause.PYTHON_OBJECTS].bytes_per_call == 2**19
    sizes = [finding.bytes_per_call for finding in result.causes]
    assert sizes == sorted(sizes, reverse=True)
    assert result.bytes_per_call == sum(sizes)


@pytest.mark.further
def test_two_holders_in_one_object_are_both_named() -> None:
    run = types.SimpleNamespace(owner=_Owner())

    def step() -> None:
        run.owner.tensors.append(tf.ones([64, 64]))
        run.owner.variables.append(tf.Variable(tf.ones([64, 64])))

    found = look(step)
    holders = {finding.cause: finding.held[0].holder for finding in found.causes}
    assert "_Owner" in holders[Cause.RETAINED_TENSORS], explain(found)
    assert "_Owner" in holders[Cause.VARIABLES], explain(found)


class _Owner:
    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.variables: list[Any] = []


@pytest.mark.further
def test_many_small_tensors_are_no_slices() -> None:
    losses: list[Any] = []
    found = look(lambda: losses.extend(tf.reduce_sum(tf.ones([4])) for _ in range(100)))
    (finding,) = (f for f in found.causes if f.cause == Cause.RETAINED_TENSORS)
    assert (finding.bytes_per_call, finding.exact) == (400, True)
    assert "slices" not in finding.text


@pytest.mark.further
def test_bounded_holder_is_said() -> None:
    assert any("at most 1000" in note for note in look(holding.bounded(True)).notes)


@pytest.mark.further
def test_bounded_cache_of_patterns_is_said() -> None:
    # As tf.train.CheckpointManager does with the path of each checkpoint.
    result = look(lambda i: re.compile(f"only{i}here*"), iterations=20)
    assert any(f"at most {re._MAXCACHE}" in note for note in result.notes)  # type: ignore[attr-defined]


@pytest.mark.further
def test_an_array_that_each_call_makes_longer_is_named() -> None:
    owner = types.SimpleNamespace(log=np.zeros(0, np.float32))

    def step() -> None:
        owner.log = np.append(owner.log, np.ones(4 * KIB, np.float32))

    (finding,) = look(step).causes
    assert (finding.cause, finding.bytes_per_call) == (Cause.PYTHON_OBJECTS, 4 * KIB * 4)
    assert finding.held[0].holder.startswith("owner (SimpleNamespace) → ")
    assert finding.held[0].what == "numpy.ndarray"


@pytest.mark.further
def test_an_array_that_each_call_replaces_is_not_named_beside_those_that_stay() -> None:
    owner, kept = types.SimpleNamespace(batch=None), list[Any]()

    def step(i: int) -> None:
        owner.batch = np.ones(100_000, np.float32)
        kept.append(np.ones(1000 + i, np.float32))

    (finding,) = look(step).causes
    assert finding.cause is Cause.PYTHON_OBJECTS
    assert (100_000,) not in [held.shape for held in finding.held]
