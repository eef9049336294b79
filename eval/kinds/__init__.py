"""The kinds of suites, one file each; `base` says what a kind is."""
