"""Sources elsewhere for a language: its Wikipedia, Common Crawl by a sample of its index, and corpora of OPUS.

Nothing but lists, sizes and at most `SAMPLE_BYTES` of the index comes here. A place that cannot be reached is told.
"""

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.corpora.common.download import open_url, parse_length
from xling.corpora.crawl_index.settings import IndexSettings
from xling.corpora.parallel.sources import SourceContext
from xling.corpora.parallel.sources.opus import API, list_corpora
from xling.corpora.sources.cc_index import CLEAN_PER_RECORD_BYTE, CcIndex
from xling.corpora.sources.source import SOURCES, Context, open_source
from xling.language.holdings import Holdings
from xling.language.settings import OPUS_PAIRS, LanguageConfig

SAMPLE_BYTES = 50_000_000
CLEAN_PER_DUMP_BYTE = 1.5
"""Bytes of clean text for a byte of a compressed dump: a guess, as that of the crawl."""
_TIMEOUT_S = 20
_MAX_CORPORA = 12
READ = "read by this command"

Row = dict[str, Any]


def look_elsewhere(cfg: LanguageConfig) -> list[Row]:
    """Return a row for each place: ``where``, ``amount``, ``clean_mb`` (estimated, or None), ``licence``, ``get``.

    Places of running text also have ``uri``, OPUS has ``pairs``: what the command reads of them.
    """
    rows: list[Row] = []
    context = _context(cfg)
    for name, find, base in (
        ("Wikipedia", _wikipedia, context.base_url("wiki")),
        ("Common Crawl", _crawl, context.base_url("cc")),
        ("OPUS", _opus, cfg.base_urls.get("opus", API)),
    ):
        try:
            _check_reached(base)
            rows += find(cfg)
        except (UserError, OSError) as error:
            problem = error.given if isinstance(error, UserError) else str(error)
            tell(f"language survey: {name} is left out: {problem}")
            rows.append(_row(name, "not reached", None, "", "give overwrite=true when there is a network"))
    return rows


def add_downloads(holdings: Holdings, rows: Sequence[Row]) -> None:
    """Add what the command downloads to what there is."""
    holdings.remote = [row["uri"] for row in rows if "uri" in row]
    holdings.downloads = sum(row.get("pairs", 0) for row in rows)


def _check_reached(base: str) -> None:
    """Ask once, where a download would try for minutes; any answer will do.

    Raises:
        OSError: there is none.
    """
    with contextlib.suppress(urllib.error.HTTPError):
        if base.startswith(("http://", "https://")):
            open_url(urllib.request.Request(base, method="HEAD"), _TIMEOUT_S).close()


def _row(where: str, amount: str, clean_mb: float | None, licence: str, get: str) -> Row:
    clean = None if clean_mb is None else round(clean_mb, 1)
    return {"where": where, "amount": amount, "clean_mb": clean, "licence": licence, "get": get}


def _context(cfg: LanguageConfig) -> Context:
    index = IndexSettings(num_bytes=SAMPLE_BYTES)
    return Context(cfg.lang, cache=Path(cfg.cache), base_urls=cfg.base_urls, index=index)


def _wikipedia(cfg: LanguageConfig) -> Iterator[Row]:
    (shard,) = open_source("wiki:", _context(cfg)).shards()
    num_bytes = shard.num_bytes if shard.num_bytes is not None else _length(shard.location)
    clean = None if num_bytes is None else num_bytes / 1e6 * CLEAN_PER_DUMP_BYTE
    amount = "of unknown size" if num_bytes is None else f"{num_bytes / 1e6:,.1f} MB"
    yield _row("Wikipedia", amount, clean, SOURCES["wiki"].licence, READ) | {"uri": "wiki:"}


def _length(url: str) -> int | None:
    try:
        with open_url(urllib.request.Request(url, method="HEAD"), _TIMEOUT_S) as answer:
            return parse_length(answer.headers.get("Content-Length"))
    except OSError:
        return None  # the download itself will say what is wrong


def _crawl(cfg: LanguageConfig) -> Iterator[Row]:
    uri = f"cc-index:{cfg.dump}"
    source = open_source(uri, _context(cfg))
    assert isinstance(source, CcIndex)
    sampled = source.estimate()
    clean = CLEAN_PER_RECORD_BYTE * sampled.record_bytes / 1e6
    amount = (
        f"about {sampled.pages:,} pages, {sampled.record_bytes / 1e6:,.1f} MB of records; estimated from "
        f"{sampled.parts_read:,} of {sampled.parts:,} parts of the index"
    )
    yield _row(cfg.dump, amount, clean, source.licence, f"{READ}, up to size={cfg.size}") | {"uri": uri}


def _opus(cfg: LanguageConfig) -> Iterator[Row]:
    sides = languages.get(cfg.lang), languages.get(cfg.source)
    entries = list_corpora(SourceContext(*sides, Path(cfg.cache), cfg.base_urls))
    limited = list_corpora(SourceContext(*sides, Path(cfg.cache), cfg.base_urls, OPUS_PAIRS))
    names = {entry["corpus"] for entry in limited}
    yield _row("OPUS", "its smallest corpora", None, "as stated for each", READ) | {
        "pairs": sum(entry["alignment_pairs"] for entry in limited)
    }
    for entry in sorted(entries, key=lambda each: -each["alignment_pairs"])[:_MAX_CORPORA]:
        get = (
            f"xling corpus parallel pair={cfg.lang}-{cfg.source} source=opus:{entry['corpus']} "
            f"out={cfg.data}/{entry['corpus']}"
        )
        amount = f"{entry['alignment_pairs']:,} pairs"
        get = READ if entry["corpus"] in names else get
        yield _row(f"OPUS {entry['corpus']}", amount, None, "as stated for it on OPUS", get)
    if len(entries) > _MAX_CORPORA:
        amount = f"{len(entries) - _MAX_CORPORA} smaller corpora"
        yield _row("OPUS", amount, None, "as stated for each", f"source=opus: pair={cfg.lang}-{cfg.source}")
