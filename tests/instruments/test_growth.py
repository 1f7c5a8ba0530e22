"""`growth` names the cause of every growing step, and none for every twin that does not grow.

Bytes are checked against shapes; who holds what, against tests/support/growing_steps.py.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause, Growth, growth
from lessons_lib.instruments.growth.causes import counted
from lessons_lib.instruments.growth.groups import text_bytes
from lessons_lib.instruments.growth.notes import LOSES_REFERENCES
from lessons_lib.instruments.growth.thresholds import LEAST_CHUNK
from tests.support import growing_steps as steps
from tests.support.cases import first_of_each, or_further

CALLS = 10
#: What stays in the check of the many steps that grow: each cause, and each sort of holder.
IN_THE_CHECK = frozenset({
    *("24726 a Python number is part of the key", "9646 operators in the session loop"),
    *("29870 appended gradients", "29870 appended scalars"),
    *("42586 shuffle buffers of kept iterators", "68196 every distinct number is remembered"),
    *("19671 a variable a step, owned by a module", "rows", "texts"),
    *("interpreters", "lost_native_memory", "one_operation", "scalars"),
})  # fmt: skip


def clean(result: Growth) -> bool:
    """Tell whether nothing grows, but for what TensorFlow 2.16 itself leaks, which must be said."""
    if LOSES_REFERENCES and result.grows:
        said = any("itself leaks" in note for note in result.notes)
        return said and all(f.cause == Cause.PYTHON_OBJECTS and not f.held for f in result.causes)
    return result.cause == Cause.NONE


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]


def look(step: Any, **options: Any) -> Growth:
    return growth(step, **{"iterations": CALLS, "warmup": 2, **options})


def together(makers: Iterable[Callable[[], Any]]) -> Callable[[int], None]:
    """Make one step of several: to look through the heap is what takes the time."""
    them = [maker() for maker in makers]

    def step(i: int) -> None:
        for one in them:
            one(i)

    return step


def assert_none_grows(makers: Iterable[Callable[[], Any]], **options: Any) -> None:
    """Look at all of them at once; each by itself where TensorFlow's own leaks would add up."""
    makers = list(makers)
    for group in [[maker] for maker in makers] if LOSES_REFERENCES else [makers]:
        result = look(together(group), **options)
        assert clean(result), explain(result)


@functools.cache
def grown(name: str) -> Growth:
    """Look at a growing step of `HELD`, `OWNED` or `REPORTED` once for all tests."""
    if name in REPORTED:
        return look(REPORTED[name][1](), **QUICKLY if name in SLOW else {})
    return look(getattr(steps, name)(True))


def explain(result: Growth) -> str:
    found = "\n".join(f"{f.cause}, {f.size}: {f.text} {f.held}" for f in result.causes)
    return f"{result!r}\n{found}\n{list(result.notes)}\n{list(result.evidence)}"


