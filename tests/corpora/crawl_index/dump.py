"""A small dump with the layout of Common Crawl, and a server of ranges that fails on purpose."""

from __future__ import annotations

import gzip
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DUMP = "CC-MAIN-2024-22"
_SCHEMA = pa.schema(
    {
        "url_host_name": pa.string(),
        "url": pa.string(),
        "fetch_status": pa.int16(),
        "content_digest": pa.string(),
        "content_mime_detected": pa.string(),
        "content_languages": pa.string(),
        "warc_filename": pa.string(),
        "warc_record_offset": pa.int32(),
        "warc_record_length": pa.int32(),
    }
)


@dataclass(frozen=True)
class Page:
    """A page of the dump; ``text`` None for one whose record is not written."""

    url: str
    text: str | None
    languages: str | None = "swa"
    status: int = 200
    mime: str | None = "text/html"
    digest: str | None = ""


def record(page: Page) -> bytes:
    """The record of a page as a gzip member."""
    body = (
        f"<html><body><article><p>{(page.text or '').replace(chr(10), '</p><p>')}</p></article></body></html>"
    )
    answer = f"HTTP/1.1 {page.status} OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{body}".encode()
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {page.url}\r\nContent-Length: {len(answer)}\r\n\r\n"
    return gzip.compress(head.encode() + answer + b"\r\n\r\n", mtime=0)


def write_dump(
    folder: Path,
    pages: Sequence[Page],
    num_parts: int = 3,
    num_files: int = 3,
    dump: str = DUMP,
    **options: Any,
) -> None:
    """Write a dump: the list of parts, the parts sorted by URL, and the records in files in turn."""
    files = [bytearray(b"") for _ in range(num_files)]
    rows = []
    for number, page in enumerate(pages):
        file, data = number % num_files, b"x" * 500 if page.text is None else record(page)
        host = page.url.split("/")[2]
        digest = sha1((page.text or page.url).encode()).hexdigest()[:32] if page.digest == "" else page.digest
        path = f"crawl-data/{dump}/warc/{file:05d}.warc.gz"
        place = (path, len(files[file]), len(data))
        rows.append((host, page.url, page.status, digest, page.mime, page.languages, *place))
        files[file] += data
    for number, content in enumerate(files):
        _write(folder / f"crawl-data/{dump}/warc/{number:05d}.warc.gz", bytes(content))
    rows.sort(key=lambda row: row[1])
    paths = []
    size = -(-len(rows) // num_parts)
    settings = {
        "row_group_size": max(1, size // 2),
        "compression": "gzip",
        "write_page_index": True,
    } | options
    for number in range(num_parts):
        some = rows[number * size : (number + 1) * size]
        columns = list(zip(*some, strict=True)) or [()] * len(_SCHEMA)
        paths.append(
            f"cc-index/table/cc-main/warc/crawl={dump}/subset=warc/part-{number:05d}.c000.gz.parquet"
        )
        (folder / paths[-1]).parent.mkdir(parents=True, exist_ok=True)
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)
        pq.write_table(table, folder / paths[-1], **settings)
    others = [path.replace("subset=warc", f"subset={name}") for path in paths for name in ("robotstxt",)]
    listing = "\n".join([*others, *paths]).encode()
    _write(folder / f"crawl-data/{dump}/cc-index-table.paths.gz", gzip.compress(listing))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


class Server(ThreadingHTTPServer):
    """Serves ranges of a folder.

    Attributes:
        asked: (path, range, User-Agent) of each request.
        sent: bytes of bodies.
        fault: path, number of the request for that range, from 1 -> what goes wrong; "" for nothing.
    """

    daemon_threads = True

    def __init__(self, folder: Path, fault: Callable[[str, int], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.fault, self.lock = folder, fault, threading.Lock()
        self.asked: list[tuple[str, str, str]] = []
        self.visits: Counter[tuple[str, str]] = Counter()
        self.sent = self.at_once = self.most_at_once = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def of(self, ending: str) -> list[tuple[str, str, str]]:
        """The requests for paths with an ending."""
        return [asked for asked in self.asked if asked[0].endswith(ending)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range", "")
        with server.lock:
            server.asked.append((self.path, wanted, self.headers.get("User-Agent", "")))
            server.visits[self.path, wanted] += 1
            fault = server.fault(self.path, server.visits[self.path, wanted]) if wanted else ""
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            self._answer(wanted, fault)
        finally:
            with server.lock:
                server.at_once -= 1

    def _answer(self, wanted: str, fault: str) -> None:
        path = self.server.folder / self.path.lstrip("/")
        if fault.isdecimal() or not path.is_file():
            return self._head(int(fault or 404), 0)
        content = path.read_bytes()
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
        if not match or fault == "no ranges":
            self._head(200, len(content))
            return self._send(content)
        start, end = int(match[1]), min(int(match[2]) + 1, len(content))
        if start >= len(content):
            return self._head(416, 0)
        body = content[start:end]
        stated = f"bytes {start + (fault == 'shifted')}-{end - 1}/{len(content)}"
        if fault == "short":  # and the length says so
            body = body[: len(body) // 2]
        self._head(206, len(body), stated)
        return self._send(body[: len(body) // 2] if fault == "cut" else body)

    def _head(self, status: int, length: int, stated: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        if stated:
            self.send_header("Content-Range", stated)
        self.end_headers()
        self.close_connection = True

    def _send(self, body: bytes) -> None:
        with self.server.lock:
            self.server.sent += len(body) if self.headers.get("Range") else 0
        self.wfile.write(body)


@contextmanager
def served(folder: Path, fault: Callable[[str, int], str] = lambda path, visit: "") -> Iterator[Server]:
    """Serve a folder on the loopback."""
    with Server(folder, fault) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
