"""Evaluation suites, metrics, tables and reports."""
