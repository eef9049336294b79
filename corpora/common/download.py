"""Reliable HTTP downloads: parallel, resumed, retried, verified and atomic, with a reason for each failure.

A file is downloaded into ``.NAME.part`` beside its target and renamed when its length and checksum are right.
So a file under its final name is complete. A later run resumes an interrupted one.
"""

import contextlib
import fcntl
import hashlib
import http.client
import os
import random
import re
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from xling.core.errors import UserError
from xling.core.output import digests
from xling.core.output.command_result import tell
from xling.core.output.manifest import write_atomic

# Common Crawl's servers use 403 and 503 to ask a client to slow down.
_RETRIED_STATUSES = frozenset({403, 408, 425, 429})
_CHUNK_BYTES = 1 << 20
MAX_LIST_BYTES = 1 << 26
"""Of a list of files, of corpora or of checksums; real ones have up to 12 MB."""
_MAX_FILE_BYTES = 1 << 38  # of a file of which nobody says how long it is; CC-100's largest has 88 GB
_MARGIN_BYTES = 1 << 20
_MAX_GROWTH = 2  # a publisher may replace a file by a later one while it is fetched
_PACKED = (".gz", ".xz", ".bz2", ".zip")
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Download:
    """One file to download.

    Attributes:
        num_bytes: required length; None when unknown.
        checksum: required ``algorithm:hex`` (any algorithm of hashlib), or "".
        max_bytes: refused beyond, whatever is announced.
    """

    url: str
    path: Path
    num_bytes: int | None = None
    checksum: str = ""
    max_bytes: int = _MAX_FILE_BYTES


@dataclass
class _Announced:
    """The length of one file as the server stated it over all requests.

    Attributes:
        first: the length that it announced first; None while it has announced none.
    """

    download: Download
    first: int | None

    def limit(self, total: int | None) -> int:
        """Return how many bytes may come, of which ``total`` are announced now.

        Raises:
            UserError: more are announced than at first, or than any such file has.
        """
        self.first = total if self.first is None else self.first
        limit = self.download.max_bytes
        if self.first is not None:
            limit = min(limit, _MAX_GROWTH * self.first + _MARGIN_BYTES)
        if total is not None and total > limit:
            raise self.refusal(limit, total)
        return limit if total is None else total

    def refusal(self, limit: int, num_bytes: int) -> UserError:
        """Return the error for a file that does not end where it should."""
        return UserError(
            f"{self.download.url} has {num_bytes:,} bytes or more, and {self.first or 0:,} were announced",
            f"at most {limit:,} bytes",
            "use another mirror",
        )


@dataclass(frozen=True)
class Patience:
    """Limits of retrying a download.

    Attributes:
        num_tries: successive requests without new bytes before giving up; new bytes reset the count.
        first_wait_s: wait after the first failure; doubles each time, times a random factor of 0.5 to 1.5.
        longest_wait_s: the longest wait; a server's ``Retry-After`` is limited to it.
        timeout_s: a connection that sends nothing for this long has failed.
    """

    num_tries: int = 8
    first_wait_s: float = 1.0
    longest_wait_s: float = 120.0
    timeout_s: float = 60.0


class _WebRedirectsOnly(urllib.request.HTTPRedirectHandler):
    """Redirect handler that only follows redirects to http and https: urllib would also follow them to FTP."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_url(url: str) -> None:
    """Refuse an address that is not of the web: ``file:`` would read this machine.

    Raises:
        UserError: its scheme is neither http nor https, or it has characters that no address has.
    """
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UserError(f"address {url[:200]!r}", "ASCII, with %XX for all else", "use another mirror")
    if urllib.parse.urlsplit(url).scheme.lower() not in ("http", "https"):
        raise UserError(f"address {url!r}", "http://... or https://...", "use another mirror")


def open_url(url: str | urllib.request.Request, timeout_s: float) -> Any:
    """Return the response of a web server; only for http and https, including redirects.

    Raises:
        UserError: another scheme.
        OSError: no answer, or an error.
    """
    check_url(url if isinstance(url, str) else url.full_url)
    try:
        return urllib.request.build_opener(_WebRedirectsOnly).open(url, timeout=timeout_s)
    except http.client.HTTPException as error:  # another protocol answered
        raise ConnectionError(" ".join(str(error).split()) or type(error).__name__) from None


def read_answer(url: str, patience: Patience = Patience(num_tries=4)) -> bytes:
    """Return what a web server answers, which is a list and never longer than `MAX_LIST_BYTES`; tried as by `fetch`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer"
        return fetch(Download(url, path, max_bytes=MAX_LIST_BYTES), patience).read_bytes()


def parse_length(content_length: str | None) -> int | None:
    """Return the length in bytes that a server announces; None where it announces none, or no number."""
    return int(content_length) if content_length and re.fullmatch("[0-9]{1,18}", content_length) else None


