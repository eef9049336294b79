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

import difflib
import gzip
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from xling.corpora.builtin import boilerplate
from xling.corpora.sources.source import paragraphs

PARTS, EPOCHS, SEED = 5, 12, 0
MAX_BYTES, MAX_LINES = 3_000_000, 3000
MAX_WEIGHT = 15.0
WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")


class Page(NamedTuple):
    """A page of text and the lines of it that teachers call main content.

    Attributes:
        site: host name; all pages of a site are trained on, or none.
        text: all text, a paragraph a line.
        main: share of the teachers that call each line main content, ``(num_lines,)``.
    """

    site: str
    text: str
    main: NDArray[np.float64]


def labels(text: str, main: str) -> NDArray[np.bool_]:
    """Return which lines of a page are in its main content, ``(num_lines,)``: at least half of their words are.

    The words of both are aligned in order, so that a menu item is not taken for the same word of an article.

    Args:
        text: all text of the page.
        main: the part that an extractor calls main content.
    """
    lines = [WORD.findall(line.lower()) for line in text.split("\n")]
    words = [word for line in lines for word in line]
    num_matched = np.zeros(len(words) + 1, dtype=np.int64)
    blocks = difflib.SequenceMatcher(None, words, WORD.findall(main.lower()), autojunk=False)
    for block in blocks.get_matching_blocks():
        num_matched[block.a + 1 : block.a + block.size + 1] = 1
    line_ends = np.cumsum([len(line) for line in lines])
    lengths = np.diff(line_ends, prepend=0)
    hits = np.cumsum(num_matched)[line_ends] - np.cumsum(num_matched)[line_ends - lengths]
    return (lengths > 0) & (2 * hits >= np.maximum(1, lengths))


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
            marked = None if person is None else labels(text, person)
            yield Judged(kind, site, text, labels(text, article), labels(text, main), marked)


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


def fit(pages: list[Page], epochs: int, seed: int) -> boilerplate.LineModel:
    """Train a model on pages."""
    seen = np.concatenate([boilerplate.features([page.text]) for page in pages])
    weights = np.concatenate([np.sqrt(1.0 + sizes(page.text)) for page in pages])
    return train(seen, np.concatenate([page.main for page in pages]), weights, seed, epochs=epochs)


def train(
    line_features: NDArray[np.float64],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64],
    seed: int = 0,
    num_nets: int = 4,
    num_hidden: int = 12,
    epochs: int = 40,
) -> boilerplate.LineModel:
    """Train networks by Adam on weighted cross-entropy, and return their mean as one network.

    Args:
        line_features: `features` of lines, ``(num_lines, num_features)``.
        targets: share of the teachers that call each line main content, ``(num_lines,)``.
    """
    networks = [
        _fit(line_features, targets, weights / weights.mean(), [seed, net], num_hidden, epochs)
        for net in range(num_nets)
    ]
    hidden_weights = np.concatenate([hidden for hidden, _ in networks], axis=1)
    outputs = [output for _, output in networks]
    bias = sum(output[-1] for output in outputs)
    output_weights = np.concatenate([*(output[:-1] for output in outputs), [bias]]) / num_nets
    return boilerplate.LineModel(_round_weights(hidden_weights), _round_weights(output_weights))


def _round_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return (
        np.rint(np.clip(weights, -MAX_WEIGHT, MAX_WEIGHT) * boilerplate.WEIGHT_STEP) / boilerplate.WEIGHT_STEP
    )


def _fit(
    line_features: NDArray[np.float64],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64],
    seed: list[int],
    num_hidden: int,
    epochs: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the inner and outer weights of one network."""
    random = np.random.default_rng(seed)
    inputs = np.concatenate([line_features, np.ones((len(line_features), 1))], axis=1)
    hidden_weights = random.normal(0, 0.15, (inputs.shape[1], num_hidden))
    output_weights = random.normal(0, 0.3, num_hidden + 1)
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in (hidden_weights, output_weights)]
    batch, decay, step = 128, 3e-4, 0
    num_steps = epochs * -(-len(inputs) // batch)
    for _ in range(epochs):
        order = random.permutation(len(inputs))
        for at in range(0, len(inputs), batch):
            rows = order[at : at + batch]
            x, step = inputs[rows], step + 1
            hidden = np.maximum(0, x @ hidden_weights)
            share = 1 / (1 + np.exp(-np.clip(hidden @ output_weights[:-1] + output_weights[-1], -30, 30)))
            wrong = weights[rows] * (share - targets[rows]) / len(rows)
            back = np.outer(wrong, output_weights[:-1]) * (hidden > 0)
            slopes = (
                x.T @ back + decay * hidden_weights,
                np.append(hidden.T @ wrong, wrong.sum()) + decay * output_weights,
            )
            rate = 0.01 * (1 - step / (num_steps + 1))
            for weight, slope, (mean, square) in zip(
                (hidden_weights, output_weights), slopes, moments, strict=True
            ):
                mean += 0.1 * (slope - mean)
                square += 0.01 * (slope**2 - square)
                fresh = (1 - 0.9**step, 1 - 0.99**step)
                weight -= rate * (mean / fresh[0]) / (np.sqrt(square / fresh[1]) + 1e-8)
    return hidden_weights, output_weights


def sizes(text: str) -> NDArray[np.int64]:
    """Return the number of letters and digits of each line, ``(num_lines,)``."""
    return np.array([sum(map(str.isalnum, line)) for line in text.split("\n")])


def score(is_kept: list[NDArray[np.bool_]], pages: list[Page]) -> dict[str, float]:
    """Return precision and recall by letters: of all pages together, and the mean over pages with main content.

    Args:
        is_kept: which lines of each page are kept, ``(num_lines,)``.
        pages: what teachers say of them; lines with NaN do not count.
    """
    rows = []
    for page, chosen in zip(pages, is_kept, strict=True):
        size, is_main = sizes(page.text) * ~np.isnan(page.main), page.main > 0.5
        rows.append([size[chosen & is_main].sum(), size[chosen].sum(), size[is_main].sum(), size.sum()])
    hits, chosen_chars, main, all_chars = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    has_main = main > 0
    shares = {
        "precision": hits.sum() / max(1, chosen_chars.sum()),
        "recall": hits.sum() / max(1, main.sum()),
        "precision of a page": (hits[has_main] / np.maximum(1, chosen_chars[has_main])).sum()
        / max(1, has_main.sum()),
        "recall of a page": (hits[has_main] / main[has_main]).sum() / max(1, has_main.sum()),
        "precision without cleaning": main.sum() / max(1, all_chars.sum()),
    }
    return {"pages": len(pages)} | {name: round(float(share), 4) for name, share in shares.items()}


def save(model: boilerplate.LineModel, path: Path) -> None:
    """Write a model; equal models give equal bytes."""
    with path.open("wb") as handle:
        np.savez_compressed(
            handle,
            inner=np.rint(model.inner * boilerplate.WEIGHT_STEP).astype(np.int16),
            outer=np.rint(model.outer * boilerplate.WEIGHT_STEP).astype(np.int16),
        )


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
        save(model, Path(out))
        print(f"{out}: {Path(out).stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not os.environ.get("XLING_DATA"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
