"""Say what variables are for that neither Keras nor TensorFlow made for a purpose.

Or that were made before this package was imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.training.state import variable_in
from lessons_lib.recording.categories import Category
from lessons_lib.recording.variables import note, variable_of


def name_variables(objects: Iterable[Any]) -> None:
    """Note the category of every variable of Keras objects that has none yet."""
    keras = tf.keras
    owners = (
        (keras.optimizers.Optimizer, Category.OPTIMIZER),
        (keras.metrics.Metric, Category.METRICS),
        (keras.random.SeedGenerator, Category.METRICS),
        (keras.layers.Layer, Category.WEIGHTS),
    )
    found = list(objects)
    for kind, category in owners:
        for owner in found:
            if isinstance(owner, kind):
                for path, variable in _variables(owner):
                    known = variable_of(variable.handle)
                    if known.category is None:
                        layer = path.rpartition("/")[0] if category is Category.WEIGHTS else None
                        named = known._replace(name=path, category=category, layer=layer or None)
                        note(variable.handle, named)


def with_slots(used: Iterable[tf.Variable], objects: Iterable[Any]) -> list[tf.Variable]:
    """Add the other variables of every optimizer of which a slot is used.

    Run eagerly, an optimizer that sums up gradients leaves its moments alone in most steps; they
    take their memory all the same.
    """
    found = list(used)
    slots = {id(variable) for variable in found if variable.shape.rank}
    for thing in objects:
        if isinstance(thing, tf.keras.optimizers.Optimizer):
            own = [variable for _, variable in _variables(thing)]
            if any(id(variable) in slots for variable in own):
                found += own
    return found


def _variables(owner: Any) -> Iterator[tuple[str, tf.Variable]]:
    state = getattr(owner, "state", None)  # a seed generator's
    own = getattr(owner, "variables", None) or [state]
    if isinstance(owner, tf.keras.layers.Layer):
        own = owner.weights
    for variable in own:
        if (value := variable_in(variable)) is not None:
            yield str(getattr(variable, "path", value.name)), value
