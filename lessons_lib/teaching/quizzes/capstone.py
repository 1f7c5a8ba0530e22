"""Questions of lesson 07, "Your own code"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "A training script's resident set size climbs for ten minutes and then stays level. What "
        "do you do first?",
        (
            wrong(
                "Call gc.collect() in every step.",
                "That costs time and frees only cycles. First find out whether anything is held.",
            ),
            right(
                "Ask whether tensor bytes, live objects or traces grow per step.",
                "A level that is reached is a plateau of the allocator or a buffer that fills; a "
                "leak goes on.",
            ),
            wrong(
                "Restart the kernel after every epoch.",
                "This hides the question and loses the state.",
            ),
        ),
    ),
    QuizQuestion(
        "Which test holds your own project to a memory budget?",
        (
            right(
                "One that runs a step under a budget of tensor bytes, and fails when over it.",
                "Tensor bytes repeat on the same versions, to a few bytes, so the test does not "
                "flicker.",
            ),
            wrong(
                "One that compares the resident set size before and after a step.",
                "It is near 0 on a second run and depends on everything else in the process.",
            ),
            wrong(
                "One that measures the time of a step.",
                "Time says nothing about bytes.",
            ),
        ),
    ),
    QuizQuestion(
        "On a GPU, TensorFlow takes nearly all memory at the start. What does "
        "tf.config.experimental.set_memory_growth change, according to the documentation?",
        (
            wrong(
                "It limits TensorFlow to half of the GPU.",
                "A limit is set by a logical device configuration. Growth only changes when memory "
                "is taken.",
            ),
            right(
                "Memory is taken as it is needed, and is not given back.",
                "It must be set before the GPU is first used.",
            ),
            wrong(
                "It moves tensors to the CPU when the GPU is full.",
                "Nothing is moved; an allocation that doesn't fit raises ResourceExhaustedError.",
            ),
        ),
    ),
)
