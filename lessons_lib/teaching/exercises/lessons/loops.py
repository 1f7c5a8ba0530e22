"""Exercises of lesson 03, "Loops": what a loop keeps, and what its gradient keeps.

S stands for the bytes of the state that goes through the loop: ``4 · rows · width``.
"""

from __future__ import annotations

import math
from typing import Any, Final

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.evidence import recorded_by_line
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question


def _chain(size: Size, seed: int) -> Inputs:
    rows, width = size["rows"], size["width"]
    x = normal(seed, rows, width)
    w = normal(seed + 1, width, width, scale=1 / math.sqrt(width))
    return Inputs((x, w, size["n"]))


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


# --- q1 -------------------------------------------------------------------------------------


def last_state_starter(x: Any, w: Any, n: int) -> Any:
    """Apply ``x → tanh(x @ w)`` n times and return the last x."""
    ...


def last_state_solution(x: Any, w: Any, n: int) -> Any:
    """Apply ``x → tanh(x @ w)`` n times and return the last x."""
    for _ in range(n):
        x = tf.tanh(x @ w)
    return x


_q1 = Exercise(
    key="loops.q1",
    title="Keep only the last state",
    prompt="""
    Write `last_state(x, w, n)`: apply the step `x → tanh(x @ w)` n times and return the last
    state. Nothing older than the present state needs to be alive at any moment.
    """,
    starter=last_state_starter,
    solution_code=last_state_solution,
    inputs=_chain,
    shown={"rows": 1024, "width": 256, "n": 20},
    graded=({"rows": 1024, "width": 128, "n": 25}, {"rows": 1536, "width": 96, "n": 40}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: 7 * _s(size) // 2,
            floor=_s,
            why="three and a half states, whatever n",
        ),
    ),
    hints=(
        "A tensor is freed when its last name goes. Which names does your loop hold?",
        "Let one name, x, stand for the state: `x = tf.tanh(x @ w)` frees the old one.",
    ),
)

# --- q2 -------------------------------------------------------------------------------------


def state_means_starter(x: Any, w: Any, n: int) -> Any:
    """Return the means of the n states that ``x → tanh(x @ w)`` goes through, shape (n,)."""
    ...


def state_means_solution(x: Any, w: Any, n: int) -> Any:
    """Return the means of the n states that ``x → tanh(x @ w)`` goes through, shape (n,)."""
    means = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        means.append(tf.reduce_mean(x))
    return tf.stack(means)


_q2 = Exercise(
    key="loops.q2",
    title="Keep a figure of each step, not the step",
    prompt="""
    Write `state_means(x, w, n)`: run the same loop, and return the mean of each of the n states
    as one tensor of shape `(n,)`. The history that you keep is n numbers.
    """,
    starter=state_means_starter,
    solution_code=state_means_solution,
    inputs=_chain,
    shown={"rows": 1024, "width": 256, "n": 20},
    graded=({"rows": 1024, "width": 128, "n": 25}, {"rows": 1536, "width": 96, "n": 40}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: 14 * _s(size),
            floor=_s,
            # A loop in a graph may run ten steps ahead of the means (parallel_iterations).
            why="fourteen states, whatever n",
        ),
    ),
    hints=(
        "Reduce each state as soon as you have it; what is appended is then four bytes.",
        "`means.append(tf.reduce_mean(x))` in the loop, `tf.stack(means)` after it.",
    ),
)

# --- q3 -------------------------------------------------------------------------------------


def last_step_gradient_starter(x: Any, w: Any, n: int) -> Any:
    """Return the gradient of the last state's sum by w, through the last step only."""
    ...


def last_step_gradient_solution(x: Any, w: Any, n: int) -> Any:
    """Return the gradient of the last state's sum by w, through the last step only."""
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    with tf.GradientTape() as tape:
        tape.watch(w)
        total = tf.reduce_sum(tf.tanh(x @ w))
    return tape.gradient(total, w)


