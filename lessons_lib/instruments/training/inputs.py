"""What ``fit`` would hand to a training step: one batch, cast and packed as Keras does it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.internals.training import data_adapter
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.training.state import names_iterator

OWN_ITERATOR: Final = (
    "this step draws from an iterator of its own (or uses a queue), which would lose what it "
    "gives: write a step that is given its batch"
)
_NO_X: Final = "the batch is empty: give x, as model.fit takes it"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch.

    Attributes
    ----------
    data : nested structure of tensors
        As the step gets it; ragged and sparse tensors are among them.
    spec : nested structure of tf.TypeSpec
        What the step is traced for: with ``fit``, batches may differ in size.
    size : int
        Examples.
    """

    data: Any
    spec: Any
    size: int

    def sized(self, size: int) -> Any:
        """Make a batch of another size, by repeating or leaving out examples."""
        indices = np.arange(size) % self.size

        def resized(part: Any) -> Any:
            if part is None or _examples(part) != self.size:
                return part
            if isinstance(part, tf.SparseTensor):
                whole = tf.sparse.concat(0, [part] * -(-size // self.size))
                shape = [size, *part.shape.as_list()[1:]]
                return tf.sparse.slice(whole, [0] * len(shape), shape)
            return tf.gather(part, indices)

        return tf.nest.map_structure(resized, self.data)

    def any_size(self) -> Any:
        """Give the specification with the number of examples left open."""

        def opened(part: Any, spec: Any) -> Any:
            if isinstance(spec, tf.TensorSpec) and _examples(part) == self.size:
                return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)
            return spec

        return tf.nest.map_structure(opened, self.data, self.spec)


def of_model(x: Any, y: Any, sample_weight: Any) -> Batch:
    """Make the batch that ``fit(x, y, sample_weight=…)`` would give to ``train_step``."""
    _refuse_streams((x, y, sample_weight))
    if x is None:
        raise TypeError(_NO_X)
    if isinstance(x, tf.data.Dataset):
        if y is not None or sample_weight is not None:
            raise TypeError("a tf.data.Dataset holds x and y already: give the dataset alone")
        return _of_dataset(x)
    if hasattr(x, "__getitem__") and hasattr(x, "on_epoch_end"):  # a keras.utils.PyDataset
        parts = x[0]
        return of_model(*parts, *(None,) * (3 - len(parts)))
    size = _size((x, y, sample_weight))
    try:
        adapter = data_adapter()(x=x, y=y, sample_weight=sample_weight, batch_size=size)
        dataset = adapter.get_tf_dataset()
    except (ValueError, TypeError, AttributeError) as error:
        raise TypeError(
            f"Keras cannot train on this batch ({_first_line(error)}): give what model.fit takes"
        ) from None
    return Batch(next(iter(dataset)), dataset.element_spec, size)


def of_step(step: Callable[..., Any], x: Any, y: Any, sample_weight: Any) -> Batch:
    """Make the arguments for a step that is given as a callable; data is a tuple of them."""
    _refuse_streams((x, y, sample_weight))
    if names_iterator(step):
        raise ValueError(OWN_ITERATOR)
    if isinstance(x, tf.data.Dataset):
        batch = _of_dataset(x)
        if isinstance(batch.data, tuple) and _arguments(step) != 1:
            return batch
        return Batch((batch.data,), (batch.spec,), batch.size)
    parts = tuple(part for part in (x, y, sample_weight) if part is not None)
    size = _size(parts) if parts else 0
    data = tf.nest.map_structure(tf.convert_to_tensor, parts)
    return Batch(data, tf.nest.map_structure(tf.type_spec_from_value, data), size)


def _arguments(step: Callable[..., Any]) -> int:
    """Count the arguments that a step must be given."""
    python = getattr(step, "python_function", step)
    try:
        parameters = inspect.signature(python).parameters.values()
    except (TypeError, ValueError):
        return 0
    required = [p for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]
    return len(required)


def _of_dataset(dataset: Any) -> Batch:
    iterator = iter(dataset)
    try:
        data = next(iterator)
    except StopIteration:
        raise ValueError("the dataset is empty: give one with at least one batch") from None
    return Batch(data, dataset.element_spec, _size(data))


def _refuse_streams(parts: Any) -> None:
    for part in parts:
        if isinstance(part, (types.GeneratorType, Iterator)):
            raise TypeError(
                "a generator or iterator loses what is taken from it: "
                "give a batch as arrays, or a tf.data.Dataset"
            )


def _examples(part: Any) -> int | None:
    shape = getattr(part, "shape", None)
    if isinstance(part, tf.RaggedTensor):
        return int(part.nrows())
    if shape is None:
        shape = np.shape(part)
    return int(shape[0]) if len(shape) else None


def _size(parts: Any) -> int:
    sizes: set[int] = set()
    for part in tf.nest.flatten(parts):
        if part is None:
            continue
        if isinstance(part, (tf.data.Dataset, tf.data.Iterator)):
            raise TypeError("a tf.data.Dataset holds x and y already: give the dataset alone, as x")
        size = None if isinstance(part, (str, bytes)) else _examples(part)
        if size is None:
            what = "scalar tensor" if tf.is_tensor(part) else type(part).__name__
            raise TypeError(
                f"the batch holds a {what}, which has no examples: "
                "give arrays or tensors, whose first dimension is the number of examples"
            )
        sizes.add(size)
    if not sizes:
        raise TypeError(_NO_X)
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"the batch's arrays have first dimensions {sorted(sizes)}: "
            "give x and y with the same number of examples, at least 1"
        )
    return sizes.pop()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".: ")
