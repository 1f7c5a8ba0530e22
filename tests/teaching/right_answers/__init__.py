"""Right answers that are unlike the reference, three for every exercise: each must pass.

One module for each lesson, with ``RIGHT``: by exercise, the answers.
"""
