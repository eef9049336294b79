"""MultiBLiMP: sentences whose verb agrees with its subject or does not, in 101 languages."""

from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.rows.readers import cells_of
from xling.eval.rows.suite import Example, Row


def pairs(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read columns ``sen`` and ``wrong_sen`` of a table with tabs, a header and quotes where a cell needs them.

    Raises:
        UserError: no such columns, or a row of another length.
    """
    (path,) = paths
    rows = cells_of(path, quoted=True)
    header = next(rows, (1, [""]))[1]
    if not {"sen", "wrong_sen"} <= set(header):
        raise UserError(
            f"{path}:1: no columns sen and wrong_sen", f"a header with both; this one has {', '.join(header)}"
        )
    places = [header.index(name) for name in ("sen", "wrong_sen")]
    for number, (line_number, cells) in enumerate(rows):
        if len(cells) != len(header):
            raise UserError(f"{path}:{line_number}: {len(cells)} columns", f"{len(header)} as in the header")
        yield path, line_number, Example(str(number), {"choices": tuple(cells[i] for i in places)}, 0)
