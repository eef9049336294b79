"""Training of the model that finds spam pages, on your own crawl or files: ``xling corpus spam-train``.

Labels are weak: every page of a listed site is spam, every other page of the crawl is not. Some pages of the others
are spam, too, so the reported precision is a lower bound. Files of texts that you have sorted are better labels.
"""

from __future__ import annotations

import csv
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xling.core import manifest
from xling.core.errors import UserError
from xling.corpora import spam as spam_model
from xling.corpora.parallel.audit import interval
from xling.corpora.sites import KINDS
from xling.corpora.sources.source import Context, joined_uris, open_source
from xling.corpora.stages.blocklist import Blocklist, host_of
from xling.pages import tabular
from xling.pages.tabular import Table
from xling.text import reader
from xling.text.document import Ledger

if TYPE_CHECKING:
    from jaxtyping import Bool

STAGE = "corpus spam-train"
_HELD_OUT_EVERY = 5  # sites: one in five
_NAMES = ("clean", "spam")


class Page(NamedTuple):
    """A page and its label.

    Attributes:
        site: host name, or the text itself without one. All pages of a site are trained on, or none.
        text: of the page, a paragraph a line.
        is_spam: whether it is spam.
    """

    site: str
    text: str
    is_spam: bool


@dataclass(frozen=True)
class SpamTrainConfig:
    """Settings of ``xling corpus spam-train``.

    Attributes:
        source: URIs of a crawl; its pages of listed sites are spam, the others are not.
        sites: files of spam sites, as ``settings.blocklist.domains``.
        builtin: kinds of sites of the built-in list, ``adult`` and ``gambling``; ``[]`` for none.
        spam: files, globs or corpora of spam.
        clean: files, globs or corpora of clean text.
        out: directory to publish; ``settings.spam.model=OUT/spam.npz`` uses it.
        max_pages: pages to read of the crawl, and of the files of each label.
        threshold: probability from which precision and recall count a page as spam.
        strength: how far weights may go from 0.
    """

    source: tuple[str, ...] = ()
    sites: tuple[Path, ...] = ()
    builtin: tuple[str, ...] = KINDS
    spam: tuple[str, ...] = ()
    clean: tuple[str, ...] = ()
    out: str = "runs/spam"
    max_pages: int = 200_000
    threshold: float = 0.5
    strength: float = 4.0

    def __post_init__(self) -> None:
        """Reject values that are out of range, and settings without text of both labels.

        Raises:
            UserError: neither a crawl nor files of both labels, or a number out of range.
        """
        object.__setattr__(self, "source", joined_uris(self.source))
        if not self.source and not (self.spam and self.clean):
            raise UserError(
                "no text of both labels", "source=wet:GLOB, or spam=FILES clean=FILES, or all three"
            )
        if not 0 < self.threshold < 1:
            raise UserError(f"threshold={self.threshold}", "a number between 0 and 1")
        if not 0 < self.strength <= 1000:
            raise UserError(f"strength={self.strength}", "a number above 0, at most 1,000")
        if self.max_pages < 1:
            raise UserError(f"max_pages={self.max_pages}", "a whole number from 1")
        self.blocklist()

    def blocklist(self) -> Blocklist:
        """Return the stage that knows the listed sites."""
        return Blocklist(domains=self.sites, builtin=self.builtin)


def run(cfg: SpamTrainConfig) -> manifest.Manifest:
    """Train on four of five sites, score on the others, and publish the model of all sites.

    Raises:
        UserError: unreadable files, no page of one of the labels, or all of them of one site.
    """
    out, context = Path(cfg.out), Context(lang="en")
    given = [Path(s.location) for uri in cfg.source for s in open_source(uri, context).shards()]
    files = [*given, *reader.resolve([*cfg.spam, *cfg.clean]), *map(Path, cfg.sites)]
    if (published := manifest.up_to_date(out, STAGE, cfg, files)) is not None:
        return published
    pages = [*itertools.islice(_crawled(cfg, context), cfg.max_pages)]
    for paths, is_spam in ((cfg.spam, True), (cfg.clean, False)):
        texts = map("\n".join, reader.documents(paths))
        pages += [Page(text, text, is_spam) for text in itertools.islice(texts, cfg.max_pages)]
    held_out = _held_out(pages)
    with manifest.publish(out, STAGE, cfg, files) as publication:
        part = _fit([page for page in pages if page.site not in held_out], cfg.strength)
        scores = score(part, [page for page in pages if page.site in held_out], cfg.threshold)
        _fit(pages, cfg.strength).save(publication.path / spam_model.FILE_NAME)
        with (publication.path / "held_out.tsv").open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle, delimiter="\t", lineterminator="\n").writerows(
                [scores.keys(), scores.values()]
            )
        card = tabular.markdown(_card(pages, held_out, scores))
        (publication.path / "card.md").write_text(card, encoding="utf-8")
        publication.counts |= {"pages": len(pages), "held_out": scores}
    return manifest.read(out)


