"""Aligned text of many languages: word ids for a static encoder, and word alignments."""
