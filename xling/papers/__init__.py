"""Reproductions of papers, added as another package would: by the entry points in the group ``xling.plugins``.

No other room imports this one or names what it holds.
"""
