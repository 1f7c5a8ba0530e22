"""`live_tensors` names what holds each tensor, as the program's author says it."""

from __future__ import annotations

import contextvars
import gc
import sys
import types
from typing import Any
from unittest import mock

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.holders import names
from lessons_lib.instruments.live import live_tensors
from tests.instruments.test_live import ODD, SIZE, named

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


def raising(*values: Any) -> Exception:
    def inside() -> None:
        kept = [value for value in values if value is not None] or tf.ones(ODD)
        raise ValueError(len(kept))

    try:
        inside()
    except ValueError as error:
        return error
    raise AssertionError


def chain_of(shape: tuple[int, ...]) -> str:
    (row,) = [row for row in live_tensors().rows if row.shape == shape]
    return row.holder


def test_kept_exceptions_hold_what_their_functions_had() -> None:
    saved = raising()
    where = "saved in test_kept_exceptions_hold_what_their_functions_had() (ValueError)"
    assert chain_of(ODD) == f"{where} → frame of inside() → tf.Tensor"
    caused = RuntimeError("later")
    caused.__cause__, saved = saved, ValueError("other")
    assert "frame of inside()" in chain_of(ODD)
    assert chain_of(ODD).startswith("caused in test_kept")
    errors = {"first": caused}
    del caused
    assert chain_of(ODD).startswith("errors in test_kept")
    errors.clear()
    gc.collect()
    assert not [row for row in live_tensors().rows if row.shape == ODD]
    # A function that is running holds its locals by their names, as ever.
    here = tf.ones(ODD)
    assert chain_of(ODD).startswith("here in test_kept")
    del here, saved


def test_what_a_function_holds_is_named_by_how() -> None:
    def held(default: Any = None, *, option: Any = None) -> None: ...

    x = tf.ones(ODD)
    held.__defaults__, held.__kwdefaults__ = ((x,),), {"option": [x]}
    held.kept = [x]  # type: ignore[attr-defined]
    start: dict[str, Any] = {"held": held}
    ways: dict[str, list[Any]] = {
        ".kept (list)": [held.__dict__, held.kept],  # type: ignore[attr-defined]
        "default argument 'default' (tuple)": [held.__defaults__[0]],
        "default arguments (dict)": [held.__kwdefaults__],
    }
    for word, way in ways.items():
        assert names.labels([start, held, *way, x])[:2] == ("['held'] (function held)", word)


def test_what_a_module_was_imported_by_holds_nothing_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # pytest's loader leads to its session and so to every test: not to the program's things.
    kept = {"deep": [[[tf.ones(ODD)]]]}
    session = types.SimpleNamespace(found=kept["deep"][0][0][0])
    monkeypatch.setattr(sys.modules[__name__], "__loader__", session)
    del session
    assert chain_of(ODD).startswith("kept in test_what_a_module")
    del kept


KEPT: contextvars.ContextVar[Any] = contextvars.ContextVar("KEPT", default=())


def test_context_variables_hold_tensors() -> None:
    context, kept = contextvars.Context(), [tf.ones([2])]
    context.run(KEPT.set, kept)
    (tree,) = gc.get_referents(context)
    (node,) = gc.get_referents(tree)
    way = [None, context, tree, node, kept, kept[0]]
    assert names.labels(way) == ("Context", "KEPT (list)", "tf.Tensor")
    token = KEPT.set([tf.ones(ODD)])
    try:
        (row,) = named(live_tensors(), "KEPT")
        assert (row.nbytes, row.holder) == (SIZE, "context variable KEPT (list) → tf.Tensor")
    finally:
        KEPT.reset(token)
    assert not named(live_tensors(), "KEPT")


def test_arrays_of_objects_hold_tensors() -> None:
    box = np.empty((2, 2), object)
    box[0, 1] = tf.ones(ODD)
    assert chain_of(ODD).startswith("box in test_arrays")
    boxes = {"first": box}
    del box
    assert "boxes in test_arrays_of_objects_hold_tensors() (dict) → ['first']" in chain_of(ODD)
    inner = np.empty((), object)
    inner[()] = boxes["first"][0, 1]
    boxes.clear()
    assert "numpy.ndarray" in chain_of(ODD)
    record_array = np.zeros(1, [("tensor", object), ("number", int)])
    record_array["tensor"][0] = inner[()]
    del inner
    assert "record_array" in chain_of(ODD)
    del record_array
    plain = [tf.ones(ODD)]
    assert "plain in test_arrays" in chain_of(ODD)
    del plain