def _crawled(cfg: SpamTrainConfig, context: Context) -> Iterator[Page]:
    blocklist = cfg.blocklist()
    for uri in cfg.source:
        source = open_source(uri, context)
        for shard in source.shards():
            for doc in source.read(shard, Ledger()):
                yield Page(host_of(doc.url) or doc.id, doc.text, blocklist.judge(doc) is not None)


def _held_out(pages: list[Page]) -> frozenset[str]:
    """Return the sites that are only scored: one in five of those with spam and of the others, at least one of each.

    Raises:
        UserError: fewer than two sites of a label.
    """
    chosen = set[str]()
    for is_spam, name in enumerate(_NAMES):
        ours = {page.site for page in pages if page.is_spam == bool(is_spam)}
        if len(ours) < 2:
            raise UserError(
                f"{sum(page.is_spam == bool(is_spam) for page in pages)} pages of {len(pages)} are {name}, of "
                f"{len(ours)} sites",
                "two and more sites of spam and of clean pages each: some to train on, others to score",
                "give more pages, another list of sites (sites=FILE), or sorted files (spam=FILES clean=FILES)",
            )
        ordered = sorted(ours, key=lambda site: (zlib.crc32(site.encode("utf-8", "replace")), site))
        chosen.update(ordered[::_HELD_OUT_EVERY])
    for is_held in (True, False):
        if len({page.is_spam for page in pages if (page.site in chosen) == is_held}) < 2:
            raise UserError(
                "the same sites hold spam and clean pages",
                "sites of one kind",
                "list whole sites, or more of them",
            )
    return frozenset(chosen)


def _labels(pages: list[Page]) -> Bool[np.ndarray, " num_pages"]:
    return np.array([page.is_spam for page in pages], dtype=bool)


def _fit(pages: list[Page], strength: float) -> spam_model.SpamModel:
    return spam_model.train([page.text for page in pages], _labels(pages), strength)


def score(model: spam_model.SpamModel, pages: list[Page], threshold: float) -> dict[str, float]:
    """Return counts, precision and recall on pages, with Wilson's 95 % intervals.

    Args:
        model: that has seen none of them.
        pages: with their labels.
        threshold: probability from which a page counts as spam.
    """
    is_found = np.array([model.log_odds(page.text) for page in pages]) >= np.log(threshold / (1 - threshold))
    wanted = _labels(pages)
    hits, told = int((is_found & wanted).sum()), int(is_found.sum())
    values: dict[str, float] = {"pages": len(pages), "spam": int(wanted.sum()), "found": told, "hits": hits}
    for name, whole in (("precision", told), ("recall", int(wanted.sum()))):
        low, high = interval(hits, whole)
        values |= {name: hits / max(1, whole), f"{name} at least": low, f"{name} at most": high}
    return {name: round(value, 4) for name, value in values.items()}


def _card(pages: list[Page], held_out: frozenset[str], scores: dict[str, float]) -> Table:
    """Return what was read and what was reached."""
    rows = list[tuple[str, int, int, int]]()
    for part, is_held in (("trained on", False), ("held out", True)):
        for is_spam, name in enumerate(_NAMES):
            ours = [p for p in pages if p.is_spam == bool(is_spam) and (p.site in held_out) == is_held]
            sizes = len(ours), len({page.site for page in ours}), sum(len(page.text) for page in ours)
            rows.append((f"{name}, {part}", *sizes))
    told = [
        f"{name} {scores[name]:.3f} ({scores[f'{name} at least']:.3f} to {scores[f'{name} at most']:.3f})"
        for name in ("precision", "recall")
    ]
    columns = (("text", ""), ("pages", ","), ("sites", ","), ("characters", ","))
    notes = (f"On the sites held out: {', '.join(told)}.", "The model was then trained on all pages.")
    return Table("spam", "A model of spam", columns, tuple(rows), notes)
