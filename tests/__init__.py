"""The project's tests; ``python -m tests`` runs all of them."""
