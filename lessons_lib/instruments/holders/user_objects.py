"""From the program's own names down to objects: who holds them, as the program's author says it.

The search starts at the globals of the program's modules and the locals of its running functions,
and goes down all references at once, the plainest first: through the program's own objects, then
through TensorFlow's and Keras', and last through traced functions and their graphs.  So an
optimizer's slot is the optimizer's, though a graph holds it as well.
"""

from __future__ import annotations

import contextvars
import types
import weakref
from collections import deque
from typing import Any, Final

from lessons_lib.common.results import Result
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.names import (
    contents,
    is_of_program,
    labels,
    named_parts,
    namespaces,
    running_frames,
    type_name,
    user_locals,
)
from lessons_lib.instruments.holders.object_types import Kinds
from lessons_lib.instruments.holders.reachability import Tier, tier_of
from lessons_lib.instruments.holders.reference_paths import is_of_user, is_ours

_MOST: Final = 400_000  # objects that are looked at: more take seconds
_LOOK: Final = 2048  # objects between two looks at the clock
#: What leads out of the program into everything else.
_DOORS: Final = (types.ModuleType, types.FrameType, types.CodeType, types.BuiltinFunctionType)

#: What holds nothing: very many objects, and none of them leads on.
_HOLLOW: Final = frozenset({str, bytes, int, float, bool, complex, type(None)})
_CONTAINERS: Final = frozenset({dict, list, tuple})
#: What a module is imported by; pytest's loader leads to its session, with all tests collected.
_OF_IMPORT: Final = frozenset({"__builtins__", "__loader__", "__spec__"})


def named_paths(
    things: list[Any], kinds: Kinds, budget: SearchBudget, ignore: list[object]
) -> dict[int, tuple[str, ...]]:
    """Name those of some objects that the program's own names lead to.

    Parameters
    ----------
    things : list
    kinds : Kinds
    budget : SearchBudget
    ignore : list
        Containers that do not count.

    Returns
    -------
    dict of int to tuple of str
        By address: the chain from a name in the program down to the thing.
    """
    wanted = {id(thing) for thing in things}
    above: dict[int, tuple[object, object, str]] = {}  # object, what holds it, its name if a root
    queues: dict[Tier, deque[tuple[object, object, str]]] = {tier: deque() for tier in Tier}
    tiers: dict[type, Tier] = {}
    passed = {id(container) for container in ignore}
    own = things, ignore, wanted, above, queues, tiers, passed, *queues.values()
    passed |= {id(container) for container in own}
    for name, value in _names():
        queues[tier_of(kinds.of(value))].append((value, None, f"{name} ({type_name(value)})"))
    seen = 0
    for tier in Tier:
        queue = queues[tier]
        while queue and wanted and seen < _MOST:
            thing, holder, name = queue.popleft()
            if id(thing) in above or id(thing) in passed:
                continue
            above[id(thing)] = (thing, holder, name)
            wanted.discard(id(thing))
            seen += 1
            if seen % _LOOK == 0 and budget.is_over():
                return _chains(things, above)
            for label, held in _held(thing):
                cls = type(held)
                if cls in _HOLLOW or id(held) in above or cls in weakref.ProxyTypes:
                    continue
                if cls not in tiers:
                    tiers[cls] = tier_of(kinds.of(held))
                queues[max(tier, tiers[cls])].append((held, thing, label))
    return _chains(things, above)


def _names() -> list[tuple[str, Any]]:
    """List the program's names: globals first, and those that begin with an underscore last."""
    found: list[tuple[str, Any]] = []
    for module, namespace in namespaces():
        if is_of_user(module, namespace):
            found += [(n, v) for n, v in namespace.items() if n not in _OF_IMPORT]
    found += [(f"{name} in {function}()", value) for function, name, value in user_locals()]
    context = contextvars.copy_context()
    found += [(f"context variable {variable.name}", v) for variable, v in context.items()]
    # To ask a weak proxy for its class asks what it stands for, which may be gone.
    found = [(name, value) for name, value in found if type(value) not in weakref.ProxyTypes]
    found = [(name, value) for name, value in found if not isinstance(value, types.ModuleType)]
    return sorted(found, key=lambda named: named[0].startswith("_"))


def _held(thing: object) -> list[tuple[str, Any]]:
    """List what an object holds, with its name where that is known in full."""
    if type(thing) in _CONTAINERS:  # most objects
        return [("", held) for held in contents(thing)]
    if isinstance(thing, Result):  # numbers and texts, and very many of them
        return []
    if isinstance(thing, types.FunctionType):
        return named_parts(thing)
    if isinstance(thing, type):
        return named_parts(thing) if is_of_program(thing) else []
    if is_ours(thing) or (isinstance(thing, _DOORS) and not _is_finished(thing)):
        return []
    # Not the class of an object: it leads to all others of its module.
    return [("", held) for held in contents(thing) if held is not type(thing)]


def _is_finished(thing: object) -> bool:
    """Tell whether a frame is not running: an exception keeps it, and its locals."""
    return isinstance(thing, types.FrameType) and all(thing is not f for f in running_frames())


def _chains(
    things: list[Any], above: dict[int, tuple[object, object, str]]
) -> dict[int, tuple[str, ...]]:
    found = {}
    for thing in things:
        here = above.get(id(thing))
        path: list[object] = []
        name = ""
        while here is not None:
            path.append(here[0])
            name = here[2]
            here = None if name else above.get(id(here[1]))
        if path:
            path.reverse()
            found[id(thing)] = (name, *labels(path, last_attribute=True))
    above.clear()
    return found
