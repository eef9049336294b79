"""Tables of office programs: the columns of each are named or guessed as those of ``tsv:``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common import columns
from xling.corpora.parallel.sources import Row, SourceContext, drop_row, existing_path
from xling.corpora.parallel.sources.tables import guess_columns
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

OTHER_TABLES = "tables without the two columns, which were not read"
Grid = list[list[str]]


def named_columns(scheme: str, rest: str) -> tuple[Path, list[str]]:
    """Return file and columns of a URI.

    Raises:
        UserError: no such file, or another number of columns.
    """
    name, _, wanted = rest.partition("#")
    names = [each for each in wanted.split("+") if each]
    if len(names) not in (0, 2, 3):
        raise UserError(
            f"source '{scheme}:{rest}' names {len(names)} columns",
            f"two or three: {scheme}:FILE#SRC+TGT or {scheme}:FILE#SRC+TGT+DOC",
        )
    return existing_path(name), names


def grid_rows(
    grids: Iterator[Grid], uri: str, names: Sequence[str], context: SourceContext, ledger: Ledger
) -> Iterator[Row]:
    """Yield the pairs of all tables that have the columns; the other tables are counted.

    Raises:
        UserError: no table has them.
    """
    problem: UserError | None = None
    num_read = num_rows = 0
    for number, grid in enumerate(grids):
        filled = [row for row in grid if any(map(str.strip, row))]
        if not filled:
            continue
        try:
            rows = list(_rows_of(filled, f"{uri}/{number}", names, context, ledger))
        except UserError as error:
            problem = problem or error
            ledger.count_event(OTHER_TABLES)
            continue
        num_read, num_rows = num_read + 1, num_rows + len(rows)
        yield from rows
    if not num_read:
        raise problem or UserError(
            f"{uri} holds no table with text", "a table with two columns", "check the file"
        )


def _rows_of(
    grid: Grid, uri: str, names: Sequence[str], context: SourceContext, ledger: Ledger
) -> Iterator[Row]:
    width = max(map(len, grid))
    if width < 2:
        raise UserError(f"{uri} has one column", "two or more", "name the columns after #")
    # One line a row: white space in a cell is one space in a pair anyway. A mark that no text has keeps quotes alone.
    lines = ("\t".join(" ".join(cell.split()) for cell in row) for row in grid)
    rows, positions, _ = columns.open_rows(
        lines,
        uri,
        "\t",
        names,
        lambda header: guess_columns(tuple(header), (context.src, context.tgt)),
        (0, 1),
    )
    for number, row in enumerate(rows):
        cells = row.cells
        longest = (
            max((len(cells[place]) for place in positions[:2] if place < len(cells)), default=0)
            if cells
            else 0
        )
        if cells is None or max(positions) >= len(cells) or len(cells) > width or longest > MAX_CELL_BYTES:
            drop_row(ledger, "malformed", f"{uri}/{number}", row.text[:1000])
        else:
            src, tgt, *doc = (cells[place] for place in positions)
            yield src, tgt, doc[0] if doc else ""
