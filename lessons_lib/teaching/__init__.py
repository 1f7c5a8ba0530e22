"""What the lessons are made of: claims, predictions, quizzes, exercises.

Lessons import from here and from ``lessons_lib`` itself, never from deeper.
"""
