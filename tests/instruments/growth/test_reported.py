"""`growth` names the cause of what people reported, and none for every twin that does not grow."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.system import LEAST_CHUNK
from lessons_lib.instruments.growth import Cause, Growth
from tests.support.cases import first_of_each, or_further
from tests.support.growing import reported
from tests.support.growing.looking import CALLS, assert_none_grows, explain, in_groups, look
from tests.support.growing.unit import UNIT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]

#: What stays in the check: each cause, and each sort of holder.
IN_THE_CHECK = frozenset({
    *("24726 a Python number is part of the key", "9646 operators in the session loop"),
    "29870 appended gradients",
    *("42586 shuffle buffers of kept iterators", "68196 every distinct number is remembered"),
    "19671 a variable a step, owned by a module",
})  # fmt: skip


#: Equivalents of what people reported; the number is that of an issue of tensorflow/tensorflow.
#: With the cause, the step, and a twin that does not grow.
REPORTED: dict[str, tuple[Cause, Callable[[], Any], Callable[[], Any] | None]] = {
    "24726 a Python number is part of the key": (
        Cause.RETRACING,
        lambda: reported.python_number_in_the_key(int),
        lambda: reported.python_number_in_the_key(lambda i: tf.constant(i, tf.int32)),
    ),
    "38561 each new shape is a new trace": (
        Cause.RETRACING,
        reported.new_shapes,
        lambda: reported.new_shapes(input_signature=[tf.TensorSpec([None, 16])]),
    ),
    "38561 relaxed shapes": (Cause.NONE, lambda: reported.new_shapes(reduce_retracing=True), None),
    "9646 operators in the session loop": (
        Cause.GRAPH_GROWTH,
        lambda: reported.session_loop(inside=True),
        lambda: reported.session_loop(inside=False),
    ),
    "29870 appended gradients": (
        Cause.RETAINED_TENSORS,
        lambda: reported.appended(lambda loss, gradient: gradient),
        lambda: reported.appended(lambda loss, g: (float(loss), float(tf.norm(g)))),
    ),
    "29870 appended scalars": (
        Cause.RETAINED_TENSORS,
        lambda: reported.appended(lambda loss, gradient: loss),
        None,
    ),
    "29870 scalars and nothing else": (
        Cause.RETAINED_TENSORS,
        lambda: reported.scalars(True),
        lambda: reported.scalars(False),
    ),
    "21584 the tape spans the loop": (Cause.NONE, lambda: reported.tape_around_loop, None),
    "42586 shuffle buffers of kept iterators": (
        Cause.DATASET_BUFFERS,
        lambda: reported.shuffled_iterators(keep=True),
        lambda: reported.shuffled_iterators(keep=False),
    ),
    "27128 caches of kept datasets": (
        Cause.DATASET_BUFFERS,
        lambda: reported.cached_datasets(keep=True),
        lambda: reported.cached_datasets(keep=False),
    ),
    "27128 a cache that fills": (
        Cause.DATASET_BUFFERS,
        lambda: reported.filling_cache(decoded=True),
        lambda: reported.filling_cache(decoded=False),
    ),
    "19671 a variable a step, owned by a module": (
        Cause.VARIABLES,
        lambda: reported.variables(kept=True),
        lambda: reported.variables(kept=False),
    ),
    "19671 one variable that is assigned": (
        Cause.NONE,
        lambda: reported.variables(kept=False, assigned=True),
        None,
    ),
    "38693 an array baked into each trace": (
        Cause.RETRACING,
        lambda: reported.baked_constant(traced_each_time=True),
        lambda: reported.baked_constant(traced_each_time=False),
    ),
    "47230 state grown by concat": (
        Cause.RETRACING,
        lambda: reported.grown_state(fixed=False),
        lambda: reported.grown_state(fixed=True),
    ),
    "68196 every distinct number is remembered": (
        Cause.RUNTIME_CACHE,
        lambda: reported.distinct_numbers(float),
        lambda: reported.distinct_numbers(np.float32),
    ),
    "every distinct attribute is remembered": (
        Cause.RUNTIME_CACHE,
        lambda: reported.distinct_attributes,
        lambda: reported.distinct_numbers(lambda _: 0.5),
    ),
    "38628 an unrolled loop, traced once and dropped": (
        Cause.NONE,
        lambda: reported.unrolled,
        None,
    ),
    "34876 a callback keeps predictions": (
        Cause.PYTHON_OBJECTS,
        lambda: reported.predictions(lambda p: p),
        lambda: reported.predictions(lambda p: float(p.mean())),
    ),
    "62551 plain operations": (Cause.NONE, lambda: reported.plain_calls, None),
    "62551 a traced function": (Cause.NONE, reported.traced_calls, None),
    "62551 a Keras layer": (Cause.NONE, reported.layer_calls, None),
}


#: Those whose step takes a fifth of a second or more.
SLOW = ("34876 a callback keeps predictions", "27128 caches of kept datasets")
QUICKLY = {"iterations": 6, "warmup": 1}


@functools.cache
def grown(name: str) -> Growth:
    """Look at a growing step of `REPORTED` once for all tests."""
    return look(REPORTED[name][1](), **QUICKLY if name in SLOW else {})


@pytest.mark.parametrize(
    "name",
    or_further((n for n, (cause, *_) in REPORTED.items() if cause != Cause.NONE), IN_THE_CHECK),
)
def test_reported_trouble_is_named(name: str) -> None:
    assert grown(name).cause == REPORTED[name][0], explain(grown(name))


#: Trouble that is none, and twins of the others.
CLEAN = {
    name: maker if cause == Cause.NONE else good
    for name, (cause, maker, good) in REPORTED.items()
    if name not in SLOW
}


@pytest.mark.parametrize(
    "names",
    first_of_each(in_groups(name for name, maker in CLEAN.items() if maker), keep=2),
    ids=" ".join,
)
def test_reported_trouble_that_is_none_and_twins_of_the_others_are_clean(
    names: list[str],
) -> None:
    assert_none_grows(maker for name in names if (maker := CLEAN[name]))


@pytest.mark.further
def test_slow_twins_and_a_model_that_is_fitted_again_are_clean() -> None:
    slow = [good for name in SLOW if (good := REPORTED[name][2]) is not None]
    assert len(slow) == len(SLOW)
    assert_none_grows([*slow, lambda: reported.model_a_round(reuse=True)], **QUICKLY)


@pytest.mark.further
def test_fitted_keras_model_is_explained_down_to_what_holds_it() -> None:
    result = look(reported.model_a_round(reuse=False), iterations=5, warmup=1)
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
    result = look(reported.model_a_round(reuse=False, clear=True), iterations=5, warmup=1)
    assert result.cause == Cause.GRAPH_GROWTH, explain(result)
    assert "gradient_registry" in result.holder


def test_what_stays_is_described() -> None:
    (held,) = grown("29870 appended gradients").causes[0].held
    assert (held.what, held.shape, held.dtype) == ("tf.Tensor", (64, 64), "float32")
    assert held.nbytes == UNIT
    assert held.per_call == 1
    assert held.chain == ("history (list)", "tf.Tensor")
    assert held.line is not None
    assert held.line.text == "gradient = tape.gradient(loss, weights)"


def test_evidence_counts_what_the_step_makes() -> None:
    evidence = grown("19671 a variable a step, owned by a module").evidence
    assert len(evidence.variables.values) == CALLS
    assert len(evidence.variables.warmup) == 3  # before the first call, and after each of two
    assert set(np.diff(evidence.variables.values)) == {1.0}
    assert evidence.variables.slope == 1
    assert evidence.variable_bytes.slope == UNIT
    assert evidence.variable_bytes.noise == 0
    assert {series.name for series in evidence.growing()} >= {"variables", "variables' bytes"}
    retraced = grown("24726 a Python number is part of the key")
    assert retraced.holder.startswith("update (tf.function) → "), explain(retraced)
    traces = retraced.evidence
    assert traces.concrete_functions.slope == 1
    assert traces.functions.slope == 0
    assert traces.graph_ops.grows


@pytest.mark.further
def test_small_tensors_cost_more_than_their_bytes() -> None:
    paid = []
    for name in ("29870 scalars and nothing else", "29870 appended scalars"):
        (finding,) = grown(name).causes
        assert (finding.bytes_per_call, finding.exact) == (4, True)
        assert finding.held[0].holder.endswith("(list) → tf.Tensor")
        assert "4 B per call, which cost the process ≈" in finding.size
        paid.append(finding.process_bytes_per_call or 0)
    if sys.platform.startswith("linux"):  # where the C library's heap has a figure
        # At least Python's object and the smallest chunk, whatever else the step does.
        assert min(paid) >= sys.getsizeof(tf.ones([])) + LEAST_CHUNK
        assert max(paid) < 1.5 * min(paid)
    (large,) = grown("29870 appended gradients").causes
    assert large.process_bytes_per_call is None


@pytest.mark.further
def test_kernels_of_kept_variables_are_the_runtimes_cache():
    optimizers = []

    def another():
        weight = tf.Variable(tf.ones([64, 64]))
        optimizer = tf.keras.optimizers.Adam()
        optimizer.build([weight])
        optimizers.append(optimizer)

    found = {cause.cause: cause for cause in look(another).causes}
    assert Cause.NATIVE_MEMORY not in found
    assert found[Cause.RUNTIME_CACHE].bytes_per_call > 0
    # The weight and its two slots, the count of steps (int64) and the learning rate (float32).
    assert found[Cause.VARIABLES].bytes_per_call == 3 * 64 * 64 * 4 + 8 + 4
