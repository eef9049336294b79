"""Fitting of a language's filter limits to clean text in it, such as its Wikipedia: ``xling corpus fit-limits``.

The limits of `xling.corpora.stages.filters` were determined on English. A limit that drops more of the clean
text than ``drop`` is loosened step by step until it does not; none is made stricter. The output is a recipe::

    xling corpus mono OUT/limits.yaml lang=LANG source=...
"""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from xling.core import languages, manifest
from xling.core.errors import UserError
from xling.corpora.stages.filters import Filters, Limits, failed
from xling.text import reader

STAGE = "corpus fit-limits"
RECIPE, TABLE = "limits.yaml", "dropped.tsv"
_MAX_STEPS = 40
# Reason -> its limits and the factor of one step.
_STEPS: dict[str, dict[str, float]] = {
    "mean_word_length": {"min_mean_word": 0.9, "max_mean_word": 1.1},
    "symbols": {"max_symbols": 1.2},
    "bullets": {"max_bullets": 1.02},
    "ellipses": {"max_ellipses": 1.2},
    "few_letters": {"min_lettered": 0.9},
    "braces": {"max_braces": 1.5},
    "repeated_lines": {"max_repeated_lines": 1.2, "max_repeated_line_chars": 1.2},
    "unended_lines": {"min_ended": 0.8},
    "short_lines": {"max_short": 1.1},
    "top_ngram": {"max_top_bigram": 1.1, "max_top_trigram": 1.1, "max_top_fourgram": 1.1},
    "repeated_runs": {"max_repeated_runs": 1.1},
}


@dataclass(frozen=True)
class FitLimitsConfig:
    """Settings of ``xling corpus fit-limits``.

    Attributes:
        text: language -> files, globs or corpora of clean text; documents are separated by blank lines.
        out: directory to publish.
        drop: share of the clean documents that each rule may drop.
        max_docs: documents to read of each language.
        min_docs: minimum number of documents with ``min_words`` words for fitting.
    """

    text: dict[str, tuple[str, ...]] = field(default_factory=dict)
    out: str = "runs/limits"
    drop: float = 0.01
    max_docs: int = 2000
    min_docs: int = 50

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: no text, or a number out of range.
        """
        if not self.text:
            raise UserError("no clean text to fit to", "text.sw=FILES")
        if not 0 < self.drop < 1 or self.max_docs < 1 or self.min_docs < 1:
            raise UserError(f"drop={self.drop}, max_docs={self.max_docs}", "0 < drop < 1, counts from 1")


def run(cfg: FitLimitsConfig) -> manifest.Manifest:
    """Fit the limits of each language and publish them as a recipe, with what they drop before and after.

    Raises:
        UserError: unreadable files, or too few documents in a language.
    """
    out = Path(cfg.out)
    inputs = [path for paths in cfg.text.values() for path in reader.resolve(paths)]
    if (published := manifest.up_to_date(out, STAGE, cfg, inputs)) is not None:
        return published
    fitted: dict[str, dict[str, float]] = {}
    rows: list[list[Any]] = []
    for given, paths in sorted(cfg.text.items()):
        lang = languages.get(given).code
        texts = ["\n".join(doc) for doc in itertools.islice(reader.documents(paths), cfg.max_docs)]
        before = Filters().limits_for(lang)
        after, num_docs, lost = fit(texts, before, cfg.drop)
        if num_docs < cfg.min_docs:
            raise UserError(
                f"{lang}: {num_docs} documents of {before.min_words} words",
                f"{cfg.min_docs} and more",
                "give more text",
            )
        fitted[lang] = {
            f.name: round(getattr(after, f.name), 4)
            for f in fields(Limits)
            if getattr(after, f.name) != getattr(before, f.name)
        }
        rows += [[lang, num_docs, reason, *counts] for reason, counts in sorted(lost.items())]
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        recipe = {"settings": {"filters": {"per_lang": fitted}}}
        (publication.path / RECIPE).write_text(yaml.safe_dump(recipe, sort_keys=True), encoding="utf-8")
        with (publication.path / TABLE).open("w", encoding="utf-8", newline="") as handle:
            table = csv.writer(handle, delimiter="\t", lineterminator="\n")
            table.writerows([["lang", "documents", "reason", "dropped before", "dropped after"], *rows])
        publication.counts |= {"limits": fitted}
    return manifest.read(out)


def fit(texts: list[str], limits: Limits, drop: float) -> tuple[Limits, int, dict[str, tuple[int, int]]]:
    """Loosen ``limits`` until no rule drops more than ``drop`` of the texts that are long enough.

    Returns:
        The limits, how many texts are long enough, and reason -> texts dropped before and after.
    """
    reasons = {text: failed(text, limits) for text in texts}
    for text in [text for text, reason in reasons.items() if reason in ("too_few_words", "too_many_words")]:
        del reasons[text]
    first = Counter(filter(None, reasons.values()))
    for _ in range(_MAX_STEPS):
        lost = Counter(filter(None, reasons.values()))
        over = {reason for reason, n in lost.items() if reason in _STEPS and n > drop * len(reasons)}
        if not over:
            break
        for reason in over:
            limits = replace(
                limits, **{name: getattr(limits, name) * by for name, by in _STEPS[reason].items()}
            )
        # A looser limit drops no text that passed.
        reasons |= {text: failed(text, limits) for text, reason in reasons.items() if reason}
    last = Counter(filter(None, reasons.values()))
    return limits, len(reasons), {reason: (first[reason], last[reason]) for reason in first | last}
