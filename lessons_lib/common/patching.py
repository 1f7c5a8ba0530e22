"""All wrapping of functions that are not ours: put a wrapper in place, and the original back.

What is wrapped, when, and why:

==================================  ============================  ================================
what                                when                          why
==================================  ============================  ================================
``TFE_Py_FastPathExecute``,         a recording is open           that threads wait while the
``TFE_Py_Execute``, its                                           profiler starts again
``…Cancelable`` form,               a recording with lines is     which line called an eager
``convert_to_eager_tensor``,        open                          operation, a function or a
``BaseSession.run``                                               constant; which graph a session
                                                                  runs
``imperative_grad``                 from the import on            of which variables tapes compute
                                                                  gradients
the same                            a recording with lines is     when a tape computes them, and
                                    open                          where these lie
``tf.name_scope.__enter__``         a recording with lines is     which scopes are the user's
                                    open
methods of Keras' ``CallbackList``  a recording is open           when steps and epochs begin and
                                                                  end
``TFE_GetMemoryInfo``,              the profiler rests in a long  that the program reads the peak it
``TFE_ResetMemoryStats``            recording, or the allocator   would have, though we reset it
                                    was tried, or its count of a  and allocated
                                    step taken; until that peak
                                    is reached again
TensorFlow's gradient function      from the import on            which forward operation a
                                                                  gradient belongs to
``Graph.name_scope``                from the import on            which layer a graph's operation
                                                                  belongs to
``_variable_handle_from_…``         from the import on            what a variable is for
``StructuredFunctionWrapper``'s     from the import on            which functions ``tf.data`` runs
``function``,
``OwnedIterator._create_iterator``
``_create_concrete_function``,      an instrument listens for     every trace, and its time
``Function._call``                  traces
``Graph.__init__``,                 an exercise is graded         which graphs an answer makes
``Context.call_function``,                                        and runs, and what tracing takes
``BaseSession.run``,                                              of Python's heap
``func_graph_from_py_func``
``TFE_Py_FastPathExecute`` and      an exercise is graded         Python's heap at each operation
its kin, as above
functions of ``tracemalloc``        Python's heap is watched      the program may use them, too
``train_function`` and              a model is fitted with        the memory of each batch
``test_function`` of a Keras model  `MemoryCallback`
``BaseResourceVariable.handle``,    a training step is measured   which variables an eager step
``Context.call_function``                                         uses, and functions that it calls
``os._exit``                        ``lessons_lib run``           that the report is written first
``signal.signal``, ``getsignal``    the same                      that the program sees the handlers
                                                                  it would have
==================================  ============================  ================================

What is wrapped from the import on only takes notes: functions are traced, and models built, before
they are recorded, and nobody could tell later.

Three rules hold for all.  A wrapper never raises into the program: a fault of ours costs a line,
not the run.  What the program itself raises shows no frame of ours where TensorFlow and Keras leave
out their own.  And an original is put back only where our wrapper still lies on top; if somebody
wrapped it meanwhile, it stays beneath theirs and only passes calls on.  The gradient function is
registered in C++, where the present one cannot be read, so it is the one that is never put back;
outside of recordings it does no more than note, for a graph that is being built, whose gradient is
built.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from lessons_lib.common.internals import leave_tracebacks

_MISSING: Final = object()
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Where wrappers are.
_OURS: Final = tuple(os.path.join(_PACKAGE, part, "") for part in ("instruments", "recording"))


class Patch:
    """A function that can be replaced by a wrapper, and put back.

    Parameters
    ----------
    holder : module, class or object
        What the function is an attribute of.
    name : str
    wrap : callable
        Takes the original and gives the wrapper.

    Attributes
    ----------
    original : callable
        What the wrapper has replaced.
    active : bool
        True between `install` and `remove`.  A wrapper that somebody else has wrapped outlives
        `remove`, and has to look here.
    """

    def __init__(
        self, holder: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self.original: Callable[..., Any] = getattr(holder, name)
        self.active = False
        self._holder = holder
        self._name = name
        self._wrap = wrap
        self._wrapper: Any = _MISSING
        self._before: Any = _MISSING
        self._covered_by: Any = _MISSING

    def install(self) -> None:
        """Put the wrapper in place."""
        leave_tracebacks(_OURS)
        present = getattr(self._holder, self._name)
        self.active = True
        # Somebody who wrapped our wrapper still calls it; it must not be entered twice.
        if present is self._wrapper or present is self._covered_by:
            return
        self.original = present
        self._before = vars(self._holder).get(self._name, _MISSING)
        self._wrapper = self._wrap(present)
        self._covered_by = _MISSING
        self._set(self._wrapper)

    def remove(self) -> None:
        """Put the original back, unless somebody has put something of their own there."""
        if not self.active:
            return
        self.active = False
        present = getattr(self._holder, self._name, _MISSING)
        if present is self._wrapper:
            self._set(self._before)
        elif present is not self.original:
            self._covered_by = present

    def _set(self, value: Any) -> None:
        # Past the bookkeeping of objects such as layers, which would look into what is assigned.
        plain = isinstance(self._holder, (type, ModuleType))
        if value is _MISSING:
            (delattr if plain else object.__delattr__)(self._holder, self._name)
        else:
            (setattr if plain else object.__setattr__)(self._holder, self._name, value)


@contextmanager
def patched(
    holder: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[Patch]:
    """Replace a function for the time of a block; see `Patch`."""
    patch = Patch(holder, name, wrap)
    patch.install()
    try:
        yield patch
    finally:
        patch.remove()
