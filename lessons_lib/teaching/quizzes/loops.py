"""Questions of lesson 03, "Loops"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "for _ in range(n): x = tf.tanh(x @ w). How does the peak depend on n, without a tape?",
        (
            right(
                "Not at all.",
                "Rebinding x drops the last reference to the old state, and reference counting "
                "frees it at once.",
            ),
            wrong(
                "It grows linearly: each step's tensors are kept.",
                "Only a GradientTape, or a name of your own, keeps them.",
            ),
            wrong(
                "It grows until the garbage collector runs, then falls.",
                "Tensors without cycles never wait for the garbage collector.",
            ),
        ),
    ),
    QuizQuestion(
        "The same loop under a tape that watches w. What is kept for each step?",
        (
            wrong(
                "Nothing: the tape only notes the names of operations.",
                "The gradients of tanh and matmul need values, and the tape holds them.",
            ),
            right(
                "The tanh's output, which is also the next matmul's input.",
                "Both entries hold the same buffer, so one state for each step.",
            ),
            wrong(
                "A copy of w, since w is watched.",
                "Every entry refers to the same w; nothing is copied.",
            ),
        ),
    ),
    QuizQuestion(
        "With tf.stop_gradient(x) in each step of tanh(stop_gradient(x) @ w), memory under the "
        "tape still grows with n. Why?",
        (
            wrong(
                "stop_gradient copies its input.",
                "It shares its input's buffer and allocates nothing.",
            ),
            wrong(
                "stop_gradient has no effect in eager mode.",
                "It has: the gradient's value is that of the last step alone.",
            ),
            right(
                "The matmul with w is recorded in every step, and so is the tanh, whose entry "
                "holds its own output.",
                "Entries stay until the tape goes, though no gradient flows through them any more.",
            ),
        ),
    ),
    QuizQuestion(
        "for i in range(1000) in a tf.function, where 1000 is a Python number. What happens?",
        (
            wrong(
                "1000 graphs are traced.",
                "One graph is traced; the loop is unrolled into it.",
            ),
            right(
                "One graph with the body's operations 1000 times.",
                "Python runs the loop while tracing. With tf.range the body is in the graph once.",
            ),
            wrong(
                "The loop becomes a While operation.",
                "AutoGraph turns a loop into While only when it goes over a tensor, such as "
                "tf.range(n).",
            ),
        ),
    ),
    QuizQuestion(
        "20 steps h = h + b under an eager tape that watches the first h. What does the tape keep?",
        (
            wrong(
                "Nothing: the gradient of a sum needs no values.",
                "It needs none, but the entry holds the inputs. tf.nn.bias_add's entry holds none.",
            ),
            right(
                "The state of each step.",
                "The gradient needs only the shapes of the inputs, but the entry holds the inputs.",
            ),
            wrong(
                "Only the last state: h is one name.",
                "The name lets the old state go, but the tape's entry still holds it.",
            ),
        ),
    ),
)
