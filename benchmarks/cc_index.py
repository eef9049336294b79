"""A rare language out of a simulated dump: bytes read and pages kept by the index, against reading all WET files.

``XLING_DATA=FOLDER python -m benchmarks.cc_index [rows [one_in]]`` makes 1,000,000 rows (or so many) over 30 parts with
the 30 columns of the real index. One row in 10,000 (or so many) is of German, which stands for a language that is that
rare. A frequent language gives many URLs from few rows, but its share of bytes means nothing. Records are written for
these rows and for a fiftieth of the others; they are altered copies of the real pages of ``web/`` and ``wiki/``. WET
bytes of all other rows are counted and not written. A share of the German rows has another code, as where CLD2 errs; as
many others have the German one. It fails over 2 % of the WET bytes for the same clean text, or with a recall of URLs
under .95.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xling.core.commands.runner import run_local
from xling.core.output import sealed
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.sources.source import Context, open_source, paragraphs
from xling.corpora.sources.webpage import text_of
from xling.text.document import Ledger

DUMP, LANG, CODE = "CC-MAIN-2024-22", "de", "deu"
PARTS, ONE_IN, WRITTEN_SHARE, MISSED = 30, 10_000, 0.02, 0.03
WIKIS = ("en", "fr", "fi", "sv", "ro", "tr", "id")
MOST_BYTES, LEAST_RECALL = 0.02, 0.95


@dataclass(frozen=True)
class Base:
    """A real page: its HTML and the text that a WET file has of it."""

    is_ours: bool
    html: str
    text: str


def base_pages(data: Path) -> list[Base]:
    """The real pages of ``web/``, and the articles of ``wiki/`` as plain HTML."""
    bases = []
    with gzip.open(data / "web" / "hplt_pages.jsonl.gz", "rt", encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            text = paragraphs(text_of(row["html"], False)[0])
            if text and row["lang"]:
                bases.append(Base(row["lang"] == "deu_Latn", row["html"], text))
    for lang in (LANG, *WIKIS):
        path = data / "wiki" / f"{lang}wiki-mini.xml.bz2"
        source = open_source(f"wiki:{path}", Context(lang))
        for doc in source.read(source.shards()[0], Ledger()):
            lines = "".join(f"<p>{line}</p>" for line in doc.text.split("\n"))
            bases.append(
                Base(lang == LANG, f"<html><body><article>{lines}</article></body></html>", doc.text)
            )
    return [base for base in bases if len(base.text) > 1000]


def altered(base: Base, pool: list[str], draw: np.random.Generator) -> Base:
    """A copy with three more paragraphs of the same kind."""
    more = [pool[i] for i in draw.integers(len(pool), size=3)]
    lines = "".join(f"<p>{line}</p>" for line in more)
    end = base.html.rfind("</article>" if "</article>" in base.html else "</body>")
    end = end if end >= 0 else len(base.html)
    return Base(base.is_ours, base.html[:end] + lines + base.html[end:], "\n".join([base.text, *more]))


def warc(url: str, html: str) -> bytes:
    """A response as a gzip member."""
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}".encode()
    return _member("response", url, answer)


def wet(url: str, text: str) -> bytes:
    """A text as a gzip member."""
    return _member("conversion", url, text.encode())


def _member(kind: str, url: str, body: bytes) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-05-18T01:58:10Z\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{hash(url) % 10**12:012d}>\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + body + b"\r\n\r\n", 6, mtime=0)


def make(data: Path, site: Path, num_rows: int, one_in: int = ONE_IN) -> dict[str, Any]:
    """Write the dump and one WET file of the pages with records; sizes and URLs."""
    draw = np.random.default_rng(1)
    bases = base_pages(data)
    groups = {ours: [base for base in bases if base.is_ours == ours] for ours in (True, False)}
    pools = {
        ours: [line for base in some for line in base.text.split("\n") if len(line) > 120]
        for ours, some in groups.items()
    }
    ours = np.zeros(num_rows, bool)
    ours[draw.choice(num_rows, num_rows // one_in, replace=False)] = True
    is_written = ours | (draw.random(num_rows) < WRITTEN_SHARE)
    languages = draw.choice(["eng", "rus", "fra,eng", "spa", "jpn", "eng,spa", "zho", ""], num_rows).astype(
        object
    )
    languages[languages == ""] = None
    places = np.flatnonzero(ours)
    languages[places] = np.where(draw.random(len(places)) < 0.2, f"eng,{CODE}", CODE)
    num_missed = max(1, round(MISSED * len(places)))
    languages[places[:num_missed]] = "nld"
    languages[draw.choice(np.flatnonzero(is_written & ~ours), num_missed, replace=False)] = CODE
    hosts = np.sort(
        draw.integers(0, num_rows // 20, num_rows)
    )  # twenty pages a host, in the order of their names
    files = [bytearray() for _ in range(50)]
    offsets = draw.integers(0, 1 << 30, num_rows, dtype=np.int32)
    lengths = draw.lognormal(9, 1, num_rows).astype(np.int32)
    numbers = draw.integers(0, len(files), num_rows)
    wet_sizes, urls = [], []
    wet_path = site / "all.warc.wet.gz"
    wet_path.parent.mkdir(parents=True, exist_ok=True)
    with wet_path.open("wb") as wet_file:
        for i in np.flatnonzero(is_written).tolist():
            some = groups[bool(ours[i])]
            page = altered(some[draw.integers(len(some))], pools[bool(ours[i])], draw)
            url = f"https://host{hosts[i]:07d}.example/{i}"
            record, text = warc(url, page.html), wet(url, page.text)
            file = files[numbers[i]]
            offsets[i], lengths[i] = len(file), len(record)
            file += record
            wet_file.write(text)
            wet_sizes.append(len(text))
            urls += [url] if ours[i] else []
    for number, content in enumerate(files):
        path = site / f"crawl-data/{DUMP}/segments/1/warc/{number:05d}.warc.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(content))
    _write_parts(site, hosts, languages, numbers, offsets, lengths, draw)
    wet_bytes = sum(wet_sizes) + int(np.mean(wet_sizes) * (num_rows - len(wet_sizes)))
    return {"wet_bytes": wet_bytes, "wet_written": sum(wet_sizes), "urls": urls, "wet": str(wet_path)}


def _write_parts(
    site: Path, hosts: Any, languages: Any, numbers: Any, offsets: Any, lengths: Any, draw: Any
) -> None:
    """Write the index with the columns of the real one, sorted, in gzip, with a page index."""
    paths, size = [], -(-len(hosts) // PARTS)
    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "S1")
    for part in range(PARTS):
        rows = np.arange(part * size, min(len(hosts), (part + 1) * size))
        names = [f"host{hosts[i]:07d}.example" for i in rows]
        digests = alphabet[draw.integers(0, 32, (len(rows), 32))].view("S32").ravel().astype(str)
        same = {text: [text] * len(rows) for text in ("example", "https", "text/html", "UTF-8", "1")}
        table = pa.table(
            {
                "url_surtkey": [f"example,host{hosts[i]:07d})/{i}" for i in rows],
                "url": [f"https://{name}/{i}" for name, i in zip(names, rows, strict=True)],
                "url_host_name": names,
                "url_host_tld": same["example"],
                "url_host_2nd_last_part": [name.partition(".")[0] for name in names],
                "url_host_registry_suffix": same["example"],
                "url_host_registered_domain": names,
                "url_host_private_suffix": same["example"],
                "url_host_private_domain": names,
                "url_host_name_reversed": [f"example.{name.partition('.')[0]}" for name in names],
                "url_protocol": same["https"],
                "url_port": pa.array([None] * len(rows), pa.int32()),
                "url_path": [f"/{i}" for i in rows],
                "url_query": pa.array([None] * len(rows), pa.string()),
                "fetch_time": pa.array(1_716_000_000_000 + rows * 997 % 10**9, pa.timestamp("ms")),
                "fetch_status": pa.array([200] * len(rows), pa.int16()),
                "fetch_redirect": pa.array([None] * len(rows), pa.string()),
                "content_digest": digests.tolist(),
                "content_mime_type": same["text/html"],
                "content_mime_detected": same["text/html"],
                "content_charset": same["UTF-8"],
                "content_languages": pa.array(languages[rows].tolist(), pa.string()),
                "content_truncated": pa.array([None] * len(rows), pa.string()),
                "warc_filename": [
                    f"crawl-data/{DUMP}/segments/1/warc/{numbers[i]:05d}.warc.gz" for i in rows
                ],
                "warc_record_offset": pa.array(offsets[rows], pa.int32()),
                "warc_record_length": pa.array(lengths[rows], pa.int32()),
                "warc_segment": same["1"],
            }
        )
        paths.append(f"cc-index/table/cc-main/warc/crawl={DUMP}/subset=warc/part-{part:05d}.c000.gz.parquet")
        (site / paths[-1]).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, site / paths[-1], compression="gzip", write_page_index=True)
    listing = site / f"crawl-data/{DUMP}/cc-index-table.paths.gz"
    listing.write_bytes(gzip.compress("\n".join(paths).encode()))


def build(folder: Path, source: str, base: str = "") -> list[Any]:
    """The documents of a corpus; paragraphs of copies stay, since these copies are of our making."""
    settings = {"lang": LANG, "source": source, "out": str(folder / "corpus"), "cache": str(folder / "cache")}
    settings |= {"dedup": "false", "near_dedup": "false", "lm": {"model": "none"}, "reject_chars": "0"}
    if base:
        settings |= {"base_urls": {"cc": base}}
    print(run_local("corpus mono", config.from_dict(MonoConfig, settings)), file=sys.stderr)
    return list(read_corpus(folder / "corpus"))


def main(num_rows: int = 1_000_000, one_in: int = ONE_IN) -> int:
    """Print the figures as a line of JSON; 1 where a bound is not met."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make(Path(os.environ["XLING_DATA"]), folder / "site", num_rows, one_in)
        ours = build(folder / "index", f"cc-index:{DUMP}", str(folder / "site"))
        (spent,) = [sealed.read_json(p) for p in folder.glob("index/cache/cc-index/*/spent.json")]
        theirs = build(folder / "wet", f"wet:{made['wet']}")
        kept, wanted = {doc.url for doc in ours}, {doc.url for doc in theirs}
        clean, clean_wet = (sum(len(doc.text.encode()) for doc in docs) for docs in (ours, theirs))
        read = sum(spent["bytes"].values())
        share = (read / clean) / (made["wet_bytes"] / clean_wet)
        recall = len(kept & wanted) / len(wanted)
        figures = {
            "rows": num_rows,
            "index_mb": spent["bytes"]["index"] / 1e6,
            "records_mb": spent["bytes"]["records"] / 1e6,
            "wet_mb": made["wet_bytes"] / 1e6,
            "pages": len(kept),
            "pages_by_wet": len(wanted),
            "clean_mb": clean / 1e6,
            "clean_by_wet_mb": clean_wet / 1e6,
            "mb_per_clean_mb": read / clean,
            "clean_per_record_byte": clean / spent["bytes"]["records"],
            "share_of_wet_bytes": share,
            "recall": recall,
        }
    print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
    return int(share > MOST_BYTES or recall < LEAST_RECALL)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
