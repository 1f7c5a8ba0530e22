"""Use every private part of TensorFlow, Keras, IPython and CPython that the package uses.

When a new version fails here, `lessons_lib.common.internals` says what the part is for and what
happens without it.
"""

from __future__ import annotations

import sys
import types

import pytest

from lessons_lib.common import internals
from lessons_lib.common.internals import entries
from tests.support.internal_uses import USES


@pytest.mark.parametrize("name", list(internals.INTERNALS))
def test_it_is_there_and_does_what_it_is_used_for(name: str) -> None:
    internal = internals.INTERNALS[name]
    if ":" in name and name not in USES:
        internals.find(name)
    else:
        USES[name]()
    assert all((internal.use, internal.without, internal.since))


def test_no_use_is_left_over() -> None:
    assert set(USES) <= set(internals.INTERNALS)


def test_what_is_missing_says_so_when_it_is_used() -> None:
    part = entries.part("tensorflow.python.eager.context:gone", "a test", "it fails")
    assert isinstance(part, internals.Missing)
    del internals.INTERNALS["tensorflow.python.eager.context:gone"]
    for use in (lambda: part(), lambda: part.attribute, lambda: setattr(part, "attribute", 1)):
        with pytest.raises(internals.MissingInternal, match=r"has no .*gone.* for a test: use"):
            use()


def test_cells_are_unknown_without_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert internals.cell_numbers() == {}
