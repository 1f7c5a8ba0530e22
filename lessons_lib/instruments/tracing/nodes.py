"""A trace's arguments as a tree of `Node`, one per argument and per part of a container.

A node holds text, numbers and weak references: it keeps no argument, tensor or graph alive.  Two
nodes with equal keys are the same to TensorFlow's look-up.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lessons_lib.common.runtime import tf


class PartKind(StrEnum):
    """What an argument, or a part of one, is to the key."""

    CALL = "call"
    TENSOR = "tensor"
    VARIABLE = "variable"
    VALUE = "Python value"
    NONE = "None"
    OBJECT = "object"
    LIST = "list"
    TUPLE = "tuple"
    DICT = "dict"
    RECORD = "record"
    EXTENSION = "extension type"
    OTHER = "other"


class ObjectKey:
    """Stands for an object in a key: by identity, or by ``==`` while both objects live.

    TensorFlow keeps a weak reference and compares the objects themselves, so an object that has
    died matches nothing any more.
    """

    __slots__ = ("hash", "ref")

    def __init__(self, ref: Any, number: int) -> None:
        self.ref = ref
        self.hash = number

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectKey):
            return NotImplemented
        if self.ref is other.ref:
            return True
        mine, theirs = self.ref(), other.ref()
        if mine is None or theirs is None:
            return False
        try:
            return mine is theirs or bool(mine == theirs)
        except Exception:  # the user's own comparison; TensorFlow would have failed on it as well
            return False


@dataclass(frozen=True, slots=True)
class Node:
    """An argument or a part of one.

    Attributes
    ----------
    path : str
        How to name it: ``x``, ``batch['image']``, ``states[0].h``.
    kind : PartKind
        What it is.
    text : str
        How to show it: ``float32[2, 3]``, ``5``, ``list of 2``.
    key : hashable
        Equal keys mean: the same to TensorFlow's look-up.
    shape : tuple of (int or None), or None
        Of tensors and variables; None when the rank is not known.
    dtype : str or None
        Of tensors and variables.  Of numbers, the dtype of a tensor that can hold them, if any.
    structure : hashable
        What two containers must share before their parts can be compared: length, keys, class.
    children : tuple of Node
        The parts of a container.
    origin : hashable
        For functions: equal ones are interchangeable, made again from the same code and values.
        None for other objects.
    by_equality : bool
        For objects: whether their class defines ``==``, by which equal ones share a trace.
    value_type : str
        For Python values and objects: name of the class.
    same_as : str
        For variables: an earlier argument that is the same variable.
    trainable : bool
        For variables.
    keyword_only : bool
        For arguments: whether they can only be given by name, which an input signature cannot say.
    full_text : str
        For other types: all that TensorFlow says of them.
    """

    path: str
    kind: PartKind
    text: str
    key: Hashable
    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None
    structure: Hashable = None
    children: tuple[Node, ...] = field(default=(), repr=False)
    origin: Hashable = None
    by_equality: bool = False
    value_type: str = ""
    same_as: str = ""
    trainable: bool = True
    keyword_only: bool = False
    full_text: str = ""

    @property
    def type_spec(self) -> Any:
        """What stands for another type in the key: its TypeSpec; None for all else."""
        spec = self.key[-1] if isinstance(self.key, tuple) else None
        return spec if isinstance(spec, tf.TypeSpec) else None

    @property
    def is_gone(self) -> bool:
        """Whether this is an object that no longer lives, so that nothing equals it any more."""
        key = self.key[-1] if isinstance(self.key, tuple) else None
        return isinstance(key, ObjectKey) and key.ref() is None


def shape_text(shape: Any) -> str:
    """Write a shape as ``[2, None]``, or say that its rank is not known."""
    return " of unknown rank" if shape is None else str(list(shape))