class Shelf(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        self.kept = {"a": tf.ones(ODD), "deep": {"b": tf.Variable(tf.ones(ODD))}}


def test_what_passes_for_a_dict_has_its_name() -> None:
    # TensorFlow puts a wrapper around a module's dicts, which is none itself.
    shelf, mocked, plain = Shelf(), mock.MagicMock(spec=dict), {"c": tf.ones(ODD)}
    mocked.batch = tf.ones(ODD)
    holders = sorted(row.holder for row in live_tensors().rows if row.shape == ODD)
    where = "in test_what_passes_for_a_dict_has_its_name()"
    assert [holder for holder in holders if not holder.startswith("mocked")] == [
        f"plain {where} (dict) → tf.Tensor",
        f"shelf {where} (Shelf) → .kept (_DictWrapper) → ['deep'] (_DictWrapper) → tf.Variable",
        f"shelf {where} (Shelf) → .kept (_DictWrapper) → tf.Tensor",
    ]
    assert any(holder.startswith(f"mocked {where}") for holder in holders)
    del shelf, mocked, plain


class Training:
    def __init__(self, optimizer: Any) -> None:
        self.weights = tf.Variable(tf.ones(ODD))
        self.optimizer = optimizer
        optimizer.build([self.weights])


class Box: ...


class Slotted:
    __slots__ = ("cache",)


def test_attributes_have_their_names() -> None:
    box, slotted, module, shelf = Box(), Slotted(), tf.Module(), {"cache": tf.ones(ODD)}
    for holder, name in ((box, "_cache"), (slotted, "cache"), (module, "cache")):
        setattr(holder, name, tf.ones(ODD))
    variable = tf.keras.Variable(tf.ones(ODD))
    holders = {row.holder for row in live_tensors().rows if row.shape == ODD}
    where = "in test_attributes_have_their_names()"
    assert holders >= {
        f"box {where} (Box) → ._cache (tf.Tensor)",
        f"slotted {where} (Slotted) → .cache (tf.Tensor)",
        f"module {where} (Module) → .cache (tf.Tensor)",
        f"shelf {where} (dict) → tf.Tensor",
        f"variable {where} (Variable) → tf.Variable",  # what Keras calls it says nothing
    }
    del box, slotted, module, shelf, variable


@pytest.mark.parametrize(
    ("optimizer", "slot"),
    [
        (lambda: tf.keras.optimizers.Adam(), "._momentums"),
        (lambda: tf.keras.optimizers.SGD(momentum=0.9), ".momentums"),
        (lambda: tf.keras.optimizers.RMSprop(), "._velocities"),
    ],
)
def test_slots_belong_to_their_optimizer(optimizer: Any, slot: str) -> None:
    training = Training(optimizer())

    @tf.function(autograph=False)
    def step() -> None:
        gradients = [tf.ones(ODD)]
        training.optimizer.apply_gradients(zip(gradients, [training.weights], strict=True))

    step()  # its graph holds the slots, too
    held = [row.holder for row in live_tensors().variables if row.shape == ODD]
    assert any(f".optimizer ({type(training.optimizer).__name__}) → {slot}" in h for h in held)
    assert all(h.startswith("training in test_slots") for h in held), held
    assert any(h.endswith("(Training) → .weights (tf.Variable)") for h in held)


def test_a_builtin_modules_things_are_not_the_programs_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"deep": [[[tf.ones(ODD)]]]}
    monkeypatch.setattr(sys, "last_value", kept["deep"][0][0][0], raising=False)
    assert chain_of(ODD).startswith("kept in test_a_builtin")
    del kept
    assert chain_of(ODD) == "sys.last_value (tf.Tensor)"