def cache_path(cache: Path, *names: str) -> Path:
    """Return a path under ``cache`` for the ``names`` given by a server or an archive.

    Raises:
        UserError: a name holds more than letters, digits, _ . and -, or the place is outside of ``cache``.
    """
    for name in names:
        if not _NAME.fullmatch(name) or not name.strip("."):
            raise UserError(f"name {name!r} in a listing", "letters, digits, _ . -", "use another mirror")
    path = cache.joinpath(*names)
    if not path.resolve().is_relative_to(cache.resolve()):
        raise UserError(f"{path} leads outside of {cache}", fix="remove the link in it")
    return path


class _DownloadFailedError(Exception):
    """Raised when a request failed that may succeed when it is repeated."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


def fetch(
    download: Download, patience: Patience = Patience(), on_bytes: Callable[[int], object] | None = None
) -> Path:
    """Bring one file here and return its path; does nothing when it is here and has the right length.

    Args:
        on_bytes: called with the number of bytes of each piece received, for a progress bar.

    Raises:
        UserError: it is not there, or every try failed; the message says how.
    """
    if _is_complete(download):
        return download.path
    check_url(download.url)
    download.path.parent.mkdir(parents=True, exist_ok=True)
    part = download.path.with_name(f".{download.path.name}.part")
    with part.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # another process may be fetching the same file
        if _is_complete(download):
            part.unlink(missing_ok=True)
            return download.path
        _download_once(download, handle, patience, on_bytes)
        handle.flush()
        os.fsync(handle.fileno())
        _seal_path(download).unlink(missing_ok=True)  # of a file that was here before
        part.replace(download.path)
        write_atomic(_seal_path(download), digests.of_file(download.path) + "\n")
        _tag_path(download).unlink(missing_ok=True)
    return download.path


def fetch_all(
    downloads: Iterable[Download],
    num_connections: int = 8,
    patience: Patience = Patience(),
    on_bytes: Callable[[int], object] | None = None,
) -> list[Path]:
    """Fetch several files at once and return their paths in order.

    Raises:
        UserError: one failed; the others that had begun are finished first, and a rerun keeps them.
    """
    lock = threading.Lock()

    def count(size: int) -> None:
        with lock:
            if on_bytes:
                on_bytes(size)

    with ThreadPoolExecutor(num_connections) as pool:
        jobs = [pool.submit(fetch, item, patience, count) for item in downloads]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _is_complete(download: Download) -> bool:
    path = download.path
    if not path.is_file():
        return False
    if download.num_bytes is not None and path.stat().st_size != download.num_bytes:
        return False
    if digests.mode() == "never":
        return True
    seal = _seal_path(download)
    if seal.is_file():
        is_whole = seal.read_text(encoding="utf-8").strip() == digests.of_file(path)
    else:  # brought here by the user, or by an older version
        with path.open("rb") as handle:
            is_whole = not _wrong_checksum(download, handle)
        if is_whole and download.checksum:
            with contextlib.suppress(OSError):  # a folder that may only be read
                write_atomic(seal, digests.of_file(path) + "\n")
    if is_whole:
        return True
    tell(f"xling: {path} is not what was downloaded: it is fetched again")
    return False


def _seal_path(download: Download) -> Path:
    """Return the path of the SHA-256 of a whole download: length alone does not tell a file that was changed."""
    return download.path.with_name(f".{download.path.name}.sha256")


def _tag_path(download: Download) -> Path:
    """Return the path of the ETag of the file that a partial download belongs to."""
    return download.path.with_name(f".{download.path.name}.etag")


def _download_once(
    download: Download, handle: BinaryIO, patience: Patience, on_bytes: Callable[[int], object] | None
) -> None:
    failures, num_bad_checksums, last_position = 0, 0, handle.tell()
    announced = _Announced(download, download.num_bytes)
    while True:
        try:
            _request(announced, handle, patience.timeout_s, on_bytes)
            checksum_error = _wrong_checksum(download, handle)
            if not checksum_error:
                return
            num_bad_checksums += 1
            _restart(download, handle)
            # Damaged twice in the same way: the publisher's file is wrong, not the connection.
            if num_bad_checksums == 2:
                raise UserError(
                    f"{download.url}: {checksum_error}",
                    fix="check the network and the checksum, or use another mirror",
                ) from None
            raise _DownloadFailedError(checksum_error)
        except (_DownloadFailedError, OSError, http.client.HTTPException) as error:
            size = handle.tell()
            failures = 1 if size > last_position else failures + 1
            last_position = max(last_position, size)
            # If the name does not resolve, the machine has no network: do not wait for minutes.
            offline = isinstance(getattr(error, "reason", None), socket.gaierror)
            if failures >= (min(2, patience.num_tries) if offline else patience.num_tries):
                raise _give_up(download, error, failures, offline) from None
            wait_s = patience.first_wait_s * 2 ** (failures - 1) * random.uniform(0.5, 1.5)
            asked_s = error.wait_s if isinstance(error, _DownloadFailedError) else 0.0
            time.sleep(min(max(wait_s, asked_s), patience.longest_wait_s))


def _give_up(download: Download, error: Exception, failures: int, offline: bool) -> UserError:
    reason = str(getattr(error, "reason", "") or error) or type(error).__name__
    if offline or isinstance(getattr(error, "reason", None), ConnectionRefusedError):
        return UserError(
            f"cannot reach {download.url} ({reason}); this machine seems to be off-line",
            fix="give a local source: source=wet:GLOB, warc:GLOB, wiki:DUMP, text:GLOB, jsonl:GLOB or "
            "parquet:GLOB, or a mirror or folder as base_urls.cc=..., base_urls.wiki=...",
        )
    return UserError(
        f"{download.url}: {reason}; gave up after {failures} tries in a row",
        fix="run the same command again to go on from what has arrived, or use a mirror",
    )


def _request(
    announced: _Announced, handle: BinaryIO, timeout_s: float, on_bytes: Callable[[int], object] | None
) -> None:
    """Make one request and append the missing bytes to ``handle``.

    Raises:
        _DownloadFailedError: the server asks to come back, or the body is not whole.
        UserError: the server says that there is no such file, or it has another length than it must have.
    """
    download, num_present = announced.download, handle.seek(0, os.SEEK_END)
    headers = {"User-Agent": "xling", "Accept-Encoding": "identity"}
    request = urllib.request.Request(download.url, headers=headers)
    tag = _tag_path(download)
    if num_present:
        request.add_header("Range", f"bytes={num_present}-")
        if tag.is_file():
            request.add_header("If-Range", tag.read_text(encoding="utf-8"))
    try:
        response = open_url(request, timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            _check_refusal(download, handle, error)
        return
    with response:
        # The server does not support ranges, or the file has changed.
        if num_present and response.status != 206:
            _restart(download, handle)
            num_present = 0
        if etag := response.headers.get("ETag", ""):
            tag.write_text(etag, encoding="utf-8")
        content_length = parse_length(response.headers.get("Content-Length"))
        total = download.num_bytes if content_length is None else num_present + content_length
        if download.num_bytes is not None and total != download.num_bytes:
            raise UserError(
                f"{download.url} has {total:,} bytes", f"{download.num_bytes:,} bytes", "use another mirror"
            )
        _receive(response, handle, announced, total, on_bytes)
    size = handle.tell()
    if total is not None and size != total:
        if size > total:
            _restart(download, handle)
        raise _DownloadFailedError(f"got {size:,} of {total:,} bytes")


def _receive(
    response: http.client.HTTPResponse,
    handle: BinaryIO,
    announced: _Announced,
    total: int | None,
    on_bytes: Callable[[int], object] | None,
) -> None:
    try:
        limit = announced.limit(total)
        while chunk := response.read1(_CHUNK_BYTES):
            handle.write(chunk)
            if handle.tell() > limit + _MARGIN_BYTES:
                raise announced.refusal(limit, handle.tell())
            if on_bytes:
                on_bytes(len(chunk))
    except UserError:
        _restart(announced.download, handle)  # what has come takes place on the disk
        raise


def _check_refusal(download: Download, handle: BinaryIO, error: urllib.error.HTTPError) -> None:
    """Turn an HTTP error into a retry, a fresh start or the end."""
    status = f"HTTP {error.code} {error.reason}"
    if error.code == 416:  # no bytes after ours: complete if the length fits, else another file
        total = error.headers.get("Content-Range", "").rpartition("/")[2]
        if total == str(handle.tell()):
            return
        _restart(download, handle)
        raise _DownloadFailedError(status)
    if is_retried(error.code):
        raise _DownloadFailedError(status, retry_after(error))
    raise UserError(f"{download.url}: {status}", fix="check the name, the dump and the base URL")


def is_retried(status: int) -> bool:
    """Return whether a request that was answered with ``status`` may succeed later."""
    return status in _RETRIED_STATUSES or status >= 500


def retry_after(error: urllib.error.HTTPError) -> float:
    """Return the seconds that a server asks to wait; 0 where it names none."""
    after = error.headers.get("Retry-After", "")
    return float(after) if re.fullmatch("[0-9]{1,9}", after) else 0.0


def _restart(download: Download, handle: BinaryIO) -> None:
    handle.truncate(0)
    handle.seek(0)
    _tag_path(download).unlink(missing_ok=True)


def _wrong_checksum(download: Download, handle: BinaryIO) -> str:
    """Return what is wrong with the file's checksum, or with its first bytes where it has none, or ""."""
    handle.flush()
    if not download.checksum:
        with Path(handle.name).open("rb") as file:
            is_page = urllib.parse.urlsplit(download.url).path.endswith(_PACKED) and file.read(1) == b"<"
        return "a web page came in the place of the file" if is_page else ""
    algorithm, _, wanted = download.checksum.partition(":")
    with Path(handle.name).open("rb") as whole:
        actual = hashlib.file_digest(whole, algorithm).hexdigest()
    return "" if actual == wanted.lower() else f"{algorithm} is {actual}, should be {wanted}"
