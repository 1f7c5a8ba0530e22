"""Questions of lesson 04, "tf.function and tracing"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "f is a tf.function. f(x, 1), f(x, 2), f(x, 3): how many traces, and why?",
        (
            wrong(
                "One: the second argument is a number of the same type.",
                "A Python number is part of the key by its value, not by its type.",
            ),
            right(
                "Three: a Python number's value is part of the key.",
                "Pass tf.constant(1) instead, and one trace serves all values.",
            ),
            wrong(
                "Two, since shapes and numbers are relaxed after the first.",
                "Relaxing (reduce_retracing) works on shapes. Python numbers are never relaxed.",
            ),
        ),
    ),
    QuizQuestion(
        "How many bytes of tensors does tracing a function allocate that makes a 256 MiB tensor?",
        (
            right(
                "Almost none: tracing builds a description.",
                "Placeholders and operations take kilobytes, whatever the shapes.",
            ),
            wrong(
                "256 MiB, since the function's Python code runs.",
                "The Python code runs on symbolic tensors, which have a shape but no buffer.",
            ),
            wrong(
                "512 MiB: one for the trace, one for the run.",
                "Only the run allocates the tensor.",
            ),
        ),
    ),
    QuizQuestion(
        "A function uses a NumPy array of 4 MiB from outside. What happens in each of its traces?",
        (
            wrong(
                "The array is captured: every trace refers to the same memory.",
                "That is what happens to tensors and variables. Arrays are turned into constants.",
            ),
            right(
                "It becomes a constant in the graph, anew in each trace.",
                "The graph's own description holds the 4 MiB. Make it a tensor outside, once.",
            ),
            wrong(
                "It is read again from NumPy at each call.",
                "After tracing, the Python code and its arrays are not looked at any more.",
            ),
        ),
    ),
    QuizQuestion(
        "A tf.function adds up tf.sqrt(b) for forty tensors b of 2 MiB in a Python loop. Its peak?",
        (
            wrong(
                "About 4 MiB: the sum, and one root at a time.",
                "That would need an order. Nothing in the graph says that a root must wait until "
                "the one before it has been added.",
            ),
            right(
                "Up to about 80 MiB: all forty roots may be there at once.",
                "A Python loop that calls a tf.function for each addition keeps the order.",
            ),
            wrong(
                "2 MiB: the sum is updated in place.",
                "Buffers are handed on along a chain, but here forty roots wait for one sum.",
            ),
        ),
    ),
)
