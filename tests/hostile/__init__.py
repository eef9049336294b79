"""Attacks on the product. ``python -m tests.hostile`` runs them all and prints a table: class, attempts, violations."""

made = [0]
"""Attempts in this process so far, of tests that make several."""


def attempt(number: int = 1) -> None:
    """Count attempts of a test that makes more than one."""
    made[0] += number
