"""The atlas: what it measures, what can be picked from it, and its heat map."""

from __future__ import annotations

from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.instruments.operations import atlas as atlas_module
from lessons_lib.instruments.operations.atlas import OpAtlas, op_atlas
from lessons_lib.instruments.operations.catalogue import OPERATIONS, Entry
from lessons_lib.instruments.operations.inputs import MAKERS, VARIABLE, OperationInputs
from lessons_lib.instruments.operations.layers import GROUP, layers
from lessons_lib.instruments.operations.op_memory import OpCost, Verdict, op_memory
from lessons_lib.plots.atlas import cell_texts, colour_of, describe_atlas
from lessons_lib.plots.theme import get_alt

tf = ll.runtime.tf
S = 512 * 512 * 4


@pytest.fixture(scope="module")
def atlas() -> OpAtlas:
    return op_atlas(["creation", "indexing", "variables"], progress=False)


def test_groups_are_those_that_people_ask_for() -> None:
    groups = list(dict.fromkeys(entry.group for entry in [*OPERATIONS, *layers()]))
    assert groups == [
        "creation", "element-wise", "reduction", "linear algebra", "shape", "indexing", "variables",
        "tf.nn", "convolution", "random", "strings, ragged, sparse", GROUP,
    ]  # fmt: skip


def test_every_entry_has_a_name_of_its_own_and_inputs_that_exist() -> None:
    entries = [*OPERATIONS, *layers()]
    assert len(entries) > 150
    assert len({entry.name for entry in entries}) == len(entries)
    assert {name for entry in entries for name in entry.inputs} <= {*MAKERS, VARIABLE}
    assert set(MAKERS) <= {name for entry in entries for name in entry.inputs}


def test_main_input_is_a_mebibyte_with_aligned_rows() -> None:
    made = OperationInputs()
    assert made["x"].shape.num_elements() * 4 == S
    assert made["x"].shape[1] * 4 % 64 == 0
    assert made["odd"].shape[1] * 4 % 64 != 0
    assert made["x"] is made["x"]
    assert made[VARIABLE] is not made[VARIABLE]


@pytest.mark.slow
def test_alignment_decides_whether_a_row_is_shared(atlas: OpAtlas) -> None:
    aligned, other = atlas["x[3] (aligned rows)"], atlas["x[3] (unaligned rows)"]
    assert (aligned.eager.verdict, aligned.eager.kept_bytes) == (Verdict.SHARES, S)
    assert (other.eager.verdict, other.eager.kept_bytes) == (Verdict.OUTPUT, 301 * 4)


@pytest.mark.parametrize(
    "name",
    [
        "x[:n] of a vector (aligned)",
        "x[n:] of a vector (aligned)",
        "tf.slice of rows (aligned)",
        "x[:256] (aligned)",
    ],
)
def test_alignment_decides_whether_a_slice_is_shared(atlas: OpAtlas, name: str) -> None:
    # The entry that follows is the same operation off the boundary.
    names = [row.name for row in atlas]
    other = atlas[names[names.index(name) + 1]]
    for mode in ("eager", "graph"):
        assert atlas[name].modes[mode].verdict is Verdict.SHARES
        assert other.modes[mode].verdict is Verdict.OUTPUT
        assert other.modes[mode].kept_bytes < S


@pytest.mark.parametrize("n", [16, 160, 1024, 4096 + 16, 15, 161, 1000, 4096 + 8])
def test_slices_of_one_dimension_share_in_steps_of_64_bytes(n: int) -> None:
    vector = tf.random.stateless_uniform([8192], [1, 2])
    cost = op_memory(lambda x: x[:n], vector).eager
    assert cost.shares is (n * 4 % 64 == 0)
    assert cost.kept_bytes == (8192 * 4 if cost.shares else n * 4)


def test_variable_that_was_gathered_from_is_copied_when_read(atlas: OpAtlas) -> None:
    assert atlas["v + 1"].eager.peak_bytes == S
    assert atlas["v + 1 after tf.gather(v)"].eager.peak_bytes >= 2 * S


def test_filters_pick_rows_and_can_be_combined(atlas: OpAtlas) -> None:
    assert atlas.groups == ("creation", "indexing", "variables")
    indexing = atlas.filter(group="indexing")
    assert {row.group for row in indexing} == {"indexing"}
    shared = indexing.filter(verdict="shares its input", mode="eager")
    assert 0 < len(shared) < len(indexing)
    assert all(row.memory.eager.verdict is Verdict.SHARES for row in shared)
    assert len(atlas.filter(verdict=Verdict.SHARES)) == len(atlas.filter(verdict="shares"))
    assert [row.name for row in atlas.filter(name="ZEROS")] == ["tf.zeros", "tf.zeros_like"]
    assert len(atlas.filter(mode="xla")) == 0
    in_graphs = [row.name for row in atlas.filter(mode="graph")]
    assert "tf.Variable(x)" not in in_graphs
    assert "tf.zeros" in in_graphs
    assert any(note.startswith("tf.Variable(x) cannot run in a graph") for note in atlas.notes)


