"""Source ``xlsx:GLOB[#COLUMN]``: a document in one cell of each row of a spreadsheet (.xlsx, .xlsb, .xls, .ods)."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace

from xling.core.errors import UserError
from xling.corpora.common.columns import MAX_ABOVE
from xling.corpora.common.spreadsheets import ENDINGS, Grid, read_sheets
from xling.corpora.sources.csv import Delimited
from xling.corpora.sources.source import SOURCES, Shard
from xling.text.document import Document, Ledger

OTHER_SHEETS = "sheets without the column of the text, which were not read"


@SOURCES.register("xlsx")
class Xlsx(Delimited):
    """All sheets that have the column; the others are counted.

    Beside a sheet whose first rows name the column, one without names is of something else.
    """

    endings = ENDINGS
    delimiter = "\t"

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a row.

        Raises:
            UserError: no sheet has the column, it is not clear which one holds the text, or the file is damaged.
        """
        problem, num_read = UserError(f"{self.uri} holds no sheet with text", "a column of texts"), 0
        path = self.context.local(shard)
        has_names = not self.field and any(map(self._is_named, read_sheets(path)))
        for number, grid in enumerate(read_sheets(path)):
            if not any(cell.strip() for row in grid for cell in row):
                continue
            if has_names and not self._is_named(grid):
                ledger.count_event(OTHER_SHEETS)
                continue
            sheet = replace(shard, name=f"{shard.name}/{number}")
            try:
                yield from self.documents(_lines_of(grid), sheet, ledger)
                num_read += 1
            except UserError as error:
                problem = problem if num_read else error
                ledger.count_event(OTHER_SHEETS)
        if not num_read:
            raise problem

    def _is_named(self, grid: Grid) -> bool:
        """Return whether one of the first rows names a column of texts, or several of which one has to be chosen."""
        try:
            return any(map(self._guess, grid[:MAX_ABOVE]))
        except UserError:
            return True


def _lines_of(grid: Grid) -> Iterator[str]:
    """Yield the lines of a sheet as delimited text, every cell in quotes."""
    for row in grid:
        text = io.StringIO()
        csv.writer(text, delimiter=Xlsx.delimiter, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
        yield from text.getvalue().split("\n")
