"""Lessons in a real JupyterLab, in a real browser, as a learner uses them."""
