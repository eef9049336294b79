"""``cc:CC-MAIN-YYYY-WW``: WET files of one Common Crawl dump over HTTPS, from a mirror or a folder."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.common.download import MAX_LIST_BYTES, Download, fetch
from xling.corpora.sources.source import SOURCES, Context, Shard, Source, is_url, stem
from xling.corpora.sources.wet import LICENCE, read_wet
from xling.text.document import Document, Ledger
from xling.text.files.compressed import read_lines

_PATH = re.compile(r"[A-Za-z0-9._=-]{1,255}(?:/[A-Za-z0-9._=-]{1,255}){0,9}")
_MAX_PATHS, _MAX_PATH_BYTES = 1_000_000, 4096
DUMP_NAME = re.compile(r"CC-MAIN-\d{4}-\d{2}")


@SOURCES.register("cc")
class CommonCrawl(Source):
    """A random choice of ``size`` WET files of a dump; a larger ``size`` extends the smaller choice.

    Each file is a random sample of the dump, about 70 MB compressed in dumps of 2024.
    """

    licence = LICENCE
    cuts_long = False
    publisher = "https://data.commoncrawl.org/"

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        if not DUMP_NAME.fullmatch(rest):
            raise UserError(f"{uri!r} names no dump", "cc:CC-MAIN-YYYY-WW, for example cc:CC-MAIN-2024-22")
        super().__init__(uri, rest, context)
        self._dump = rest

    def shards(self) -> list[Shard]:
        """Return the chosen files in the order of the dump's list."""
        paths = listed_paths(self.context, self._dump, "wet.paths.gz")
        order = rng(self.context.seed, "cc", self._dump).permutation(len(paths))
        chosen = sorted(order[: self.context.size or len(paths)].tolist())
        return [self._shard(paths[i]) for i in chosen]

    def _shard(self, path: str) -> Shard:
        location = self.context.resolve("cc", path)
        here = not is_url(location) and Path(location).is_file()
        size = Path(location).stat().st_size if here else None
        return Shard(f"{self._dump}/{stem(path.rsplit('/', 1)[-1])}", location, self.uri, size)

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of one WET file."""
        return read_wet(self.context, shard, ledger)


def listed_paths(context: Context, dump: str, name: str) -> list[str]:
    """Return the paths that a list of a dump names, ``wet.paths.gz`` or another.

    Raises:
        UserError: there is no list, or it is damaged.
    """
    location = context.resolve("cc", f"crawl-data/{dump}/{name}")
    ledger = Ledger()
    local = context.cache / f"{dump}.{name}"
    path = fetch(Download(location, local, max_bytes=MAX_LIST_BYTES)) if is_url(location) else Path(location)
    if not path.is_file():
        raise UserError(f"no file at {path}", fix="give the folder that holds crawl-data/ as base_urls.cc")
    lines = islice(read_lines(path, ledger, _MAX_PATH_BYTES), _MAX_PATHS + 1)
    paths = [line.decode(errors="replace").strip() for line in lines if line.strip()]
    if strange := next((p for p in paths if not _PATH.fullmatch(p) or ".." in p.split("/")), ""):
        path.unlink(missing_ok=True) if is_url(location) else None
        raise UserError(
            f"{location} lists {strange[:80]!r}",
            "relative paths without .., of letters of ASCII, digits and -_.=/",
            "use another mirror",
        )
    if len(paths) > _MAX_PATHS:
        raise UserError(f"{location} lists more than {_MAX_PATHS:,} files", fix="use another mirror")
    if ledger.notes or ledger.dropped or not paths:
        path.unlink(missing_ok=True) if is_url(location) else None
        raise UserError(f"{location} is empty or damaged", fix="run the same command again")
    return paths
