"""Questions of lesson 00, "Start here"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "A call has 2 MiB of tensors alive at its peak, says the recording. In the same call the "
        "process's resident set size grew by about 66 MiB. Which of the two is wrong?",
        (
            wrong(
                "The recording: it has missed 64 MiB.",
                "A recording counts tensors, and only tensors. What Python itself takes, a long "
                "list for instance, is not among them.",
            ),
            right(
                "Neither: one counts tensors, the other everything in the process.",
                "A Python list of 64 MiB beside the tensors explains both figures. Each answers "
                "another question.",
            ),
            wrong(
                "The resident set size: it is noisy, so it means nothing.",
                "Noisy means that it will not repeat to the byte. It still tells how much of the "
                "machine's memory the process holds.",
            ),
        ),
    ),
    QuizQuestion(
        "Code in a block of ll.record() makes a Python list, a NumPy array and a tensor by x + x. "
        "What is in the recording?",
        (
            right(
                "The tensor.",
                "The recorder reads what TensorFlow's allocator hands out. Python and NumPy take "
                "their memory elsewhere.",
            ),
            wrong(
                "The tensor and the array, since both hold numbers.",
                "NumPy has an allocator of its own; tracemalloc sees its arrays, a recording "
                "doesn't.",
            ),
            wrong(
                "All three, since all are made within the block.",
                "What counts is who hands out the memory. A recording sees TensorFlow's allocator "
                "alone.",
            ),
        ),
    ),
    QuizQuestion(
        "The resident set size of a training loop climbs from step to step. Which instrument tells "
        "whether something is kept, and by whom?",
        (
            wrong(
                "ll.preflight(), which says whether figures are exact.",
                "Worth a look before any measurement, but it runs none of your steps.",
            ),
            wrong(
                "ll.process_memory(step), which shows the climb itself.",
                "It shows that the process grew. An allocator that keeps what it took looks just "
                "the same there as a list that grows.",
            ),
            right(
                "ll.growth(step), which looks at live bytes after each step.",
                "Bytes that are alive after each step are held by something. Whether they grow, "
                "and who holds them, is what it tells.",
            ),
        ),
    ),
    QuizQuestion(
        "Why do the lessons ask for a prediction before they measure?",
        (
            wrong(
                "The recorder needs an estimate, in order to choose its precision.",
                "It needs none: it counts every buffer, with or without a prediction.",
            ),
            right(
                "A prediction that misses shows which idea of the mechanism is wrong.",
                "With the figure before your eyes it is easy to think that you knew. Only what "
                "you said beforehand can be tested.",
            ),
            wrong(
                "Figures differ from run to run, so only a prediction can be checked.",
                "Exact figures repeat to the byte. It is the idea behind the prediction that is "
                "on trial.",
            ),
        ),
    ),
)
