"""Claims of lesson 03, "Find out what a loop keeps"."""

from __future__ import annotations

from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("03_loops")


@CLAIMS.add(
    1,
    "An eager loop keeps every intermediate tensor, so that memory explodes with the steps.",
    "false",
    measured="{found.laws}",
    advice="Let one name stand for the state; keep no list of states.",
    was=("03.1",),
)
def _(found):
    return found["one name"].law == "2" and found["a list"].law == "n"


@CLAIMS.add(
    2,
    "`tf.while_loop` is one compact graph, so it needs less memory than a Python loop.",
    "it depends",
    measured=lambda ways, operations: (
        f"tf.while_loop: {operations['tf.while_loop'][0]} operations at any n; unrolled: "
        f"{operations['Python, unrolled'][1]} at n = 100; the peak of both "
        f"{ways['tf.while_loop'].law} S; eager in one expression {ways['eager'].law} S, in two "
        f"lines {ways['eager, two lines'].law} S"
    ),
    advice="Choose the loop for the size of its graph; eagerly, rebind the name at each operation.",
    was=("03.2", "03.3", "03.4"),
)
def _(ways, operations):
    small, large = operations["Python, unrolled"]
    graphs = [ways[way] for way in ("Python, unrolled", "tf.range", "tf.while_loop")]
    return (
        large - small == 2 * 90  # two operations a step
        and len(set(operations["tf.range"])) == len(set(operations["tf.while_loop"])) == 1
        and ways["eager"].law == ways["eager, tf.while_loop"].law == "3"
        and ways["eager, two lines"].law == "2"
        and all(1.99 < curve[n] < 2.05 for curve in graphs for n in (5, 40))
    )


@CLAIMS.add(
    3,
    "TensorFlow records everything for backpropagation, by default.",
    "false",
    measured="{found.laws}; with {large.laws}",
    advice="Open the tape only around the steps whose gradient you need.",
    was=("03.12",),
)
def _(found, large):
    return (
        found["no tape"].law == found["a tape, nothing watched"].law == "3"
        and found["w is watched"].law == "n + 1"
        and found["gradient"].law == "n + 3"
        and large["a weight of 16 S"].law == "16 n + 17"
    )


@CLAIMS.add(
    4,
    "A tape keeps the result of each operation.",
    "it depends",
    measured="kept: {found.laws}",
    advice="Count what the gradients ask for; under an eager tape use tf.nn.bias_add for + b.",
    was=("03.13",),
)
def _(found):
    laws = {curve.label: curve.law for curve in found}
    return (
        laws["-h"] == laws["tf.nn.bias_add(h, b)"] == "1"
        and laws["h + b"] == laws["tf.tanh(h)"] == "n"
        and found["tf.nn.gelu(h)"][20] >= 3 * 20
        and laws["relu(h @ w + b)"] == "2 n"
        and laws["relu(bias_add(h @ w, b))"] == "n"
    )


@CLAIMS.add(
    5,
    "Truncated backpropagation keeps memory constant.",
    "it depends",
    measured=lambda found, agree: "; ".join(
        f"{curve.label}: {'≈ ' if curve.noisy else ''}{curve[20]:.0f} S at n = 20"
        for curve in found
    ),
    advice="Give each chunk a tape of its own.",
    was=("03.17",),
)
def _(found, agree):
    chunks = found["chunks"]
    return agree and found["one tape"][20] >= 20 and chunks[10] == chunks[20] < 12