#: Equivalents of what people reported; the number is that of an issue of tensorflow/tensorflow.
#: With the cause, the step, and a twin that does not grow.
REPORTED: dict[str, tuple[Cause, Callable[[], Any], Callable[[], Any] | None]] = {
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


#: Those whose step takes a fifth of a second or more.
SLOW = ("34876 a callback keeps predictions", "27128 caches of kept datasets")
QUICKLY = {"iterations": 6, "warmup": 1}


@pytest.mark.parametrize(
    "name",
    or_further((n for n, (cause, *_) in REPORTED.items() if cause != Cause.NONE), IN_THE_CHECK),
)
def test_reported_trouble_is_named(name: str) -> None:
    assert grown(name).cause == REPORTED[name][0], explain(grown(name))


def test_reported_trouble_that_is_none_and_twins_of_the_others_are_clean() -> None:
    none = [maker for cause, maker, _ in REPORTED.values() if cause == Cause.NONE]
    twins = {name: good for name, (_, _, good) in REPORTED.items() if good is not None}
    assert_none_grows([*none, *(twin for name, twin in twins.items() if name not in SLOW)])


@pytest.mark.further
def test_slow_twins_and_a_model_that_is_fitted_again_are_clean() -> None:
    slow = [good for name in SLOW if (good := REPORTED[name][2]) is not None]
    assert len(slow) == len(SLOW)
    assert_none_grows([*slow, lambda: steps.model_a_round(reuse=True)], **QUICKLY)


@pytest.mark.further
def test_fitted_keras_model_is_explained_down_to_what_holds_it() -> None:
    result = look(steps.model_a_round(reuse=False), iterations=5, warmup=1)
    assert result.cause == Cause.GRAPH_GROWTH, explain(result)
    # TensorFlow keeps the gradient of each custom_gradient that it met in a graph (Keras'
    # optimizer sums its gradients through one) in a dictionary for good, and with it the graph.
    assert "gradient_registry (Registry) → ._registry (dict) → ['CustomGradient-" in result.holder
    assert result.holder.endswith("→ FuncGraph")
    held = result.causes[0].held[0]
    assert "one_step_on_data" in held.what
    assert held.line is not None
    assert "model.fit(" in held.line.text


@pytest.mark.further
def test_clear_session_does_not_free_a_fitted_model() -> None:
    result = look(steps.model_a_round(reuse=False, clear=True), iterations=5, warmup=1)
    assert result.cause == Cause.GRAPH_GROWTH, explain(result)
    assert "gradient_registry" in result.holder


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
    "partial": (Cause.RETAINED_TENSORS, "partial → .args", steps.UNIT),
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


#: Named at once: tensors, of which a finding lists five holders.
TENSORS = [
    n for n, (cause, _, nbytes) in HELD.items() if cause == Cause.RETAINED_TENSORS and nbytes
]
GROUPS = [TENSORS[first : first + 5] for first in range(0, len(TENSORS), 5)]
ALONE = [name for name in HELD if name not in TENSORS]


@pytest.mark.parametrize("names", first_of_each(GROUPS, keep=2), ids=" ".join)
def test_ways_of_holding_tensors_are_named_beside_each_other(names: list[str]) -> None:
    result = look(together([functools.partial(getattr(steps, name), True) for name in names]))
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


def test_no_twin_of_a_way_of_holding_grows() -> None:
    assert_none_grows(functools.partial(getattr(steps, name), False) for name in HELD)


def test_what_a_partial_of_the_step_holds_is_named() -> None:
    result = look(steps.partial(True))
    assert "the step (partial) → .args" in result.holder, explain(result)


def test_kept_slice_counts_with_what_it_pins() -> None:
    finding = grown("rows").causes[0]
    # A row is 256 bytes; the tensor that it was cut from has 64 of them, and the allocator may
    # set aside twice as much.
    assert 0.9 * steps.UNIT <= finding.bytes_per_call <= 2 * steps.UNIT
    assert not finding.exact
    assert "slices" in finding.text


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


def test_what_stays_is_described() -> None:
    (held,) = grown("29870 appended gradients").causes[0].held
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
    evidence = grown("19671 a variable a step, owned by a module").evidence
    assert len(evidence.variables.values) == CALLS
    assert len(evidence.variables.warmup) == 3  # before the first call, and after each of two
    assert set(np.diff(evidence.variables.values)) == {1.0}
    assert evidence.variables.slope == 1
    assert evidence.variable_bytes.slope == steps.UNIT
    assert evidence.variable_bytes.noise == 0
    assert {series.name for series in evidence.growing()} >= {"variables", "variables' bytes"}
    retraced = grown("24726 a Python number is part of the key")
    assert retraced.holder.startswith("update (tf.function) → "), explain(retraced)
    traces = retraced.evidence
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


@pytest.mark.further
def test_largest_part_leads_and_no_byte_is_accused_twice() -> None:
    kept: list[Any] = []

    def step(_: int) -> None:
        layers = [tf.keras.Input([8]), tf.keras.layers.Dense(8)]
        kept.append(tf.keras.Sequential(layers))

    result = look(step)
    # A Keras model is mostly objects; its kernel and bias can be told to the byte.
    assert [f.cause for f in result.causes] == [Cause.PYTHON_OBJECTS, Cause.VARIABLES]
    assert result.causes[1].bytes_per_call == (8 * 8 + 8) * 4
    assert result.causes[0].bytes_per_call > 10_000
    assert result.causes[0].held[0].chain == ("kept (list)", "Sequential")
    assert result.bytes_per_call < 1.2 * measured_bytes(result), explain(result)


def measured_bytes(result: Growth) -> float:
    """Give what the process gained a call: the C heap, and at most 512 B for each small block."""
    evidence = result.evidence
    return evidence.c_heap.slope + 512 * max(0.0, evidence.python_blocks.slope)


#: Programs whose memory native code or a library takes: the cause, what the chain says, the
#: fewest and the most bytes a call.
OWNED: dict[str, tuple[Cause, str, float, float]] = {
    # Input and output of the net: 256 × 64 float32 each.
    "interpreters": (Cause.PYTHON_OBJECTS, "by_request (dict) → Interpreter", 131_072, 600_000),
    # 1000 rows of 100 bytes, in pages that are not full
    "databases": (Cause.PYTHON_OBJECTS, "opened (dict) → Connection", 100_000, 400_000),
    # zlib's manual: (1 << (15 + 2)) + (1 << (8 + 9)) bytes for deflate, "plus a few kilobytes"
    "compressors": (Cause.PYTHON_OBJECTS, "streams (list) → Compress", 262_144, 300_000),
    "lost_native_memory": (Cause.NATIVE_MEMORY, "", 49_000, 56_000),
    # 2000 words with their numbers
    "reloaded": (Cause.NATIVE_MEMORY, "", 2000 * (24 + 8), 800_000),
    "made_tables": (Cause.NATIVE_MEMORY, "", 2000 * (4 + 4), 400_000),
    "net_called_on_new_inputs": (Cause.PYTHON_OBJECTS, "._inbound_nodes", 4096, 65_536),
    "layer_called_on_new_inputs": (Cause.PYTHON_OBJECTS, "._inbound_nodes", 4096, 65_536),
    "linked": (Cause.PYTHON_OBJECTS, ".saved (list) → Link → .before (Link)", 50 * 56, 16_384),
    "library_objects": (Cause.PYTHON_OBJECTS, "specs (list) → TensorSpec", 64, 4096),
    "saved_datasets": (Cause.GRAPH_GROWTH, "FuncGraph", steps.UNIT, 400_000),
    "tensors_of_arrays": (
        *(Cause.RETAINED_TENSORS, "history (list) → tf.Tensor"),
        *(steps.UNIT, steps.UNIT),
    ),
    "variables_of_arrays": (
        *(Cause.VARIABLES, "history (list) → tf.Variable"),
        *(steps.UNIT, steps.UNIT),
    ),
    "objects_of_tensors": (
        *(Cause.RETAINED_TENSORS, "kept (list) → numpy.ndarray → tf.Tensor"),
        *(steps.UNIT, steps.UNIT),
    ),
    "one_operation": (Cause.GRAPH_GROWTH, "graph (Graph)", 200, 20_000),
    "scalars": (Cause.RETAINED_TENSORS, "losses (list) → tf.Tensor", 4, 4),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the C library's heap")
@pytest.mark.parametrize("name", or_further(OWNED, IN_THE_CHECK))
def test_memory_of_libraries_has_one_cause(name: str) -> None:
    cause, chain, least, most = OWNED[name]
    result = grown(name)
    assert [f.cause for f in result.causes] == [cause], explain(result)
    assert chain in result.holder, explain(result)
    assert least <= result.bytes_per_call <= most, explain(result)


def test_no_twin_of_memory_of_libraries_grows() -> None:
    assert_none_grows(functools.partial(getattr(steps, name), False) for name in OWNED)


def test_native_memory_is_said_to_be_native() -> None:
    text = grown("interpreters").causes[0].text
    assert "of native memory, which grows with their number" in text
    assert "no counter names" in grown("lost_native_memory").causes[0].text


@pytest.mark.further
def test_lost_tables_are_named() -> None:
    tables = grown("reloaded").causes[0].text
    assert "Lookup tables that nothing in the program can reach any more" in tables
    assert "1 table a call, of up to 2,000 entries" in tables


@pytest.mark.further
def test_an_old_dictionary_that_begins_to_be_tracked_is_not_new() -> None:
    names = dict.fromkeys(map(str, range(1000)), 1)
    gc.collect()
    assert not gc.is_tracked(names)  # numbers and texts are in no cycle
    keep, log = steps.attribute(True), list[Any]()

    def step(i: int) -> None:
        keep(i)
        log.append({"step": i, "warnings": []})  # there are more dictionaries after each call
        if i == CALLS + 2:  # the first of the calls in which it is seen what stays
            names["0"] = []  # type: ignore[assignment]

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.RETAINED_TENSORS], explain(result)
    assert gc.is_tracked(names)


def test_objects_that_nothing_in_python_holds_are_told_by_type() -> None:
    class Lost:
        def __init__(self) -> None:
            self.parts = [[] for _ in range(3)]

    def step() -> None:
        for _ in range(200):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(Lost()))  # as a library in C may forget

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.PYTHON_OBJECTS], explain(result)
    assert not result.causes[0].held
    text = r"nothing in Python seems to hold: ≈ 8\d\d list, 200 \S*Lost a call"
    assert re.search(text, result.causes[0].text), explain(result)


