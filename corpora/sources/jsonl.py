"""Source ``jsonl:GLOB``: one JSON object per line with a ``text`` field, plain or compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from xling.corpora.sources.source import (
    SOURCES,
    STAGE,
    LocalFiles,
    Shard,
    SourceExample,
    admit,
    declared_lang,
    paragraphs,
)
from xling.text.document import Document, Ledger, replace_surrogates
from xling.text.files.compressed import read_lines

_TEXT_FIELDS = ("text", "raw_content", "content", "text_trafilatura", "text_warc2text")
_URL_FIELDS = ("url", "u", "source_url", "warc-target-uri")
_LANG_FIELDS = ("lang", "language")
_DATE_FIELDS = ("date", "timestamp", "ts", "date_download", "warc-date")


@SOURCES.register("jsonl")
class Jsonl(LocalFiles):
    """JSON lines; the text is in the first of several fields in use, such as ``text``."""

    endings = (".jsonl", ".json")

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of two rows, with different names of the text field."""
        rows = '{"text": "Habari za leo"}\n{"content": "Mji mkuu", "url": "http://a.example/"}\n'
        return SourceExample("{folder}/a.jsonl", ("Habari za leo", "Mji mkuu"), {"a.jsonl": rows.encode()})

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        for number, line in enumerate(
            read_lines(self.context.local(shard), ledger, lang=self.context.one_lang)
        ):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if kept := from_row(row, f"{shard.name}/{number}", shard.source, ledger):
                yield kept


def from_row(row: Any, name: str, source: str, ledger: Ledger) -> Document | None:
    """Return the document in a row of JSON, Parquet or a data set; None, and count a drop, if it has none."""
    if not isinstance(row, dict):
        _count_refused(name, source, "not a JSON object", ledger)
        return None
    text = _first_field(row, _TEXT_FIELDS)
    if not text and not any(key in row for key in _TEXT_FIELDS):
        _count_refused(name, source, "no text field", ledger)
        return None
    doc = Document(
        name, paragraphs(text), _first_field(row, _URL_FIELDS), source, _first_field(row, _DATE_FIELDS)
    )
    if declared := declared_lang(_first_field(row, _LANG_FIELDS)):
        doc.meta["declared_lang"] = declared
    return admit(doc, ledger)


def _count_refused(name: str, source: str, reason: str, ledger: Ledger) -> None:
    doc = Document(name, "", source=source)
    ledger.count_seen(STAGE, doc)
    ledger.drop(STAGE, reason, doc)


def _first_field(row: dict[str, Any], names: tuple[str, ...]) -> str:
    value = next((row[name] for name in names if row.get(name)), "")
    return replace_surrogates(value if isinstance(value, str) else str(value))