_q3 = Exercise(
    key="loops.q3",
    title="Truncate the backward pass, and its memory",
    prompt="""
    Write `last_step_gradient(x, w, n)`: run the loop, and return the gradient by `w` of the sum of
    the last state, taking only the last step into account (the state that enters it counts as a
    constant). The memory must not depend on n.
    """,
    starter=last_step_gradient_starter,
    solution_code=last_step_gradient_solution,
    inputs=_chain,
    shown={"rows": 1024, "width": 256, "n": 20},
    graded=({"rows": 1024, "width": 128, "n": 25}, {"rows": 1536, "width": 96, "n": 40}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: 8 * _s(size) + 4 * floats(size["width"], size["width"]),
            floor=lambda size: _s(size) + floats(size["width"], size["width"]),
            why="eight states and four weights, whatever n",
        ),
    ),
    hints=(
        "`stop_gradient` changes the value of the gradient, but the tape still records the tanh, "
        "whose entry holds its own output. What isn't recorded at all costs nothing.",
        "Run the first n - 1 steps before the `with tf.GradientTape()`.",
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def history_starter(x: Any, w: Any, n: int) -> Any:
    """Return the n states that ``x → tanh(x @ w)`` goes through, shape (n, rows, width)."""
    ...


def history_solution(x: Any, w: Any, n: int) -> Any:
    """Return the n states that ``x → tanh(x @ w)`` goes through, shape (n, rows, width)."""
    states = tf.TensorArray(tf.float32, size=n, element_shape=x.shape)
    for i in range(n):
        x = tf.tanh(x @ w)
        states = states.write(i, x)
    return states.stack()


_q4 = Exercise(
    key="loops.q4",
    title="Collect states without copying them again and again",
    prompt="""
    Write `history(x, w, n)`: return all n states as one tensor of shape `(n, rows, width)`. Every
    byte that is allocated on the way counts here, NumPy's too, and not only those alive at the
    peak: growing a tensor by `concat` allocates 1 + 2 + … + n states.
    """,
    starter=history_starter,
    solution_code=history_solution,
    inputs=_chain,
    shown={"rows": 512, "width": 256, "n": 20},
    graded=({"rows": 1024, "width": 128, "n": 25}, {"rows": 1536, "width": 96, "n": 32}),
    limits=(
        Limit(
            Quantity.ALLOCATED,
            lambda size: (7 * size["n"] + 4) * _s(size),
            floor=lambda size: size["n"] * _s(size),
            why="seven states for each step: linear in n",
        ),
    ),
    hints=(
        "Each `concat` makes a new tensor and copies all that was there. Copy once, at the end.",
        "Append to a list or write to a `tf.TensorArray`; `stack` it after the loop.",
    ),
)

# --- q5 -------------------------------------------------------------------------------------


def chain_gradient_starter(x: Any, w: Any, n: int) -> Any:
    """Return the gradient by w of the sum of the state after n steps ``x → tanh(x @ w)``."""
    ...


def chain_gradient_solution(x: Any, w: Any, n: int) -> Any:
    """Return the gradient by w of the sum of the state after n steps ``x → tanh(x @ w)``."""
    k = max(1, round(n**0.5))  # steps in a block

    def block(x: Any, w: Any, steps: int) -> Any:
        for _ in range(steps):
            x = tf.tanh(x @ w)
        return x

    # Forward: keep only the states at which blocks begin.
    sizes = [k] * (n // k) + ([n % k] if n % k else [])
    starts = []
    for steps in sizes:
        starts.append(x)
        x = block(x, w, steps)
    # Backward: run each block again under a tape, from the last to the first.
    upstream = tf.ones_like(x)
    total = tf.zeros_like(w)
    for steps in reversed(sizes):
        start = starts.pop()
        with tf.GradientTape() as tape:
            tape.watch([start, w])
            end = block(start, w, steps)
        upstream, gradient = tape.gradient(end, [start, w], output_gradients=upstream)
        total += gradient
    return total


_q5 = Exercise(
    key="loops.q5",
    title="Pay for the gradient with time instead of bytes (hard)",
    prompt="""
    Write `chain_gradient(x, w, n)`: the gradient by `w` of the sum of the state after n steps,
    through all of them. A tape around the loop keeps about n states. Keep only every k-th state
    and compute the others again on the way back: with blocks of k steps about n/k + k states are
    alive. `tf.recompute_grad` does this for a function whose tensors are all arguments; you can
    also do it by hand, with a tape for each block.
    """,
    starter=chain_gradient_starter,
    solution_code=chain_gradient_solution,
    inputs=_chain,
    shown={"rows": 512, "width": 128, "n": 36},
    graded=({"rows": 640, "width": 64, "n": 49}, {"rows": 768, "width": 48, "n": 64}),
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: (
                (3 * math.isqrt(size["n"]) + 4) * _s(size)
                + (math.isqrt(size["n"]) + 6) * floats(size["width"], size["width"])
            ),
            floor=_s,
            why="3 √n + 4 states and √n + 6 weights",
        ),
    ),
    hints=(
        "Which block size makes n/k + k smallest? Differentiate, or try 1, 4, 8, 16 and n.",
        "Forward without a tape, appending the state at the start of each block to a list. Then "
        "backward over the list: a tape around one block, and "
        "`tape.gradient(end, [start, w], output_gradients=upstream)`.",
        "k = √n. A captured watched tensor gives a silent None with `tf.recompute_grad`: pass w as "
        "an argument.",
    ),
)

