r"""Rows of delimited text (CSV, TSV), each read strictly for itself, so that damage costs the row that it is in.

A cell in quotes may have line ends, as RFC 4180 allows. It ends at a quote before a delimiter or a line end. A quote
that does not close in this way, or closes only after lines that are rows of their own, makes one malformed row.
Files that write a quote inside of a cell as ``\"`` (MySQL, Spark), or cells in single quotes, are read as such. So is
a backslash before a delimiter or a line end in a cell (MySQL's ``INTO OUTFILE``).
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xling.core.errors import UserError
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.corpus_reader import BadLine

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
NO_DELIMITER = "\x00"
"""Of a table of one column."""
FIRST_LINES, _FIRST_CHARS = 200, 1 << 25
"""Lines from which the delimiter and the number of columns are told, and their characters, at least one line."""
MAX_COLUMNS = 1 << 20
"""Of a row; a line with more delimiters is malformed."""
_OPEN, _BAD = "a quote that is not closed", "text after a closing quote"
_QUOTED = re.compile(r' *"((?:[^"]++|"")*+)("?) *')
_WORD_IN_QUOTES = re.compile(r'"(?:[^"]|"")+"')
_INSIDE = re.compile(r'(?:[^"]++|"")*+')
_SINGLE = re.compile(r"'((?:[^']|'')*+)'")
_SINGLE_QUOTED = re.compile(rf"{_SINGLE.pattern}(?:([,;\t|]){_SINGLE.pattern}(?:\2{_SINGLE.pattern})*)?")
_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\\Z")  # an odd number of backslashes
_MIN_SINGLE_QUOTED, _SHOWN_CHARS = 5, 200
_MAX_LINES, _MAX_OPEN = 10_000, 40  # of a row, and of its cells that go on in a later line
_MIN_SHARE, _MARGIN = 0.5, 0.1
_BARS, _MIN_BARS = " ||| ", 0.9
_MIN_ROWS_INSIDE, _ROWS_INSIDE = 5, 0.9


@dataclass(frozen=True)
class TextRow:
    """A row of a file.

    Attributes:
        text: as it stands in the file.
        cells: None where it is malformed.
    """

    text: str
    cells: tuple[str, ...] | None


def split_row(text: str, delimiter: str, quoted: bool = True) -> tuple[list[str], str]:
    """Return the cells of a row and what is wrong with it, "" for nothing; not ``quoted``, a quote is a letter."""
    if not quoted or '"' not in text:
        return text.split(delimiter), ""
    cells: list[str] = []
    position = 0
    while True:
        if cell := _QUOTED.match(text, position):
            if not cell[2]:
                return cells, _OPEN
            cells.append(cell[1].replace('""', '"'))
            position = cell.end()
            if position < len(text) and text[position] != delimiter:
                return cells, _BAD
        else:
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            cells.append(text[position:end])
            position = end
        if position == len(text):
            return cells, ""
        position += 1


def _other_quotes(lines: Sequence[str]) -> Callable[[str], str] | None:
    """Return what turns a line into the quotes of RFC 4180 if the first lines of a file have others."""
    escaped = [line for line in lines if '\\"' in line]
    if escaped and _num_errors(map(_without_backslashes, escaped)) < _num_errors(escaped):
        return _without_backslashes
    num_single = sum(_SINGLE_QUOTED.fullmatch(line) is not None for line in lines)
    return _without_single_quotes if num_single >= max(_MIN_SINGLE_QUOTED, len(lines) / 2) else None


def _num_errors(lines: Iterable[str]) -> int:
    """Return the malformed ones of lines under the delimiter that suits them best."""
    rows = list(lines)
    return min(sum(bool(split_row(row, each)[1]) for row in rows) for each in DELIMITERS)


def _without_backslashes(line: str) -> str:
    return line if isinstance(line, BadLine) else line.replace('\\"', '""')


def _without_single_quotes(line: str) -> str:
    if isinstance(line, BadLine) or not _SINGLE_QUOTED.fullmatch(line):
        return line
    return _SINGLE.sub(lambda cell: '"' + cell[1].replace("''", "'").replace('"', '""') + '"', line)


def _with_tabs(line: str) -> str:
    return line if isinstance(line, BadLine) else line.replace(_BARS, "\t")


def _unless_too_wide(line: str) -> str:
    is_wide = len(line) > MAX_COLUMNS and max(map(line.count, DELIMITERS)) >= MAX_COLUMNS
    return BadLine(line[:_SHOWN_CHARS]) if is_wide else line


class Rows:
    """The rows of a file after the first lines were looked at.

    Attributes:
        first: lines that were read to tell how the rows are delimited.
        delimiter: as it was found.
        quoted: whether cells may stand in quotes.
        width: cells of a row, 0 while that is not known.
    """

    def __init__(self, lines: Iterator[str], delimiter: str = "", quoted: bool = True) -> None:
        lines = self._lines = map(_unless_too_wide, lines)
        self.first: list[str] = []
        num_left = _FIRST_CHARS
        while num_left > 0 and len(self.first) < FIRST_LINES and (line := next(lines, None)) is not None:
            self.first.append(line)
            num_left -= len(line)
        if self.first and re.fullmatch(r"sep=.", self.first[0].strip()):  # Excel's own line
            delimiter = delimiter or self.first[0].strip()[-1]
            del self.first[0]
        change = _other_quotes(self.first)
        # The format of fast_align, where quotes are letters.
        if self.first and sum(_BARS in line for line in self.first) >= _MIN_BARS * len(self.first):
            delimiter, quoted, change = "\t", False, _with_tabs
        if change:
            self._lines, self.first = map(change, lines), list(map(change, self.first))
        self._waiting: deque[str] = deque(self.first)
        self.delimiter, self.quoted = delimiter, quoted
        self.width = 0

    def __iter__(self) -> Iterator[TextRow]:
        """Yield the rows that are left, without empty lines."""
        while (line := self._next()) is not None:
            if not line.strip(" \r"):
                continue
            if isinstance(line, BadLine) and not self._is_open(line):
                yield TextRow(line, None)
            elif "\r" in line and self._are_rows(parts := line.split("\r")):
                self._waiting.extendleft(reversed(parts))
            else:
                yield self._row(line)

    def _next(self) -> str | None:
        return self._waiting.popleft() if self._waiting else next(self._lines, None)

    def _peek(self, index: int) -> str | None:
        while len(self._waiting) <= index:
            line = next(self._lines, None)
            if line is None:
                return None
            self._waiting.append(line)
        return self._waiting[index]

    def _split(self, text: str) -> tuple[list[str], str]:
        return split_row(text, self.delimiter, self.quoted)

    def _is_row(self, line: str) -> bool:
        cells, error = self._split(line)
        return not error and len(cells) == self.width > 1

    def _is_open(self, line: BadLine) -> bool:
        """Return whether a line that is whole, with bytes that are no text, ends inside of a cell."""
        return self._is_whole(line) and self._split(line)[1] == _OPEN

    @staticmethod
    def _is_whole(line: BadLine) -> bool:
        return "\0" in line or "\ufffd" in line

    def _are_rows(self, parts: Sequence[str]) -> bool:
        """Return whether carriage returns end rows: most parts are whole rows, and together they are none."""
        num_rows = sum(map(self._is_row, parts))
        return num_rows == len(parts) or (2 * num_rows > len(parts) and not self._is_row("\r".join(parts)))

    def _row(self, line: str) -> TextRow:
        cells, error = self._split(line)
        if not error:
            is_escaped = self.width > 1 and any(_ESCAPE.search(cell) for cell in cells)
            return (is_escaped and self._escaped(line)) or TextRow(line, tuple(cells))
        if error == _OPEN and (text := self._joined(line)) is not None:
            return TextRow(text, None if isinstance(text, BadLine) else tuple(self._split(text)[0]))
        return TextRow(line, None)

    def _escaped(self, line: str) -> TextRow | None:
        """Return the row in which backslashes stand before delimiters and line ends of cells, None if none is."""
        num_lines = 0
        while _ESCAPE.search(line) and len(line) <= MAX_CELL_BYTES and num_lines < _MAX_LINES:
            later = self._peek(num_lines)
            if later is None or isinstance(later, BadLine):
                return None
            line, num_lines = f"{line[:-1]}\n{later}", num_lines + 1
        cells: list[str] = []
        for cell in self._split(line)[0]:
            if cells and _ESCAPE.search(cells[-1]):
                cells[-1] = f"{cells[-1][:-1]}{self.delimiter}{cell}"
            else:
                cells.append(cell)
        if len(cells) != self.width:
            return None
        for _ in range(num_lines):
            self._waiting.popleft()
        return TextRow(line, tuple(cells))

    def _joined(self, line: str) -> str | None:
        """Return the row that begins in ``line`` and ends in a later one, which is taken; None if there is none.

        With a `BadLine` in it, it is one.
        """
        size, num_rows, num_open = len(line), 0, 0
        num_cells = len(self._split(line)[0])
        for index in range(_MAX_LINES):
            later = self._peek(index)
            is_cut = isinstance(later, BadLine) and not self._is_whole(later)
            if later is None or is_cut or size > MAX_CELL_BYTES:
                return None
            size += len(later) + 1
            if _INSIDE.fullmatch(later):
                num_rows += self._is_row(later)
                continue
            cells, error = self._split(
                f'"{later}'
            )  # inside of quotes; all lines together would be read many times
            num_cells += len(cells)
            if error == _OPEN:
                num_open += 1
                if num_open > _MAX_OPEN or num_cells > (self.width or _MAX_OPEN):
                    return None
                continue
            # Lines that are whole rows of the table were no part of a cell; a paragraph may look like a row by chance.
            if (
                error
                or num_rows >= max(_MIN_ROWS_INSIDE, _ROWS_INSIDE * index)
                or (self.width and num_cells != self.width)
            ):
                return None
            parts = [line, *(self._waiting.popleft() for _ in range(index + 1))]
            text = "\n".join(parts)
            return BadLine(text) if any(isinstance(part, BadLine) for part in parts) else text
        return None


def common_width(lines: Sequence[str], delimiter: str, quoted: bool = True) -> tuple[int, float]:
    """Return the commonest number of cells and its share of the rows; of equally common ones the smallest."""
    counts = Counter(len(row.cells or ()) for row in Rows(iter(lines), delimiter, quoted))
    width = min((n for n in counts if n > 1), key=lambda n: (-counts[n], n), default=1)
    return width, counts[width] / max(1, counts.total())


def has_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether cells were written in quotes where needed: with doubled quotes inside, or all of them."""
    rows = [row for row in Rows(iter(lines), delimiter) if '"' in row.text]
    if not rows or any(row.cells is None for row in rows):
        return False
    is_doubled = any('""' in row.text and any('"' in cell for cell in row.cells or ()) for row in rows)
    all_cells = sum(len(row.cells or ()) for row in rows)
    in_quotes = sum(len(re.findall(rf'(?:^|{re.escape(delimiter)})"', row.text)) for row in rows)
    return is_doubled or (in_quotes >= all_cells and len(rows) >= len(lines) / 2)


