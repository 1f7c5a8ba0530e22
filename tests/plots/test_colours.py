"""Colours can be told apart by everyone, and an operation keeps its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from lessons_lib.plots.colours import (
    HATCHES,
    INK,
    OTHER_STYLE,
    PALETTE,
    PAPER,
    UNKNOWN_STYLE,
    Style,
    figure_styles,
    luminance,
    op_styles,
)


def lab_after(matrix: np.ndarray, colour: str) -> np.ndarray:
    """Give CIE L*a*b* of a colour as seen through a linear RGB matrix."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(matrix @ linear, 0, 1)
    x, y, z = (
        np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116
        for v in xyz / np.array([0.9505, 1.0, 1.089])
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes (2009), severity 1.
SIGHT = {
    "all colours": np.eye(3),
    "no red cones": np.array(
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]
    ),
    "no green cones": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    ),
    "no blue cones": np.array(
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]
    ),
}


def closest(colours: Iterable[str], matrix: np.ndarray) -> float:
    seen = [lab_after(matrix, colour) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_by_everyone(sight: str) -> None:
    assert closest([*PALETTE, UNKNOWN_STYLE.face], SIGHT[sight]) > 12


def test_red_and_green_of_one_lightness_would_fail() -> None:
    assert closest(["#c05050", "#808040"], SIGHT["all colours"]) > 12
    assert closest(["#c05050", "#808040"], SIGHT["no green cones"]) < 12


def test_names_can_be_read_on_every_colour() -> None:
    for face in [*PALETTE, UNKNOWN_STYLE.face]:
        style = Style(face)
        lights = sorted((luminance(style.text) + 0.05, luminance(face) + 0.05))
        assert lights[1] / lights[0] > 3.9, face  # WCAG asks 4.5 of small text, 3 of large
    assert (luminance(PAPER) + 0.05) / (luminance(INK) + 0.05) > 12


def test_an_operation_looks_the_same_in_every_picture() -> None:
    alone, crowd = op_styles(["MatMul"]), op_styles(["Tanh", "Zeta", "unknown", "MatMul", "Conv2D"])
    assert alone["MatMul"] == crowd["MatMul"]
    for name in ("_FusedMatMul", "_MklMatMul", "_MklFusedMatMul"):
        assert op_styles([name])[name] == alone["MatMul"]
    assert op_styles(["AddV2"])["AddV2"] == op_styles(["Add"])["Add"]
    assert op_styles(["Unheard"]) == op_styles(["Unheard"])


def test_operations_of_one_figure_differ_in_colour_or_pattern() -> None:
    ops = [f"Op{chr(65 + i)}" for i in range(len(PALETTE) * len(HATCHES))]
    assert len(set(op_styles(ops).values())) == len(ops)
    assert op_styles(ops) == op_styles(reversed(ops))


def test_a_common_operation_keeps_its_look_when_a_rare_one_has_the_same() -> None:
    common = op_styles(["MatMul"])["MatMul"]
    names = [f"Rare{i}" for i in range(1000)]
    alike = [name for name in names if op_styles([name])[name] == common]
    assert len(alike) > 5
    for name in alike:
        styles = op_styles([name, "MatMul"])
        assert styles["MatMul"] == common != styles[name]


def test_given_colours_are_kept_and_not_used_twice() -> None:
    blue = op_styles(["MatMul"])["MatMul"]
    styles = op_styles(["MatMul", "Rare"], {"Rare": blue})
    assert styles["Rare"] == blue != styles["MatMul"]


def test_beyond_six_operations_the_rest_is_one_grey() -> None:
    six: dict[str, float] = {f"Op{i}": 10.0 + i for i in range(6)}
    assert OTHER_STYLE not in figure_styles(six).values()
    more = {**six, "AddV2": 1.0, "Add": 1.0, "unknown": 2.0}
    styles = figure_styles(more)
    assert {op for op, look in styles.items() if look == OTHER_STYLE} == {"AddV2", "Add", "unknown"}
    assert {op: styles[op] for op in six} == op_styles(six)
    # Two kernels of one operation count once; a colour that is given is kept.
    assert OTHER_STYLE not in figure_styles({**six, "Op5": 0.0, "Op5V2": 1.0}).values()
    assert figure_styles(more, {"Add": "#123456"})["AddV2"] == Style("#123456")
