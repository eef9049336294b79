"""Settings of commands: YAML and ``key=value`` into dataclasses, ranges, schema."""
