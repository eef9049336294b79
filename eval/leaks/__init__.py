"""Test rows in training text: the index of rows, and the scores outside of a corpus."""
