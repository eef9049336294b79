"""Predictions and scores: files, statistics, comparison of two runs."""
