"""``xlsx:FILE[#SRC+TGT]``: sheets of a spreadsheet (.xlsx, .xlsb, .xls, .ods), a pair a row."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.spreadsheets import Grid, read_sheets
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.parallel.sources.grids import GridFile


@PAIR_SOURCES.register("xlsx")
class Xlsx(GridFile):
    """All sheets of one file."""

    kind = "xlsx"

    @staticmethod
    def grids(path: Path) -> Iterator[Grid]:
        """Yield the cells of each sheet; errors as those of `read_sheets`."""
        return read_sheets(path)
