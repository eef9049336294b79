"""Interface of sources: a URI gives shards, and shards give documents.

The scheme of the URI selects the source: ``wet:crawl/*.wet.gz``, ``wiki:sw.xml.bz2``, ``cc:CC-MAIN-2024-22``.
A damaged record, a truncated file or a wrong charset is counted in the ledger, never fatal and never silent.
"""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import ClassVar

from xling.core import languages
from xling.core.errors import UserError
from xling.core.language_tags import language_of
from xling.core.package_tables import load_table
from xling.core.registry import Registry
from xling.corpora.common.download import Download, fetch, fetch_all
from xling.corpora.crawl_index.settings import IndexSettings
from xling.text.document import LONE, READ, SURROGATE, Document, Ledger
from xling.text.files.around_text import body_text
from xling.text.files.globs import matching_files, path_and_field
from xling.text.long_texts import cut_text, is_list_of_sentences
from xling.text.wrapped_lines import compounds_of_divided, join_wrapped, without_pages, wrapped_width

STAGE = READ
CUT_NOTE = "documents made by cutting long texts at paragraph or sentence ends"
LOST_CHARS_NOTE = "documents with U+FFFD in the place of what could not be decoded"
WRAPPED_NOTE = "texts with lines of a fixed width: the lines of a paragraph were joined"
ROWS_NOTE = "file of isolated sentences, one a row: none is dropped as a short document"
PAGES_NOTE = "numbers of pages between lines of a fixed width, left out"
DIVIDED_NOTE = "texts whose words were divided at line ends: the hyphens were taken out"
JOINED_LINES_NOTES = (WRAPPED_NOTE, DIVIDED_NOTE, PAGES_NOTE)
MAX_DOC_CHARS = 200_000
"""Of one document of a long text: at two characters a word it has no more words than any stage takes."""
REASONS: dict[str, str] = load_table(__package__, "reasons.yaml")
"""Why a source drops something -> explanation, for all sources."""


@dataclass(frozen=True)
class Shard:
    """One file, or one piece of a data set, that is read from its beginning to its end.

    Attributes:
        name: stable and unique within a corpus; the first part of its documents' ids.
        location: a local path, or a URL that is fetched first.
        source: the URI it came from.
        num_bytes: size as stored; None when unknown.
        checksum: ``algorithm:hex`` as the publisher or the planner states it, or "".
        scope: number of the scope of deduplication, where an earlier stage has decided it.
    """

    name: str
    location: str
    source: str
    num_bytes: int | None = None
    checksum: str = ""
    scope: int = 0

    @property
    def remote(self) -> bool:
        """Whether it has to be fetched over the network."""
        return is_url(self.location)


@dataclass(frozen=True)
class Context:
    """Information for a source besides its URI.

    Attributes:
        lang: the language of the corpus, for sources with one file per language.
        size: number of shards to take from an endless source such as Common Crawl; 0 takes all.
        seed: seed of the choice of shards.
        cache: folder of downloads.
        base_urls: scheme -> address, or local directory, that replaces the publisher's.
        extract: how HTML becomes text: ``main`` drops navigation and footers, ``all`` keeps all visible text, ``auto``
            is ``main``, or the paragraphs of all visible text where ``main`` is too short.
        min_main: characters of main content that ``auto`` takes for enough.
        max_docs: documents to take from a shard; 0 takes all.
        max_chars: longer web pages are dropped, and longer texts of other sources cut.
        index: limits and choices of a crawl that is read by its index.
    """

    lang: str
    size: int = 0
    seed: int = 0
    cache: Path = Path("downloads")
    base_urls: Mapping[str, str] = field(default_factory=dict)
    extract: str = "main"
    min_main: int = 0
    max_docs: int = 0
    max_chars: int = 1_000_000
    index: IndexSettings = field(default_factory=IndexSettings)

    @property
    def one_lang(self) -> str:
        """Return the language of the corpus, "" where there are several."""
        return self.lang if self.lang in languages.LANGUAGES else ""

    def check_one_lang(self, uri: str) -> None:
        """Refuse a source that has a file for each language where the corpus is of several.

        Raises:
            UserError: it is.
        """
        if not self.one_lang:
            raise UserError(
                f"source {uri!r} is of one language, and lang={self.lang} names several",
                "cc:DUMP, or files: wet:GLOB, warc:GLOB, text:GLOB, jsonl:GLOB, ...",
                f"give such a source, or build each language by itself with {uri}",
            )

    def base_url(self, scheme: str) -> str:
        """Return the base URL of the files of ``scheme``, ending in a slash."""
        return self.base_urls.get(scheme, SOURCES[scheme].publisher).rstrip("/") + "/"

    def resolve(self, scheme: str, path: str) -> str:
        """Return URL or local path of the publisher's file ``path``."""
        return self.base_url(scheme) + path

    def download(self, shard: Shard) -> Download:
        """Return the URL of a remote shard and its local path."""
        path = self.cache / shard.name.replace("/", "_")
        return Download(shard.location, path, shard.num_bytes, shard.checksum)

    def local(self, shard: Shard) -> Path:
        """Return the shard as a local file, downloading it if necessary.

        Raises:
            UserError: it cannot be fetched, or it is gone.
        """
        if shard.remote:
            return fetch(self.download(shard))
        path = Path(shard.location)
        if not path.is_file():
            raise UserError(f"{path} is gone", fix=f"put it back, or give another source than {shard.source}")
        return path


