"""Reader of corpora as documents of paragraphs: published corpora, Parquet, or plain text files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xling.core.errors import UserError
from xling.core.language_tags import language_of
from xling.core.output.manifest import check_as_published
from xling.text.files.around_text import body_lines
from xling.text.files.compressed import (
    DAMAGE_ERRORS,
    MAX_CELL_BYTES,
    MAX_LINE_BYTES,
    CutLine,
    read_whole_chunks,
    split_lines,
)
from xling.text.files.encodings import guess_encoding, refusal, utf8_chunks
from xling.text.files.globs import matching_files
from xling.text.files.other_formats import head_of, is_other_format
from xling.text.long_texts import split_line

MAX_JSON_CHARS = 1 << 29
"""Of a file that is one JSON value; published ones have up to 100 MB, often in one line."""
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
            files = matching_files(pattern)
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


_MIN_BAD_LINES = 10
_SAMPLE_BYTES = 1 << 14
"""Of a line, before and behind a byte that is not UTF-8, from which its encoding is told."""


class BadLine(str):
    """A line that is not UTF-8, or the first characters of one that is over the limit."""

    __slots__ = ()


def read_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, keep_bad: bool = False, every_cr: bool = False
) -> Iterator[str]:
    """Yield the lines of a text file, plain or compressed, without line ends and byte order mark.

    It reads gzip, bzip2, xz and zstd.

    Args:
        path: the file.
        max_bytes: of a line.
        keep_bad: yield a `BadLine` for a line over the limit or not in UTF-8, in place of an error. A file with as
            many such lines as lines of other letters in UTF-8 is in another encoding, and still an error.
        every_cr: whether each single carriage return ends a line; else only in a file without line feeds.

    Raises:
        UserError: the file is not UTF-8, is cut off in the middle, or is empty, or a line is over the limit.
    """
    is_empty = True
    for line in any_lines(path, max_bytes, keep_bad, every_cr):
        is_empty = False
        yield line
    if is_empty:
        raise UserError(f"{path} is empty", "a file with text in it", "check how it was made")


def any_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, keep_bad: bool = False, every_cr: bool = False
) -> Iterator[str]:
    """Yield the lines of a text file that may be empty; otherwise as `read_lines`."""
    number = 0
    try:
        chunks = utf8_chunks(read_whole_chunks(path), path, legacy=False, every_cr=every_cr)
        for line in text_lines(chunks, str(path), max_bytes, keep_bad):
            number += 1
            yield line
    except (IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path}: {error.strerror}", "a file that you may read", "check the path") from None
    except (EOFError, *DAMAGE_ERRORS) as error:
        raise UserError(f"{path} after line {number}: {error}", fix="get the file again") from None


def text_lines(
    chunks: Iterable[bytes], name: str, max_bytes: int = MAX_CELL_BYTES, keep_bad: bool = False
) -> Iterator[str]:
    """Yield the lines of decompressed UTF-8 text as `read_lines` does, which calls it; ``name`` is for messages."""
    num_bad = num_good = 0  # of the lines that are not ASCII alone
    first_error: UserError | None = None
    for number, raw in enumerate(split_lines(chunks, max_bytes), 1):
        if isinstance(raw, CutLine):
            if not keep_bad:
                raise UserError(f"{name} line {number} has more than {max_bytes:,} bytes", "lines of text")
            yield BadLine(raw.decode("utf-8", "ignore"))
            continue
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            first_error = first_error or _not_utf8(name, number, error)
            num_bad += 1
            if not keep_bad or num_bad > max(_MIN_BAD_LINES, num_good):
                raise first_error from None
            yield BadLine(raw.decode("utf-8", "replace"))
            continue
        if keep_bad and "\0" in line:
            yield BadLine(line)
            continue
        num_good += not raw.isascii()
        yield line.removeprefix("\ufeff") if number == 1 else line
    if first_error and num_bad >= num_good:
        raise first_error


def _not_utf8(name: str, number: int, error: UnicodeDecodeError) -> UserError:
    given = f"{name} line {number}: byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8"
    around = error.object[max(0, error.start - _SAMPLE_BYTES) : error.start + _SAMPLE_BYTES]
    if encoding := guess_encoding(around, _lang_of(Path(name))):
        refused = refusal(Path(name), encoding)
        given += refused.given.partition("is not UTF-8")[2]
        return UserError(given, refused.valid, refused.fix)
    return UserError(
        given,
        "UTF-8 text",
        f"convert it with iconv; if it is damaged UTF-8: iconv -c -f UTF-8 -t UTF-8 {Path(name).name}",
    )


def _lang_of(path: Path) -> str:
    """Return the language that a file is named by, such as ``talks.cs`` or ``talks.cs.gz``; "" for none."""
    for suffix in reversed(path.suffixes[-2:]):
        if language := language_of(suffix[1:]):
            return language.code
    return ""


def read_documents(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield documents as lists of non-empty paragraphs.

    Text files hold one paragraph per line and a blank line between documents (CC-100's format). Lines that `body_lines`
    leaves out are passed over. Parquet files hold one document per row in the column ``text``, a paragraph a line.

    Raises:
        UserError: as `read_lines`; or a Parquet file is damaged or lacks text in a row, or `refuse_other_formats`.
    """
    for path in resolve_files(paths):
        if path.suffix == ".parquet":
            for text in _read_parquet_texts(path):
                if paragraphs := [line for line in text.split("\n") if line.strip()]:
                    yield paragraphs
            continue
        paragraphs_so_far: list[str] = []
        lines = body_lines(itertools.chain.from_iterable(map(split_line, read_lines(path))), path=path)
        refuse_other_formats(head := head_of(lines), path)
        for line in itertools.chain(head, lines):
            if line:
                paragraphs_so_far.append(line)
            if paragraphs_so_far and (not line or len(paragraphs_so_far) == MAX_DOC_LINES):
                yield paragraphs_so_far
                paragraphs_so_far = []
        if paragraphs_so_far:
            yield paragraphs_so_far


def json_text(path: Path) -> str:
    """Return the text of a file that is one JSON value (UserError: as `read_lines`, or over `MAX_JSON_CHARS`)."""
    parts, num_left = list[str](), MAX_JSON_CHARS
    for line in read_lines(path, MAX_JSON_CHARS):
        num_left -= len(line) + 1
        if num_left < 0:
            raise UserError(f"{path} has over {MAX_JSON_CHARS:,} characters", fix="cut the file in two")
        parts.append(line)
    return "\n".join(parts)


def refuse_other_formats(head: Sequence[str], path: Path) -> None:
    """Refuse a file whose first lines are a table, markup or subtitles (UserError), which would be taken for words."""
    if is_other_format(head, path.name):
        raise UserError(
            f"{path} holds a table, markup or subtitles, and not text: {next(filter(None, head))[:60]}",
            "text, or a corpus",
            "make one first: xling corpus mono lang=LANG out=OUT source=csv:, jsonl:, html: ... "
            f"or text:{path} for subtitles; then give OUT",
        )


def _read_parquet_texts(path: Path) -> Iterator[str]:
    from xling.text.files.parquet_rows import text_rows  # imports pyarrow, which plain text does not need

    for text, _ in text_rows(path, ("text",)):
        if text is None:
            given = f"{path}: the column text has rows without text"
            raise UserError(given, "a document in each row", "take these rows out")
        yield text
