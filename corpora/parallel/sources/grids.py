"""Tables of office programs: the columns of each are named or guessed as those of ``tsv:``."""

from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common import columns
from xling.corpora.common.columns import MAX_ABOVE
from xling.corpora.common.spreadsheets import Grid
from xling.corpora.parallel.sources import Row, SourceContext, drop_row
from xling.corpora.parallel.sources.tables import TableFile, guess_for, in_order
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

OTHER_TABLES = "tables without the two columns, which were not read"


class GridFile(TableFile):
    """Base of sources of one file with several tables: those without the columns are counted."""

    @staticmethod
    def grids(path: Path) -> Iterator[Grid]:
        """Yield the tables of a file.

        Raises:
            UserError: it is damaged.
        """
        raise NotImplementedError

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of all tables that have the columns.

        Raises:
            UserError: no table has them.
        """
        problem: UserError | None = None
        uri, num_read = f"{cls.kind}:{path}", 0
        # Beside a table whose columns have names, one without them is of something else.
        has_names = not column_names and any(_is_named(grid, context) for grid in cls.grids(path))
        for number, grid in enumerate(cls.grids(path)):
            filled = [row for row in grid if any(map(str.strip, row))]
            if not filled:
                continue
            if has_names and not _is_named(grid, context):
                ledger.count_event(OTHER_TABLES)
                continue
            try:
                rows = list(_rows_of(filled, f"{uri}/{number}", column_names, context, ledger))
            except UserError as error:
                problem = problem or error
                ledger.count_event(OTHER_TABLES)
                continue
            num_read += 1
            yield from rows
        if not num_read:
            raise problem or UserError(
                f"{uri} holds no table with text", "a table with two columns", "check the file"
            )


def _is_named(grid: Grid, context: SourceContext) -> bool:
    """Return whether one of the first rows names columns of the two languages by their codes or names."""
    return any(map(guess_for(context), grid[:MAX_ABOVE]))


def _rows_of(grid: Grid, uri: str, names: list[str], context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    width = max(map(len, grid))
    if width < 2:
        raise UserError(f"{uri} has one column", "two or more", "name the columns after #")
    # One line a row: white space in a cell is one space in a pair anyway. A mark that no text has keeps quotes alone.
    lines = ("\t".join(" ".join(cell.split()) for cell in row) + "\t" * (width - len(row)) for row in grid)
    where, langs = uri.rpartition("/")[0], (context.src, context.tgt)
    rows = columns.open_rows(lines, where, "\t", names, guess_for(context), (0, 1), langs)
    for number, row in enumerate(rows):
        pair = in_order(row.cells, context) if row.cells else None
        if pair is None or max(map(len, pair[:2])) > MAX_CELL_BYTES:
            drop_row(ledger, "malformed", f"{uri}/{number}", row.text[:1000])
        else:
            yield pair
