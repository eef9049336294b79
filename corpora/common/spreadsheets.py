"""Sheets of spreadsheets (.xlsx, .xlsb, .xls, .ods), read by calamine."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from xling.core.commands.inputs import missing_package_error
from xling.core.errors import UserError
from xling.corpora.common.packed_xml import open_packed

Grid = list[list[str]]
ENDINGS = (".xlsx", ".xlsb", ".xls", ".ods")
_ZIP = b"PK\x03\x04"
_END = "end of sheet"
MAX_BYTES = 1 << 28
"""Of a file, and of all its members, unpacked."""
MAX_MEMORY = 1 << 31
"""Of the process that reads the cells: two that lie far apart make a sheet of all between them."""
# A reader that runs out of memory ends its process, so it has one of its own.
_CHILD = """
import datetime, json, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
import python_calamine

def as_text(cell):
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, (datetime.timedelta, bool)):
        return ""
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell)

try:
    with python_calamine.CalamineWorkbook.from_path(sys.argv[1]) as book:
        for name in list(book.sheet_names):
            for row in book.get_sheet_by_name(name).to_python(skip_empty_area=True):
                print(json.dumps([as_text(cell) for cell in row]))
            print(json.dumps("end of sheet"))
except BaseException as error:  # a panic of the library derives from it
    print(json.dumps({{"error": str(error)}}))
"""


def read_sheets(path: Path) -> Iterator[Grid]:
    """Yield the cells of each sheet as text.

    Raises:
        UserError: no spreadsheet, a damaged or a harmful one, or calamine is not installed.
    """
    if importlib.util.find_spec("python_calamine") is None:
        raise missing_package_error("python_calamine", "source=xlsx:", "office")
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path} has over {MAX_BYTES:,} bytes", fix="cut the file in two")
    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    if is_zip:
        with open_packed(path) as archive:  # refuses members that swell
            num_bytes = sum(member.file_size for member in archive.infolist())
            if num_bytes > MAX_BYTES:
                raise UserError(f"{path} unpacks to {num_bytes:,} bytes", f"{MAX_BYTES:,}", "cut it in two")
    command = [sys.executable, "-c", _CHILD.format(memory=MAX_MEMORY), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout, "a pipe was asked for"
        answers = map(json.loads, child.stdout)
        try:
            sheet: Grid = []
            for answer in answers:
                if isinstance(answer, list):
                    sheet.append(answer)
                elif answer == _END:
                    yield sheet
                    sheet = []
                else:
                    raise _damaged(path, answer["error"])
            if child.wait():
                raise _damaged(path, f"its cells need more than {MAX_MEMORY >> 20:,} MiB")
        finally:
            child.kill()


def _damaged(path: Path, said: str) -> UserError:
    return UserError(
        f"{path} is not a spreadsheet, or a damaged one: {' '.join(said.split())[:200]}",
        "xlsx, xls or ods",
        "save it again",
    )
