"""Precision and recall of the model of lines on held-out pages, its speed, and the training of the one that ships.

Run:  XLING_DATA=FOLDER python -m benchmarks.lines PAGES GOLD [OUT]

``PAGES`` is a checkout of adbar/trafilatura (its tests hold some 1,000 saved pages), ``GOLD`` one of
scrapinghub/article-extraction-benchmark (181 pages whose article a person marked), FOLDER the sample data, whose
``web/hplt_pages.jsonl.gz`` has pages of raw crawls. trafilatura has to be importable; it and Resiliparse are the
teachers. The saved and the crawled pages are divided into five parts by site, and each part is scored by a model of
the other four. GOLD is scored by a model of all pages and never trained on. ``OUT`` gets that model; it holds weights
of counts of characters, and no text.

Precision and recall are by letters. ``agreed`` leaves out the lines on which the teachers differ.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from xling.corpora.builtin import boilerplate
from xling.corpora.fit.boilerplate import Page, fit, score
from xling.corpora.sources.source import paragraphs

PARTS, EPOCHS, SEED = 5, 12, 0
MAX_BYTES, MAX_LINES = 3_000_000, 3000


@dataclass(frozen=True)
class Judged:
    """A page and what each teacher says of its lines, ``(num_lines,)`` bool."""

    kind: str
    site: str
    text: str
    by_trafilatura: NDArray[np.bool_]
    by_resiliparse: NDArray[np.bool_]
    by_person: NDArray[np.bool_] | None = None

    def page(self, teacher: str) -> Page:
        """Return the page with the labels of a teacher, of both (``both``), or where they agree (``agreed``)."""
        first, second = self.by_trafilatura, self.by_resiliparse
        if teacher == "person":
            assert self.by_person is not None, "only pages of GOLD"
            return Page(self.site, self.text, self.by_person.astype(np.float64))
        mean = (first.astype(np.float64) + second) / 2
        labels = {
            "trafilatura": first.astype(np.float64),
            "Resiliparse": second.astype(np.float64),
            "both": mean,
            "agreed": np.where(first == second, mean, np.nan),
        }
        return Page(self.site, self.text, labels[teacher])


def judged(kind: str, site: str, html: str, texts: list[str], person: str | None = None) -> Iterator[Judged]:
    """Yield a page for each of its texts."""
    main = extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False)
    article = import_module("trafilatura").extract(html, include_comments=False) or ""
    for text in map(paragraphs, texts):
        if text and text.count("\n") < MAX_LINES:
            marked = None if person is None else boilerplate.labels(text, person)
            yield Judged(
                kind, site, text, boilerplate.labels(text, article), boilerplate.labels(text, main), marked
            )


def saved(kind: str, files: list[Path], articles: dict[str, str]) -> Iterator[Judged]:
    """Yield the pages of HTML files."""
    for path in files:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        if len(data) <= MAX_BYTES:
            html = bytes_to_str(
                data, detect_encoding(data, html5_compatible=True, from_html_meta=True) or "utf-8"
            )
            full = extract_plain_text(html, main_content=False, alt_texts=False, list_bullets=False)
            name = path.name.partition(".html")[0]
            yield from judged(kind, name.rpartition(".")[0] or name, html, [full], articles.get(name))


def crawled(path: Path) -> Iterator[Judged]:
    """Yield the pages of the sample of raw crawls, each with two texts: of warc2text and of Resiliparse."""
    with gzip.open(path, "rt", encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            full = extract_plain_text(row["html"], main_content=False, alt_texts=False, list_bullets=False)
            site = urlsplit(row["url"]).hostname or row["url"]
            yield from judged("crawled", site, row["html"], [row["text_warc2text"] or "", full])


def scored(pages: list[Judged], kept: list[NDArray[np.bool_]], teachers: tuple[str, ...]) -> None:
    """Print a row for each kind of page and teacher."""
    for kind in dict.fromkeys(page.kind for page in pages):
        some = [i for i, page in enumerate(pages) if page.kind == kind]
        for teacher in teachers:
            values = score([kept[i] for i in some], [pages[i].page(teacher) for i in some])
            cells = [f"{100 * value:.1f}" for name, value in values.items() if name != "pages"]
            print(f"| {kind} | {teacher} | {len(some)} | {' | '.join(cells)} |")


def main(pages_folder: str, gold_folder: str, out: str = "") -> None:
    """Score, train and time; see above."""
    crawl = Path(os.environ["XLING_DATA"]) / "web" / "hplt_pages.jsonl.gz"
    cache = sorted(Path(pages_folder).glob("tests/*/*.html"))
    gold = json.loads((Path(gold_folder) / "ground-truth.json").read_text(encoding="utf-8"))
    articles = {name: row["articleBody"] for name, row in gold.items()}
    pages = [*saved("saved", cache, {}), *crawled(crawl)]
    marked = list(saved("marked by a person", sorted(Path(gold_folder).glob("html/*.html.gz")), articles))
    parts = [zlib.crc32(page.site.encode()) % PARTS for page in pages]
    kept: list[NDArray[np.bool_]] = [np.zeros(0, dtype=bool)] * len(pages)
    for part in range(PARTS):
        rest = [page.page("both") for page, own in zip(pages, parts, strict=True) if own != part]
        model = fit(rest, EPOCHS, SEED)
        for i, page in enumerate(pages):
            if parts[i] == part:
                kept[i] = model.scores([page.text]) > 0
    print(
        "| pages | teacher | number | precision | recall | precision of a page | recall of a page | as it stands |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    scored(pages, kept, ("trafilatura", "Resiliparse", "agreed"))
    model = fit([page.page("both") for page in pages], EPOCHS, SEED)
    scored(
        marked, [model.scores([page.text]) > 0 for page in marked], ("person", "trafilatura", "Resiliparse")
    )
    texts = [page.text for page in pages]
    start = time.process_time()
    for first in range(0, len(texts), 64):
        model.scores(texts[first : first + 64])
    seconds = time.process_time() - start
    print(f"\n{sum(len(text.encode()) for text in texts) / seconds / 1e6:.1f} MB/s by processor time")
    if out:
        model.save(Path(out))
        print(f"{out}: {Path(out).stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not os.environ.get("XLING_DATA"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
