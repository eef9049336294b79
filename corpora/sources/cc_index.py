"""``cc-index:CC-MAIN-YYYY-WW[,...]``: the pages of a language in whole dumps of Common Crawl, by its columnar index."""

import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import polars as pl

from xling.core import languages
from xling.core.commands.closing import readable_size
from xling.core.errors import UserError
from xling.core.output import sealed
from xling.core.output.command_result import tell
from xling.core.progress import Progress
from xling.corpora.common.ranges import CONNECTIONS, Limits, RangeReader
from xling.corpora.crawl_index import cld2, hosts, records, selection
from xling.corpora.crawl_index.dump_index import DumpIndex, IndexRows
from xling.corpora.crawl_index.part import DIGEST, Wanted
from xling.corpora.crawl_index.sample import Estimate, estimate
from xling.corpora.crawl_index.selection import Request, Selection
from xling.corpora.crawl_index.settings import AUTO
from xling.corpora.sources.cc import DUMP_NAME, CommonCrawl, listed_paths
from xling.corpora.sources.source import SOURCES, Context, Shard
from xling.corpora.sources.warc import Warc
from xling.text.document import Document, Ledger

INDEX_NOTE, RECORDS_NOTE = "bytes read of Common Crawl's index", "bytes read of Common Crawl's records"
_LEFT_OUT = "rows of Common Crawl's index left out: "
UNCOMPARED_NOTE = "rows of Common Crawl's index without content_digest, whose copies are fetched too"
# Bytes of clean text for a byte of a compressed record: a guess that has not been measured on the real crawl.
CLEAN_PER_RECORD_BYTE = 0.1
_PLANNED_SHARE = 0.98  # of the bytes for records; the others are for requests that have to be repeated
_SUBSET = "/subset=warc/"


