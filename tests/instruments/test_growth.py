"""`growth` names the cause of every growing step, and none for every twin that does not grow.

Bytes are checked against shapes; who holds what, against tests/support/growing_steps.py.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause, Growth, growth
from lessons_lib.instruments.growth.notes import LOSES_REFERENCES
from tests.support import growing_steps as steps

CALLS = 10


def clean(result: Growth) -> bool:
    """Tell whether nothing grows, but for what TensorFlow 2.16 itself leaks, which must be said."""
    if LOSES_REFERENCES and result.grows:
        said = any("itself leaks" in note for note in result.notes)
        return said and all(f.cause == Cause.PYTHON_OBJECTS and not f.held for f in result.causes)
    return result.cause == Cause.NONE


def look(step: Any, **options: Any) -> Growth:
    return growth(step, **{"iterations": CALLS, "warmup": 2, **options})


def explain(result: Growth) -> str:
    found = "\n".join(f"{f.cause}, {f.size}: {f.text} {f.held}" for f in result.causes)
    return f"{result!r}\n{found}\n{list(result.evidence)}"


#: Equivalents of what people reported; the number is that of an issue of tensorflow/tensorflow.
REPORTED = {
    "24726 a Python number is part of the key": (
        Cause.RETRACING,
        lambda: steps.python_number_in_the_key(int),
        lambda: steps.python_number_in_the_key(lambda i: tf.constant(i, tf.int32)),
    ),
    "38561 each new shape is a new trace": (
        Cause.RETRACING,
        steps.new_shapes,
        lambda: steps.new_shapes(input_signature=[tf.TensorSpec([None, 16])]),
    ),
    "38561 relaxed shapes": (Cause.NONE, lambda: steps.new_shapes(reduce_retracing=True), None),
    "9646 operators in the session loop": (
        Cause.GRAPH_GROWTH,
        lambda: steps.session_loop(inside=True),
        lambda: steps.session_loop(inside=False),
    ),
    "29870 appended gradients": (
        Cause.RETAINED_TENSORS,
        lambda: steps.appended(lambda loss, gradient: gradient),
        lambda: steps.appended(lambda loss, g: (float(loss), float(tf.norm(g)))),
    ),
    "29870 appended scalars": (
        Cause.RETAINED_TENSORS,
        lambda: steps.appended(lambda loss, gradient: loss),
        None,
    ),
    "21584 the tape spans the loop": (Cause.NONE, lambda: steps.tape_around_loop, None),
    "42586 shuffle buffers of kept iterators": (
        Cause.DATASET_BUFFERS,
        lambda: steps.shuffled_iterators(keep=True),
        lambda: steps.shuffled_iterators(keep=False),
    ),
    "27128 caches of kept datasets": (
        Cause.DATASET_BUFFERS,
        lambda: steps.cached_datasets(keep=True),
        lambda: steps.cached_datasets(keep=False),
    ),
    "27128 a cache that fills": (
        Cause.DATASET_BUFFERS,
        lambda: steps.filling_cache(decoded=True),
        lambda: steps.filling_cache(decoded=False),
    ),
    "19671 a variable a step, owned by a module": (
        Cause.VARIABLES,
        lambda: steps.variables(kept=True),
        lambda: steps.variables(kept=False),
    ),
    "19671 one variable that is assigned": (
        Cause.NONE,
        lambda: steps.variables(kept=False, assigned=True),
        None,
    ),
    "38693 an array baked into each trace": (
        Cause.RETRACING,
        lambda: steps.baked_constant(traced_each_time=True),
        lambda: steps.baked_constant(traced_each_time=False),
    ),
    "47230 state grown by concat": (
        Cause.RETRACING,
        lambda: steps.grown_state(fixed=False),
        lambda: steps.grown_state(fixed=True),
    ),
    "68196 every distinct number is remembered": (
        Cause.RUNTIME_CACHE,
        lambda: steps.distinct_numbers(float),
        lambda: steps.distinct_numbers(np.float32),
    ),
    "every distinct attribute is remembered": (
        Cause.RUNTIME_CACHE,
        lambda: steps.distinct_attributes,
        lambda: steps.distinct_numbers(lambda _: 0.5),
    ),
    "38628 an unrolled loop, traced once and dropped": (Cause.NONE, lambda: steps.unrolled, None),
    "34876 a callback keeps predictions": (
        Cause.PYTHON_OBJECTS,
        lambda: steps.predictions(lambda p: p),
        lambda: steps.predictions(lambda p: float(p.mean())),
    ),
    "62551 plain operations": (Cause.NONE, lambda: steps.plain_calls, None),
    "62551 a traced function": (Cause.NONE, steps.traced_calls, None),
    "62551 a Keras layer": (Cause.NONE, steps.layer_calls, None),
}


@pytest.mark.parametrize("name", REPORTED)
def test_reported_trouble_is_named(name: str) -> None:
    cause, bad, good = REPORTED[name]
    result = look(bad())
    assert clean(result) if cause == Cause.NONE else result.cause == cause, explain(result)
    if good is not None:
        twin = look(good())
        assert clean(twin), explain(twin)


def test_fitted_keras_model_is_explained_down_to_what_holds_it() -> None:
    result = look(steps.model_a_round(reuse=False), iterations=6, warmup=1)
    assert result.cause == Cause.GRAPH_GROWTH, explain(result)
    # TensorFlow keeps the gradient of each custom_gradient that it met in a graph (Keras'
    # optimizer sums its gradients through one) in a dictionary for good, and with it the graph.
    assert "gradient_registry (Registry) → ._registry (dict) → ['CustomGradient-" in result.holder
    assert result.holder.endswith("→ FuncGraph")
    held = result.causes[0].held[0]
    assert "one_step_on_data" in held.what
    assert held.line is not None
    assert "model.fit(" in held.line.text


def test_clear_session_does_not_free_a_fitted_model() -> None:
    result = look(steps.model_a_round(reuse=False, clear=True), iterations=6, warmup=1)
    assert result.cause == Cause.GRAPH_GROWTH, explain(result)
    assert "gradient_registry" in result.holder


def test_model_that_is_reused_does_not_grow() -> None:
    result = look(steps.model_a_round(reuse=True))
    assert result.cause == Cause.NONE, explain(result)


#: Ways of holding: the cause, what the chain says, and the bytes of a call where shapes tell them.
HELD: dict[str, tuple[Cause, str, int | None]] = {
    "attribute": (Cause.RETAINED_TENSORS, ".saved (list) → tf.Tensor", steps.UNIT),
    "class_attribute": (Cause.RETAINED_TENSORS, "Trainer.seen (list) → tf.Tensor", steps.UNIT),
    "dictionary": (Cause.RETAINED_TENSORS, "registry (dict) → ['step ", steps.UNIT),
    "closures": (Cause.RETAINED_TENSORS, "callbacks (list) → function", steps.UNIT),
    "generator": (Cause.RETAINED_TENSORS, "kept in generator", steps.UNIT),
    "memoized": (Cause.RETAINED_TENSORS, "cache of memoized.feature (lru_cache)", steps.UNIT),
    "default_argument": (Cause.RETAINED_TENSORS, "default argument memory of", steps.UNIT),
    "thread": (Cause.RETAINED_TENSORS, "mine in worker() (list) → tf.Tensor", steps.UNIT),
    "bounded": (Cause.RETAINED_TENSORS, "recent (deque) → tf.Tensor", steps.UNIT),
    "slots": (Cause.RETAINED_TENSORS, "boxes (list) → Slotted → tf.Tensor", steps.UNIT),
    "partial": (Cause.RETAINED_TENSORS, "the step (partial) → .args", steps.UNIT),
    "exceptions": (Cause.RETAINED_TENSORS, "errors (list) → ValueError", steps.UNIT),
    # The tape keeps the output of tanh, which its gradient is computed from.
    "tapes": (Cause.RETAINED_TENSORS, "kept (list) → GradientTape → tf.Tensor", steps.UNIT),
    # 64 outputs of 4 float32
    "keras_subclass": (Cause.RETAINED_TENSORS, "net (Net) → ", 64 * 4 * 4),
    "module": (Cause.RETAINED_TENSORS, "owner (Module) → .states", steps.UNIT),
    # 1000 float32, and row splits and lengths: 3 and 2 int64
    "ragged": (Cause.RETAINED_TENSORS, "kept (list) → RaggedTensor", 4000 + 24 + 16),
    "nested": (Cause.RETAINED_TENSORS, "trainer (Trainer) → .log (defaultdict)", steps.UNIT),
    "table": (Cause.RETAINED_TENSORS, "entries (MutableHashTable)", None),
    "rows": (Cause.RETAINED_TENSORS, "examples (list) → tf.Tensor", None),
    "arrays": (Cause.PYTHON_OBJECTS, "log (list) → dict → numpy.ndarray", steps.UNIT),
    "array_cache": (Cause.PYTHON_OBJECTS, "cache (dict) → numpy.ndarray", steps.UNIT),
    "shared_arrays": (Cause.PYTHON_OBJECTS, "views (list) → numpy.ndarray", None),
    "texts": (Cause.PYTHON_OBJECTS, "lines (list) → str", None),
    "objects": (Cause.PYTHON_OBJECTS, "registry (dict) → ", None),
    "functions": (Cause.RETRACING, "made (dict) → tf.function", None),
    "concrete": (Cause.GRAPH_GROWTH, "made (list) → ConcreteFunction → FuncGraph", None),
    "sliced_datasets": (Cause.RETAINED_TENSORS, "datasets (list) → ", 16 * steps.UNIT),
}


@pytest.mark.parametrize("name", HELD)
def test_way_of_holding_is_named_and_its_twin_is_clean(name: str) -> None:
    cause, chain, nbytes = HELD[name]
    maker = getattr(steps, name)
    result = look(maker(True))
    assert result.cause == cause, explain(result)
    assert chain in result.holder, explain(result)
    finding = result.causes[0]
    if nbytes is not None:
        assert finding.bytes_per_call == nbytes, explain(result)
        assert finding.exact
    twin = look(maker(False))
    assert clean(twin), explain(twin)
    assert twin.bytes_per_call == 0


def test_kept_slice_counts_with_what_it_pins() -> None:
    finding = look(steps.rows(True)).causes[0]
    # A row is 256 bytes; the tensor that it was cut from has 64 of them, and the allocator may
    # set aside twice as much.
    assert 0.9 * steps.UNIT <= finding.bytes_per_call <= 2 * steps.UNIT
    assert not finding.exact
    assert "slices" in finding.text


def test_what_stays_is_described() -> None:
    result = look(steps.appended(lambda loss, gradient: gradient))
    (held,) = result.causes[0].held
    assert (held.what, held.shape, held.dtype) == ("tf.Tensor", (64, 64), "float32")
    assert held.nbytes == steps.UNIT
    assert held.per_call == 1
    assert held.chain == ("history (list)", "tf.Tensor")
    assert held.line is not None
    assert held.line.text == "gradient = tape.gradient(loss, weights)"


def test_several_causes_come_largest_first() -> None:
    history: list[Any] = []
    add = tf.function(lambda x, k: x + k)
    x = tf.ones([4])

    def step(i: int) -> None:
        add(x, i)
        history.append(tf.fill([512, 1024], np.float32(i)))  # 2 MiB
        history.append(np.full((128, 1024), i, np.float32))  # 512 KiB

    result = look(step)
    assert result.causes[0].cause == Cause.RETAINED_TENSORS, explain(result)
    assert result.causes[0].bytes_per_call == 2 * 2**20
    found = {finding.cause: finding for finding in result.causes}
    assert set(found) == {Cause.RETAINED_TENSORS, Cause.PYTHON_OBJECTS, Cause.RETRACING}
    assert found[Cause.PYTHON_OBJECTS].bytes_per_call == 2**19
    sizes = [finding.bytes_per_call for finding in result.causes]
    assert sizes == sorted(sizes, reverse=True)
    assert result.bytes_per_call == sum(sizes)


def test_evidence_counts_what_the_step_makes() -> None:
    evidence = look(steps.variables(kept=True)).evidence
    assert len(evidence.variables.values) == CALLS
    assert len(evidence.variables.warmup) == 3  # before the first call, and after each of two
    assert set(np.diff(evidence.variables.values)) == {1.0}
    assert evidence.variables.slope == 1
    assert evidence.variable_bytes.slope == steps.UNIT
    assert evidence.variable_bytes.noise == 0
    assert {series.name for series in evidence.growing()} >= {"variables", "variables' bytes"}
    traces = look(steps.python_number_in_the_key(int)).evidence
    assert traces.concrete_functions.slope == 1
    assert traces.functions.slope == 0
    assert traces.graph_ops.grows


@pytest.mark.parametrize(
    "maker",
    [
        lambda: functools.partial(steps.one_time_step, store={}),
        steps.sawtooth,
        steps.fills_up,
        lambda: steps.cycles,
        lambda: steps.failing_quietly,
        steps.log_of_numbers,
    ],
    ids=["one time", "saw-tooth", "fills up", "cycles", "errors", "log"],
)
def test_what_looks_like_growth_is_none(maker: Any) -> None:
    result = look(maker(), iterations=30)
    assert result.cause == Cause.NONE, explain(result)
    assert not result.causes
    assert not result.grows


def test_one_time_step_is_said() -> None:
    result = look(functools.partial(steps.one_time_step, store={}), iterations=20)
    # Calls 8 and 9 are the measured calls 7 and 8, after two of warm-up.
    text = "The live tensors rose by 2 until call 8 and stayed there"
    assert any(note.startswith(text) for note in result.notes)
    first: list[Any] = []
    early = look(lambda i: first or first.append(tf.ones([256, 256])))
    assert "The first calls added 1 to the live tensors" in " ".join(early.notes)


def test_what_the_heaps_gain_beside_the_causes_is_said() -> None:
    kept: list[Any] = []

    def step(_: int) -> None:
        layers = [tf.keras.Input([8]), tf.keras.layers.Dense(8)]
        kept.append(tf.keras.Sequential(layers))

    result = look(step)
    # Of a whole Keras model, only its kernel and bias can be told to the byte.
    assert [(f.cause, f.bytes_per_call) for f in result.causes] == [
        (Cause.VARIABLES, (8 * 8 + 8) * 4)
    ]
    assert any("much more than is named" in note for note in result.notes)
    tensors = look(steps.appended(lambda loss, grads: loss))
    assert tensors.grows
    assert not any("much more than is named" in note for note in tensors.notes)


def test_bounded_holder_is_said() -> None:
    assert any("at most 1000" in note for note in look(steps.bounded(True)).notes)


def test_bounded_cache_of_patterns_is_said() -> None:
    # As tf.train.CheckpointManager does with the path of each checkpoint.
    result = look(lambda i: re.compile(f"only{i}here*"), iterations=20)
    assert any(f"at most {re._MAXCACHE}" in note for note in result.notes)  # type: ignore[attr-defined]


def test_garbage_in_cycles_is_said() -> None:
    def step(_: int) -> None:
        holder = steps.Trainer(True)
        holder.saved += [holder, tf.ones([256, 256])]

    result = look(step)
    assert result.cause == Cause.NONE, explain(result)
    assert any("reference cycles" in note for note in result.notes)
