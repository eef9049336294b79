"""Verses that Taxi1500 scores: they are left out of the aligned text of every language.

Source: ``eng_data/eng_test.tsv`` of cisnlp/Taxi1500 at ce17cf7; its ids are the same in all of its languages.
"""

import re
from functools import cache
from importlib import resources


@cache
def scored_verses() -> frozenset[str]:
    """Return the ids of the 111 test verses, ``JHN.2.6``, in each spelling of the books that is in use."""
    text = resources.files("xling.corpora.builtin").joinpath("scored_verses.tsv").read_text(encoding="utf-8")
    ids = set()
    for row in text.splitlines()[1:]:
        *books, verses = row.split("\t")
        ids |= {f"{book}.{verse}" for book in books for verse in verses.split()}
    return frozenset(ids)


def is_scored(verse: str) -> bool:
    """Return whether Taxi1500 scores a verse or one of several: ``JHN.2.6``, ``jhn 2:5-6`` or ``43002006``."""
    if re.fullmatch(r"\d{8}", verse):
        verse = f"{verse[:2]}.{verse[2:5]}.{verse[5:]}"
    match = re.fullmatch(r"(\w+)\W+0*(\d+)\W+0*(\d+)(?:\D+0*(\d+))?", verse.strip().upper())
    if not match:
        return False
    book, chapter, first, last = match.groups()
    numbers = range(int(first), int(last or first) + 1)
    return any(f"{book}.{chapter}.{number}" in scored_verses() for number in numbers)
