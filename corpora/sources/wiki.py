"""``wiki:PATH``: articles of a MediaWiki XML dump; ``wiki:`` alone: the language's own dump over HTTPS."""

import contextlib
import re
import urllib.parse
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common.download import MAX_LIST_BYTES, Download, fetch
from xling.corpora.sources.source import (
    SOURCES,
    STAGE,
    Shard,
    Source,
    admit,
    declared_lang,
    is_url,
    local_shards,
)
from xling.corpora.sources.wikitemplates import Page
from xling.corpora.sources.wikitext import NamespaceNames, clean
from xling.text.document import UNPACKED, Document, Ledger
from xling.text.files.compressed import DamagedBytes, read_chunks
from xling.text.files.encodings import refuse_seven_bits

_BEGIN, _END = b"<page>", b"</page>"
_REDIRECT = re.compile(r"\s*#\w{2,20}\s*:?\s*\[\[[^\[\]]+\]\].{0,200}\s*", re.S)
OLDER_NOTE = "earlier revisions of pages, not read"
_MAX_PAGE_BYTES = 1 << 24
_FILE_NAMESPACE, _CATEGORY_NAMESPACE, _MEDIA_NAMESPACE = "6", "14", "-2"


@SOURCES.register("wiki")
class Wiki(Source):
    """Articles (namespace 0) as clean paragraphs; redirects and other pages are counted and skipped.

    The dump itself says how its language names files and categories, so no table of languages is needed.
    """

    licence = "CC BY-SA 4.0 and GFDL (Wikipedia)"
    bare = True
    publisher = "https://dumps.wikimedia.org/"
    endings = (".xml",)

    def shards(self) -> list[Shard]:
        """Return one shard per dump file."""
        if self.rest:
            return local_shards(self.uri, self.rest)
        self.context.check_one_lang(self.uri)
        wiki = languages.code_for(self.context.lang, "wiki").replace("-", "_") + "wiki"
        name = f"{wiki}-latest-pages-articles.xml.bz2"
        folder = self.context.resolve("wiki", f"{wiki}/latest/")
        if is_url(folder):
            return [Shard(stem_of(name), folder + name, self.uri, checksum=self._checksum(folder, name))]
        return [
            Shard(stem_of(s.name), s.location, self.uri, s.num_bytes)
            for s in local_shards(self.uri, folder + name)
        ]

    def _checksum(self, folder: str, name: str) -> str:
        """Return the SHA-1 that the publisher states for the dump; its list gives the dates of latest files.

        Raises:
            UserError: the list does not name the dump.
        """
        wiki = name.partition("-")[0]
        sums = f"{wiki}-latest-sha1sums.txt"
        path = fetch(Download(folder + sums, self.context.cache / sums, max_bytes=MAX_LIST_BYTES))
        ending = name.partition("-latest")[2]
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, listed = line.partition("  ")
            if listed.endswith(ending) and re.fullmatch("[0-9a-fA-F]{40}", digest):
                return f"sha1:{digest}"
        path.unlink(missing_ok=True)
        raise UserError(
            f"{folder}{sums} has no checksum of {name}",
            f"a line SHA-1, two blanks, {name}",
            "use another mirror, or download the dump and give it as wiki:FILE",
        )

    def _in_script(self, code: str) -> str:
        """Return the language of a wiki, in the script of the corpus if it is of that language."""
        wanted = declared_lang(self.context.lang)
        return wanted if wanted.partition("_")[0] == code.partition("_")[0] else code

    def _lang_of(self, site: str) -> str:
        """Return the language of a wiki by its address, "" where that names none."""
        host = urllib.parse.urlsplit(site).hostname or ""
        return self._in_script(declared_lang(host.partition(".")[0], "wiki"))

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document an article."""
        dump = _DumpReader()
        code, is_named, _ = shard.name.partition("wiki")
        declared = declared_lang(code.replace("_", "-"), "wiki") if is_named else ""
        lang = self._in_script(declared) if declared else ""
        for page in dump.pages(self.context.local(shard), ledger):
            number = page.findtext("id") or page.findtext("title") or ""
            title = page.findtext("title") or ""
            doc = Document(
                id=f"{shard.name}/{number}",
                text=page.findtext("revision/text") or "",
                url=dump.site + urllib.parse.quote(title.replace(" ", "_")),
                source=shard.source,
                date=page.findtext("revision/timestamp") or "",
                meta={"title": title} | ({"declared_lang": declared} if declared else {}),
            )
            if reason := _reason_not_article(page):
                ledger.count_seen(STAGE, doc)
                ledger.drop(STAGE, reason, doc)
                continue
            dropped = Counter[str]()
            where = Page(lang or self._lang_of(dump.site) or self.context.one_lang, doc.date)
            doc.text = clean(doc.text, dump.names, where, dropped)
            for name, count in dropped.items():
                ledger.count_event(f"template dropped from within a sentence: {name}", count)
            if kept := admit(doc, ledger):
                yield kept


def stem_of(name: str) -> str:
    """Return ``swwiki`` for ``swwiki-latest-pages-articles.xml.bz2``: ids stay the same from dump to dump."""
    return name.partition("-latest")[0]


def _reason_not_article(page: ET.Element) -> str:
    """Return why a page is skipped, or ""."""
    if (page.findtext("ns") or "0") != "0":
        return "not an article"
    if page.find("redirect") is not None or _REDIRECT.fullmatch(page.findtext("revision/text") or ""):
        return "redirect"
    model = page.findtext("revision/model") or "wikitext"
    return "" if model == "wikitext" else f"content model {model}"


class _DumpReader:
    """The pages of a dump one at a time, and the wiki's names from its header.

    Pages are found by their tags and parsed one by one, so that damage costs the pages that it touches.
    """

    def __init__(self) -> None:
        self.site = ""
        self.names = NamespaceNames()
        self._has_end = False

    def pages(self, path: Path, ledger: Ledger) -> Iterator[ET.Element]:
        """Yield ``<page>`` elements; what stands outside any page, or is not XML, is lost and counted."""
        data = b""
        is_head = True
        try:
            for chunk in read_chunks(path, ledger):
                ledger.count_bytes(UNPACKED, "in", len(chunk))
                if is_head and not data:
                    refuse_seven_bits(chunk, path)
                data += chunk
                while (end := data.find(_END)) >= 0:
                    end += len(_END)
                    block, data = data[:end], data[end:]
                    start = block.rfind(_BEGIN)
                    self._count_between(block[: max(start, 0)], is_head, ledger)
                    is_head = False
                    if start < 0:
                        ledger.drop_bytes("damaged page", len(block), UNPACKED)
                    elif (page := _parse_page(block[start:], ledger)) is not None:
                        yield page
                if isinstance(chunk, DamagedBytes) or len(data) > _MAX_PAGE_BYTES:
                    data, is_head = self._skip_long_page(data, is_head, ledger), False
            self._skip_long_page(data, is_head, ledger)
            if not self._has_end:
                ledger.count_event("truncated dump")
        except GeneratorExit:  # max_docs
            ledger.count_bytes(UNPACKED, "not wanted", len(data))
            raise

    def _skip_long_page(self, data: bytes, is_head: bool, ledger: Ledger) -> bytes:
        """Account for ``data``, in which no page ends."""
        start = data.find(_BEGIN)
        self._count_between(data[:start] if start >= 0 else data, is_head, ledger)
        if start >= 0:
            ledger.drop_bytes("damaged page", len(data) - start, UNPACKED)
        return b""

    def _count_between(self, data: bytes, is_head: bool, ledger: Ledger) -> None:
        """Account for what stands before a page: the head of the dump, blanks, its last tag, or what is lost."""
        if is_head and b"<mediawiki" in data:
            end = data.find(b">", data.find(b"<mediawiki")) + 1
            if (first := data.find(b"<siteinfo>")) >= 0 and (last := data.find(b"</siteinfo>", first)) >= 0:
                end = last + len(b"</siteinfo>")
                with contextlib.suppress(ET.ParseError):
                    self._read_siteinfo(ET.fromstring(data[first:end]))
            ledger.count_bytes(UNPACKED, "framing", end)
            data = data[end:]
        self._has_end = self._has_end or b"</mediawiki>" in data
        if data.strip() in (b"", b"</mediawiki>"):
            ledger.count_bytes(UNPACKED, "framing", len(data))
        else:
            ledger.drop_bytes("bytes outside any page", len(data), UNPACKED)

    def _read_siteinfo(self, siteinfo: ET.Element) -> None:
        base = siteinfo.findtext("base") or ""
        self.site = base.rpartition("/")[0] + "/" if base else ""
        spaces = {n.get("key"): n.text or "" for n in siteinfo.iterfind("namespaces/namespace")}
        dropped = (spaces.get(key, "") for key in (_FILE_NAMESPACE, _CATEGORY_NAMESPACE, _MEDIA_NAMESPACE))
        self.names = NamespaceNames.from_names(name for name in dropped if name)


def _parse_page(page: bytes, ledger: Ledger) -> ET.Element | None:
    """Return the element; None, counting a loss, if it is not valid XML."""
    try:
        try:
            element = ET.fromstring(page)
        except ET.ParseError:
            element = ET.fromstring(page.decode("utf-8", "replace"))
            ledger.count_event("text with bytes that are not UTF-8")
    except ET.ParseError:
        ledger.drop_bytes("damaged page", len(page), UNPACKED)
        return None
    ledger.count_bytes(UNPACKED, "pages", len(page))
    for revision in element.findall("revision")[:-1]:
        element.remove(revision)
        ledger.count_event(OLDER_NOTE)
    return element
