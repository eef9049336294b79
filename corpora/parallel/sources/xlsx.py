"""``xlsx:FILE[#SRC+TGT]``: sheets of a spreadsheet (.xlsx, .xlsb, .xls, .ods), a pair a row, read by calamine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from xling.core.commands.extras import missing_package_error
from xling.core.errors import UserError
from xling.corpora.common.packed_xml import open_packed
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.parallel.sources.grids import Grid, GridFile
from xling.corpora.parallel.sources.units import read_small

_ZIP = b"PK\x03\x04"


@PAIR_SOURCES.register("xlsx")
class Xlsx(GridFile):
    """All sheets of one file."""

    kind = "xlsx"

    @staticmethod
    def grids(path: Path) -> Iterator[Grid]:
        """Yield the cells of each sheet as text.

        Raises:
            UserError: no spreadsheet, a damaged or a harmful one, or calamine is not installed.
        """
        try:
            import python_calamine as calamine
        except ModuleNotFoundError:
            raise missing_package_error("python_calamine", "source=xlsx:", "office") from None
        data = read_small(path)
        if data.startswith(_ZIP):
            with open_packed(path):  # refuses members that swell
                pass
        try:
            with calamine.CalamineWorkbook.from_filelike(BytesIO(data)) as book:
                names = list(book.sheet_names)
                for name in names:
                    rows = book.get_sheet_by_name(name).to_python(skip_empty_area=True)
                    yield [[_as_text(cell) for cell in row] for row in rows]
        except (calamine.CalamineError, OSError, ValueError) as error:
            raise _damaged(path, error) from None
        except BaseException as error:
            # A panic of the library derives from BaseException.
            if type(error).__name__ != "PanicException":
                raise
            raise _damaged(path, error) from None


def _damaged(path: Path, error: BaseException) -> UserError:
    said = " ".join(str(error).split())[:200]
    return UserError(
        f"{path} is not a spreadsheet, or a damaged one: {said}", "xlsx, xls or ods", "save it again"
    )


def _as_text(cell: Any) -> str:
    """Return a cell as its reader sees it: 3 for 3.0, an ISO date; other values as they are."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, timedelta):
        return ""
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)
