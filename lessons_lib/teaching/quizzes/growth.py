"""Questions of lesson 05, "Growth in loops"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "history.append(loss), where loss is a scalar tensor computed eagerly without a tape. What "
        "does each entry keep alive?",
        (
            right(
                "Four bytes and a small Python object.",
                "An eager tensor does not know what it was computed from.",
            ),
            wrong(
                "All tensors that loss was computed from.",
                "Eager tensors hold no graph of their history; a tape does, while it lives.",
            ),
            wrong(
                "Nothing, tensors in lists are weak references.",
                "A list holds its elements like any other object.",
            ),
        ),
    ),
    QuizQuestion(
        "A TF1-style loop calls tf.add in the session's graph in each round. Why does memory grow "
        "though the session is closed each time?",
        (
            wrong(
                "The session's close only takes effect at the end of the process.",
                "The session is closed at once, but it does not own the operations.",
            ),
            right(
                "Each call adds an operation to the graph, and the graph is still there.",
                "Build the graph once before the loop, or use a new graph for each round.",
            ),
            wrong(
                "The results are cached for the next session.",
                "Results are returned and forgotten. What stays is the graph.",
            ),
        ),
    ),
    QuizQuestion(
        "A function makes a tf.Variable in each round, and nothing keeps it. Does memory grow?",
        (
            wrong(
                "Yes, variables live until the end of the program.",
                "An eager variable dies with its last reference, like a tensor.",
            ),
            right(
                "No, each is freed when its name goes.",
                "It grows only if something owns them, such as a module's or a list's attribute.",
            ),
            wrong(
                "Yes, unless tf.keras.backend.clear_session is called.",
                "That is about Keras' own global state and does nothing here.",
            ),
        ),
    ),
    QuizQuestion(
        "Each round makes a lambda, wraps it by tf.function and calls it. What grows?",
        (
            wrong(
                "Nothing: the lambda's code is the same each time.",
                "A new function object is a new tf.function with a trace of its own.",
            ),
            right(
                "Traces: each round traces a graph, and those that are kept stay in memory.",
                "Make the tf.function once, and pass what changes as a tensor.",
            ),
            wrong(
                "Only the list of Python objects, by a few bytes.",
                "A graph takes kilobytes per operation, and time to trace.",
            ),
        ),
    ),
)
