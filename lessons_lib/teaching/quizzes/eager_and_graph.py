"""Questions of lesson 02, "See which operations allocate, in eager and in graph mode"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "x has 1024 rows of 512 float32 numbers. You keep x[0] and delete x. How much stays alive?",
        (
            wrong(
                "One row, 2 KiB.",
                "A row whose bytes are a multiple of 64 is a view: it shares x's buffer.",
            ),
            right(
                "All of x, 2 MiB.",
                "The aligned row shares the buffer, and a buffer is freed as a whole.",
            ),
            wrong(
                "Nothing, since x was deleted.",
                "The buffer lives as long as any tensor uses it, and x[0] does.",
            ),
        ),
    ),
    QuizQuestion(
        "In a tf.function, tanh(x * 2 + 1) needs one buffer of x's size; eagerly it needs two at a "
        "time. What makes the difference?",
        (
            right(
                "In a graph an operation may write into an input that no one else needs.",
                "This is buffer forwarding: the runtime knows that the intermediate has no other "
                "user.",
            ),
            wrong(
                "XLA fuses the three operations into one.",
                "tf.function does not compile with XLA unless you ask for it (jit_compile).",
            ),
            wrong(
                "A graph computes with fewer digits.",
                "The dtypes are the same; only the buffers differ.",
            ),
        ),
    ),
    QuizQuestion(
        "Why can't y = x + 1 reuse x's buffer in eager mode, even if x is never used again?",
        (
            wrong(
                "Python does not allow two objects in the same memory.",
                "reshape and identity give a second tensor on the same buffer, eagerly too.",
            ),
            right(
                "While the operation runs, the name x still refers to the tensor, and tensors are "
                "immutable.",
                "Eager mode runs one operation at a time and can't know that x won't be read "
                "afterwards.",
            ),
            wrong(
                "It could, but TensorFlow was built without that optimization.",
                "It is no missing optimization: it would change a value that a name still has.",
            ),
        ),
    ),
    QuizQuestion(
        "table is a NumPy array of 1 GiB. A tf.function returns tf.gather(table, i). You trace it, "
        "and call it once. What is true?",
        (
            wrong(
                "It needs one row, since only a row is returned.",
                "The graph holds the whole array as a constant, whatever is taken from it.",
            ),
            wrong(
                "It shares the array's memory with NumPy.",
                "The numbers are copied into the graph's description when it is traced.",
            ),
            right(
                "The process grows by several GiB, of which a recording shows one.",
                "The description and its copies are no tensors; the constant of the first call is.",
            ),
        ),
    ),
)
