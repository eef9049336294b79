"""Bilingual dictionaries out of the monolingual text of two languages."""
