"""Kinds of suites, one file each; `base` defines the interface."""
