"""Private parts of Keras and TensorFlow that `training_memory` uses."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Final

from lessons_lib.common.internals.eager import KERAS_STATE, eager_context
from lessons_lib.common.internals.entries import enter, find, module, of_object, part

_ADAPTER: Final = "keras.src.trainers.data_adapters:get_data_adapter"
enter(_ADAPTER, "batches as fit makes them", "training_memory takes no arrays", "Keras 3.3")


def data_adapter() -> Any:
    """Give Keras' function that turns what ``fit`` is given into batches."""
    return find(_ADAPTER)


def build_as_fit_does(model: Any, data: Any) -> None:
    """Build what a model's first step would build; what cannot be built is left to the step."""
    with contextlib.suppress(Exception):
        model._symbolic_build(data_batch=data)


enter("Trainer._symbolic_build", "a model's state before its first step", "it is built by the step")
#: All variables' class; whoever reads or writes a variable asks for its ``handle``.
BaseVariable: Final = part(
    "tensorflow.python.ops.resource_variable_ops:BaseResourceVariable",
    "the variables that a step uses",
    "training_memory cannot be used",
)


@of_object("EagerTensor._parent_trackable", "the variables that a function uses", "they are missed")
def variable_behind(handle: Any) -> Any:
    """Give the variable that a handle belongs to, such as a traced function captures; or None."""
    variable = getattr(handle, "_parent_trackable", lambda: None)()
    return variable if isinstance(variable, BaseVariable) else None


_RANDOM: Final = "leaving random generators as they were"
_GENERATORS: Final = module(
    "tensorflow.python.ops.stateful_random_ops",
    "global_generator",
    _RANDOM,
    "training_memory cannot be used",
)
enter("Context._rng", _RANDOM, "operations' seeds differ after training_memory")
_KERAS_GLOBALS: Final = ("global_seed_generator", "object_name_uids")


class RandomState:
    """The global random state of TensorFlow and Keras."""

    def __init__(self) -> None:
        self._context = eager_context()
        self._seed = getattr(self._context, "_seed", None)
        self._operations = getattr(self._context, "_rng", None)
        self._counter = None if self._operations is None else self._operations.getstate()
        self._generator = _GENERATORS.global_generator
        state = sys.modules.get(KERAS_STATE)
        self._keras = vars(state.GLOBAL_STATE_TRACKER) if state is not None else {}
        self._globals = {name: self._keras.get(name) for name in _KERAS_GLOBALS}
        self._names = dict(self._globals["object_name_uids"] or {})

    @property
    def variables(self) -> list[Any]:
        """The variables of the global generators that are there."""
        found = [] if self._generator is None else [self._generator.state]
        if (seeds := self._globals["global_seed_generator"]) is not None:
            found.append(seeds.state.value)
        return found

    def restore(self) -> None:
        """Give it back, without the generators' variables."""
        if self._operations is not None:
            if self._operations.getstate() != self._counter:
                # Kernels that were made with the seeds drawn meanwhile are kept by seed, and have
                # begun to count.
                self._context.clear_kernel_cache()
            self._operations.setstate(self._counter)
            self._context._rng = self._operations
        self._context._seed = self._seed
        _GENERATORS.global_generator = self._generator
        for name, value in self._globals.items():
            if value is None:
                self._keras.pop(name, None)
            else:
                self._keras[name] = value
        if (names := self._globals["object_name_uids"]) is not None:
            names.clear()
            names.update(self._names)


def random_state() -> RandomState:
    """Read the global random state."""
    return RandomState()
