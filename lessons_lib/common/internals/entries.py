"""The table of private parts, and what stands for one that is not there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lessons_lib.common.runtime import tf

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Internal:
    """A private part of another package.

    Attributes
    ----------
    name : str
        ``module:name`` for a part of a module, ``Class.name`` for a part of an object.
    use : str
        What for.
    without : str
        What happens where it is missing.
    since : str
        The first version known to have it; of TensorFlow, where no other name is given.
    """

    name: str
    use: str
    without: str
    since: str


class MissingInternal(ImportError):
    """A private part of TensorFlow that is needed is not there."""


class Missing:
    """Stands for a part that this TensorFlow does not have; any use of it raises."""

    def __init__(self, internal: Internal) -> None:
        object.__setattr__(self, "internal", internal)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        internal: Internal = object.__getattribute__(self, "internal")
        raise MissingInternal(
            f"TensorFlow {tf.__version__} has no {internal.name}, which lessons_lib needs for "
            f"{internal.use}: use TensorFlow 2.16 to 2.21, or a newer lessons_lib"
        )

    __call__ = __getattr__ = __setattr__ = _refuse


#: All of them, by name.
INTERNALS: Final[dict[str, Internal]] = {}


def find(name: str) -> Any:
    """Give what an entry ``module:name`` names.

    Raises
    ------
    ImportError, AttributeError
        If there is no such module, or no such name in it.
    """
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for piece in filter(None, attribute.split(".")):
        found = getattr(found, piece)
    return found


def enter(name: str, use: str, without: str, since: str = "2.16") -> Internal:
    """Enter what is used in another way."""
    return INTERNALS.setdefault(name, Internal(name, use, without, since))


def part(name: str, use: str, without: str, since: str = "2.16") -> Any:
    """Enter a part of a module, and give it."""
    internal = enter(name, use, without, since)
    try:
        return find(name)
    except (ImportError, AttributeError):
        return Missing(internal)


def module(name: str, parts: str, use: str, without: str, since: str = "2.16") -> Any:
    """Enter parts of a module, and give the module: for functions that are replaced in it."""
    for each in parts.split():
        enter(f"{name}:{each}", use, without, since)
    return part(f"{name}:", use, without, since)


def of_object(name: str, use: str, without: str, since: str = "2.16") -> Callable[[_F], _F]:
    """Enter a part of an object, which the decorated function reads."""
    enter(name, use, without, since)
    return lambda function: function
