"""Readers and writers of text files, shards, dictionaries and word alignments."""
