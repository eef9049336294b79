"""Commands: their table, how one runs, pipelines of several, help."""
