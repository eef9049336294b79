"""Sentence pairs from documents: which documents translate each other, and which of their sentences."""
