"""``wet:GLOB``: Common Crawl's extracted plain text (WET files), local."""

from collections.abc import Iterator

from xling.corpora.sources.records import DROPPED, KEPT, Record, is_wanted, records
from xling.corpora.sources.source import (
    SOURCES,
    Context,
    LocalFiles,
    Shard,
    admit,
    declared_lang,
    decode,
    paragraphs,
)
from xling.text.document import TITLED, UNPACKED, Document, Ledger
from xling.text.files.compressed import read_chunks

LICENCE = "pages belong to their publishers; Common Crawl terms of use"


@SOURCES.register("wet")
class Wet(LocalFiles):
    """Plain-text records (``WARC-Type: conversion``) of WET files."""

    licence = LICENCE
    cuts_long = False
    endings = (".wet",)

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a conversion record."""
        return read_wet(self.context, shard, ledger)


def read_wet(context: Context, shard: Shard, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one WET file, fetched first if it is remote.

    Their first line is the page's title: in 79 of 87 real pages it equals ``<title>``, and the others have none.
    """
    for record in records(read_chunks(context.local(shard), ledger), ledger):
        if not is_wanted(record, "conversion", "text", ledger):
            continue
        doc = Document(
            id=f"{shard.name}/{record.number}",
            text=paragraphs(decode(record.body, ledger)),
            url=target_uri(record),
            source=shard.source,
            date=record.headers.get("warc-date", ""),
            form=TITLED,
        )
        # A page may name several languages, the main one first.
        code = record.headers.get("warc-identified-content-language", "").partition(",")[0]
        if code and (declared := declared_lang(code)):
            doc.meta["declared_lang"] = declared
        kept = admit(doc, ledger, "" if record.complete else "truncated record")
        ledger.count_bytes(UNPACKED, KEPT if kept else DROPPED, record.num_bytes)
        if kept:
            yield kept


def target_uri(record: Record) -> str:
    """Return the URL that the record was captured from; some writers put it in angle brackets."""
    return record.headers.get("warc-target-uri", "").strip("<>")
