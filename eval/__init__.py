"""Evaluation: suites, protocols, official metrics, statistics, tables and reports; models are a hook."""
