"""Colours: which colour and pattern stand for which operation, in every picture alike.

An operation's look is fixed: common ones are in a table, whose rows are families (an activation
and its gradient share a hue, and the pattern tells them apart); any other operation gets a look
from a checksum of its name.  Where two operations of one figure would look the same, one of them
moves on, always the same one.  Nothing here needs matplotlib, and nothing depends on the run.

The hues start from Okabe and Ito's palette (*Color Universal Design*, 2008), which people with any
of the common colour deficiencies can tell apart; lightness differs between neighbours as well.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lessons_lib.recording.buffers import NOT_WATCHED, UNKNOWN

INK: Final = "#1d2433"
FAINT_INK: Final = "#5a6272"
PAPER: Final = "#fdfcf9"
GRID: Final = "#e4e2dc"
EDGE: Final = "#ffffff"
LESS: Final = "#2d7bba"
MORE: Final = "#d9572b"
LIMIT: Final = "#a3123a"
#: What a figure beside others is drawn in when it has no meaning of its own.
GREY: Final = "#91949d"

#: One colour a family of operations; see `_FAMILIES` for which.
PALETTE: Final = (
    "#2d7bba",  # blue
    "#249d77",  # green
    "#f1a737",  # orange
    "#8fd0f5",  # sky
    "#d9572b",  # vermilion
    "#cd91c7",  # pink
    "#f5e663",  # yellow
    "#4d3f8f",  # violet
    "#cdb999",  # sand
)
#: The meters of memory, in every picture that shows several.
TENSORS: Final = PALETTE[0]
PYTHON_HEAP: Final = PALETTE[1]
C_HEAP: Final = PALETTE[7]
RESIDENT: Final = PALETTE[4]
#: Amounts in steps that double, light to dark.
RAMP: Final = ("#eef3f2", "#c5e0da", "#8cc4b9", "#4f9fa0", "#2b6f86", "#1f3f66")
#: Patterns, in the order in which the members of a family get them.
HATCHES: Final = ("", "///", "...", "xxx", "|||")

_FAMILIES: Final = (
    ("MatMul", "BatchMatMul", "Einsum", "SparseTensorDenseMatMul", "XLA"),
    ("Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Elu"),
    ("Conv2D", "Conv2DBackpropInput", "MaxPool", "Conv2DBackpropFilter", "AvgPool"),
    ("Add", "AddN", "BiasAdd", "Sub", "BiasAddGrad"),
    ("Relu", "ReluGrad", "Gather", "MaxPoolGrad", "Transpose"),
    ("Softmax", "Exp", "SparseSoftmaxCrossEntropyWithLogits", "Sqrt", "Log"),
    ("Mul", "Square", "RealDiv", "Cast", "Pow"),
    ("Concat", "Pack", "Sum", "Tile", "Mean"),
    ("RandomUniform", "RandomStandardNormal", "Fill", "AssignVariableOp", "Const"),
)
_LOOKS: Final = len(PALETTE) * len(HATCHES)
_SYNONYMS: Final = {
    "StatelessRandomUniform": "RandomUniform",
    "StatelessRandomNormal": "RandomStandardNormal",
    "TruncatedNormal": "RandomStandardNormal",
    "ResourceGather": "Gather",
    "AssignSubVariableOp": "AssignVariableOp",
    "AssignAddVariableOp": "AssignVariableOp",
}
_PREFIX: Final = re.compile(r"^_+(?:Mkl|OneDnn|Native|Quantized|Fused|XlaHost)*")
_VERSION: Final = re.compile(r"V\d+$")


@dataclass(frozen=True, slots=True)
class Style:
    """How the bands of one operation look.

    Attributes
    ----------
    face : str
        Fill colour, ``"#rrggbb"``.
    hatch : str
        Pattern drawn over it, in matplotlib's notation; often empty.
    """

    face: str
    hatch: str = ""

    @property
    def text(self) -> str:
        """A text colour that can be read on the fill."""
        light = luminance(self.face) + 0.05
        on_ink, on_white = light / (luminance(INK) + 0.05), 1.05 / light
        return INK if on_ink >= on_white else EDGE

    @property
    def pattern(self) -> str:
        """The colour of the pattern: seen, but quieter than the edges of bands."""
        if luminance(self.face) > 0.4:
            return mixed(self.face, INK, 0.3)
        return mixed(self.face, EDGE, 0.6)


UNKNOWN_STYLE: Final = Style(GREY)
#: Of what is no operation.
_UNTOLD: Final = {UNKNOWN: UNKNOWN_STYLE, NOT_WATCHED: Style(GREY, "...")}
#: Of the operations in a figure that get no colour of their own.
OTHER_STYLE: Final = Style("#b4b7be")
#: Operations with a colour of their own: more than these nobody tells apart at a glance.
MOST_COLOURED: Final = 6
SMALL_STYLE: Final = Style("#cfd2d8", "---")
#: Of the time in which the profiler rested: laid over what is known to be there.
UNWATCHED_STYLE: Final = Style("#f4f1e8", "...")
BEFORE_STYLE: Final = Style("#d9dbe0", "\\\\\\")


def luminance(colour: str) -> float:
    """Give the relative luminance (WCAG 2) of a ``"#rrggbb"`` colour, 0 to 1."""
    values = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(first: str, second: str, share: float) -> str:
    """Mix two ``"#rrggbb"`` colours; `share` is that of the second."""
    pairs = ((int(c[i : i + 2], 16) for c in (first, second)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def family_name(op: str) -> str:
    """Give the name under which an operation is coloured: without version and kernel prefixes.

    >>> family_name("_FusedMatMul"), family_name("AddV2")
    ('MatMul', 'Add')
    """
    bare = _VERSION.sub("", _PREFIX.sub("", op)) or op
    return _SYNONYMS.get(bare, bare)


_TABLE: Final = {
    name: hue + len(PALETTE) * pattern
    for hue, family in enumerate(_FAMILIES)
    for pattern, name in enumerate(family)
}


def _look(number: int) -> Style:
    return Style(PALETTE[number % len(PALETTE)], HATCHES[number // len(PALETTE) % len(HATCHES)])


def _candidates(name: str) -> Iterable[int]:
    first = _TABLE.get(name)
    if first is None:
        first = zlib.crc32(name.encode()) % _LOOKS
    # All looks, from the preferred one on: first the patterns of the same hue.
    hue, pattern = first % len(PALETTE), first // len(PALETTE)
    for h in range(len(PALETTE)):
        for p in range(len(HATCHES)):
            yield (hue + h) % len(PALETTE) + len(PALETTE) * ((pattern + p) % len(HATCHES))


def op_styles(
    ops: Iterable[str], given: Mapping[str, Style | str] | None = None
) -> dict[str, Style]:
    """Give each operation of a figure its look.

    Parameters
    ----------
    ops : iterable of str
        Operation types of everything in the figure, or what stands for them, in any order.
    given : mapping of str to Style or str, optional
        Looks or colours that are already decided.

    Returns
    -------
    dict of str to Style
        Operations whose `family_name` is the same look the same; others differ, as long as there
        are no more than the looks that exist (45).
    """
    wanted = set(ops)
    chosen = {
        op: look if isinstance(look, Style) else Style(look) for op, look in (given or {}).items()
    }
    by_name = _UNTOLD | {family_name(op): look for op, look in chosen.items()}
    used = set(by_name.values())
    names = set(map(family_name, wanted)) - by_name.keys()
    for name in sorted(names, key=lambda name: (_TABLE.get(name, _LOOKS), name)):
        looks = [_look(number) for number in _candidates(name)]
        by_name[name] = next((look for look in looks if look not in used), looks[0])
        used.add(by_name[name])
    return {op: by_name[family_name(op)] for op in wanted}


def figure_styles(
    weights: Mapping[str, float], given: Mapping[str, Style | str] | None = None
) -> dict[str, Style]:
    """Give the heaviest operations of a figure their looks, and all others one grey.

    Parameters
    ----------
    weights : mapping of str to float
        How much of the figure each operation has.
    given : mapping of str to Style or str, optional
        As in `op_styles`; these are not counted.
    """
    decided = {family_name(op) for op in given or ()}
    names: dict[str, float] = {}
    for op, weight in weights.items():
        name = family_name(op)
        if name not in decided:
            names[name] = names.get(name, 0.0) + weight
    heaviest = sorted(names, key=lambda name: (-names[name], name))[:MOST_COLOURED]
    shown = {*heaviest, *decided}
    coloured = [op for op in weights if family_name(op) in shown]
    styles = op_styles(coloured, given)
    return {op: styles.get(op, OTHER_STYLE) for op in weights}