@SOURCES.register("cc-index")
class CcIndex(Warc):
    """Pages whose row in the index names the language, as many as ``size=`` pays for.

    The index, what is known of hosts and the records are kept in the cache, and a later run goes on from them.
    """

    publisher = CommonCrawl.publisher
    endings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        super().__init__(uri, rest, context)
        self._dumps = tuple(dict.fromkeys(filter(None, rest.split(","))))
        strange = next((dump for dump in self._dumps if not DUMP_NAME.fullmatch(dump)), "")
        if not self._dumps or strange:
            raise UserError(
                f"{uri!r} names no dump{f' with {strange!r}' if strange else ''}",
                "cc-index:CC-MAIN-YYYY-WW, several with commas, for example cc-index:CC-MAIN-2024-22",
            )
        self._langs = tuple(context.lang.split(","))
        if not set(self._langs) <= set(languages.LANGUAGES):
            raise UserError(
                f"source {uri!r} picks pages by language, and lang={context.lang} names none",
                "one language or several",
                f"give them, or read files of the whole crawl: cc:{self._dumps[0]}",
            )

    @property
    def _wanted(self) -> Wanted:
        settings, codes = self.context.index, cld2.codes_of_all(self._langs)
        if codes:
            return Wanted(tuple(dict.fromkeys((*codes, *settings.neighbours))))
        near = [code for lang in self._langs for code in cld2.neighbours_of(languages.get(lang))]
        known = [code for lang in self._langs for code in cld2.codes_of(languages.get(lang))]
        return Wanted(tuple(dict.fromkeys((*known, *(settings.neighbours or near)))), unknown=True)

    @property
    def _hosts(self) -> str:
        """How hosts are ranked: not at all, by a sample, or by a table."""
        return self.context.index.hosts or (AUTO if self._wanted.unknown else "")

    @cached_property
    def _folder(self) -> Path:
        """The folder of this language, these dumps and this ranking of hosts."""
        table = Path(self._hosts)
        digest = hashlib.sha256(table.read_bytes()).hexdigest() if table.is_file() else self._hosts
        key = self._key(list(self._dumps), digest, self.context.extract)
        return self.context.cache / "cc-index" / f"{'-'.join(self._langs)[:40]}-{key}"

    def _key(self, *more: object) -> str:
        wanted, base = self._wanted, self.context.base_url("cc")
        text = json.dumps([wanted.codes, wanted.unknown, base, self.context.seed, *more])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @contextmanager
    def _reader(self) -> Iterator[RangeReader]:
        """Provide the only reader of ranges at a time: several processes at once would ask too often."""
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self.context.index
        with (self._folder.parent / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            limits = Limits(self._folder / "spent.json", settings.num_bytes, settings.seconds)
            yield RangeReader(limits, settings.contact)

    def _location(self, path: str) -> str:
        return self.context.resolve("cc", path)

    def shards(self) -> list[Shard]:
        """Return the batches of records to fetch; the index is read here, which is announced.

        Raises:
            UserError: the index cannot be read, or the language cannot be identified where it has to be.
        """
        settings, notes = self.context.index, Counter[str]()
        parts = self._parts()
        table = hosts.read_table(Path(self._hosts)) if self._hosts not in ("", AUTO) else None
        with self._reader() as reader:
            folder = self._folder.parent / f"index-{self._key()}"
            index = DumpIndex(
                reader, folder, self._wanted, settings.num_bytes, self.context.seed, bool(self._hosts)
            )
            read = index.read(parts)
            index_bytes = max(read.index_bytes, reader.limits.spent["index"])
            order = {dump: number for number, dump in enumerate(self._dumps)}
            rows = read.table.with_columns(
                dump_order=pl.col("dump").replace_strict(order, return_dtype=pl.Int64), tier=pl.col("rank")
            )
            rows = selection.cleaned(rows, notes)
            num_uncompared = rows[DIGEST].null_count()
            batches: list[list[Request]] = []
            if self._hosts == AUTO and not settings.only_plan:
                may = f"{len(read.table):,} rows of {', '.join(self._dumps)} may match"
                tell(
                    f"{self.context.lang}: {may}, by {readable_size(index_bytes)} of the index; up to "
                    f"{hosts.SAMPLE_PAGES:,} of their pages are tried first"
                )
                rows, batches, table = self._sampled(rows, reader, notes)
            if table is not None:
                rows = hosts.ranked(rows, table, notes)
            limit = self.context.index.num_bytes
            sampled = sum(request.size for batch in batches for request in batch)
            left = max(1, int(_PLANNED_SHARE * (limit - index_bytes)) - sampled) if limit else 0
            chosen = selection.select(rows, left, self.context.seed, notes)
            chosen.batches[:0] = batches
            chosen.num_bytes += sum(request.size for batch in batches for request in batch)
            chosen.num_records += sum(len(request.records) for batch in batches for request in batch)
        read.notes.update(chosen.left_out)
        self._announce(read, index_bytes, chosen, num_uncompared)
        events = Counter({f"{_LEFT_OUT}{reason}": count for reason, count in read.notes.items()})
        events[UNCOMPARED_NOTE] = num_uncompared
        return self._saved(chosen, +events, index_bytes)

    def _parts(self) -> list[tuple[str, str, str]]:
        """Return dump, name and location of every part of the index."""
        return [
            (dump, path.rpartition("/")[2], self._location(path))
            for dump in self._dumps
            for path in listed_paths(self.context, dump, "cc-index-table.paths.gz")
            if _SUBSET in f"/{path}"
        ]

    def estimate(self) -> Estimate:
        """Return how many pages there are, from a sample of the index within the limits.

        Raises:
            UserError: the index cannot be read.
        """
        parts = self._parts()
        with self._reader() as reader:
            folder = self._folder.parent / f"index-{self._key()}"
            return estimate(parts, reader, folder, self._wanted, self.context.seed)

    def _saved(self, chosen: Selection, notes: Counter[str], index_bytes: int) -> list[Shard]:
        shards = []
        for number, batch in enumerate(chosen.batches or [[]]):  # an empty one says why there is nothing
            name = selection.name_of(batch)
            path = self._folder / f"{name}.warc.gz"
            records.save_batch(path, batch)
            if number == 0:
                sealed.write_json(
                    path.with_suffix(".notes"), {"notes": dict(notes), "index_bytes": index_bytes}
                )
            size = sum(request.size for request in batch)
            shards.append(Shard(f"{'-'.join(self._langs)[:40]}.index/{name}", str(path), self.uri, size))
        return shards

    def _sampled(
        self, rows: pl.DataFrame, reader: RangeReader, notes: Counter[str]
    ) -> tuple[pl.DataFrame, list[list[Request]], hosts.HostTable]:
        """Return the rows that are left after a sample, the sample's batches, and the table of hosts that it gives."""
        identify = self.context.index.identify
        if identify is None:
            raise UserError(
                f"{self.uri}: pages in {self.context.lang} have to be identified, and no stage does",
                "a stage langid in after_dedup, or hosts=FILE",
            )
        first = hosts.sample(rows, self._langs, self.context.seed)
        settings, spent = self.context.index, reader.limits.spent["index"]
        left = max(1, settings.num_bytes - spent) if settings.num_bytes else 0
        batches = selection.select(first, left, self.context.seed, Counter()).batches
        shards = self._saved(Selection(batches), Counter(), 0)
        self._fetch(shards, reader, CONNECTIONS)
        docs = [doc for shard in shards for doc in super(CcIndex, self).read(shard, Ledger())]
        good = [doc for doc, is_good in zip(docs, identify(docs), strict=True) if is_good]
        table = hosts.tried_of(first["url_host_name"].fill_null("").to_list(), map(_host_of, good))
        path = self._folder / "hosts.tsv"
        table.write(path)
        tell(
            f"{self.context.lang}: {len(good):,} of the first {len(first):,} pages are in the language; the table of "
            f"their hosts is {path}, and hosts={path} uses it again"
        )
        return rows.join(first, on=["warc_filename", "warc_record_offset"], how="anti"), batches, table

    def _announce(self, read: IndexRows, index_bytes: int, chosen: Selection, num_uncompared: int) -> None:
        """Say what the index holds and what its records will cost."""
        limit = self.context.index.num_bytes
        requests = sum(map(len, chosen.batches))
        clean = CLEAN_PER_RECORD_BYTE * chosen.num_bytes
        is_untried = self._hosts == AUTO and self.context.index.only_plan
        untried = ", if all are in the language: none was tried" if is_untried else ""
        lines = [
            f"{self.context.lang}: {len(read.table):,} rows of {', '.join(self._dumps)} match",
            f"  index: {readable_size(index_bytes)} of {read.num_parts:,} parts; records: {chosen.num_records:,}, "
            f"{readable_size(chosen.num_bytes)} in {requests:,} requests"
            + (f"; size= allows {readable_size(limit)}" if limit else ""),
            f"  estimate: {clean / 1e6:,.1f} MB of clean text{untried}",
        ]
        lines += [f"  left out: {count:,} {reason}" for reason, count in sorted((+read.notes).items())]
        if read.faults:
            lines.append(
                f"  {read.faults[0]}; the same command with overwrite=true asks for such parts again"
            )
        if num_uncompared:
            lines.append(f"  {num_uncompared:,} {UNCOMPARED_NOTE}")
        tell("\n".join(lines))

    def fetch(self, shards: Sequence[Shard], num_connections: int) -> None:
        """Fetch the records of ``shards`` that are not there yet, as far as the limits allow.

        Raises:
            UserError: the server refuses or cannot be reached.
        """
        with self._reader() as reader:
            self._fetch(shards, reader, num_connections)

    def _fetch(self, shards: Sequence[Shard], reader: RangeReader, num_connections: int) -> None:
        reader.limits.kind = "records"
        paths = [Path(shard.location) for shard in shards if not records.is_complete(Path(shard.location))]
        with Progress(f"{self.context.lang}: Common Crawl", None, "records") as bar:
            for path in paths:
                if not records.fetch_batch(path, reader, self._location, num_connections, bar.update):
                    break
        for path in paths:
            path.touch()  # a batch that no byte is left for is an empty file

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a page, fetched if it is not here, and count what was not fetched."""
        path = Path(shard.location)
        if not path.is_file():
            self.fetch([shard], 1)
        lost = records.lost(path)
        ledger.count_event(RECORDS_NOTE, lost.pop("", 0))
        for reason, count in sorted(lost.items()):
            ledger.count_event(f"Common Crawl: {reason}", count)
        if (notes := path.with_suffix(".notes")).is_file():
            planned = sealed.read_json(notes, "run the command again with overwrite=true: it plans again")
            ledger.count_event(INDEX_NOTE, planned["index_bytes"])
            for event, count in sorted(planned["notes"].items()):
                ledger.count_event(event, count)
        yield from super().read(shard, ledger)


def _host_of(doc: Document) -> str:
    try:
        return urlsplit(doc.url).hostname or ""
    except ValueError:
        return ""
