"""Evaluation suites, one file each."""
