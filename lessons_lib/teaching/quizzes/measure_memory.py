"""Questions of lesson 01, "Measure memory"."""

from __future__ import annotations

from lessons_lib.teaching.quizzes.parts import QuizQuestion, right, wrong

QUESTIONS = (
    QuizQuestion(
        "You delete a large tensor, and the process's resident set size stays where it was. Why?",
        (
            right(
                "The allocator got the block back and keeps it for the next tensor.",
                "Freed memory goes back to TensorFlow's allocator; whether it goes on to the "
                "operating system is the allocator's choice.",
            ),
            wrong(
                "The tensor is still alive until Python's garbage collector runs.",
                "Tensors are freed by reference counting, as soon as the last name goes. The "
                "collector is only needed for cycles.",
            ),
            wrong(
                "Resident set size counts only memory that was never freed.",
                "It counts the memory that the process holds now, whatever it is for.",
            ),
        ),
    ),
    QuizQuestion(
        "A cell that makes and frees 100 MiB shows an increment near 0 on its second run in a tool "
        "that reads the resident set size. What happened?",
        (
            wrong(
                "TensorFlow remembered the result and did not compute it again.",
                "Eager operations are computed each time; nothing is remembered.",
            ),
            right(
                "The second run used the memory that the allocator had kept from the first one.",
                "No new memory was needed, so the process did not grow, though 100 MiB of tensors "
                "were alive.",
            ),
            wrong(
                "The second run needs less memory, because the second call is faster.",
                "Eager tensor bytes repeat exactly from run to run.",
            ),
        ),
    ),
    QuizQuestion(
        "Which memory does tracemalloc see?",
        (
            wrong(
                "All memory of the process.",
                "It sees what goes through Python's allocators and NumPy's arrays, which announce "
                "themselves. TensorFlow's buffers come from its own allocator.",
            ),
            wrong(
                "The buffers of tensors.",
                "These come from TensorFlow's allocator in C++, which does not tell Python.",
            ),
            right(
                "Python objects and NumPy's arrays, but no tensor buffers.",
                "NumPy reports its arrays to tracemalloc; TensorFlow's allocator doesn't.",
            ),
        ),
    ),
    QuizQuestion(
        "np.random.normal(size=(512, 512)) becomes a tensor by tf.constant. How large is it?",
        (
            wrong(
                "1 MiB, since TensorFlow's default is float32.",
                "float32 is the default for Python numbers. An array keeps its own dtype.",
            ),
            right(
                "2 MiB, since NumPy's default is float64.",
                "512 · 512 · 8 bytes: eight bytes an element until you ask for another dtype.",
            ),
            wrong(
                "Nothing, since the tensor shares the array's memory.",
                "tf.constant never aliases your array. It copies, once at least.",
            ),
        ),
    ),
)
