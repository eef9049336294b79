"""A dump of any size over HTTP that is stored nowhere: each file is made when it is asked for, and deleted when read.

The pages are those of `benchmarks.crawl.altered`, some megabytes of them over and over. In each file two letters of the
page stand after every few words, other ones for each file, so that neither paragraphs nor pages are near-duplicates of
those of another file. Lines shorter than 12 characters recur, as menus do.
"""

from __future__ import annotations

import gzip
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from isal import igzip

from benchmarks.crawl import altered
from xling.core.parts import read_json
from xling.core.sampling import rng
from xling.corpora.sources.wet import record_of

DUMP = "CC-MAIN-2024-22"
FILE_BYTES = 64_000_000
_BASE_BYTES = 32_000_000
_PLACE = re.compile(r"([^\n]{12}\w{0,8})")
_FIRST = b"//a.example/"


class Dump:
    """The files of a dump, made from real pages.

    Args:
        data: folder of the real text.
        num_bytes: of text in all files together.
        seed: of the pages and of the letters.
    """

    def __init__(self, data: Path, num_bytes: int, seed: int = 1) -> None:
        self.sizes = [min(FILE_BYTES, num_bytes - at) for at in range(0, num_bytes, FILE_BYTES)]
        self._seed, self._base, left = seed, list[str](), min(_BASE_BYTES, num_bytes)
        for page in altered.pages(data, seed):
            self._base.append(page)
            left -= len(page.encode())
            if left <= 0:
                break

    def listing(self) -> bytes:
        """Return the compressed list of files, as a dump has it."""
        return gzip.compress("".join(f"wet/{i:05d}.warc.wet.gz\n" for i in range(len(self.sizes))).encode())

    def file(self, number: int) -> Iterator[bytes]:
        """Yield the records of one file, each compressed by itself."""
        left = self.sizes[number]
        for copy in itertools.count():
            random = rng(self._seed, "file", number, copy)
            for place, page in enumerate(self._base):
                letters = [char for char in page[:400] if char.isalpha()] or ["x"]
                first, second = (letters[i] for i in random.integers(len(letters), size=2).tolist())
                body = _PLACE.sub(rf"\1{first}{second}", page).encode()
                site = b"//site%d.example/" % (place + len(self._base) * number)
                yield igzip.compress(record_of("conversion", body).replace(_FIRST, site), 1, mtime=0)
                left -= len(body)
                if left <= 0:
                    return


@contextmanager
def serving(dump: Dump) -> Iterator[str]:
    """Serve a dump on this machine while the block runs; provide its address for ``base_urls.cc``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            self.send_response(200)
            self.end_headers()
            if name == "wet.paths.gz":
                self.wfile.write(dump.listing())
                return
            for record in dump.file(int(name[:5])):
                self.wfile.write(record)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def delete_read(out: Path, cache: Path) -> int:
    """Delete the downloads that a finished part has read; return how many bytes are left of all downloads."""
    for pattern in (
        f"{out.name}/.*.work/*/route/[0-9]*/inputs.json",
        f".{out.name}.work/*/read/[0-9]*/inputs.json",
    ):
        for path in out.parent.glob(pattern):
            for name in read_json(path):
                (cache / name.replace("/", "_")).unlink(missing_ok=True)
    return sum(path.stat().st_size for path in cache.glob("*"))
