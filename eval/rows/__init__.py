"""Suites and their rows: definition, files, readers, languages, protocols."""
