"""Source ``jsonl:GLOB[#FIELD]``: one JSON object per line with a ``text`` or the named field, plain or compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from xling.corpora.common.json_rows import is_array_mark, read_json
from xling.corpora.common.shards import FORM
from xling.corpora.sources.source import SOURCES, STAGE, LocalFiles, Shard, admit, declared_lang, running_text
from xling.corpora.sources.values import as_date, as_name, as_text
from xling.text.document import LONE, TITLED, Document, Ledger
from xling.text.files.compressed import read_lines

TEXT_FIELDS = ("text", "raw_content", "content", "text_trafilatura", "text_warc2text")
_URL_FIELDS = ("url", "u", "source_url", "warc-target-uri")
_LANG_FIELDS = ("lang", "language")
_DATE_FIELDS = ("date", "timestamp", "ts", "date_download", "warc-date")
FIELDS = (*TEXT_FIELDS, *_URL_FIELDS, *_LANG_FIELDS, *_DATE_FIELDS, "meta")


@SOURCES.register("jsonl")
class Jsonl(LocalFiles):
    """JSON lines; the text is in the named field, or in the first of several in use, such as ``text``."""

    endings = (".jsonl", ".json")
    has_fields = True

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        for number, line in enumerate(
            read_lines(self.context.local(shard), ledger, lang=self.context.one_lang)
        ):
            if not line.strip() or is_array_mark(line):
                continue
            row = read_json(line, ledger)
            if kept := from_row(row, f"{shard.name}/{number}", shard.source, ledger, self.field):
                yield kept


def from_row(row: Any, name: str, source: str, ledger: Ledger, field: str = "") -> Document | None:
    """Return the document in a row of JSON, Parquet or a data set; None, and count a drop, if it has none."""
    text_fields = (field,) if field else TEXT_FIELDS
    if not isinstance(row, dict):
        count_refused(name, source, "not a JSON object", ledger)
        return None
    if not any(key in row for key in text_fields):
        count_refused(name, source, "no text field", ledger)
        return None
    given = [row[key] for key in text_fields if row.get(key) is not None]
    text = next(filter(None, map(as_text, given)), "")
    if not text and None in map(as_text, given):
        count_refused(name, source, "not text", ledger)
        return None
    url, date = (
        next(filter(None, (read(row[key]) for key in names if row.get(key) is not None)), "")
        for names, read in ((_URL_FIELDS, as_name), (_DATE_FIELDS, as_date))
    )
    doc = Document(name, running_text(text, ledger), url, source, date, form=_form(row.get("meta")))
    lang = next((row[key] for key in _LANG_FIELDS if row.get(key)), "")  # a list names no single one
    if isinstance(lang, str) and (declared := declared_lang(lang)):
        doc.meta["declared_lang"] = declared
    return admit(doc, ledger)


def _form(meta: Any) -> str:
    """Return the form that a corpus of ours wrote down for a document, "" for other rows."""
    if isinstance(meta, str) and FORM in meta:
        try:
            meta = json.loads(meta)
        except (ValueError, RecursionError):
            return ""
    form = meta.get(FORM) if isinstance(meta, dict) else ""
    return form if isinstance(form, str) and form in (TITLED, LONE) else ""


def count_refused(name: str, source: str, reason: str, ledger: Ledger) -> None:
    """Count a row that has no document."""
    doc = Document(name, "", source=source)
    ledger.count_seen(STAGE, doc)
    ledger.drop(STAGE, reason, doc)
