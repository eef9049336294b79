"""Schemes of tags that mark spans: which one a file has, and its conversion to IOB2 and back."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.rows.own_columns import OwnRow

_SPAN = re.compile("([BIESLUMWbieslumw])[-_](.+)")
_BEGINS, _ENDS = "BSUW", "ESLUW"
_OUTSIDE = frozenset("Oo")
_OTHER_MARK = re.compile(r"[BIESLU][^\w-].+|.+[-_.:/|][BIESLU]")
"""A type with its mark behind it (``PER-B``), or with another sign between the two (``B.PER``)."""
_BRACKETS = re.compile(r"\([^*()]+\*\)?|\*\)?")
"""Begin and end of a span as CoNLL-2005 and OntoNotes in CoNLL-2012 write them: ``(GPE*``, ``*``, ``*)``."""
_SEVERAL = re.compile(r".+[|,;+/&#](O|[BIESLU]-.+)|O[|,;+/&#].+")
"""Several tags of one word, as nested names have them (``B-PER|B-ORG``)."""


def span_types(tags: Iterable[str]) -> set[str]:
    """Return the types in tags that mark spans, as ``PER`` in ``B-PER`` and ``O``; none if one of them does not."""
    matches = [_SPAN.fullmatch(tag) for tag in tags if tag not in _OUTSIDE]
    prefixes = {match[1].upper() for match in matches if match}
    return {match[2] for match in matches if match} if all(matches) and prefixes & set("BISU") else set()


def scheme_of(places: Mapping[Path, Sequence[OwnRow]]) -> str:
    """Return how the tags of files mark spans: ``plain`` without spans, ``IO``, ``BIO`` or ``BIOES``.

    Raises:
        UserError: some tags have a prefix and others have none; all are numbers, or have their marks elsewhere.
    """
    tags = {
        tag for rows in places.values() for row in rows for tag in row.cells["tag"] if tag not in _OUTSIDE
    }
    prefixes = {match[1].upper() for tag in tags if (match := _SPAN.fullmatch(tag))}
    is_prefixed = {tag: bool(_SPAN.fullmatch(tag)) for tag in tags}
    if not prefixes & set("BISU") or not (prefixes & set("BI") or all(is_prefixed.values())):
        has_outside = any(
            not _OUTSIDE.isdisjoint(row.cells["tag"]) for rows in places.values() for row in rows
        )
        _check_names(places, tags)
        return "IO" if has_outside and tags else "plain"
    for path, rows in places.items():
        for row in rows:
            for number, tag in enumerate(row.cells["tag"]):
                if tag not in _OUTSIDE and not is_prefixed[tag]:
                    line = row.lines[min(number, len(row.lines) - 1)]
                    raise UserError(
                        f"{path}:{line}: tag {tag!r}",
                        "O, or B- and I- before a type as on other lines",
                        "correct it, or name the column of the tags: columns.tag=",
                    )
                if _SEVERAL.fullmatch(tag):
                    raise UserError(
                        f"{path}:{row.lines[min(number, len(row.lines) - 1)]}: tag {tag!r} has several tags",
                        "one tag for each word",
                        "keep one layer of the names, such as the outermost; scheme=plain to read it as it is",
                    )
    return "BIO" if prefixes <= {"B", "I"} else "BIOES"


def _check_names(places: Mapping[Path, Sequence[OwnRow]], tags: set[str]) -> None:
    """Reject tags that are not what they seem: numbers of names, and types with their marks behind them."""
    if tags and all(tag.isdigit() for tag in tags):
        problem, fix = (
            "is a number",
            "write the names that the numbers stand for; scheme=plain if they are names",
        )
    elif any("(" in tag for tag in tags) and all(map(_BRACKETS.fullmatch, tags)):
        problem, fix = (
            "is a bracket of CoNLL-2012",
            "write B- and I- before the type in place of the brackets",
        )
    elif tags and all(map(_OTHER_MARK.fullmatch, tags)):
        problem, fix = "has its mark elsewhere", "write B-PER and I-PER; scheme=plain to read it as it is"
    else:
        return
    path, row = next(
        (path, row) for path, rows in places.items() for row in rows if tags & {*row.cells["tag"]}
    )
    number = next(n for n, tag in enumerate(row.cells["tag"]) if tag in tags)
    line = row.lines[min(number, len(row.lines) - 1)]
    raise UserError(
        f"{path}:{line}: tag {row.cells['tag'][number]!r} {problem}", "tags such as B-PER or NOUN", fix
    )


def iob2_of(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Convert tags of a scheme to IOB2; plain tags stay.

    A span begins at its mark, and where the type changes or the span before has ended: IOB1, IOB2 and broken tags are
    read as conlleval reads them.
    """
    if scheme == "plain":
        return tuple(tags)
    converted, open_type = [], ""
    for tag in tags:
        match = None if scheme == "IO" else _SPAN.fullmatch(tag)
        prefix, name = (match[1].upper(), match[2]) if match else ("I", tag)
        if tag in _OUTSIDE:
            converted.append("O")
            open_type = ""
            continue
        converted.append(f"{'B' if prefix in _BEGINS or name != open_type else 'I'}-{name}")
        open_type = "" if prefix in _ENDS else name
    return tuple(converted)


def marks_of(tags: Iterable[str], scheme: str) -> str:
    """Return how tags of a scheme are written: ``IO``, "" for IOB2, else the letters of begin, inside, end and single.

    The letters are ``BIES``, ``BILU``, ``BMES`` or ``BMEW``, and mixtures of them where the tags mix them.
    """
    if scheme != "BIOES":
        return "IO" if scheme == "IO" else ""
    seen = {match[1].upper() for tag in tags if (match := _SPAN.fullmatch(tag))}
    inside, end = "M" if "M" in seen else "I", "L" if "L" in seen else "E"
    single = next((letter for letter in "SUW" if letter in seen), "U" if end == "L" else "S")
    return f"B{inside}{end}{single}"


def written_with(marks: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Convert IOB2 tags to those that `marks_of` describes; spans of one type that touch become one in ``IO``."""
    if marks == "IO":
        return tuple(tag if tag == "O" else tag[2:] for tag in tags)
    if not marks:
        return tuple(tags)
    begin, inside, end, single = tuple(marks)
    followed = [tag[:2] == "I-" for tag in (*tags, "O")[1:]]
    letters = {("B", True): begin, ("B", False): single, ("I", True): inside, ("I", False): end}
    return tuple(
        tag if tag == "O" else letters[tag[0], more] + tag[1:]
        for tag, more in zip(tags, followed, strict=True)
    )
