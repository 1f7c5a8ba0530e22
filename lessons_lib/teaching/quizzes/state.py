"""Questions of lesson 06, "State and batches"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
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
    QuizQuestion(
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
    QuizQuestion(
        "A net of 36 layers keeps S for each layer. You recompute it in blocks of k layers. Which "
        "k needs the least memory?",
        (
            wrong(
                "1: the less is recomputed at once, the better.",
                "Then the input of each layer is kept, which is what the tape keeps anyway.",
            ),
            right(
                "6.",
                "36/k inputs wait, and one block keeps k S: they are equal, and least, at √36.",
            ),
            wrong(
                "36: the more is recomputed at once, the better.",
                "Then all layers are there again when the one block is recomputed.",
            ),
        ),
    ),
    QuizQuestion(
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
    QuizQuestion(
        "A block under tf.recompute_grad uses a watched tensor m that it does not get as an "
        "argument. What is the gradient with respect to m?",
        (
            wrong(
                "The right one, only later.",
                "The backward pass looks at the block's arguments and its trainable variables.",
            ),
            right(
                "None, and nothing says so.",
                "To the block m is a constant. Hand it over as an argument.",
            ),
            wrong(
                "An error tells you to pass m.",
                "There is no error, and None is easily overlooked among many gradients.",
            ),
        ),
    ),
)
