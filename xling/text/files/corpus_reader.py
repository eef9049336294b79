"""Reader of corpora as documents of paragraphs: published corpora, Parquet, or plain text files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output.manifest import check_as_published
from xling.text.files.compressed import DAMAGE_ERRORS, read_whole_lines

# A text file without blank lines is not one document; it is cut after this many lines.
MAX_DOC_LINES = 64


def resolve_files(paths: Iterable[str]) -> list[Path]:
    """Resolve paths, globs and published corpus directories to files, in a stable order.

    Raises:
        UserError: a path or glob matches nothing, a directory holds no Parquet or text file, or a path is a
            device or a pipe, which cannot be read twice. A file of a finished output was changed since.
    """
    all_files: list[Path] = []
    for pattern in paths:
        path = Path(pattern)
        if path.is_dir():
            files = sorted([*path.glob("*.parquet"), *path.glob("shards/*.parquet")]) or sorted(
                path.glob("*.txt*")
            )
        else:
            files = [path] if path.is_file() else [Path(p) for p in sorted(glob(pattern))]  # noqa: PTH207 - absolute globs
            files = [each for each in files if each.is_file()]
        if not files and path.exists() and not path.is_dir():
            raise UserError(f"{pattern} is a device or a pipe", "a file", "write the text to a file first")
        if not files:
            raise UserError(
                f"nothing to read at {pattern!r}", "a file, a glob or a corpus directory", "check the path"
            )
        all_files += files
    for path in all_files:
        check_as_published(path)
    return all_files


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, plain or compressed, without line ends and byte order mark.

    It reads gzip, bzip2, xz and zstd.

    Raises:
        UserError: the file is not UTF-8, is cut off in the middle, or is empty.
    """
    number = 0
    try:
        for number, raw in enumerate(read_whole_lines(path), 1):
            line = raw.decode("utf-8").rstrip("\r")
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} line {number}: byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8",
            "UTF-8 text",
            f"convert it, for example iconv -f latin1 -t utf-8 {path.name}",
        ) from None
    except (EOFError, *DAMAGE_ERRORS) as error:
        raise UserError(f"{path} after line {number}: {error}", fix="get the file again") from None
    if number == 0:
        raise UserError(f"{path} is empty", "a file with text in it", "check how it was made")


def read_documents(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield documents as lists of non-empty paragraphs.

    Text files hold one paragraph per line and a blank line between documents (CC-100's format); Parquet
    files hold one document per row in the column ``text`` with paragraphs separated by newlines.

    Raises:
        UserError: as `read_lines`; or a Parquet file is damaged or lacks text in a row.
    """
    for path in resolve_files(paths):
        if path.suffix == ".parquet":
            for text in _read_parquet_texts(path):
                if paragraphs := [line for line in text.split("\n") if line.strip()]:
                    yield paragraphs
            continue
        paragraphs_so_far: list[str] = []
        for line in read_lines(path):
            if line.strip():
                paragraphs_so_far.append(line)
            if paragraphs_so_far and (not line.strip() or len(paragraphs_so_far) == MAX_DOC_LINES):
                yield paragraphs_so_far
                paragraphs_so_far = []
        if paragraphs_so_far:
            yield paragraphs_so_far


def _read_parquet_texts(path: Path) -> Iterable[str]:
    """Return the column ``text`` of a Parquet file."""
    import polars as pl  # importing it takes half a second, which plain text does not need

    try:
        texts = pl.read_parquet(path, columns=["text"])["text"]
    except pl.exceptions.ColumnNotFoundError:
        columns = ", ".join(pl.read_parquet_schema(path))
        raise UserError(
            f"{path} has the columns {columns}", "a column text, as in a corpus of xling corpus mono"
        ) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(
            f"{path}: {' '.join(str(error).split())[:200]}", "a whole Parquet file", "get the file again"
        ) from None
    if texts.dtype != pl.String or texts.null_count():
        raise UserError(
            f"{path}: the column text has rows without text", "a document in each row", "take these rows out"
        )
    return texts
