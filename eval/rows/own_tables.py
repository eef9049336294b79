"""Tables that users bring: any delimiter, with or without quotes and a header."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from xling.core.errors import UserError
from xling.eval.rows.own_columns import (
    LABEL,
    OwnRow,
    OwnTable,
    Reading,
    check_unread,
    column_number,
    columns_by_name,
    guessed_columns,
    named_columns,
    no_column,
    unread_columns,
)

_DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_MANY_ROWS = 20
"""Rows from which a label that occurs once, on the first line, is taken as the name of the column."""
_MAX_NAME_WORDS = 3
_FASTTEXT = "__label__"
Cells: TypeAlias = list[tuple[int, list[str]]]
"""Line and cells of each row."""


def delimited_rows(
    path: Path, numbered: Sequence[tuple[int, str]], reading: Reading, langs: Sequence[str]
) -> OwnTable:
    """Read a table with or without a header."""
    filled = [(number, line) for number, line in numbered if line.strip()]
    if filled[0][1].startswith(_FASTTEXT) and reading.wanted == ("text", LABEL):
        return _fasttext(path, filled)
    if not reading.is_labelled and len(reading.wanted) == 1 and not _is_table(path, filled, reading):
        texts = [OwnRow((number,), {reading.wanted[0]: line}) for number, line in filled]
        how = " (words are split at blanks and punctuation)" if reading.has_words else ""
        return OwnTable(texts, f"a text a line{how}")
    cells, how = _parse(path, numbered, reading, langs)
    width = Counter(len(row) for _, row in cells).most_common(1)[0][0]
    if len(cells[0][1]) == width - 1 and guessed_columns(cells[0][1], reading.wanted, langs):
        cells = [(cells[0][0], ["", *cells[0][1]]), *cells[1:]]  # R names no column for the numbers of rows
    for number, row in cells:
        if len(row) != width:
            raise UserError(
                f"{path}:{number}: {len(row)} columns by {how}",
                f"{width}, as on most lines",
                "correct the line; a cell with a delimiter stands in quotes",
            )
    place, has_header = _places(path, cells, reading, langs)
    body = cells[1:] if has_header else cells
    if not body:
        raise UserError(
            f"{path} has no rows below its header",
            fix="give a file with rows, laid out as docs/guides/own_test_set.md says",
        )
    rows = [
        OwnRow((number,), {c: row[i].strip() if c == LABEL else row[i] for c, i in place.items()})
        for number, row in body
    ]
    names = cells[0][1] if has_header else [str(i + 1) for i in range(width)]
    shown = {c: f"column {i + 1}{f' {names[i]!r}' if has_header else ''}" for c, i in place.items()}
    unread = [name for i, name in enumerate(names) if i not in place.values()]
    told = ""
    if has_header:
        places = [(name, i) for i, name in enumerate(names) if i not in place.values()]
        told = check_unread(path, {name: [row[i] for _, row in body] for name, i in places})
    header = "with a header" if has_header else "without a header"
    return OwnTable(rows, f"a table by {how} {header}, {named_columns(shown)}{unread_columns(unread)}{told}")


def _is_table(path: Path, filled: Sequence[tuple[int, str]], reading: Reading) -> bool:
    """Return whether a file with a text a line is a table: it is called one, or its columns are given."""
    return path.suffix in (".tsv", ".csv") or bool(reading.columns) or all("\t" in line for _, line in filled)


def _fasttext(path: Path, filled: Sequence[tuple[int, str]]) -> OwnTable:
    rows = []
    for number, line in filled:
        label, text = [*line.split(maxsplit=1), ""][:2]
        if not label.startswith(_FASTTEXT) or text.startswith(_FASTTEXT):
            raise UserError(f"{path}:{number}: {line[:40]!r}", f"one {_FASTTEXT}NAME and a text")
        rows.append(OwnRow((number,), {"text": text, LABEL: label.removeprefix(_FASTTEXT)}))
    return OwnTable(rows, f"lines of {_FASTTEXT}NAME and text")


def _parse(
    path: Path, numbered: Sequence[tuple[int, str]], reading: Reading, langs: Sequence[str]
) -> tuple[Cells, str]:
    """Return line and cells of every row by the delimiter that fits, and its name.

    Raises:
        UserError: none fits, or two do.
    """
    filled = [(number, line) for number, line in numbered if line.strip()]
    tried: list[tuple[float, Cells, str]] = []
    fitting: list[tuple[Cells, str]] = []
    errors: list[UserError] = []
    for delimiter in _DELIMITERS:
        if not any(delimiter in line for _, line in filled):
            continue
        for quoted in (
            (True,) if delimiter != "\t" else (True, False) if _has_quotes(filled) else (False, True)
        ):
            how = _DELIMITERS[delimiter] + (" with quotes" if quoted and delimiter == "\t" else "")
            try:
                cells = list(_quoted(path, numbered, delimiter)) if quoted else _plain(filled, delimiter)
            except UserError as error:
                errors.append(error)
                continue
            (width, count) = Counter(len(row) for _, row in cells).most_common(1)[0]
            if width > 1 and count == len(cells):
                if delimiter == "\t":
                    return cells, how
                fitting.append((cells, how))
            tried.append((count / len(cells) if width > 1 else 0, cells, how))
    if fitting:
        return _likeliest(path, fitting, reading, langs)
    if errors and not any(share for share, _, _ in tried):
        raise errors[0]
    is_one_column = not reading.is_labelled and len(reading.wanted) == 1
    if is_one_column and not any(share for share, _, _ in tried):
        return list(_quoted(path, numbered, ",")), "lines"
    if not tried or not (best := max(tried, key=lambda each: each[0]))[0]:
        raise UserError(
            f"{path}:{filled[0][0]}: no delimiter on all lines: {filled[0][1][:40]!r}",
            f"cells with {', '.join(_DELIMITERS.values())} between them, or JSON lines",
        )
    return best[1], best[2]


def _likeliest(
    path: Path, fitting: Sequence[tuple[Cells, str]], reading: Reading, langs: Sequence[str]
) -> tuple[Cells, str]:
    """Return the one of several delimiters that fit, by known names, open quotes and blanks after punctuation.

    Raises:
        UserError: two are equally likely.
    """

    def rank(cells: Cells) -> tuple[bool, bool, bool]:
        return (
            not guessed_columns([cell.strip() for cell in cells[0][1]], reading.wanted, langs),
            any(cell.count('"') % 2 for _, row in cells for cell in row),
            all(cell.startswith(" ") for _, row in cells for cell in row[1:]),
        )

    ranks = [rank(cells) for cells, _ in fitting]
    if ranks.count(min(ranks)) > 1:
        raise UserError(
            f"{path}:{fitting[0][0][0][0]}: {' and '.join(how for _, how in fitting)} both split all lines into cells",
            "one delimiter",
            "put tabs between the cells",
        )
    return fitting[ranks.index(min(ranks))]


def _plain(filled: Sequence[tuple[int, str]], delimiter: str) -> Cells:
    return [(number, line.split(delimiter)) for number, line in filled]


def _quoted(
    path: Path, numbered: Sequence[tuple[int, str]], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((line + "\n" for _, line in numbered), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in rows:
            if row and any(cell.strip() for cell in row):
                yield start, row
            start = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{start}: {error}", "cells in quotes that are closed", "correct it") from None


def _has_quotes(filled: Sequence[tuple[int, str]]) -> bool:
    """Return whether every cell between tabs that begins with a quote is one in quotes, and there is one."""
    begun = [cell for _, line in filled for cell in line.split("\t") if cell.startswith('"')]
    closed = [
        len(cell) > 1 and cell.endswith('"') and '"' not in cell[1:-1].replace('""', "") for cell in begun
    ]
    return bool(begun) and all(closed)


def _places(path: Path, cells: Cells, reading: Reading, langs: Sequence[str]) -> tuple[dict[str, int], bool]:
    """Return the place of each column from 0, and whether the first row is a header."""
    first = [cell.strip() for cell in cells[0][1]]
    numbers = {c: name for c, name in reading.columns.items() if name.isdigit() and name not in first}
    # What stands in the column again names nothing: "y" may be the name of the labels, or one of them.
    below = [row for _, row in cells[1:] if [cell.strip() for cell in row] != first]
    once = [cell if all(row[i].strip() != cell for row in below) else "" for i, cell in enumerate(first)]
    has_names = (
        len(numbers) < len(reading.columns)
        or bool(guessed_columns(once, reading.wanted, langs))
        or (not reading.columns and reading.wanted == ("text", LABEL) and _stands_out(cells))
    )
    has_header = reading.header if reading.header is not None else has_names
    if has_header:
        names, place = first, _named_places(path, cells, reading, langs, numbers)
    else:
        names = [str(i + 1) for i in range(len(first))]
        place = {c: column_number(path, c, n, len(first)) for c, n in reading.columns.items()}
    rest = [i for i in range(len(first)) if i not in place.values()]
    unplaced = [c for c in reading.wanted if c not in place]
    if unplaced and (len(rest) > len(unplaced) or (has_header and unplaced != ["text", LABEL])):
        raise no_column(path, unplaced[0], names)
    if LABEL in unplaced:
        place[LABEL] = _label_place(path, cells, rest)
        rest.remove(place[LABEL])
        unplaced.remove(LABEL)
    if len(rest) < len(unplaced):
        raise no_column(path, unplaced[-1], names)
    place |= dict(zip(unplaced, rest, strict=False))
    is_told = has_names if has_header else reading.header is False
    is_again = LABEL in place and first[place[LABEL]] in {row[place[LABEL]].strip() for _, row in cells[1:]}
    if LABEL in place and len(cells) > 1 and not is_told and has_header == is_again:
        label = f"label {first[place[LABEL]]!r} stands on"
        raise UserError(
            f"{path}:{cells[0][0]}: is the first line {first} a row or the names of the columns?"[:200],
            "header=true or header=false, for all own files",
            f"{label} other lines too: write the names of the columns above it"
            if is_again
            else f"{label} no other line: give header=true if it names the column",
        )
    return {c: place[c] for c in reading.wanted}, has_header


def _stands_out(cells: Cells) -> bool:
    """Return whether the first of many rows of two cells is of names: short, with the only label that occurs once."""
    first = [cell.strip() for cell in cells[0][1]]
    if (
        len(first) != 2
        or len(cells) <= _MANY_ROWS
        or any(len(cell.split()) > _MAX_NAME_WORDS for cell in first)
    ):
        return False
    by_column = [Counter(row[place].strip() for _, row in cells) for place in (0, 1)]
    labels, name = min(zip(by_column, first, strict=True), key=lambda each: len(each[0]))
    return len(by_column[0]) != len(by_column[1]) and [each for each, n in labels.items() if n == 1] == [name]


def _named_places(
    path: Path, cells: Cells, reading: Reading, langs: Sequence[str], numbers: Mapping[str, str]
) -> dict[str, int]:
    """Return the place from 0 of each column that the header or a number tells."""
    first = [cell.strip() for cell in cells[0][1]]
    if again := [number for number, row in cells[1:] if [cell.strip() for cell in row] == first]:
        raise UserError(
            f"{path}:{again[0]}: the names of the columns again",
            "a header once, or header=false",
            "delete the line",
        )
    named = columns_by_name(path, first, reading, langs, numbers)
    if twice := [n for c, n in named.items() if c not in numbers and first.count(n) > 1]:
        raise UserError(
            f"{path}: {first.count(twice[0])} columns are called {twice[0]!r}",
            "a name for each column",
            "name another, or give its number, as in columns.text=2",
        )
    return {c: int(numbers[c]) - 1 if c in numbers else first.index(n) for c, n in named.items()}


def _label_place(path: Path, cells: Sequence[tuple[int, list[str]]], places: Sequence[int]) -> int:
    """Return the column with the fewest different cells, which is that of the label."""
    different = {i: len({row[i] for _, row in cells}) for i in places}
    ordered = sorted(different, key=lambda i: different[i])
    if len(ordered) > 1 and different[ordered[0]] == different[ordered[1]]:
        raise UserError(
            f"{path}: columns {ordered[0] + 1} and {ordered[1] + 1} may both be the label",
            "columns.label=NUMBER",
            "give it, for example columns.label=2",
        )
    return ordered[0]
