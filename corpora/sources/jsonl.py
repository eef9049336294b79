"""Source ``jsonl:GLOB[#FIELD]``: one JSON object per line with a ``text`` or the named field, plain or compressed."""

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from xling.corpora.common.json_rows import read_values
from xling.corpora.common.shards import FORM
from xling.corpora.sources.source import SOURCES, STAGE, LocalFiles, Shard, admit, declared_lang, running_text
from xling.text.document import LONE, TITLED, Document, Ledger, replace_surrogates
from xling.text.files.compressed import read_lines
from xling.text.files.parquet_rows import LongCell, LostCell

TEXT_FIELDS = ("text", "raw_content", "content", "text_trafilatura", "text_warc2text")
_URL_FIELDS = ("url", "u", "source_url", "warc-target-uri")
_LANG_FIELDS = ("lang", "language")
_DATE_FIELDS = ("date", "timestamp", "ts", "date_download", "warc-date")
LISTED_NOTE = "rows with a list in the place of the text, joined by lines"
FIELDS = (*TEXT_FIELDS, *_URL_FIELDS, *_LANG_FIELDS, *_DATE_FIELDS, "meta")


@SOURCES.register("jsonl")
class Jsonl(LocalFiles):
    """JSON lines; the text is in the named field, or in the first of several in use, such as ``text``."""

    endings = (".jsonl", ".json")
    has_fields = has_rows = True

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        for number, line in enumerate(
            read_lines(self.context.local(shard), ledger, lang=self.context.one_lang)
        ):
            for place, row in enumerate(read_values(line, ledger)):
                name = f"{shard.name}/{number}" + (f".{place}" if place else "")
                if kept := from_row(row, name, shard.source, ledger, self.field):
                    yield kept


def from_row(row: Any, name: str, source: str, ledger: Ledger, field: str = "") -> Document | None:
    """Return the document in a row of JSON, Parquet or a data set; None, and count a drop, if it has none."""
    text_fields = (field,) if field else TEXT_FIELDS
    if not isinstance(row, dict):
        count_refused(name, source, "not a JSON object", ledger)
        return None
    if not any(key in row for key in text_fields):
        if (STAGE, "no text field") not in ledger.dropped:
            ledger.count_event(f"no text field: the first such row has {', '.join(map(str, row))}"[:200])
        count_refused(name, source, "no text field", ledger)
        return None
    given = [row[key] for key in text_fields if row.get(key) is not None]
    value, text = next(((value, text) for value in given if (text := as_text(value))), ("", ""))
    if isinstance(value, list | tuple) and len(value) > 1:
        ledger.count_event(LISTED_NOTE)
    if not text and None in map(as_text, given):
        reasons = {LongCell: "cell over 64 MiB", LostCell: "damaged row group"}
        reason = next((reasons[type(value)] for value in given if type(value) in reasons), "not text")
        count_refused(name, source, reason, ledger)
        return None
    headers = row.get("warc_headers")  # of OSCAR
    about = {**headers, **row} if isinstance(headers, dict) else row
    url, date = (
        next(filter(None, (read(about[key]) for key in names if about.get(key) is not None)), "")
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
        with suppress(ValueError, RecursionError):
            meta = json.loads(meta)
    form = meta.get(FORM) if isinstance(meta, dict) else ""
    return form if isinstance(form, str) and form in (TITLED, LONE) else ""


def count_refused(name: str, source: str, reason: str, ledger: Ledger) -> None:
    """Count a row that has no document."""
    doc = Document(name, "", source=source)
    ledger.count_seen(STAGE, doc)
    ledger.drop(STAGE, reason, doc)


_ISO = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:T\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?"
)
_SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?!\d)")
_DIGITS = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?")
_MIN_SECONDS, _MAX_SECONDS = 10**8, 10**10  # of the Unix time: 1973 to 2286


def as_text(value: Any) -> str | None:
    """Return text as it is, bytes as UTF-8, and a list of texts as lines; None for everything else."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) for item in value):
        lines = list(map(as_text, value))
        return None if None in lines else "\n".join(filter(None, lines))
    return None


def as_name(value: Any) -> str:
    """Return text, or the first of a list of texts; "" for everything else."""
    return (as_text(value) or "").partition("\n")[0]


def as_date(value: Any) -> str:
    """Return an ISO 8601 date or time; "" for what is none or can be read in two ways, such as 01/05/2024.

    It reads times as objects, seconds or milliseconds of the Unix time, YYYYMMDD[HHMMSS], and the form of HTTP.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        value = as_text(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
        return ""
    text = _SLASHES.sub(r"\1-\2-\3", str(value).strip())
    try:
        if _ISO.fullmatch(text):
            datetime.datetime.fromisoformat(text if len(text) > 7 else f"{text}-01-01"[:10])
            return text
        if digits := _DIGITS.fullmatch(text):
            form = "%Y%m%d%H%M%S" if digits[4] else "%Y%m%d"
            time = datetime.datetime.strptime(text, form)
            return time.isoformat() if digits[4] else time.date().isoformat()
        if re.fullmatch(r"\d{9,13}(?:\.\d+)?", text):
            seconds = float(text) if float(text) < _MAX_SECONDS else float(text) / 1000
            time = datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=0)
            return time.isoformat().replace("+00:00", "Z") if seconds >= _MIN_SECONDS else ""
        if text[:4].isdecimal():
            return datetime.datetime.fromisoformat(
                text.removesuffix(" UTC")
            ).isoformat() + "Z" * text.endswith("UTC")
        return parsedate_to_datetime(text).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError, TypeError, IndexError):
        return ""
