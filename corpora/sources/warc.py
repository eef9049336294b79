"""Source ``warc:GLOB``: local raw crawls (WARC files); HTML responses are converted to text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import ClassVar

import brotli
import zstandard
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

from xling.corpora.sources.page_text import page_text
from xling.corpora.sources.records import DROPPED, KEPT, Record, is_wanted, records
from xling.corpora.sources.source import SOURCES, LocalFiles, Shard, admit
from xling.corpora.sources.webpage import REASONS
from xling.corpora.sources.wet import LICENCE, target_uri
from xling.text.document import UNPACKED, Document, Ledger
from xling.text.files.compressed import read_chunks
from xling.text.files.encodings import kind_of, unmarked_utf

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_HEAD_BYTES = 1 << 14
_GOOD_PER_BAD = 20  # characters beyond ASCII of UTF-8 for each that is damaged
MAX_PAGE_BYTES = 1 << 24


@SOURCES.register("warc")
class Warc(LocalFiles):
    """HTML pages of WARC files.

    The charset is the one the server states if it decodes, else the page's own, else a guess from the bytes.
    """

    licence = LICENCE
    cuts_long = False
    endings: ClassVar[tuple[str, ...]] = (".warc",)
    reasons = REASONS

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a successful HTML response."""
        for record in records(read_chunks(self.context.local(shard), ledger), ledger):
            if not is_wanted(record, "response", "page", ledger):
                continue
            doc = Document(
                id=f"{shard.name}/{record.number}",
                text="",
                url=target_uri(record),
                source=shard.source,
                date=record.headers.get("warc-date", ""),
            )
            doc.text, reason = self._page(record, ledger)
            kept = admit(doc, ledger, reason)
            ledger.count_bytes(UNPACKED, KEPT if kept else DROPPED, record.num_bytes)
            if kept:
                yield kept

    def _page(self, record: Record, ledger: Ledger) -> tuple[str, str]:
        """Return the text of a response, and the reason if there is none."""
        if not record.complete:
            return "", "truncated record"
        http_headers, body = _split_http(record.body)
        status = http_headers.get(":status", "")
        if not status.startswith("2"):
            return "", f"HTTP status {status[:3] or 'missing'}"
        mime, _, parameters = http_headers.get("content-type", "").partition(";")
        if mime.strip().lower() not in _HTML_TYPES:
            return "", "not HTML"
        try:
            page = _decode_body(body, http_headers)
        except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError, ValueError):
            return "", "damaged HTTP body"
        if len(page) > MAX_PAGE_BYTES:
            return "", "page over 16 MiB"
        if not is_html(page):
            return "", "not HTML"
        return page_text(html_text(page, parameters, ledger), self.context, ledger)


def _split_http(block: bytes) -> tuple[dict[str, str], bytes]:
    """Return HTTP header fields by lower-cased name (``:status`` holds the code) and the body."""
    for gap in (b"\r\n\r\n", b"\n\n"):
        head, separator, body = block.partition(gap)
        if separator:
            break
    first, *rest = head.decode("latin-1").splitlines() or [""]
    fields = {":status": first.split(" ")[1] if first.startswith("HTTP/") and " " in first else ""}
    for line in rest:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    return fields, body


def _decode_body(body: bytes, http_headers: dict[str, str]) -> bytes:
    """Decode the transfer and content encodings of the body.

    Common Crawl stores bodies unpacked but leaves the fields of the wire, so the bytes decide.
    """
    if http_headers.get("transfer-encoding", "").lower() == "chunked":
        body = _unchunk(body)
    encoding = http_headers.get("content-encoding", "").lower()
    if body.startswith(b"\x1f\x8b"):
        return _inflate(body, 31)
    if body.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor().stream_reader(body).read(MAX_PAGE_BYTES + 1)
    looks_like_html = body.lstrip()[:1] == b"<"
    if encoding == "br" and not looks_like_html:
        return bytes(brotli.Decompressor().process(body, output_buffer_limit=MAX_PAGE_BYTES + 1))
    if encoding == "deflate" and not looks_like_html:
        return _inflate(body, 15 if body[:1] == b"\x78" else -15)
    return body


def _inflate(body: bytes, window_bits: int) -> bytes:
    """Decompress no more than makes the page too large, whatever a hostile body would swell to.

    Raises:
        EOFError: the body is cut off.
    """
    stream = zlib.decompressobj(window_bits)
    page = stream.decompress(body, MAX_PAGE_BYTES + 1)
    if not stream.eof and len(page) <= MAX_PAGE_BYTES:
        raise EOFError("the body is not complete")
    return page


def _unchunk(body: bytes) -> bytes:
    """Join the chunks of RFC 9112 section 7.1; a body that is not chunked comes back as it is."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = body.find(b"\r\n", position)
        size = body[position:end].partition(b";")[0].strip() if end >= 0 else b""
        try:
            length = int(size, 16)
        except ValueError:
            return body if not parts else b"".join([*parts, body[position:]])
        if length == 0:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + length])
        position = end + 2 + length + 2


_OTHER_XML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<[?!][^>]{0,2000}>\s*){0,9}"
    rb"<(?:rss|feed|rdf:RDF|urlset|sitemapindex|TEI|alto|mediawiki|tmx|xliff|opml)[\s>]",
    re.IGNORECASE,
)


def is_html(page: bytes) -> bool:
    """Return whether bytes may be a page: no picture, document or archive, and no feed, whose words would be joined."""
    return not (kind_of(page) or _OTHER_XML.match(page))


_MARKS_OF_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_META_CHARSET = re.compile(rb"<meta\b[^<>]*charset", re.IGNORECASE)
# What browsers read under a name that has fewer characters in Python.
_WIDER = {"shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs", "iso8859-11": "cp874"}


def html_text(page: bytes, parameters: str, ledger: Ledger) -> str:
    """Decode a page; ``parameters`` are those of its content type, "" where nobody states any."""
    stated = parameters.lower().partition("charset=")[2].strip("\"' ;")
    if stated:
        try:
            codec = map_encoding_to_html5(stated) or stated
            return page.decode(_WIDER.get(codec, codec))
        except (LookupError, UnicodeDecodeError, ValueError):
            ledger.count_event("page not in the charset its server states")
    text = page.decode("utf-8", "replace")
    num_bad = text.count("\ufffd")
    if num_bad and num_bad * _GOOD_PER_BAD <= sum(char > "\x7f" for char in text):
        return text  # a guess would take the whole page for another charset
    # A guess from a few letters is often wrong.
    meta = _META_CHARSET.search(page, 0, _HEAD_BYTES)
    codec = "utf-8" if not (num_bad or page.isascii() or meta) else unmarked_utf(page[:_HEAD_BYTES])
    if not codec:  # the detector looks for it in the first kilobyte alone
        is_marked = page[:2] in _MARKS_OF_UTF16
        from_meta = page[meta.start() if meta and not is_marked else 0 :]
        codec = detect_encoding(from_meta, html5_compatible=True, from_html_meta=True) or "utf-8"
        codec = "utf-8" if codec.startswith("utf-16") and not is_marked else codec  # whose name could be read
    return str(bytes_to_str(page, _WIDER.get(codec, codec)))
