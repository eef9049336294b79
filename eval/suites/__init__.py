"""The evaluation suites, one file each."""
