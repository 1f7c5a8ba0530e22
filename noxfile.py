"""The supported TensorFlow versions, one after the other: ``pipx run nox`` or ``nox``.

Each version runs on a Python that it has wheels for; an interpreter that is missing here is skipped
and left to the public CI.  ``nox -s unit`` runs the unit tests on all of them,
``nox -s lessons`` every lesson on the oldest and the newest: there figures may differ, so the
lessons must run and their assertions must hold.
"""

from __future__ import annotations

import platform
import sys

import nox

nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["unit", "lessons"]

#: TensorFlow, and the Python to run it on.
VERSIONS = (("2.16", "3.11"), ("2.18", "3.12"), ("2.20", "3.13"), ("2.21", "3.13"))


def wheel() -> str:
    """Name the smaller wheel where there is one."""
    small = sys.platform != "darwin" and platform.machine() in ("x86_64", "AMD64")
    return "tensorflow-cpu" if small else "tensorflow"


def prepare(session: nox.Session, version: str) -> None:
    """Install the package and one TensorFlow beside it."""
    session.install("-q", "-e", ".[lessons,test]", f"{wheel()}=={version}.*")


@nox.session
@nox.parametrize("python,version", [(python, version) for version, python in VERSIONS])
def unit(session: nox.Session, version: str) -> None:
    """Run the unit tests."""
    prepare(session, version)
    session.run(
        "python", "-m", "pytest", "tests", "-q", "-n", "2", "--dist", "loadscope",
        "--no-loadscope-reorder", *session.posargs,
    )  # fmt: skip


@nox.session
@nox.parametrize("python,version", [(p, v) for v, p in (VERSIONS[0], VERSIONS[-1])])
def lessons(session: nox.Session, version: str) -> None:
    """Run every lesson; its verdicts are assertions."""
    prepare(session, version)
    session.run("python", "-m", "tests", "--lessons-only", *session.posargs)


@nox.session(python=VERSIONS[-1][1])
def foreign(session: nox.Session) -> None:
    """Run Keras' own tests bare and recorded: ``nox -s foreign -- FOLDER``, a checkout of Keras."""
    if not session.posargs:
        session.error("give the folder of a checkout of Keras of the installed version")
    prepare(session, VERSIONS[-1][0])
    session.install("-q", "absl-py", "pandas", "scikit-learn")
    session.run("python", "-m", "tests.tools.foreign", *session.posargs)