class Source:
    """Base of sources: documents behind one URI.

    Attributes:
        uri: as the user gave it.
        rest: the URI without its scheme.
        context: what it needs to know beside its URI.
        licence: the terms of the texts in a few words, for the data card.
        bare: whether the scheme alone, without a colon, is a URI.
        publisher: address that ``base_urls`` may replace; "" where nothing is fetched.
        cuts_long: whether a long document is cut into several; a long page of the web is dropped.
        endings: file names for which a URI without a scheme is told to take this source.
        reasons: what it drops and why, beside `REASONS`.
        has_rows: whether a document is a row, of which many may be one sentence each.
    """

    licence: str
    bare: ClassVar[bool] = False
    publisher: ClassVar[str] = ""
    cuts_long: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[dict[str, str]] = {}
    has_rows: ClassVar[bool] = False

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        self.uri, self.rest, self.context = uri, rest, context

    def shards(self) -> list[Shard]:
        """Return the shards of the source, in a stable order.

        Raises:
            UserError: there are none, or the list cannot be fetched.
        """
        raise NotImplementedError(f"{type(self).__name__} has no shards")

    def fetch(self, shards: Sequence[Shard], num_connections: int) -> None:
        """Bring the remote ones of ``shards`` here.

        Raises:
            UserError: one cannot be fetched.
        """
        fetch_all([self.context.download(shard) for shard in shards if shard.remote], num_connections)

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of ``shard``; every record is counted, read or dropped with a reason."""
        raise NotImplementedError(f"{type(self).__name__} has no read")

    def with_forms(self, docs: Iterator[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield documents of `read`; rows of which the first are one sentence each, as in Common Voice, are `LONE`."""
        first: list[Document] = []
        num_chars = 0 if self.has_rows else _HEAD_CHARS
        while len(first) < _HEAD_LINES and num_chars < _HEAD_CHARS and (doc := next(docs, None)):
            first.append(doc)
            num_chars += len(doc.text)
        texts = [doc.text for doc in first if not doc.form]
        is_list = not any("\n" in text for text in texts) and is_list_of_sentences(texts)
        if is_list:
            ledger.count_event(ROWS_NOTE)
        for doc in chain(first, docs):
            yield replace(doc, form=LONE) if is_list and not doc.form and "\n" not in doc.text else doc


SOURCES: Registry[type[Source]] = Registry("source", "xling.corpora.sources", plugin="source")


def open_source(uri: str, context: Context) -> Source:
    """Return the source that ``uri`` names.

    Raises:
        UserError: no scheme, an unknown scheme, or a location that the source cannot use.
    """
    scheme, sign, rest = uri.partition(":")
    if not sign and not is_bare(scheme):
        schemes = ", ".join(f"{s}:" for s in sorted(SOURCES))
        likely = next((s for s in sorted(SOURCES) if uri.lower().endswith(SOURCES[s].endings)), "text")
        end = {"csv": "#COLUMN", "tsv": "#COLUMN", "xlsx": "#COLUMN"}.get(
            likely, "/*" if Path(uri).is_dir() else ""
        )
        raise UserError(f"source {uri!r} has no scheme", schemes, f"for example {likely}:{uri}{end}")
    return SOURCES[scheme](uri, rest, context)


