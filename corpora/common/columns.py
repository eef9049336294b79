"""Columns of delimited tables: found by their names, or by number, and asked for where it is not clear."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from shlex import quote

from xling.core.errors import UserError, nearest
from xling.core.language_names import in_column_name, is_plain
from xling.core.language_tags import language_of
from xling.core.languages import Language
from xling.text.files.delimited import (
    DELIMITERS,
    NO_DELIMITER,
    Rows,
    TextRow,
    common_width,
    find_delimiter,
    has_quotes,
    split_row,
)

Guess = Callable[[Sequence[str]], list[int]]
"""From the names of columns to the positions of those that are wanted; [] where one is not among them."""

_SENTENCE_ENDS = tuple(".!?…。！？।؟።։။៕")
_MAX_NAME_CHARS, _MAX_NAME_WORDS = 30, 3
_MIN_ROWS, _MAX_NAME_SHARE = 4, 0.05
MAX_ABOVE = 20  # lines above the names of the columns: a title, comments
_ERRORS = frozenset(["#N/A", "#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!", "#ERROR!"])
_NO_VALUES = _ERRORS | {"\\N", "NULL", "<NA>", "NaN"}
"""What spreadsheets show in place of a text, and databases and pandas write for none."""
_MAY_BE_NONE = re.compile(r"#|\\N|NULL|NaN|<NA>")
# A number, an address or name of a program or file, an identifier with digits.
_NO_TEXT = re.compile(
    r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?%?|(?=\S*?(?:\w[./_:@]\w|/))[!-~]+|(?=\S*\d)[!-~]{8,}", re.IGNORECASE
)
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_MIN_CODES = 0.9


class _Table(Rows):
    """Rows, and the languages of the wanted columns in their order; none where that is of no interest."""

    langs: Sequence[Language] = ()


def open_rows(
    lines: Iterator[str],
    uri: str,
    delimiter: str,
    names: Sequence[str],
    guess: Guess,
    default: Sequence[int],
    langs: Sequence[Language] = (),
) -> Iterator[TextRow]:
    """Return the rows below the names of the columns, with the cells of the wanted columns; None where it is malformed.

    A row with more cells than the table has a delimiter inside of a text, which would be cut there.

    Args:
        uri: what the user gave, without the columns, for messages.
        delimiter: "" to find it.
        names: of the wanted columns, or numbers from 1; empty to guess.
        default: positions in a file without names of columns; empty where only its one column can be meant.
        langs: of the wanted columns, for the order in a question.

    Raises:
        UserError: there are no such columns, or it is not clear which ones, whether the first row names them, or
            what delimits them.
    """
    rows = _Table(lines, delimiter)
    rows.langs = langs
    if not rows.first:
        return iter(())
    wanted = [name.strip().lower() for name in names]
    _find_cells(rows, uri, delimiter, wanted, guess)
    remaining: Iterator[TextRow] = iter(rows)
    # A line with one cell above the names is a title or a comment, which counts as malformed.
    head = [[cell.strip().lower() for cell in cells] for cells in _cells_of(rows)[:MAX_ABOVE]]
    place = next((i for i, cells in enumerate(head) if sum(map(bool, cells)) > 1), 0)
    is_named = [set(wanted) <= set(head[i]) if wanted else bool(guess(head[i])) for i in (0, place) if head]
    num_above = place if is_named == [False, True] else 0
    above = [TextRow(row.text, None) for row in islice(remaining, num_above)]
    if (first_row := next(remaining, None)) is None:
        return iter(())
    header = first_row.cells or ()
    positions, is_header = _positions(uri, header, wanted, guess, len(default) or 1, rows)
    names_of_columns = None
    if is_header or (positions and _stands_above_numbers(header, positions, rows)):
        names_of_columns = [header[place] for place in positions]
        num_before, rows.width = _cells_without_name(header, positions, rows)
        positions = [position + num_before for position in positions]
        if rows.width == 1:  # a comma is a mark of the text
            rows.delimiter = NO_DELIMITER
    else:
        positions = positions or _without_names(uri, header, rows, default)
        remaining = chain([first_row], remaining)
    if rows.width <= max(positions):
        raise UserError(
            f"{uri} has {rows.width} column{'s' * (rows.width > 1)} between {DELIMITERS.get(rows.delimiter, 'marks')}",
            f"{max(positions) + 1} or more",
            "give csv:FILE for commas, semicolons or bars, tsv:FILE for tabs, and check the names after #",
        )
    return chain(above, _wanted_cells(remaining, positions, rows.width, names_of_columns))


def _find_cells(rows: Rows, uri: str, delimiter: str, wanted: Sequence[str], guess: Guess) -> None:
    """Find what delimits the cells of the first rows, whether they stand in quotes, and how many a row has."""
    if not rows.delimiter:
        cells_of = {each: split_row(rows.first[0], each)[0] for each in DELIMITERS}
        fits = [
            each
            for each, cells in cells_of.items()
            if set(wanted) <= {cell.strip().lower() for cell in cells} and (wanted or guess(cells))
        ]
        rows.delimiter = find_delimiter(rows.first, uri, fits)
    elif delimiter:
        rows.quoted = has_quotes(rows.first, delimiter)
    rows.width = common_width(rows.first, rows.delimiter, rows.quoted)[0]


def _wanted_cells(
    rows: Iterable[TextRow], positions: Sequence[int], width: int, names: Sequence[str] | None
) -> Iterator[TextRow]:
    """Yield the wanted cells; the names of the columns again, as in joined files, are a malformed row."""
    for row in rows:
        is_whole = row.cells is not None and max(positions) < len(row.cells) <= width
        cells = [row.cells[place] for place in positions] if row.cells and is_whole else None
        if cells and _MAY_BE_NONE.search(row.text):
            cells = ["" if cell.strip() in _NO_VALUES else cell for cell in cells]
        yield TextRow(row.text, tuple(cells) if cells and cells != names else None)


def _cells_of(rows: Rows, width: int = 0) -> list[list[str]]:
    """Return the cells of the first lines of a file; with a width, of those below the very first that have it."""
    lines = [line for line in rows.first if line.strip(" \r")]
    all_cells = [split_row(line, rows.delimiter, rows.quoted)[0] for line in lines]
    return [cells for cells in all_cells[1:] if len(cells) == width] if width else all_cells


def _cells_without_name(header: Sequence[str], positions: Sequence[int], rows: Rows) -> tuple[int, int]:
    """Return the cells of a row before the first name, and all: R writes numbers there, others end with a mark."""
    longer = _cells_of(rows, len(header) + 1)
    if rows.width != len(header) + 1 or not longer:
        return 0, len(header)
    is_shifted = any(all(cells[place].strip().isdecimal() for cells in longer) for place in positions)
    is_ended = not any(cells[-1].strip() for cells in longer)
    return int(is_shifted and not is_ended), len(header) + (is_shifted or is_ended)


def _positions(
    uri: str, header: Sequence[str], wanted: list[str], guess: Guess, num_wanted: int, rows: _Table
) -> tuple[list[int], bool]:
    """Return the positions of the wanted columns, [] where they have no names, and whether the row is of names."""
    lowered = [cell.strip().lower() for cell in header]
    if wanted and not set(wanted) & set(lowered) and all(map(str.isdecimal, wanted)):
        if min(map(int, wanted)) < 1:
            raise UserError(f"{uri}: column numbers {', '.join(wanted)}", "whole numbers from 1")
        positions = [int(name) - 1 for name in wanted]
        return positions, _are_names([header[place] for place in positions if place < len(header)])
    if wanted:
        if missing := [name for name in wanted if lowered.count(name) != 1]:
            raise UserError(
                f"{uri} has no column {', '.join(missing)}, or several",
                f"columns {', '.join(header)}"[:300],
                "".join(f"did you mean {header[lowered.index(n)]}?" for n in nearest(missing[0], lowered, 1)),
            )
        return [lowered.index(name) for name in wanted], True
    below = _cells_of(rows, len(header))
    if positions := guess(header):
        # A code of a language above codes of languages does not name the column.
        texts = positions[:num_wanted]
        if not any(_are_codes([cells[place] for cells in below], header[place]) for place in texts):
            return positions, True
    elif _are_names(header):
        raise _ask(uri, header, "names columns, but not the ones that are wanted", num_wanted, rows)
    return [], False


def _without_names(uri: str, header: Sequence[str], rows: _Table, default: Sequence[int]) -> list[int]:
    """Return the positions of columns that have no names.

    Raises:
        UserError: the first row may be names, or there are several columns and any may be meant.
    """
    if not default and rows.width > 1:
        raise _ask(uri, header, f"has {rows.width} columns, and any may be the text", 1, rows)
    later = _cells_of(rows)[1:]
    if rows.width >= len(default) > 1:
        no_texts = [place for place in range(rows.width) if _is_no_text(rows, place)]
        if rows.width - len(no_texts) < len(default) and len(later) >= _MIN_ROWS:
            raise UserError(
                f"{uri} has {rows.width} columns, and not {len(default)} of texts: {', '.join(header)}"[:300],
                f"{len(default)} columns of texts",
                "check the file, or name the columns after #",
            )
        if rows.width > len(default) and set(no_texts) & set(default):
            what = "names no language, and codes, identifiers, addresses or numbers stand below it"
            raise _ask(uri, header, what, len(default), rows)
    # Lines of a cell that goes on in the next one count as nothing.
    num_like = sum(len(cells) == rows.width and all(map(_may_be_name, cells)) for cells in later)
    if (
        len(later) >= _MIN_ROWS
        and header
        and all(map(_may_be_name, header))
        and num_like <= _MAX_NAME_SHARE * len(later)
    ):
        raise _ask(uri, header, "may be names of columns or text", len(default) or 1, rows)
    return list(default) or [0]


def _stands_above_numbers(header: Sequence[str], positions: Sequence[int], rows: Rows) -> bool:
    """Return whether a row is of names: its wanted cells may be, and another one stands above numbers alone."""
    chosen = [header[place] for place in positions if place < len(header)]
    below = _cells_of(rows, len(header))
    return (
        len(below) > 1
        and all(map(_may_be_name, chosen))
        and any(
            _may_be_name(name) and all(cells[place].strip().isdecimal() for cells in below)
            for place, name in enumerate(header)
            if place not in positions
        )
    )


def _ask(uri: str, header: Sequence[str], what: str, num_wanted: int, rows: _Table) -> UserError:
    """Return the question for the columns, with those of the longest texts as the example, the source first if told."""
    sizes = [sum(len(cells[i]) for cells in _cells_of(rows) if i < len(cells)) for i in range(len(header))]
    sizes = [-1 if _is_no_text(rows, place) else size for place, size in enumerate(sizes)]
    places = sorted(sorted(range(len(header)), key=lambda place: -sizes[place])[:num_wanted])
    named = [in_column_name(header[place]) for place in places]
    if len(rows.langs) == len(places) == 2 and (named[0] == rows.langs[1] or named[1] == rows.langs[0]):
        places.reverse()
    names, numbers = "+".join(header[i] for i in places), "+".join(str(i + 1) for i in places)
    by_number = f"{uri}#{numbers}"
    if all(_may_be_name(header[i]) for i in places):
        by_name = f"{uri}#{names}"
        if not all(header[i].isidentifier() for i in places):
            by_name = quote(by_name)
        by_number = f"{by_name}, or by number as in {by_number} if that row is text"
    return UserError(
        f"{uri}: the first row ({', '.join(header)[:200]}) {what}",
        "columns with the codes or names of the languages, or named after #",
        f"name {'them, the source first' if num_wanted > 1 else 'the one with the text'}, as in {by_number}",
    )


def _is_no_text(rows: Rows, place: int) -> bool:
    """Return whether a column below the first row holds numbers, addresses, identifiers, codes or one value alone."""
    whole = _cells_of(rows, rows.width)
    # Cells of several lines are not seen here.
    if not whole or place >= rows.width or 2 * len(whole) < len(rows.first) - 1:
        return False
    cells = [cell for cells in whole if (cell := cells[place].strip())]
    if all(map(_NO_TEXT.fullmatch, cells)):
        return True
    return len(cells) >= _MIN_ROWS and (len(set(cells)) == 1 or _are_codes(cells, cells[0]))


def _are_codes(cells: Sequence[str], first: str) -> bool:
    """Return whether cells are codes of languages: the first one again, or, of several rows, nearly all known."""
    if not cells or all(cell == first for cell in cells):
        return bool(cells)
    num = sum(1 for cell in cells if _CODE.fullmatch(cell.strip()) and language_of(cell.strip()))
    return len(cells) >= _MIN_ROWS and num >= _MIN_CODES * len(cells)


def _are_names(cells: Sequence[str]) -> bool:
    return bool(cells) and all(is_plain(cell) or in_column_name(cell) for cell in cells if cell.strip())


def _may_be_name(cell: str) -> bool:
    text = cell.strip()
    return (
        0 < len(text) <= _MAX_NAME_CHARS
        and len(text.split()) <= _MAX_NAME_WORDS
        and not text.endswith(_SENTENCE_ENDS)
        and not text.isdecimal()
    )


def find_language(header: Sequence[str], lang: Language, codes: Sequence[str], others: Sequence[str]) -> int:
    """Return the position of the column of a language, or -1 if the header has no such column.

    A code of the language counts first, then a name in which it is the one language, then the ``others``.

    Raises:
        UserError: several columns are of that language.
    """
    lowered = [cell.strip().lower() for cell in header]
    exact = [i for code in codes for i, cell in enumerate(lowered) if cell == code.lower()]
    languages = [in_column_name(cell) for cell in header]
    same = [i for i, language in enumerate(languages) if language == lang]
    related = [i for i, language in enumerate(languages) if language and language.base == lang.base]
    for places in (exact, same, related):
        if len(places) > 1 and (places is not exact or lowered.count(lowered[places[0]]) > 1):
            names = ", ".join(header[i] for i in places)
            raise UserError(
                f"columns {names} are all {lang.name}",
                "one column of each language",
                "name the columns after #",
            )
        if places:
            return places[0]
    return next((lowered.index(name) for name in others if name in lowered), -1)
