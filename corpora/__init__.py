"""Corpus building: sources, streaming stages, barriers, vocabulary and binarisation."""
