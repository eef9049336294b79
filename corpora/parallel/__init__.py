"""Parallel text: ingest, clean, align and mine."""