def test_small_finding_does_not_silence_a_large_one() -> None:
    lose, log = steps.lost_native_memory(True), steps.library_objects(True)
    replace = steps.replaced_sets(False)

    def step(i: int) -> None:
        lose(i)
        log(i)
        replace(i)

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.NATIVE_MEMORY, Cause.PYTHON_OBJECTS]
    assert result.causes[1].held[0].chain[0] == "specs (list)", explain(result)
    # A set that is replaced at each call holds nothing that grows.
    assert not any("seen" in held.holder for f in result.causes for held in f.held)


def test_small_tensors_cost_more_than_their_bytes() -> None:
    paid = []
    for name in ("scalars", "29870 appended scalars"):
        (finding,) = grown(name).causes
        assert (finding.bytes_per_call, finding.exact) == (4, True)
        assert "4 B per call, which cost the process ≈" in finding.size
        paid.append(finding.process_bytes_per_call or 0)
    if sys.platform.startswith("linux"):  # where the C library's heap has a figure
        # At least Python's object and the smallest chunk, whatever else the step does.
        assert min(paid) >= sys.getsizeof(tf.ones([])) + LEAST_CHUNK
        assert max(paid) < 1.5 * min(paid)
    (large,) = grown("29870 appended gradients").causes
    assert large.process_bytes_per_call is None


