"""Code-switched text."""
