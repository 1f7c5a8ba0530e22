"""A class of three on one machine, with the real hub and proxy; run on demand.

``pytest tests/hub`` as root, with what ``tests/hub/requirements.txt`` names, and with a Python that
other users may run too.  Elsewhere it is skipped, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupyterhub", reason="jupyterhub is not installed: tests/hub/requirements.txt")

from tests.hub.classroom import Classroom, Learner, classroom, missing
from tests.support.notebooks import LESSONS

LESSON = LESSONS / "00_start_here.ipynb"
TOO_MUCH = """
import tensorflow as tf
keep = tf.ones([3 * 1024**3 // 4])
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classroom]:
    if lacking := missing():
        pytest.skip(lacking)
    with classroom(tmp_path_factory.mktemp("hub"), learners=3) as running:
        yield running


@pytest.fixture(scope="module")
def learners(room: Classroom) -> list[Learner]:
    found = [room.login(name) for name in room.passwords]
    for learner in found:
        learner.start_kernel()
    return found


def test_each_learner_runs_a_lesson(learners: list[Learner]) -> None:
    notebook = nbformat.read(LESSON, as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for learner in learners:
        assert [said.error for said in learner.run(*cells) if said.error] == []
    homes = [learner.run("import os; print(os.path.expanduser('~'))")[0] for learner in learners]
    assert len({said.text for said in homes}) == len(learners)


def test_nobody_reads_what_another_has(learners: list[Learner]) -> None:
    one, two = learners[0], learners[1]
    one.run("open('mine.txt', 'w').write('mine')")
    path = one.run("import os; print(os.path.abspath('mine.txt'), end='')")[0].text
    assert Path(path).read_text() == "mine"
    assert one.run(f"open({path!r}).read()")[0].error == ""
    assert two.run(f"open({path!r}).read()")[0].error == "PermissionError"
    for what in ("contents", "kernels"):
        assert one.get(f"/user/{one.name}/api/{what}").ok
        assert two.get(f"/user/{one.name}/api/{what}").status_code in (403, 404)


def test_nobody_gets_in_with_a_wrong_password(room: Classroom) -> None:
    name = next(iter(room.passwords))
    stranger = Classroom(room.address, room.process, {name: "wrong", "root": "root"})
    for user in stranger.passwords:
        with pytest.raises(PermissionError):
            stranger.login(user)


def test_kernel_over_its_limit_disturbs_nobody(learners: list[Learner]) -> None:
    greedy, *others = learners
    for learner in others:
        assert learner.run("x = 41")[0].error == ""
    assert greedy.run(TOO_MUCH)[0].error in ("ResourceExhaustedError", "the kernel died")
    for learner in others:
        assert learner.run("print(x + 1)")[0].text.strip() == "42"
    greedy.start_kernel()
    assert greedy.run("print(6 * 7)")[0].text.strip() == "42"
