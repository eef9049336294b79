"""Own files with a whole sentence on a line: words and their tags behind a tab, in lists, or joined (``word/TAG``)."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.rows.own_columns import TAG, OwnRow, OwnTable
from xling.eval.rows.tag_schemes import span_types

Lines = Sequence[tuple[int, str]]
"""Number and text of each line with something on it."""
_SIGNS = ("/", "|", "_")
"""What stands between a word and its tag, as in the Brown corpus, WikiNER and Penn's tagger."""
_NAME = re.compile(r"[A-Z][A-Z0-9$+:*-]*|[BIESLUbieslu]-\w[\w-]*|[.,:;'`()$#-]{1,5}|[Oo]")
_LIST = re.compile(r"""(?:^|[\t,;|])"?\[["']""")
"""Begin of a list of texts in a cell."""
_BETWEEN = re.compile(r"""(["'\d])\s+(?=["'\d])""")
_BRAT = re.compile(r"[TREAMN]\d+\t\S+ [\dTA]\S* \S+.*")
"""A line of brat's files of annotations, which stand beside texts: ``T1<TAB>PER 0 5<TAB>Amina``."""
_MARKUP = re.compile(r"</\w+>|\[[A-Z]{2,} [^]]+\]")
"""Ends of spans in running text: ``<PER>Amina</PER>``, ``[PER Amina]``."""


def sentences_by_line(path: Path, numbered: Lines) -> OwnTable | None:
    """Return the rows of a file with a sentence on a line; None if the file is another one.

    Args:
        numbered: number and text of all lines, with tabs between cells.

    Raises:
        UserError: spans are marked in running text.
    """
    content = [(n, line) for n, line in numbered if line.strip() and not line.startswith("-DOCSTART-")]
    forms: tuple[tuple[Callable[[Lines], list[OwnRow]], str], ...] = (
        (_by_tab, "a sentence a line: words, a tab, tags"),
        (_by_turns, "a line of words, then a line of their tags"),
    )
    for form, facts in forms:
        if rows := form(content):
            return OwnTable(rows, facts)
    if joined := _joined(numbered, content):
        return joined
    if content and all(_BRAT.fullmatch(line) for _, line in content[:1]):
        raise UserError(
            f"{path}:{content[0][0]}: {content[0][1][:40]!r} is an annotation of brat, without its text",
            "a word and its tag on each line, a blank line after each sentence",
            "export CoNLL from brat (tools/anntoconll.py)",
        )
    if marked := [(n, match[0]) for n, line in content if (match := _MARKUP.search(line))]:
        raise UserError(
            f"{path}:{marked[0][0]}: {marked[0][1][:40]!r} marks a span in running text",
            "a word and its tag on each line, a blank line after each sentence",
            "write B-PER, I-PER and O behind the words, a word a line",
        )
    return None


def _by_tab(content: Lines) -> list[OwnRow]:
    """Return the sentences of lines of words, a tab and as many tags; [] for other lines."""
    rows: list[OwnRow] = []
    for number, line in content:
        words, *rest = (tuple(cell.split()) for cell in line.split("\t"))
        if len(rest) != 1 or not len(words) == len(rest[0]) > 0:
            return []
        rows.append(OwnRow((number,), {"token": words, "tag": rest[0]}))
    num_longer = sum(len(row.cells["token"]) > 1 for row in rows)
    return rows if 2 * num_longer > len(rows) else []


def has_lists(content: Lines) -> bool:
    """Return whether cells of a table are lists that Python, numpy or JSON has written: ``['Amina', 'ate']``."""
    return len(content) > 1 and all(_LIST.search(line) for _, line in content[1:2])


def rows_of_lists(path: Path, table: OwnTable) -> OwnTable:
    """Return the sentences of a table whose cells are lists of words and of tags.

    Raises:
        UserError: a cell is not a list, or a sentence has more words than tags.
    """
    rows: list[OwnRow] = []
    for row in table.rows:
        cells = {column: _items(path, row.lines[0], cell) for column, cell in row.cells.items()}
        check_lengths(path, row.lines[0], cells)
        rows.append(OwnRow(row.lines, cells))
    return OwnTable(rows, f"{table.facts}; a list a cell")


def check_lengths(path: Path, number: int, cells: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError if a sentence has more words than tags, or fewer."""
    if TAG in cells and len(cells["token"]) != len(cells[TAG]):
        raise UserError(
            f"{path}:{number}: {len(cells['token'])} words and {len(cells[TAG])} tags", "a tag for every word"
        )


def _items(path: Path, number: int, cell: str) -> tuple[str, ...]:
    """Return the texts of a list; numpy writes blanks and line ends between them in place of commas."""
    try:
        items = ast.literal_eval(_BETWEEN.sub(r"\1, ", cell.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, (str, int)) for item in items):
        raise UserError(f"{path}:{number}: no list of texts: {cell[:40]!r}", "['Amina', 'ate'] in every cell")
    return tuple(map(str, items))


def _by_turns(content: Lines) -> list[OwnRow]:
    """Return the sentences of lines of words with a line of tags below each; [] for other lines.

    Tags mark spans, and no line of words consists of such marks.
    """
    if len(content) % 2:
        return []
    rows: list[OwnRow] = []
    for (number, above), (_, below) in zip(content[::2], content[1::2], strict=True):
        words, tags = above.split(), below.split()
        if len(words) != len(tags) or span_types(words) or not (span_types(tags) or {*tags} <= {"O"}):
            return []
        rows.append(OwnRow((number,), {"token": tuple(words), "tag": tuple(tags)}))
    is_marked = any(span_types(row.cells["tag"]) for row in rows)
    return rows if is_marked and any(len(row.cells["token"]) > 2 for row in rows) else []


def _joined(numbered: Lines, content: Lines) -> OwnTable | None:
    """Return the sentences of ``word/TAG``, where all words of a file have one sign before their tags.

    More parts, as in ``word|POS|NER``, are told. With a word a line, blank lines stand between sentences.
    """
    parts = [part for _, line in content for part in line.split()]
    for sign in _SIGNS:
        widths = {part.count(sign) + 1 for part in parts}
        width = min(widths, default=1)
        if width < 2:
            continue
        cells = [part.rsplit(sign, width - 1) for part in parts]
        tags = [cell[-1] for cell in cells]
        if all(cell[0] for cell in cells) and all(map(_NAME.fullmatch, tags)):
            is_word_a_line = all(len(line.split()) == 1 for _, line in content)
            return OwnTable(
                _rows_of(numbered, sign, width, is_word_a_line),
                f"words joined with their tags by {sign!r}"
                + (f"; of {width} parts the first is the word, the last the tag" if width > 2 else ""),
            )
    return None


def _rows_of(numbered: Lines, sign: str, width: int, is_word_a_line: bool) -> list[OwnRow]:
    rows: list[OwnRow] = []
    words: list[tuple[int, list[str]]] = []
    for number, line in [*numbered, (0, "")]:
        is_outside = not line.strip() or line.startswith("-DOCSTART-")
        words += [] if is_outside else [(number, part.rsplit(sign, width - 1)) for part in line.split()]
        if words and (is_outside or not is_word_a_line):
            places = tuple(n for n, _ in words)
            columns = {"token": tuple(w[0] for _, w in words), "tag": tuple(w[-1] for _, w in words)}
            rows.append(OwnRow(places if is_word_a_line else places[:1], columns))
            words = []
    return rows
