"""Reproductions of papers, added as another package would: by the entry points in the group ``xling.plugins``.

No other room imports this one. What several recipes or guides use is no reproduction and lies elsewhere.
"""