@pytest.mark.parametrize(
    ("choice", "known"),
    [
        ({"group": "Indexing"}, "'indexing'"),
        ({"verdict": "free"}, "'shares its input'"),
        ({"mode": "gpu"}, "'eager', 'graph', 'xla'"),
    ],
)
def test_choice_that_does_not_exist_names_those_that_do(
    atlas: OpAtlas, choice: dict[str, Any], known: str
) -> None:
    with pytest.raises(ValueError, match=known):
        atlas.filter(**choice)


def test_unknown_group_and_unknown_name_are_refused(atlas: OpAtlas) -> None:
    with pytest.raises(ValueError, match="no group 'loops'"):
        op_atlas("loops")
    with pytest.raises(KeyError, match=r"no entry 'tf.nothing'"):
        atlas["tf.nothing"]


def test_operation_that_fails_is_left_out_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise NotImplementedError("not in this build\nmore")

    entries = [Entry("a", "fails", missing, ()), Entry("a", "works", lambda: tf.ones([2]), ())]
    monkeypatch.setattr(atlas_module, "OPERATIONS", entries)
    monkeypatch.setattr(atlas_module, "layers", list)
    found = op_atlas(progress=False)
    assert [row.name for row in found] == ["works"]
    assert found.notes == ("fails was left out: NotImplementedError: not in this build",)


def test_progress_bar_is_silent_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    entries = [Entry("a", "one", lambda: tf.ones([2]), ())]
    monkeypatch.setattr(atlas_module, "OPERATIONS", entries)
    monkeypatch.setattr(atlas_module, "layers", list)
    assert len(op_atlas()) == 1
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def cost(verdict: Verdict, peak: int, constant: int = 0) -> OpCost:
    return OpCost(verdict, False, False, peak, 0, peak, peak, constant)


@pytest.mark.parametrize(
    ("one", "texts"),
    [
        (cost(Verdict.OUTPUT, S), ("1", "")),
        (cost(Verdict.MORE, S + S // 4), ("1.25", "+")),
        (cost(Verdict.SHARES, 8), ("0", "=")),
        (cost(Verdict.FORWARDS, 2 * S), ("2", "→")),
        (cost(Verdict.NOTHING, 0, S), ("0", "c")),
        (cost(Verdict.NOTHING, 0), ("0", "")),
        (cost(Verdict.OUTPUT, 2048), ("≈0", "")),
    ],
)
def test_cell_says_the_size_and_the_verdict(one: OpCost, texts: tuple[str, str]) -> None:
    assert cell_texts(one) == texts


def test_colours_grow_with_the_bytes() -> None:
    steps = [colour_of(n) for n in (0, S // 2, S, 2 * S, 4 * S, 5 * S)]
    assert len(set(steps)) == 6
    assert colour_of(S) == colour_of(S + 8)


def test_heat_map_has_a_cell_for_every_operation_and_mode(atlas: OpAtlas) -> None:
    ax = atlas.plot()
    texts = [text.get_text() for text in ax.texts]
    assert len(ax.patches) == 2 * len(atlas)
    assert texts.count("–") == 1  # tf.Variable in a graph
    assert {row.name for row in atlas} <= set(texts)
    assert get_alt(ax) == describe_atlas(atlas)
    shared = sum(row.memory.eager.verdict is Verdict.SHARES for row in atlas)
    assert f"{shared} × shares its input" in get_alt(ax)


def test_heat_map_fills_its_width(atlas: OpAtlas) -> None:
    few = atlas.filter(verdict=Verdict.MORE)
    assert len(few) < 10 < 25 < len(atlas)
    for picked, columns in ((few, 1), (atlas, 3)):
        assert [text.get_text() for text in picked.plot().texts].count("eager") == columns


def test_table_has_a_row_for_every_operation(atlas: OpAtlas) -> None:
    html = atlas._repr_html_()
    assert html.count("<tr>") >= len(atlas) + 1
    assert "v[3].assign(row)" in html
    assert repr(atlas) == f"<OpAtlas: {len(atlas)} operations in 3 groups>"


def test_layers_are_measured_as_they_are_called() -> None:
    made = OperationInputs()
    entry = next(entry for entry in layers() if entry.name == "Dropout")
    layer, inputs = entry.prepare(made)
    assert isinstance(layer, tf.keras.layers.Dropout)
    assert layer(*inputs).shape == [512, 512]
