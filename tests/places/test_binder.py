"""What an image for mybinder.org or a hub is made of: it must not drift from the tested project.

No image is built here.  ``python -m tests.tools.binder_check`` runs the build's steps, on demand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.support.notebooks import ROOT
from tests.tools.binder_check import LIMIT_BYTES

BINDER = ROOT / "binder"
WHEELS = {"tensorflow": "tensorflow-cpu"}  # here: there
#: What the image needs and the tested environment does not have.
ONLY_THERE = {"nbgitpuller", "notebook"}
#: Headings in requirements.txt above what the lessons need to run.
NEEDED = ("What is measured", "What the lessons run in")
LINUX: Any = default_environment() | {
    "sys_platform": "linux",
    "platform_machine": "x86_64",
    "platform_system": "Linux",
    "python_version": "3.12",
}

needs_bash = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bash") is None, reason="an image's scripts need Linux"
)


def ranges(text: str, headings: tuple[str, ...] = ()) -> dict[str, SpecifierSet]:
    """Read a requirements file as it counts on Linux; with headings, only what stands below them.

    A heading is a comment after an empty line.
    """
    found: dict[str, SpecifierSet] = {}
    wanted, before = not headings, ""
    for line in text.splitlines():
        if line.startswith("# ") and not before.strip():
            wanted = not headings or line[2:].startswith(headings)
        before = line
        bare = line.partition(" #")[0].strip()
        if not wanted or not bare or bare.startswith(("#", "-")):
            continue
        requirement = Requirement(bare)
        if requirement.marker is None or requirement.marker.evaluate(LINUX):
            found[requirement.name] = requirement.specifier
    return found


def drift(tested: str, image: str) -> list[str]:
    """List where an image's requirements are not those of the tested environment."""
    expected = {WHEELS.get(name, name): span for name, span in ranges(tested, NEEDED).items()}
    found = ranges(image)
    complaints = [f"{name} is missing" for name in expected if name not in found]
    for name, span in found.items():
        if name not in expected and name not in ONLY_THERE:
            complaints.append(f"{name} is not in the tested environment")
        elif name in expected and span != expected[name]:
            complaints.append(f"{name} is {span}, tested is {expected[name]}")
    return complaints


TESTED = (ROOT / "requirements.txt").read_text(encoding="utf-8")
IMAGE = (BINDER / "requirements.txt").read_text(encoding="utf-8")


def test_image_has_what_was_tested() -> None:
    assert len(ranges(TESTED, NEEDED)) >= 9
    assert drift(TESTED, IMAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("matplotlib~=3.11.0", "matplotlib~=3.9.0", "matplotlib is ~=3.9.0"),
        ("tensorflow-cpu~=2.21.0", "tensorflow~=2.21.0", "tensorflow-cpu is missing"),
        ("tqdm~=4.70", "pandas", "pandas is not in the tested environment"),
    ],
)
def test_drift_is_noticed(old: str, new: str, complaint: str) -> None:
    assert old in IMAGE
    assert complaint in " ".join(drift(TESTED, IMAGE.replace(old, new)))


def test_nothing_brings_the_large_wheel_beside_the_small_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {Requirement(text).name for text in project["dependencies"]} | set(ranges(IMAGE))
    assert {name for name in names if "tensorflow" in name} == {"tensorflow-cpu"}


def test_python_is_one_that_the_package_supports() -> None:
    version = (BINDER / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(version)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert version.count(".") == 1, "the builder takes no patch version"


def threads(root: Path, **environment: str) -> dict[str, int]:
    """Run ``binder/start`` under a made-up control group and read the threads it chose."""
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    done = subprocess.run(
        [str(BINDER / "start"), sys.executable, "-c", show],
        cwd=root,  # where there are no lessons to copy
        env={"PATH": os.environ["PATH"], "CGROUP_ROOT": str(root)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    return {name: int(value) for name, value in seen.items() if name.endswith("_THREADS")}


def processors() -> int:
    return int(subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout)


@needs_bash
@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),  # half a processor still needs a thread
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_threads_fit_the_container(
    tmp_path: Path, files: dict[str, str], share: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    expected = processors() if share is None else min(share, processors())
    assert set(threads(tmp_path).values()) == {expected}


@needs_bash
def test_threads_that_are_set_already_stay(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    chosen = threads(tmp_path, OMP_NUM_THREADS="7")
    assert chosen.pop("OMP_NUM_THREADS") == 7
    assert set(chosen.values()) == {1}


@needs_bash
def test_share_that_a_hub_tells_counts(tmp_path: Path) -> None:
    assert set(threads(tmp_path, CPU_LIMIT="0.5").values()) == {1}


@needs_bash
def test_last_step_sets_what_jupyterlab_shows_first(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [str(BINDER / "postBuild")],
        cwd=ROOT,
        env={"PATH": path, "NB_PYTHON_PREFIX": str(tmp_path)},
        check=True,
    )
    settings = tmp_path / "etc" / "jupyter"
    page = json.loads((settings / "jupyter_lab_config.json").read_text())["LabApp"]["default_url"]
    assert (ROOT / "notebooks" / page.removeprefix("/lab/tree/my_lessons/")).is_file()


@needs_bash
def test_image_starts_in_a_copy_of_the_lessons(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    (tmp_path / "lessons_lib" / "cli").mkdir(parents=True)
    shutil.copy(ROOT / "lessons_lib" / "cli" / "lessons.py", tmp_path / "lessons_lib" / "cli")
    done = subprocess.run(
        [str(BINDER / "start"), "echo", "started", "--port=1"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "started --port=1\n"
    assert (tmp_path / "my_lessons" / "00_start_here.ipynb").is_file()


@pytest.mark.skipif(
    shutil.which("jupyter-repo2docker") is None, reason="jupyter-repo2docker is not installed"
)
def test_generated_build_takes_our_files(tmp_path: Path) -> None:
    copy = tmp_path / "project"
    copy.mkdir()
    shutil.copytree(BINDER, copy / "binder")
    shutil.copy(ROOT / "pyproject.toml", copy)
    done = subprocess.run(
        ["jupyter-repo2docker", "--no-build", "--debug", str(copy)],
        capture_output=True,
        text=True,
        check=True,
    )
    build = done.stdout + done.stderr
    assert "python=3.12" in build
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in build
    assert "binder/postBuild" in build
    assert "binder/start" in build


def test_values_for_a_cluster_agree_with_the_image() -> None:
    values = yaml.safe_load((BINDER / "zero-to-jupyterhub-values.yaml").read_text(encoding="utf-8"))
    page = json.loads((BINDER / "first_page.json").read_text(encoding="utf-8"))
    assert values["singleuser"]["defaultUrl"] == page["LabApp"]["default_url"]
    assert values["hub"]["config"]["JupyterHub"]["authenticator_class"] == "null"
    assert values["proxy"]["service"]["type"] == "ClusterIP"
    memory = values["singleuser"]["memory"]
    assert float(memory["limit"].removesuffix("G")) * 1e9 > LIMIT_BYTES, "a kernel's limit fits in"
