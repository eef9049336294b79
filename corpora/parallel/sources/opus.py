"""``opus:CORPUS[:VERSION]``: corpora of OPUS over HTTPS; ``opus:`` takes them all, the smallest first.

The API lists where the Moses archives of a pair are; they are fetched with resumption, their length is checked
and, where the store states an MD5 as ETag, their checksum. Both addresses can be replaced by mirrors.

Source: Tiedemann 2012, LREC; the API of opus.nlpl.eu.
"""

import json
import re
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from xling.core.errors import UserError, unknown
from xling.corpora.common.download import (
    Download,
    cache_path,
    check_url,
    fetch,
    open_url,
    parse_length,
    read_answer,
)
from xling.corpora.parallel.sources import PAIR_SOURCES, PairReader, PairSource, SourceContext
from xling.corpora.parallel.sources.moses import zip_rows

API = "https://opus.nlpl.eu/opusapi/"
_MD5 = re.compile(r'^"?([0-9a-f]{32})"?$')
_TIMEOUT_S = 60
_MIRROR = "give local files as moses:, tmx: or tsv:, or a mirror as base_urls.opus=URL"


@PAIR_SOURCES.register("opus")
class Opus(PairReader):
    """Corpora of OPUS, downloaded."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Download the chosen corpora of OPUS and return a source for each."""
        name, _, version = rest.partition(":")
        entries = list_corpora(context, name, version)
        sources = []
        for entry in entries:
            path = fetch_entry(entry, context)
            uri = f"opus:{entry['corpus']}:{entry['version']}"
            rows = lambda ledger, path=path: zip_rows(path, context, ledger)  # noqa: E731 - binds this path
            sources.append(PairSource(uri, (path,), rows, f"as stated for {entry['corpus']} on OPUS"))
        return sources


def list_corpora(context: SourceContext, name: str = "", version: str = "") -> list[dict[str, Any]]:
    """Return the Moses archives that the API lists for the pair, smallest first, up to ``context.size`` pairs.

    Raises:
        UserError: the API cannot be reached or lists nothing of that name.
    """
    asked = {"source": context.src.base, "target": context.tgt.base, "preprocessing": "moses"}
    asked |= {"version": version or "latest"}
    url = f"{context.base_urls.get('opus', API)}?{urllib.parse.urlencode(asked)}"
    try:
        answer = read_answer(url)
    except UserError as error:
        raise UserError(f"cannot list OPUS: {error.given}", error.valid, _MIRROR) from None
    try:
        entries = [_check_entry(entry) for entry in json.loads(answer)["corpora"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"cannot list OPUS at {url}: {error}", fix=_MIRROR) from None
    if name:
        chosen = [entry for entry in entries if entry["corpus"].lower() == name.lower()]
        if not chosen:
            raise unknown(f"OPUS corpus for {context.pair}", name, [entry["corpus"] for entry in entries])
        return chosen[:1]
    if not entries:
        raise UserError(
            f"OPUS has no corpus for {context.pair}",
            fix="check pair=, or give other sources: moses:, tmx:, tsv:",
        )
    newest_entries: list[dict[str, Any]] = []
    total = 0
    for entry in sorted(entries, key=lambda e: (e["alignment_pairs"], e["corpus"])):
        total += entry["alignment_pairs"]
        if newest_entries and context.size and total > context.size:
            break
        newest_entries.append(entry)
    return newest_entries


def _check_entry(entry: Any) -> dict[str, Any]:
    """Return an entry of the listing, whose values come from another machine.

    Raises:
        ValueError: a value is not of its type.
        UserError: a name could lead elsewhere, or the address is not of the web.
    """
    fields = {key: str(entry[key]) for key in ("corpus", "version", "url")}
    cache_path(Path(), fields["corpus"], fields["version"])
    check_url(fields["url"])
    return fields | {"alignment_pairs": int(entry.get("alignment_pairs") or 0)}


def fetch_entry(entry: dict[str, Any], context: SourceContext) -> Path:
    """Bring the archive of a corpus here and return its path."""
    url = entry["url"]
    if store := context.base_urls.get("opus_store"):
        url = store.rstrip("/") + urllib.parse.urlsplit(url).path
    path = cache_path(context.cache, "opus", f"{entry['corpus']}-{entry['version']}-{context.pair}.zip")
    if path.is_file():
        return path
    num_bytes, checksum = _size_and_checksum(url)
    return fetch(Download(url, path, num_bytes, checksum))


def _size_and_checksum(url: str) -> tuple[int | None, str]:
    """Return length and ``md5:HEX`` of a file as far as its server states them before sending it."""
    try:
        with open_url(urllib.request.Request(url, method="HEAD"), _TIMEOUT_S) as answer:
            length, etag = parse_length(answer.headers.get("Content-Length")), answer.headers.get("ETag", "")
    except OSError:
        return None, ""  # the download itself will say what is wrong
    checksum = _MD5.match(etag)
    return length, f"md5:{checksum[1]}" if checksum else ""
