"""Servers that send without end, or more than they announced, and lists that hold what they should not."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common import download
from xling.corpora.common.download import Download, Patience, fetch
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source

QUICK = Patience(num_tries=3, first_wait_s=0.01, longest_wait_s=0.02, timeout_s=2)
PIECE = 1 << 16


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``/endless`` never ends, ``/growing`` always has more than it said."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.num_sent = 0

    def url(self, name: str = "") -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.strip("/").partition("?")[0]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if path == "growing":
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(2 * PIECE))
            self.end_headers()
            self.wfile.write(bytes(PIECE))  # and there is always as much left
            return
        if path not in self.server.files and "endless" not in path:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        if path in self.server.files:
            self.wfile.write(self.server.files[path])
            return
        try:
            while self.server.num_sent < 1 << 28:
                self.server.num_sent += self.wfile.write(bytes(PIECE))
        except OSError:
            pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "_MARGIN_BYTES", PIECE)
    monkeypatch.setattr(download, "MAX_LIST_BYTES", 4 * PIECE)
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.mark.parametrize(
    ("name", "num_bytes"),
    [("endless", None), ("endless", 3 * PIECE), ("growing", None), ("growing", 2 * PIECE)],
)
def test_what_does_not_end_is_refused(
    server: Server, tmp_path: Path, name: str, num_bytes: int | None
) -> None:
    wanted = Download(server.url(name), tmp_path / "a", num_bytes, max_bytes=64 * PIECE)
    with pytest.raises(UserError, match="use another mirror"):
        fetch(wanted, QUICK)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= PIECE
    assert server.num_sent < 1 << 26


def test_an_endless_listing_is_refused(server: Server, tmp_path: Path) -> None:
    langs = languages.get("en"), languages.get("sw")
    context = SourceContext(*langs, tmp_path, {"opus": server.url("endless")})
    with pytest.raises(UserError, match=r"cannot list OPUS.* at most 262,144 bytes"):
        open_sources(["opus:"], context)
    assert server.num_sent < 1 << 26
    server.files["deep"] = b'{"corpora":' + b"[" * 100_000
    with pytest.raises(UserError, match="cannot list OPUS"):
        open_sources(["opus:"], SourceContext(*langs, tmp_path, {"opus": server.url("deep")}))


@pytest.mark.parametrize(
    "url", ["http://a.example/\xe4.zip", "http://a.example/a b", "http://a.example/\x00"]
)
def test_addresses_in_a_listing_are_of_ascii(server: Server, tmp_path: Path, url: str) -> None:
    entry = {"corpus": "A", "version": "v1", "alignment_pairs": 2, "url": url}
    server.files["api"] = json.dumps({"corpora": [entry]}).encode()
    langs = languages.get("en"), languages.get("sw")
    with pytest.raises(UserError, match="ASCII"):
        open_sources(["opus:"], SourceContext(*langs, tmp_path, {"opus": server.url("api")}))


@pytest.mark.parametrize(
    "path",
    [
        "a\x00b.warc.wet.gz",
        "\xe4.warc.wet.gz",
        "../a.warc.wet.gz",
        "/etc/passwd",
        "a b",
        "x" * 900,
        "x" * 9000,
    ],
    ids=["nul", "latin", "up", "root", "blank", "long", "longer"],
)
@pytest.mark.parametrize("is_remote", [True, False])
def test_a_list_of_a_crawl_with_odd_paths_is_refused(
    server: Server, tmp_path: Path, path: str, is_remote: bool
) -> None:
    name = "crawl-data/CC-MAIN-2024-22/wet.paths.gz"
    content = gzip.compress(f"wet/good.warc.wet.gz\n{path}\n".encode())
    server.files[name] = content
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(content)
    base = server.url() if is_remote else str(tmp_path)
    source = open_source(
        "cc:CC-MAIN-2024-22", Context("sw", base_urls={"cc": base}, cache=tmp_path / "cache")
    )
    with pytest.raises(UserError, match=r"wet\.paths\.gz"):
        source.shards()


def test_a_list_of_checksums_must_name_the_dump(server: Server, tmp_path: Path) -> None:
    digest = hashlib.sha1(b"x").hexdigest()
    name = "swwiki/latest/swwiki-latest-sha1sums.txt"
    source = open_source("wiki:", Context("sw", base_urls={"wiki": server.url()}, cache=tmp_path))
    for wrong in (
        f"{digest}  swwiki-20240501-stub.xml.gz\n",
        "no  swwiki-20240501-pages-articles.xml.bz2\n",
        "",
    ):
        server.files[name] = wrong.encode()
        with pytest.raises(UserError, match="has no checksum of swwiki-latest-pages-articles"):
            source.shards()
    server.files[name] = f"{digest}  swwiki-20240501-pages-articles.xml.bz2\n".encode()
    assert source.shards()[0].checksum == f"sha1:{digest}"
    server.files.clear()
    (tmp_path / "swwiki-latest-sha1sums.txt").unlink()
    with pytest.raises(UserError, match="404"):
        source.shards()
