"""The lexicons: tab-separated files of sections, one file a language and one for the world itself."""

from functools import cache
from importlib.resources import files

Section = dict[str, dict[str, str]]
"""Identifier to its columns."""


@cache
def load(name: str) -> dict[str, Section]:
    """Return sections of ``lexicon/<name>.tsv``.

    A line ``@noun<TAB>sg<TAB>pl`` opens the section ``noun`` and names its columns; every further line
    gives an identifier and its columns. Lines that start with # are comments.
    """
    sections: dict[str, Section] = {}
    columns: list[str] = []
    text = (files("xling.corpora.toyworld") / "lexicon" / f"{name}.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if cells[0].startswith("@"):
            section = sections.setdefault(cells[0][1:], {})
            columns = cells[1:]
            continue
        assert len(cells) == len(columns) + 1, f"{name}.tsv: {line!r} does not fit the columns {columns}"
        assert cells[0] not in section, f"{name}.tsv: {cells[0]!r} stands twice"
        section[cells[0]] = dict(zip(columns, cells[1:], strict=True))
    return sections


WORLD = load("world")
"""What holds in every language: groups, antonyms, kinds of places, genders."""
