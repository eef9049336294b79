"""Training of the model that tells running text from boilerplate, on your own crawl: ``xling corpus lines-train``.

The teacher is the extractor of ``warc:``: it sees the HTML and says which part of a page is its main content. The model
learns to find that part in the text alone, as WET files hold it.
"""

from __future__ import annotations

import csv
import itertools
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xling.array_types import Bool, Float64, Int64
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.builtin import boilerplate
from xling.corpora.sources.source import Context, joined_uris, open_source
from xling.corpora.stages.blocklist import host_of
from xling.text.document import Ledger

STAGE = "corpus lines-train"
FILE_NAME = "lines.npz"
_HELD_OUT_EVERY = 5  # sites: one in five
_MAX_LINES = 2000  # of a page


class Page(NamedTuple):
    """A page of text and the lines of it that teachers call main content.

    Attributes:
        site: host name; all pages of a site are trained on, or none.
        text: all text, a paragraph a line.
        main: share of the teachers that call each line main content, ``(num_lines,)``.
    """

    site: str
    text: str
    main: Float64[np.ndarray, " lines"]


@dataclass(frozen=True)
class LinesTrainConfig:
    """Settings of ``xling corpus lines-train``.

    Attributes:
        source: URIs of raw crawls, ``warc:GLOB``.
        out: directory to publish; ``settings.lines.model=OUT/lines.npz`` uses it.
        max_pages: pages to read.
        min_pages: with fewer pages nothing is trained.
        epochs: passes over the lines.
        seed: of the first weights and of the order.
    """

    source: tuple[str, ...] = ()
    out: str = "runs/lines"
    max_pages: int = 5000
    min_pages: int = 50
    epochs: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject counts below 1 and sources without HTML.

        Raises:
            UserError: no raw crawl, or a number out of range.
        """
        object.__setattr__(self, "source", joined_uris(self.source))
        if not self.source or not all(uri.startswith("warc:") for uri in self.source):
            raise UserError(
                f"source={','.join(self.source)}", "warc:GLOB", "give a raw crawl: the teacher needs the HTML"
            )
        for name in ("max_pages", "min_pages", "epochs"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}", "a whole number from 1")


def run(cfg: LinesTrainConfig) -> manifest.Manifest:
    """Train on four of five sites, score on the others, and publish the model of all sites.

    Raises:
        UserError: no file, or too few pages.
    """
    out, context = Path(cfg.out), Context(lang="en", extract="all")
    files = [Path(s.location) for uri in cfg.source for s in open_source(uri, context).shards()]
    if (published := manifest.up_to_date(out, STAGE, cfg, files)) is not None:
        return published
    pages = list(itertools.islice(_pages(cfg.source, context), cfg.max_pages))
    if len(pages) < cfg.min_pages:
        raise UserError(
            f"{len(pages)} pages of HTML in {', '.join(cfg.source)}",
            f"{cfg.min_pages} and more",
            "give more files",
        )
    with manifest.publish(out, STAGE, cfg, files) as publication:
        others = [page for page in pages if is_held_out(page.site)]
        part = fit([page for page in pages if not is_held_out(page.site)], cfg.epochs, cfg.seed)
        scores = score([part.scores([page.text]) > 0 for page in others], others)
        fit(pages, cfg.epochs, cfg.seed).save(publication.path / FILE_NAME)
        with (publication.path / "held_out.tsv").open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle, delimiter="\t", lineterminator="\n").writerows(
                [scores.keys(), scores.values()]
            )
        publication.counts |= {"pages": len(pages), "held_out": scores}
    return manifest.read(out)


def _pages(uris: tuple[str, ...], context: Context) -> Iterator[Page]:
    """Yield the pages of raw crawls: each file is read for all text and for the main content."""
    only_main = replace(context, extract="main")
    for uri in uris:
        source, teacher = open_source(uri, context), open_source(uri, only_main)
        for shard in source.shards():
            with closing(teacher.read(shard, Ledger())) as main_texts:  # type: ignore[type-var]
                main = next(main_texts, None)
                for doc in source.read(shard, Ledger()):
                    is_its = main is not None and main.id == doc.id
                    if "\n" in doc.text and doc.text.count("\n") < _MAX_LINES:
                        told = boilerplate.labels(doc.text, main.text if main and is_its else "")
                        yield Page(host_of(doc.url) or doc.id, doc.text, told.astype(np.float64))
                    if is_its:
                        main = next(main_texts, None)


def is_held_out(site: str) -> bool:
    """Return whether the pages of a site are only scored: those of one site in five."""
    return zlib.crc32(site.encode()) % _HELD_OUT_EVERY == 0


def sizes(text: str) -> Int64[np.ndarray, " num_lines"]:
    """Return the number of letters and digits of each line, ``(num_lines,)``."""
    return np.array([sum(map(str.isalnum, line)) for line in text.split("\n")])


def fit(pages: list[Page], epochs: int, seed: int) -> boilerplate.LineModel:
    """Train a model on pages."""
    seen = np.concatenate([boilerplate.features([page.text]) for page in pages])
    weights = np.concatenate([np.sqrt(1.0 + sizes(page.text)) for page in pages])
    return boilerplate.train(
        seen, np.concatenate([page.main for page in pages]), weights, seed, epochs=epochs
    )


def score(is_kept: list[Bool[np.ndarray, " _"]], pages: list[Page]) -> dict[str, float]:
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
