"""Bilingual dictionaries induced from the monolingual text of two languages."""
