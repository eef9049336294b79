"""The evaluation suites: a table, and the readers of those whose files are like no others."""