@pytest.mark.further
def test_many_small_tensors_are_no_slices() -> None:
    losses: list[Any] = []
    found = look(lambda: losses.extend(tf.reduce_sum(tf.ones([4])) for _ in range(100)))
    (finding,) = (f for f in found.causes if f.cause == Cause.RETAINED_TENSORS)
    assert (finding.bytes_per_call, finding.exact) == (400, True)
    assert "slices" not in finding.text


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


def test_one_is_singular() -> None:
    (finding,) = grown("one_operation").causes
    assert "gains 1 operation a call" in finding.text
    assert counted(1, "operation") == "1 operation"
    assert counted(2000, "entry", "entries") == "2,000 entries"
    assert counted(0.5, "trace") == "0.5 traces"


def never() -> None:
    gc.set_threshold(0)


@pytest.mark.further
@pytest.mark.parametrize("switch_off", [gc.disable, never])
def test_cycles_grow_where_nobody_collects_garbage(switch_off: Callable[[], None]) -> None:
    threshold = gc.get_threshold()

    def objects(i: int) -> None:
        holder = steps.Trainer(False)
        holder.saved += [holder, "x" * 5000 + str(i)]

    try:
        switch_off()
        result = look(steps.cycles)
        assert [f.cause for f in result.causes] == [Cause.RETAINED_TENSORS], explain(result)
        assert result.bytes_per_call == steps.UNIT
        assert result.holder.startswith("a reference cycle that nobody collects"), explain(result)
        others = look(objects)
        assert [f.cause for f in others.causes] == [Cause.PYTHON_OBJECTS], explain(others)
        assert "switched off" in others.causes[0].text
        assert clean(look(lambda i: steps.unit(i)))
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
        gc.collect()
    assert clean(look(steps.cycles))


def test_bounded_holder_is_said() -> None:
    assert any("at most 1000" in note for note in look(steps.bounded(True)).notes)


@pytest.mark.further
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
