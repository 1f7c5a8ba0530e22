"""Questions of lesson 06, "State and batches"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import Question, right, wrong

QUESTIONS = (
    Question(
        "You double the batch. Which part of a training step's memory does not double?",
        (
            wrong(
                "The activations that the tape keeps.",
                "They have the batch as their first dimension: they double.",
            ),
            right(
                "The gradients of the weights.",
                "They have the weights' shapes, whatever the batch.",
            ),
            wrong(
                "The input.",
                "It doubles, of course.",
            ),
        ),
    ),
    Question(
        "How many bytes does Adam keep for a weight of 4 MiB, besides the weight and its gradient?",
        (
            wrong(
                "None, it is computed from the gradient.",
                "That is plain SGD. Adam needs the past.",
            ),
            wrong(
                "4 MiB, a momentum.",
                "That is SGD with momentum. Adam also keeps the mean of squares.",
            ),
            right(
                "8 MiB, a mean and a mean of squares.",
                "Two slots of the weight's size, made at the first step and kept.",
            ),
        ),
    ),
    Question(
        "v is a variable of 20 rows. v[i].assign(row) in a loop allocates a whole variable each "
        "time (from the second on). Which is in place?",
        (
            right(
                "v.scatter_nd_update([[i]], [row])",
                "It writes the row into the variable's own buffer.",
            ),
            wrong(
                "v.assign(tf.tensor_scatter_nd_update(v, [[i]], [row]))",
                "This makes a whole new tensor with the row changed, then assigns it.",
            ),
            wrong(
                "v = tf.concat([v[:i], [row], v[i + 1:]], 0)",
                "concat copies everything, and v is then a tensor, no longer a variable.",
            ),
        ),
    ),
    Question(
        "Sums of gradients over micro-batches lower the peak. What is the floor for sums kept in "
        "variables, eagerly?",
        (
            wrong(
                "Nothing is needed but one number for each weight tensor.",
                "A sum of gradients has the size of the weights.",
            ),
            right(
                "The variables, plus one micro-batch's gradients.",
                "Each micro-batch's gradients exist until they are added; delete them before the "
                "next one.",
            ),
            wrong(
                "As many gradients as there are micro-batches.",
                "That is what you get when you keep them in a list and add them at the end.",
            ),
        ),
    ),
    Question(
        "persistent=True on a tape: what does it change for memory?",
        (
            wrong(
                "It stores intermediate values so that you can print them.",
                "Values are held for more gradients, not for reading.",
            ),
            right(
                "What is recorded stays until the tape itself goes, not only until the first "
                "gradient.",
                "Delete the tape, or let its name go, as soon as the last gradient is taken.",
            ),
            wrong(
                "It halves it, because gradients are shared.",
                "Nothing gets smaller.",
            ),
        ),
    ),
)