# --- q6 -------------------------------------------------------------------------------------
# Axes are given: without them TensorFlow makes them from a NumPy array, whose memory it adopts now
# and then, so that the table would count a buffer more or less.


def gradient_and_losses(x: Any, w: Any, n: int) -> Any:
    """Return the gradient of the last loss with respect to w, and all n losses."""
    losses = []
    with tf.GradientTape() as tape:
        tape.watch(w)
        for _ in range(n):
            x = tf.tanh(x @ w)
            losses.append(tf.reduce_mean(x, axis=[0, 1]))
        total = losses[-1]
    return tape.gradient(total, w), losses


def _run_gradient(program: Any) -> tuple[Any, ...]:
    x, w, n = _chain({"rows": 1024, "width": 128, "n": 12}, 5).arguments
    return recorded_by_line("gradient_and_losses(x, w, 12)", program, x, w, n)


_q6 = Diagnosis(
    key="loops.q6",
    title="What makes the ramp",
    prompt="""
    The memory of `gradient_and_losses(x, w, n)` grows with every step, by the size of a state (512
    KiB here), until the gradient is taken. Which line makes the buffers that stay, and what holds
    them? `{line: cause}`
    """,
    program=gradient_and_losses,
    evidence=_run_gradient,
    causes={
        "list": "a list that grows holds them",
        "tape": "a tape holds them for the backward pass",
        "name": "a name holds them, although they are not read again",
        "view": "a part of each is kept, and shares the whole buffer",
    },
    faults=(
        Fault(
            "x = tf.tanh(x @ w)",
            "tape",
            "The gradient of tanh is computed from its output, so the tape keeps every output, a "
            "state for each step, until the gradient is taken.",
        ),
    ),
    near={
        "losses.append(": "each loss is one number, four bytes of TensorFlow's memory: see the "
        "column at the peak.",
        "return tape.gradient(total, w), losses": "the backward pass makes some buffers, but the "
        "ramp was there before it began.",
    },
    hints=(
        "In the table by line: which line's buffers make the peak, and how many of them are there?",
        "The name `x` holds one state only, and the list holds numbers. Who else was watching?",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = Question(_q5)
q6 = DiagnosisQuestion(_q6)
EXERCISES: Final = (q1, q2, q3, q4, q5, q6)
