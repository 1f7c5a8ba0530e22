"""``python -m lessons_lib``."""