def is_bare(uri: str) -> bool:
    """Return whether ``uri`` is a scheme that needs no argument."""
    return uri in SOURCES and SOURCES[uri].bare


_URI = re.compile(r"[a-z][a-z0-9-]*:")


def joined_uris(words: Iterable[str], schemes: Collection[str] = ()) -> tuple[str, ...]:
    """Rejoin URIs that were split at commas: a part without a scheme continues the previous one.

    ``schemes`` are also URIs by themselves.
    """
    uris: list[str] = []
    for word in words:
        if uris and not _URI.match(word) and not (is_bare(word) or word in schemes):
            uris[-1] += f",{word}"
        else:
            uris.append(word)
    return tuple(uris)


def is_url(location: str) -> bool:
    """Return whether ``location`` is fetched over HTTP."""
    return location.startswith(("http://", "https://"))


class LocalFiles(Source):
    """Base of sources whose shards are the local files of a path or a glob.

    Attributes:
        has_fields: what stands after ``#`` names the part of a file that holds the text.
    """

    licence = "as the files' own"
    has_fields: ClassVar[bool] = False

    @functools.cached_property
    def field(self) -> str:
        """The part named after ``#``, "" for the usual one."""
        return path_and_field(self.rest)[1] if self.has_fields else ""

    def shards(self) -> list[Shard]:
        """Return one shard per file, by name.

        Raises:
            UserError: no file matches.
        """
        return local_shards(self.uri, path_and_field(self.rest)[0] if self.has_fields else self.rest)


def local_shards(uri: str, pattern: str) -> list[Shard]:
    """Return one shard for each local file that ``pattern``, a path or a glob, names, sorted by path.

    Raises:
        UserError: no file matches.
    """
    path = Path(pattern)
    if not pattern:
        raise UserError(f"{uri!r}: an empty path", "a file or a glob such as crawl/*.warc.wet.gz")
    if pattern == "-":
        raise UserError(
            f"{uri}: standard input is read on this machine alone",
            "cluster=local, and a name for out=",
            "write it to a file first",
        )
    if path.is_dir():
        raise UserError(f"{uri} names a folder", "a file or a glob", f"give {uri.rstrip('/')}/*")
    paths = matching_files(pattern)
    if not paths:
        fix = _with_schemes(uri, pattern) or "check the path; quote the glob"
        raise UserError(f"{uri}: no file matches {pattern!r}", fix=fix)
    if odd := next((p for p in paths if SURROGATE.search(str(p))), None):
        raise UserError(f"{uri}: file name {str(odd)!r} is not UTF-8", fix="rename the file")
    return [Shard(stem(p.name), str(p), uri, p.stat().st_size) for p in paths]


def _with_schemes(uri: str, pattern: str) -> str:
    """Return the fix for ``text:a.txt,b.txt``: every file has its scheme; "" for a single file."""
    scheme, paths = uri.partition(":")[0], pattern.split(",")
    if len(paths) == 1 or "{" in pattern:
        return ""
    fix = f"give each file its scheme: {quote('source=' + ','.join(f'{scheme}:{path.strip()}' for path in paths))}"
    absent = [path.strip() for path in paths if not (path.strip() and matching_files(path.strip()))]
    return f"{fix}; and check the path of {', '.join(absent)}" if absent else fix


_HEAD_LINES, _HEAD_CHARS = 1000, 1 << 20
_ENDINGS = (
    *(".gz", ".xz", ".zst", ".bz2", ".wet", ".warc", ".txt", ".jsonl", ".json", ".xml"),
    *(".parquet", ".csv", ".tsv", ".docx", ".odt", ".fodt", ".epub", ".html", ".eaf", ".xlsx", ".xlsb"),
    *(".xls", ".ods"),
)


def stem(name: str) -> str:
    """Return a file's name without suffixes of formats and compression."""
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def unique_names(shards: list[Shard]) -> list[Shard]:
    """Return the shards with unique names: repeated names get ``~2``, ``~3``, ... in order."""
    seen: dict[str, int] = {}
    renamed = []
    for shard in shards:
        seen[shard.name] = count = seen.get(shard.name, 0) + 1
        renamed.append(shard if count == 1 else replace(shard, name=f"{shard.name}~{count}"))
    return renamed


