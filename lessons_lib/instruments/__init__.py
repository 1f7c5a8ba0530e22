"""The instruments: a question each."""
