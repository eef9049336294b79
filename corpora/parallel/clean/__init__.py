"""Cleaning of sentence pairs: features of pairs, classifiers, synthetic noise, near-duplicates and written form."""