# A line end beside a blank. The expression begins with a literal, for which `re` has a fast loop.
_EXTRA_SPACE = re.compile(r"\n(?:\s|(?<=\s\n))")
# Line ends of `str.splitlines`, beside \n. Behind another letter of Latin-1, U+0085 is the byte of an Arabic or Hebrew
# letter, or an ellipsis, that was read as Latin-1; so is a no-break space. Before a blank it is the à of code page 850.
_LINE_ENDS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\u2028\u2029]|(?<![\x80-\xff])\x85(?![ ,.;:!?])")
_IS_BYTE = re.compile(r"[\x80-\xf4][\x85\xa0](?=\s*\Z)")


def paragraphs(text: str) -> str:
    """Normalise ``text`` to the form of `Document.text`: one stripped paragraph per line, no empty lines."""
    text = _strip(text)
    if any(end in text for end in _LINE_ENDS):
        lines = _LINE_END.split(text)
    elif _EXTRA_SPACE.search(text):
        lines = text.split("\n")  # in half of the time
    else:
        return text
    return "\n".join(filter(None, map(_strip, lines)))


def _strip(line: str) -> str:
    """Return a line without blanks around it; one that is a byte of a letter stays."""
    stripped = line.strip()
    if len(stripped) == len(line) or stripped.isascii() or not (byte := _IS_BYTE.search(line)):
        return stripped
    return line[: byte.end()].lstrip()


def running_text(text: str, ledger: Ledger) -> str:
    """Return `paragraphs` of a text whose lines may have a fixed width; lines that are joined are an event."""
    text = body_text(text, ledger)
    head = text.split("\n", _HEAD_LINES)[:_HEAD_LINES]
    if (lines := unwrapped(head, _LINE_END.split(text), ledger)) is not None:
        text = "\n".join(lines)
    return paragraphs(text)


def unwrapped(head: Sequence[str], lines: Iterable[str], ledger: Ledger) -> Iterator[str] | None:
    """Return the paragraphs of lines of a fixed width, as the first ones show it, or None; both joins are events."""
    if not (width := wrapped_width(head)):
        return None
    ledger.count_event(WRAPPED_NOTE)
    lines = without_pages(head, lines, lambda: ledger.count_event(PAGES_NOTE))
    if (compounds := compounds_of_divided(head)) is not None:
        ledger.count_event(DIVIDED_NOTE)
    return join_wrapped(lines, width, compounds)


@functools.cache
def declared_lang(code: str, scheme: str = "") -> str:
    """Return our code of the language that a source declares, or "" if it is missing or unknown."""
    try:
        return languages.get(code, scheme).code
    except UserError:
        language = None if scheme else language_of(code)
        return language.code if language else ""


def decode(data: bytes, ledger: Ledger) -> str:
    """Decode ``data`` as UTF-8; invalid bytes become U+FFFD and are counted."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        ledger.count_event("text with bytes that are not UTF-8")
        return data.decode("utf-8", "replace")


def cut_long(doc: Document, max_chars: int, ledger: Ledger) -> list[Document]:
    """Return a document that was admitted, in pieces of at most ``max_chars`` characters, which count as read."""
    if len(doc.text) <= max_chars:
        return [doc]
    pieces = cut_text(doc.text, max_chars)
    ledger.count_event(CUT_NOTE, len(pieces))
    ledger.seen[STAGE] -= 1
    ledger.seen_chars[STAGE] -= len(doc.text)
    docs = [
        replace(doc, id=f"{doc.id}.{i}", text=text, meta=dict(doc.meta), form=doc.form if i == 0 else "")
        for i, text in enumerate(pieces)
    ]
    for piece in docs:
        ledger.count_seen(STAGE, piece)
    return docs


def admit(doc: Document, ledger: Ledger, reason: str = "") -> Document | None:
    """Count ``doc`` as read; None, and a drop, when it is empty or not text, or for ``reason``.

    A text of which more than one character in twenty could not be decoded was in another charset.
    """
    ledger.count_seen(STAGE, doc)
    if reason:
        ledger.drop(STAGE, reason, doc)
    elif not doc.text:
        ledger.drop(STAGE, "empty", doc)
    elif "\ufffd" in doc.text and doc.text.count("\ufffd") * 20 > len(doc.text):
        ledger.drop(STAGE, "wrong charset", doc)
    else:
        if "\ufffd" in doc.text:
            ledger.count_event(LOST_CHARS_NOTE)
        return doc
    return None
