"""How far a training step reaches: what it changes through modules, methods and caches is set back.

A library's modules are not followed, and a method that the step does not name refuses nothing.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lessons_lib as ll

pytestmark = pytest.mark.usefixtures("quick")

tf = ll.runtime.tf

CODE = """
seen, batches = [], iter([1.0, 2.0, 3.0])

def train(x):
    seen.append(1)
    return x * 2.0

def draw(x):
    return x * next(batches)
"""
#: What steps reach only through a method's or a cached function's code.
SEEN: list[int] = []
BATCHES = iter([1.0, 2.0, 3.0])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Write a module into a folder, which is a package of its own, and import it."""
    names = []

    def write(folder: str) -> Any:
        place = tmp_path / folder / "its_package"
        place.mkdir(parents=True)
        (place / "its_steps.py").write_text(CODE)
        monkeypatch.syspath_prepend(str(place.parent))
        names.extend(["its_package.its_steps", "its_package"])
        return importlib.import_module(names[0])

    yield write
    for name in names:
        sys.modules.pop(name, None)


def step_through(module: Any, way: str) -> Callable[[Any], Any]:
    package = sys.modules["its_package"]

    def by_name(x):
        return module.train(x)

    def by_package(x):
        return package.its_steps.train(x)

    def imported_within(x):
        import its_package.its_steps as steps  # type: ignore[import-not-found]

        return steps.train(x)

    return {"module": by_name, "package": by_package, "imported within": imported_within}[way]


@pytest.mark.parametrize("way", ["module", "package", "imported within"])
def test_what_a_step_changes_in_a_module_of_the_users_is_set_back(module, way):
    steps = module("users")
    step = step_through(steps, way)
    ll.training_memory(step, tf.ones([4]))
    assert steps.seen == []
    step(tf.ones([4]))
    assert steps.seen == [1]


def test_a_librarys_module_is_not_followed(module):
    steps = module("site-packages")
    ll.training_memory(step_through(steps, "module"), tf.ones([4]))
    assert steps.seen


def test_an_iterator_in_a_module_of_the_users_is_not_drawn_from(module):
    steps = module("users")
    with pytest.raises(ValueError, match="draws from an iterator of its own"):
        ll.training_memory(lambda x: steps.draw(x), tf.ones([4]))
    with pytest.raises(ValueError, match="draws from an iterator of its own"):
        ll.training_memory(lambda x: x * next(steps.batches), tf.ones([4]))
    assert next(steps.batches) == 1.0
    ll.training_memory(lambda x: steps.train(x), tf.ones([4]))  # which names none


class Trainer:
    """Its code is reached as methods only."""

    def __call__(self, x):
        return self.step(x)

    @classmethod
    def step(cls, x):
        SEEN.append(1)
        return x * cls.factor()

    @staticmethod
    @tf.function
    def factor():
        SEEN.append(2)
        return 2.0

    def fit(self):
        for factor in BATCHES:
            self(factor)


class Drawing:
    """Draws a batch by itself."""

    def __call__(self, x):
        return x * next(BATCHES)


def test_what_code_names_that_is_reached_as_a_method_is_set_back():
    trainer = Trainer()
    ll.training_memory(trainer, tf.ones([4]))  # though its fit, which no step calls, draws
    assert SEEN == []
    with pytest.raises(ValueError, match="draws from an iterator of its own"):
        ll.training_memory(Drawing(), tf.ones([4]))
    with pytest.raises(ValueError, match="draws from an iterator of its own"):
        ll.training_memory(lambda x: trainer.fit(), tf.ones([4]))
    assert next(BATCHES) == 1.0


@pytest.mark.parametrize("most", [None, 8])
def test_what_a_cache_holds_is_set_back_and_the_cache_still_works(most):
    @functools.lru_cache(maxsize=most)
    def made(key):
        return [key], {"key": key}

    @functools.lru_cache(maxsize=most)
    def table():
        return {}

    def step(x):
        made("before")[0].append(1)
        table()["steps"] = len(made("within")[0])
        return x * 2.0

    kept, entries = made("before"), table()
    ll.training_memory(step, tf.ones([4]))
    assert (made("before"), table()) == ((["before"], {"key": "before"}), {})
    assert made("before") is kept
    assert table() is entries
    made.cache_clear()
    assert made("before") is not kept


def test_keyword_only_defaults_are_set_back():
    def step(x, *, log=[]):  # noqa: B006 - as people write them
        log.append(1)
        return x * 2.0

    ll.training_memory(step, tf.ones([4]))
    assert step.__kwdefaults__ == {"log": []}
    step(tf.ones([4]))
    assert step.__kwdefaults__ == {"log": [1]}
