"""Downloads from a real HTTP server on the loopback that fails on purpose."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.corpora.common.download import Download, Patience, fetch, fetch_all, open_url, read_answer

BODY = bytes(range(256)) * 4096  # 1 MiB
QUICK = Patience(num_tries=4, first_wait_s=0.01, longest_wait_s=0.05, timeout_s=0.5)


class Server(ThreadingHTTPServer):
    """Serves `BODY` under any name; the name says how it misbehaves, ``seen`` what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def visits(self, path: str) -> int:
        with self.lock:
            return sum(seen == path for seen, _ in self.seen)


def raw_answer(kind: str, visit: int) -> bytes:
    """All that is sent where no usual answer is given: a page to log in, other protocols, a piece that ends early."""
    if kind.startswith("login/") or (kind.startswith("login-once/") and visit == 1):
        return b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n<html>Log in</html>"
    if kind == "no-http" and visit == 1:
        return b"\x16\x03\x01 nonsense\r\n\r\n"
    if kind == "cut-piece" and visit == 1:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" + BODY[:4]
    if kind == "no-number":
        return b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" + BODY
    return b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        with self.server.lock:
            self.server.seen.append((self.path, wanted))
        visit = self.server.visits(self.path)
        kind = self.path.strip("/").partition("?")[0]
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if kind in ("403", "429", "503", "509") and visit <= 2:
            return self.refuse(int(kind))
        if whole := raw_answer(kind, visit):
            self.close_connection = True
            self.wfile.write(whole)
            return None
        if kind == "elsewhere":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/etc/passwd")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if kind in ("404", "always503"):
            return self.refuse(int(kind[-3:]))
        if kind == "no-range":
            start = 0
        if kind == "changed" and self.headers.get("If-Range") != f'"{visit}"':
            start = 0
        if start >= len(BODY):
            return self.refuse(416)
        body = BODY[start:]
        announced = len(body)
        if kind in ("truncated", "no-range", "changed") and visit == 1:
            body = body[: len(body) // 3]
        elif kind == "drip":  # a third at a time, always cut
            body = body[: len(BODY) // 3 + 1]
        elif kind == "short":
            body = body[: len(body) // 2]
            announced = len(body)
        elif kind == "garbled" and visit == 1:
            body = body[:-1] + b"?"
        self.send_response(206 if start else 200)
        if kind != "no-length":
            self.send_header("Content-Length", str(announced))
        self.send_header("Connection", "close")
        self.send_header("ETag", f'"{visit}"' if kind == "changed" else '"fixed"')
        self.end_headers()
        if kind == "stall" and visit == 1:
            self.wfile.write(body[:1000])
            self.wfile.flush()
            time.sleep(1.5)
            return None
        if kind == "slow":
            for at in range(0, len(body), 1 << 16):
                self.wfile.write(body[at : at + (1 << 16)])
                time.sleep(0.05)
            return None
        self.wfile.write(body)
        self.close_connection = True
        return None

    def refuse(self, code: int) -> None:
        self.send_response(code)
        if code == 503:
            self.send_header("Retry-After", "0")
        if code == 416:
            self.send_header("Content-Range", f"bytes */{len(BODY)}")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def sha256() -> str:
    return "sha256:" + hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize(
    ("kind", "num_requests"),
    [
        ("good", 1), ("403", 3), ("429", 3), ("503", 3), ("509", 3), ("truncated", 2), ("drip", 3), ("no-range", 2),
        ("changed", 2), ("stall", 2), ("slow", 1), ("no-length", 1), ("garbled", 2), ("no-http", 2), ("cut-piece", 2),
    ],
)  # fmt: skip
def test_a_failing_server_still_gives_the_right_bytes(
    server: Server, tmp_path: Path, kind: str, num_requests: int
) -> None:
    path = tmp_path / "deep" / "file"
    assert fetch(Download(server.url(kind), path, len(BODY), sha256()), QUICK) == path
    assert path.read_bytes() == BODY
    assert server.visits(f"/{kind}") == num_requests
    assert {p.name for p in path.parent.iterdir()} == {"file", ".file.sha256"}


@pytest.mark.parametrize("kind", ["403", "429", "503", "truncated", "no-http", "cut-piece"])
def test_a_list_comes_whole_from_a_failing_server(server: Server, kind: str) -> None:
    assert read_answer(server.url(kind), QUICK) == BODY


def test_a_page_in_the_place_of_a_packed_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    """As networks with a login answer: with a page, and as if all were well."""
    assert fetch(Download(server.url("login-once/a.xz"), tmp_path / "a.xz"), QUICK).read_bytes() == BODY
    with pytest.raises(UserError, match="a web page came in the place of the file"):
        fetch(Download(server.url("login/b.xz"), tmp_path / "b.xz"), QUICK)
    assert not (tmp_path / "b.xz").exists()


def test_an_answer_that_is_no_http_is_an_error_of_the_connection(server: Server) -> None:
    with pytest.raises(ConnectionError, match=r"nonsense$"):
        open_url(server.url("no-http"), 5)


def test_a_truncated_body_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    fetch(Download(server.url("truncated"), tmp_path / "file"), QUICK)
    assert server.seen == [("/truncated", ""), ("/truncated", f"bytes={len(BODY) // 3}-")]


def test_a_missing_file_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="HTTP 404"):
        fetch(Download(server.url("404"), tmp_path / "file"), QUICK)
    assert len(server.seen) == 1


def test_giving_up_says_why_and_leaves_nothing_that_looks_whole(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"HTTP 503 .*gave up after 4 tries"):
        fetch(Download(server.url("always503"), tmp_path / "file"), QUICK)
    assert not (tmp_path / "file").exists()


def test_a_length_that_is_no_number_is_none(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert fetch(Download(server.url("no-number"), path), QUICK).read_bytes() == BODY
    wrong = Download(server.url("no-number"), tmp_path / "b", checksum="md5:" + "0" * 32)
    with pytest.raises(UserError, match="should be 0000"):
        fetch(wrong, QUICK)
    assert not wrong.path.exists()


def test_a_wrong_length_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has 524,288 bytes; valid: 1,048,576 bytes"):
        fetch(Download(server.url("short"), tmp_path / "file", len(BODY)), QUICK)
    assert not (tmp_path / "file").exists()


def test_a_wrong_checksum_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sha1 is [0-9a-f]{40}, should be 00"):
        fetch(Download(server.url("good"), tmp_path / "file", checksum="sha1:00"), QUICK)
    assert not (tmp_path / "file").exists()
    assert len(server.seen) == 2


def test_nothing_is_asked_when_the_file_is_here(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    fetch(Download(server.url("good"), tmp_path / "file", len(BODY)), QUICK)
    assert server.seen == []


def test_a_file_that_was_changed_at_the_same_length_is_fetched_again(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download, other = Download(server.url("good"), tmp_path / "file", len(BODY)), b"?" + BODY[1:]
    fetch(download, QUICK)
    (tmp_path / "file").write_bytes(other)
    assert fetch(download, QUICK).read_bytes() == BODY and len(server.seen) == 2
    assert "file is not what was downloaded" in capsys.readouterr().err
    (tmp_path / "mine").write_bytes(other)  # without a seal, but its checksum is known
    checked = Download(server.url("good"), tmp_path / "mine", len(BODY), sha256())
    assert fetch(checked, QUICK).read_bytes() == BODY and len(server.seen) == 3
    fetch(checked, QUICK)
    assert len(server.seen) == 3


def test_a_whole_part_is_taken_as_it_is(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".file.part").write_bytes(BODY)
    fetch(Download(server.url("good"), tmp_path / "file", len(BODY), sha256()), QUICK)
    assert (tmp_path / "file").read_bytes() == BODY
    assert server.seen == [("/good", f"bytes={len(BODY)}-")]


def test_an_offline_machine_is_told_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"off-line.*source=wet:GLOB"):
        fetch(Download("http://127.0.0.1:1/file", tmp_path / "file"), QUICK)


def test_many_files_at_once(server: Server, tmp_path: Path) -> None:
    names = [f"{kind}?{i}" for i in range(5) for kind in ("good", "truncated", "503")]
    received: list[int] = []
    items = [Download(server.url(name), tmp_path / str(i)) for i, name in enumerate(names)]
    paths = fetch_all(items, 4, QUICK, received.append)
    assert [p.name for p in paths] == [str(i) for i in range(15)]
    assert all(path.read_bytes() == BODY for path in paths)
    assert sum(received) == 15 * len(BODY)


def test_one_failure_among_many_is_told(server: Server, tmp_path: Path) -> None:
    items = [Download(server.url(kind), tmp_path / kind) for kind in ("good", "404")]
    with pytest.raises(UserError, match="404"):
        fetch_all(items, 2, QUICK)


def test_a_killed_download_resumes(server: Server, tmp_path: Path) -> None:
    code = "import sys, pathlib; from xling.corpora.common.download import Download, fetch\n"
    code += "fetch(Download(sys.argv[1], pathlib.Path(sys.argv[2])))"
    path = tmp_path / "file"
    child = subprocess.Popen([sys.executable, "-c", code, server.url("slow"), str(path)])
    part = tmp_path / ".file.part"
    deadline = time.monotonic() + 120
    while not (part.is_file() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    have = part.stat().st_size
    assert 0 < have < len(BODY)
    fetch(Download(server.url("slow"), path, len(BODY), sha256()), QUICK)
    assert path.read_bytes() == BODY
    assert server.seen[-1] == ("/slow", f"bytes={have}-")


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "FILE:/etc/passwd", "ftp://a/b", "data:,x", "/etc/passwd"]
)
def test_only_the_web_is_fetched(tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError, match="http://"):
        fetch(Download(address, tmp_path / "x"), QUICK)
    assert not (tmp_path / "x").exists()


def test_a_redirect_leads_to_the_web_alone(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match=r"address 'ftp://127.0.0.1/etc/passwd'; valid: http://"):
        fetch(Download(server.url("elsewhere"), tmp_path / "x"), QUICK)
    assert not (tmp_path / "x").exists()
