"""`compare`: by hand arithmetic, and told when results differ.  S is 1 MiB: 512 × 512 float32."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.compare import compare
from lessons_lib.instruments.equality import first_difference, holds_numbers, snapshot, uncompared
from lessons_lib.plots.comparison import describe_comparison
from lessons_lib.plots.theme import get_alt

tf = ll.runtime.tf
S = 512 * 512 * 4
N = 6


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.random.stateless_uniform([512, 512], [1, 2])


def chain_kept(x: Any) -> Any:
    steps = [x]
    for _ in range(N):
        steps.append(tf.sin(steps[-1]))
    return steps[-1]


def chain_rebound(x: Any) -> Any:
    y = x
    for _ in range(N):
        y = tf.sin(y)
    return y


@pytest.fixture(scope="module")
def chains(x: Any) -> Any:
    graph = tf.function(chain_rebound)
    return compare(
        {
            "names kept": lambda: chain_kept(x),
            "rebound": lambda: chain_rebound(x),
            "graph": lambda: graph(x),
        }
    )


def test_peaks_are_those_of_hand_arithmetic(chains: Any) -> None:
    # Kept: all N results at once.  Rebound: the old one and the new one.  Graph: forwarded.
    assert [m.peak_range for m in chains] == [(N * S, N * S), (2 * S, 2 * S), (S, S)]
    assert [m.kept_bytes for m in chains] == [S, S, S]
    assert chains["names kept"].recording.allocated_bytes == N * S
    assert chains["graph"].recording.allocated_bytes == S


def test_traces_of_warm_up_and_measured_calls_are_told_apart(chains: Any) -> None:
    assert chains.traces == (0, 0, 1)
    assert [m.new_traces for m in chains] == [0, 0, 0]
    always_new = compare({"f": lambda: tf.function(lambda: tf.ones([2]))()}, repeats=2, warmup=1)
    assert always_new.traces == (3,)
    assert always_new["f"].new_traces == 2


def test_results_that_agree_are_said_to(chains: Any) -> None:
    assert chains.agree is True
    assert chains.disagreements == ()
    assert repr(chains) == (
        "<Comparison: peak names kept 6 MiB, rebound 2 MiB, graph 1 MiB; results agree>"
    )
    table = chains._repr_html_()
    assert table.count("agrees") == 2
    assert "differs" not in table


def test_result_that_differs_is_said_to_in_every_form(x: Any) -> None:
    wrong = compare({"right": lambda: {"y": x}, "wrong": lambda: {"y": x + tf.eye(512)[3]}})
    assert wrong.agree is False
    (disagreement,) = wrong.disagreements
    assert (disagreement.first, disagreement.second) == ("right", "wrong")
    assert disagreement.difference.path == "['y'][0, 3]"
    assert disagreement.difference.count == 512
    assert "DIFFER" in repr(wrong)
    assert "differs" in wrong._repr_html_()
    assert "['y'][0, 3]" in describe_comparison(wrong)
    titles = [ax.get_title(loc="left") for ax in wrong.plot().figure.axes]
    assert titles == ["right", "wrong – other result"]


def test_result_that_changes_from_call_to_call_is_not_blamed_on_the_other() -> None:
    numbers = iter(range(100))
    found = compare({"fixed": lambda: 1, "counting": lambda: next(numbers)})
    assert found.agree is False
    (disagreement,) = found.disagreements
    assert (disagreement.first, disagreement.second) == ("counting", "counting")
    assert "from call to call" in str(disagreement)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"one": 1, "two": 2}, ["the reference", "differs"]),
        ({"one": 1, "again": 1, "two": 2}, ["the reference", "agrees", "differs"]),
        ({"one": 1}, ["the reference"]),
    ],
)
def test_where_the_first_result_changes_the_next_is_the_reference(
    others: dict[str, int], expected: list[str]
) -> None:
    numbers = iter(range(100))
    fixed = {label: (lambda value=value: value) for label, value in others.items()}
    found = compare({"counting": lambda: next(numbers), **fixed})
    verdicts = re.findall(r"[^<>]+(?=</td></tr>)", found._repr_html_().partition("</table>")[0])
    assert verdicts == ["changes from call to call", *expected]
    told = [(d.first, d.second) for d in found.disagreements]
    differ = [("one", "two")] * ("two" in others)
    assert told == [("counting", "counting"), *differ]


@pytest.mark.slow
@pytest.mark.parametrize("odd_call", [1, 2, 3])
def test_result_that_differs_in_one_call_only_is_seen(odd_call: int) -> None:
    calls = iter(range(100))
    found = compare({"odd": lambda: int(next(calls) == odd_call), "fixed": lambda: 0}, repeats=3)
    assert [(d.first, d.second) for d in found.disagreements] == [("odd", "odd")]


def test_functions_that_return_nothing_are_not_said_to_agree() -> None:
    found = compare({"f": lambda: None, "g": lambda: None}, repeats=1)
    assert found.agree is None
    assert "nothing that can be compared" in found.notes[0]
    assert "not compared" in found._repr_html_()
    other = compare({"f": lambda: None, "g": object}, repeats=1)
    assert other.agree is False
    assert not any("nothing that can be compared" in note for note in other.notes)


def test_each_is_called_exactly_as_often_as_asked_and_in_turns() -> None:
    calls: list[str] = []
    functions = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    compare(functions, repeats=3, warmup=1)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        ((lambda: 1,), {}, TypeError),
        (({},), {}, ValueError),
        (({"f": 3},), {}, TypeError),
        (({3: print},), {}, TypeError),
        (({"f": print},), {"repeats": 0}, ValueError),
        (({"f": print},), {"warmup": -1}, ValueError),
        (({"f": print},), {"rtol": -0.1}, ValueError),
        (({"f": print},), {"rtol": "tight"}, ValueError),
    ],
)
def test_wrong_arguments_get_one_sentence_and_nothing_is_called(
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    error: type[Exception],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(error) as caught:
        compare(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_exception_passes_through_and_recording_is_off_again(x: Any) -> None:
    def fail() -> None:
        tf.sin(x)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        compare({"works": lambda: tf.sin(x), "fails": fail}, warmup=0)
    assert ["'fails'" in note for note in caught.value.__notes__] == [True]
    with ll.record() as recording:
        y = tf.sin(x)
    assert recording.peak_bytes == S
    del y


def test_unknown_label_names_the_known_ones(chains: Any) -> None:
    with pytest.raises(KeyError, match="'names kept', 'rebound', 'graph'"):
        chains["eager"]


def test_panels_share_their_axes_and_say_the_figures(chains: Any) -> None:
    axes = chains.plot().figure.axes
    assert len(axes) == 3
    assert len({ax.get_ylim() for ax in axes}) == 1
    assert "names kept 6 MiB (keeps 1 MiB), rebound 2 MiB" in get_alt(axes[0])
    html = chains.plot()._repr_html_()
    assert html.startswith('<img alt="Memory of 3 functions side by side.')


def test_overlay_draws_every_total_on_one_scale(chains: Any) -> None:
    from lessons_lib.plots.theme import new_axes

    ax = new_axes()
    assert chains.plot(ax) is ax
    highest = [max(line.get_ydata()) for line in ax.get_lines() if len(line.get_xdata()) > 1]
    assert highest == [N * S, 2 * S, S]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["names kept: peak 6 MiB", "rebound: peak 2 MiB", "graph: peak 1 MiB"]


def slices(values: list[float], indices: list[int]) -> Any:
    return tf.IndexedSlices(tf.constant(values)[:, None], tf.constant(indices), tf.constant([4, 1]))


class Pair(tf.experimental.ExtensionType):
    values: tf.Tensor
    scale: int


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


@dataclasses.dataclass
class Scores:
    loss: float
    seen: set[str]


def objects(last: float = 1.0) -> Any:
    made = np.empty(2, object)
    made[:] = [tf.ones([2]), tf.fill([3], last)]
    return made


f32 = np.float32
NEAR: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: 1.0, lambda: tf.constant(1.0)),
    (lambda: (1, [2, {"a": 3}]), lambda: [1, (2, {"a": 3})]),
    (lambda: f32(1), lambda: f32(1.0001)),
    (lambda: np.float64(1), lambda: np.float64(1 + 1e-9)),
    (lambda: tf.constant([1e-9, 1.0]), lambda: tf.constant([0.0, 1.0])),  # cancelled to nothing
    (lambda: tf.constant([np.nan, np.inf]), lambda: tf.constant([np.nan, np.inf])),
    (lambda: tf.cast([1.0], tf.bfloat16), lambda: tf.cast([1.01], tf.bfloat16)),
    (lambda: slices([1.0, 2, 3], [0, 0, 1]), lambda: tf.constant([[3.0], [3], [0], [0]])),
    (lambda: tf.ragged.constant([[1], [2, 3]]), lambda: tf.ragged.constant([[1], [2, 3]])),
    (lambda: tf.constant(["a"]), lambda: tf.constant(["a"])),
    (lambda: tf.Variable([1.0]), lambda: tf.constant([1.0])),
    (lambda: Pair(tf.ones([2]), 1), lambda: Pair(tf.ones([2]) + 1e-6, 1)),
    (lambda: {1, 2}, lambda: frozenset({2, 1})),
    (lambda: {0.1 + 0.2, 1.0}, lambda: {1.0, 0.3}),
    (lambda: {tf.zeros([2]).ref()}, lambda: {tf.zeros([2]).ref()}),
    (lambda: Scores(1.0, {"a"}), lambda: Scores(1.0, {"a"})),
    (lambda: (Mode.SUM, tf.float32, range(3)), lambda: (Mode.SUM, tf.float32, range(3))),
    (lambda: 10**400, lambda: 10**400),
    (objects, objects),
]
FAR: list[tuple[Callable[[], Any], Callable[[], Any], str]] = [
    (lambda: 1.0, lambda: tf.constant(1.1), ""),
    (lambda: [1, 2], lambda: [1], "2 items against 1"),
    (lambda: {"a": 1}, lambda: {"b": 1}, "keys ['a'] against ['b']"),
    (lambda: {"a": [0, 1]}, lambda: {"a": [0, 2]}, "result['a'][1]"),
    (lambda: f32(1), lambda: f32(1.001), ""),
    (lambda: np.float64(1), lambda: np.float64(1 + 1e-7), ""),
    (lambda: 3, lambda: 4, ""),
    (lambda: tf.constant([1, 2]), lambda: tf.constant([1, 3]), "result[1]: 2 against 3"),
    (lambda: tf.ones([2, 3]), lambda: tf.ones([3, 2]), "shape [2, 3] against [3, 2]"),
    (lambda: tf.ones([2]), lambda: tf.ones([2], tf.float64), "dtype float32 against float64"),
    (lambda: tf.constant([np.nan]), lambda: tf.constant([1.0]), ""),
    (lambda: tf.constant([np.inf]), lambda: tf.constant([-np.inf]), ""),
    (lambda: slices([1.0, 2], [0, 1]), lambda: slices([1.0, 2], [1, 0]), ""),
    (
        lambda: tf.ragged.constant([[1], [2, 3]]),
        lambda: tf.ragged.constant([[1, 2], [3]]),
        "splits",
    ),
    (lambda: tf.constant(["a"]), lambda: tf.constant(["b"]), ""),
    (lambda: None, lambda: tf.ones([]), "None"),
    (lambda: Pair(tf.ones([2]), 1), lambda: Pair(tf.ones([2]) * 2, 1), "result['values'][0]: 1.0"),
    (lambda: Pair(tf.ones([2]), 1), lambda: Pair(tf.ones([2]), 2), "result['scale']: 1 against 2"),
    (lambda: {1, 2}, lambda: {3}, "a set with {1, 2} against one with {3}"),
    (lambda: {1, 2}, lambda: {1, 3}, "a set with {2} against one with {3}"),
    (lambda: {"a": {"x", "y"}}, lambda: {"a": {"x"}}, "['a']: a set with {'y'} against"),
    (lambda: {tf.zeros([2]).ref()}, lambda: {tf.ones([2]).ref()}, "set"),
    (lambda: Scores(1.0, {"a"}), lambda: Scores(1.0, {"b"}), "result['seen']"),
    (lambda: [Mode.SUM], lambda: [Mode.MEAN], "MEAN"),
    (lambda: tf.float32, lambda: tf.float64, "float64"),
    (lambda: 10**400, lambda: 1.0, "against 1.0"),
    (objects, lambda: objects(2.0), "result[1][0]: 1.0 against 2.0"),
    (lambda: {"a": 1}.values(), lambda: {"a": 2}.values(), "result[0]: 1 against 2"),
    (lambda: tf.ones([2]), lambda: tf.ones([3], tf.int32), "shape [2] against [3] and dtype"),
    (
        lambda: tf.ragged.constant([[1, 2], [3, 4]]),
        lambda: tf.constant([[1, 2], [3, 4]]),
        "a RaggedTensor against an int32 array of shape [2, 2]",
    ),
    (
        lambda: tf.sparse.from_dense([[1, 0]]),
        lambda: tf.sparse.from_dense([[0, 1]]),
        "result['indices'][0, 1]",
    ),
    (lambda: object(), lambda: RuntimeError(), "an object against a RuntimeError"),
]


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_results_that_are_as_good_as_equal_agree(
    one: Callable[[], Any], other: Callable[[], Any]
) -> None:
    assert first_difference(snapshot(one()), snapshot(other())) is None


@pytest.mark.parametrize(("one", "other", "said"), FAR)
def test_results_that_differ_are_told_where(
    one: Callable[[], Any], other: Callable[[], Any], said: str
) -> None:
    found = first_difference(snapshot(one()), snapshot(other()))
    assert found is not None
    assert said in str(found)


def test_tolerance_can_be_given() -> None:
    one, other = snapshot(f32(1)), snapshot(f32(1.001))
    assert first_difference(one, other, rtol=0.01) is None
    assert first_difference(one, other, rtol=0.0) is not None


@pytest.mark.slow
def test_what_is_not_compared_is_named() -> None:
    shot = snapshot({"model": object(), "loss": 1.0})
    assert uncompared(shot) == ["result['model'] (object)"]
    assert holds_numbers(shot)
    assert not holds_numbers(snapshot([None, object()]))
    found = compare({"f": lambda: 1, "g": lambda: [object()]}, repeats=1, warmup=0)
    assert found.notes == ("Not compared, because there are no numbers in it: result[0] (object).",)


def test_snapshot_keeps_no_tensor_alive() -> None:
    with ll.record() as recording:
        value = tf.fill([512, 512], 1.0)
        shot = snapshot({"a": [value]})
        array = np.empty(1, object)
        array[0] = value
        others = snapshot([array, {value.ref()}])
        del value, array
    assert recording.kept_bytes < S
    assert shot["a"][0].values.nbytes == others[0][0].values.nbytes == S