def has_doubled_quotes(cell: str) -> bool:
    """Return whether a cell stands in quotes and has doubled ones inside, as only CSV writes it."""
    return '""' in cell[1:-1] and _WORD_IN_QUOTES.fullmatch(cell) is not None


def unquoted_words(words: Iterable[str]) -> dict[str, str]:
    """Return the words of a column that were written in quotes, and what they are; {} if the column was not.

    As ``has_quotes``, but a quote mark alone is a word, as it is in tagged text; in quotes it is four marks.
    """
    begun = {word for word in words if word.startswith('"') and len(word) > 1}
    if not any(map(has_doubled_quotes, begun)) or not all(map(_WORD_IN_QUOTES.fullmatch, begun)):
        return {}
    return {word: word[1:-1].replace('""', '"') for word in begun}


def find_delimiter(lines: Sequence[str], name: str, fitting: Sequence[str] = ()) -> str:
    """Return what delimits the cells of a file; a comma where nothing does.

    Args:
        lines: its first lines.
        name: of the file, for the message.
        fitting: delimiters under which the first line names the columns that are asked for.

    Raises:
        UserError: it can be read in two ways.
    """
    if len(fitting) == 1:
        return fitting[0]
    shares = {each: common_width(lines, each) for each in fitting or DELIMITERS}
    shares = {each: (width, share) for each, (width, share) in shares.items() if width > 1}
    # A mark before a blank is mostly punctuation.
    apart = {each: width_share for each, width_share in shares.items() if not _is_punctuation(lines, each)}
    likely = (
        {each: (width, share) for each, (width, share) in apart.items() if share >= _MIN_SHARE}
        or apart
        or shares
    )
    ranked = sorted(likely, key=lambda each: -likely[each][1])
    if len(ranked) > 1 and likely[ranked[0]][1] - likely[ranked[1]][1] < _MARGIN:
        ways = " or ".join(f"{DELIMITERS[each]} ({likely[each][0]} columns)" for each in ranked[:2])
        raise UserError(
            f"{name} can be read with {ways} between its columns",
            "one way to read it",
            "put a line with the names of the columns first, for example en;sw, or name two of its columns with #",
        )
    return ranked[0] if ranked else ","


def _is_punctuation(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether most marks outside of quotes stand before a blank."""
    text = re.sub(r'"(?:[^"]++|"")*+"', '""', "\n".join(lines))
    num, spaced = text.count(delimiter), text.count(f"{delimiter} ") - text.count(f'{delimiter} "')
    return 2 * spaced > num
