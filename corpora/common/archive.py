"""Zip archives opened with suspicion: no paths that leave, no links, no bombs; nothing is unpacked to disk."""

import errno
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from xling.core.errors import UserError
from xling.text.files import corpus_reader
from xling.text.files.compressed import CHUNK_BYTES

_DAMAGE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
)
MAX_BYTES = 64 << 30
MAX_RATIO = 300
_GRACE_BYTES = 1 << 24  # small archives may compress very well


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Provide a zip archive whose members are all harmless.

    Raises:
        UserError: no zip archive, cut off or damaged, or with a member that is a link, is encrypted, has a path
            that has a path outside the archive, or expands beyond measure.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for member_info in list(archive.infolist()):
                _check_size(path, member_info)
                if PurePosixPath(member_info.filename).name.startswith("._"):  # a Mac adds one to each file
                    archive.filelist.remove(member_info)
            yield archive
    except UserError:
        raise
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # an error of the disk; a wrong offset in the archive is an invalid argument
        raise UserError(f"{path} is not a complete zip archive: {error}", fix="get the file again") from None


def _check_size(path: Path, member_info: zipfile.ZipInfo) -> None:
    parts = PurePosixPath(member_info.filename.replace("\\", "/"))
    # zipfile itself cuts names at a zero byte and turns back slashes; what the file says is in orig_filename.
    if (
        parts.is_absolute()
        or ".." in parts.parts
        or ":" in member_info.filename
        or "\0" in member_info.orig_filename
    ):
        raise UserError(
            f"{path}: member {member_info.orig_filename!r} has a path outside the archive",
            fix="do not trust this file",
        )
    if stat.S_ISLNK(member_info.external_attr >> 16):
        raise UserError(f"{path}: member {member_info.filename!r} is a link", fix="do not trust this file")
    if member_info.flag_bits & 1:
        raise UserError(
            f"{path}: member {member_info.filename!r} is encrypted", fix="give an archive without password"
        )
    limit = max(member_info.compress_size * MAX_RATIO, _GRACE_BYTES)
    if member_info.file_size > min(limit, MAX_BYTES):
        raise UserError(
            f"{path}: member {member_info.filename!r} expands from {member_info.compress_size:,} "
            f"to {member_info.file_size:,} bytes",
            f"at most {MAX_RATIO} times and {MAX_BYTES:,} bytes",
            "do not trust this file",
        )


def lines(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The lines of a text member as `corpus_reader.text_lines` yields them; never more bytes than its entry declares.

    Raises:
        UserError: not UTF-8.
    """
    # zipfile stops at the declared size and checks the CRC, so a lying header cannot bring more.
    with archive.open(name) as member:
        chunks = iter(partial(member.read, CHUNK_BYTES), b"")
        yield from corpus_reader.text_lines(chunks, f"{archive.filename}: {name}", keep_bad=True)
