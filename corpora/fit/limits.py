"""Fitting of a language's filter limits and stop words to clean text in it: ``xling corpus fit-limits``.

The limits of `xling.corpora.builtin.limits` were determined on English, or fitted to sample text. A fitted limit is a
quantile of its statistic over the clean documents: stricter or looser than before, within bounds. Stop words are
the most frequent words. The output is a recipe::

    xling corpus mono OUT/limits.yaml lang=LANG source=...
"""

import csv
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import yaml

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import values
from xling.core.settings.values import COUNT, Lang, Range, ranged
from xling.corpora.builtin.limits import Limits
from xling.corpora.stages.filters import RULES, Filters, measure_each
from xling.text.files import corpus_reader
from xling.text.words.units import split_units

STAGE = "corpus fit-limits"
RECIPE_FILE, TABLE_FILE = "limits.yaml", "dropped.tsv"
NUM_STOP_WORDS = 24
UNFITTED_REASONS = ("too_few_words", "too_many_words")  # reasons whose limits are never fitted
# A limit is at most so many times as strict or as loose as the default.
_STRICTER_FACTOR, _LOOSER_FACTOR = 1.5, 3.0
# Languages that say by endings what others say by stop words have too few of them to tell a list from a text. Below
# this share the rule is off, since a short document may have none by chance.
_MIN_SHARE = 0.01
_PRECISION = 10_000
_NUM_CANDIDATES = 500  # most frequent words of a source
_RARE_FREQUENCY = 1e-5  # frequency of a word in a source that lacks it

Values = Mapping[str, float]


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

    text: dict[Lang, tuple[str, ...]] = field(default_factory=dict)
    out: str = "runs/limits"
    drop: float = ranged(0.01, Range(above=0, below=1))
    max_docs: int = ranged(2000, COUNT)
    min_docs: int = ranged(50, COUNT)

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: no text, or a number out of range.
        """
        if not self.text:
            raise UserError("no clean text to fit to", "text.sw=FILES")
        values.check(self)


def run(cfg: FitLimitsConfig) -> manifest.Manifest:
    """Fit the limits of each language and publish them as a recipe, with what they drop before and after.

    Raises:
        UserError: unreadable files, or too few documents in a language.
    """
    out = Path(cfg.out)
    inputs = [path for paths in cfg.text.values() for path in corpus_reader.resolve_files(paths)]
    if (published := manifest.up_to_date(out, STAGE, cfg, inputs)) is not None:
        return published
    fitted: dict[str, dict[str, float]] = {}
    words: dict[str, list[str]] = {}
    rows: list[list[Any]] = []
    for given, paths in sorted(cfg.text.items()):
        lang = languages.get(given).code
        texts = [
            normalize("NFC", "\n".join(doc))
            for doc in itertools.islice(corpus_reader.read_documents(paths), cfg.max_docs)
        ]
        old_limits = Filters().limits_for(lang)
        limits = replace(old_limits, stop_words=most_frequent_words([count_words(texts)]))
        values = measure_texts(texts, limits)
        if len(values) < cfg.min_docs:
            raise UserError(
                f"{lang}: {len(values)} documents of {old_limits.min_words} words",
                f"{cfg.min_docs} and more",
                "give more text",
            )
        changes = fit(values, limits, cfg.drop)
        fitted[lang] = {
            name: number for name, number in changes.items() if number != getattr(old_limits, name)
        }
        words[lang] = list(limits.stop_words)
        first, last = (
            count_losses(measure_texts(texts, old_limits), old_limits),
            count_losses(values, limits.with_changes(changes)),
        )
        rows += [[lang, len(values), reason, first[reason], last[reason]] for reason in sorted(first | last)]
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        recipe = {"settings": {"filters": {"per_lang": fitted, "stop_words": words}}}
        text = yaml.safe_dump(recipe, sort_keys=True, allow_unicode=True, default_flow_style=None)
        (publication.path / RECIPE_FILE).write_text(text, encoding="utf-8")
        with (publication.path / TABLE_FILE).open("w", encoding="utf-8", newline="") as handle:
            table = csv.writer(handle, delimiter="\t", lineterminator="\n")
            table.writerows([["lang", "documents", "reason", "dropped before", "dropped after"], *rows])
        publication.counts |= {"limits": fitted}
    return manifest.read(out)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts, or their units in scripts without spaces."""
    return Counter(unit for text in texts for unit in split_units(text))


def most_frequent_words(sources: Iterable[Counter[str]], num: int = NUM_STOP_WORDS) -> tuple[str, ...]:
    """Return the ``num`` words that are most frequent in every source; those without a letter do not count.

    Args:
        sources: counts of the words of each source. The geometric mean of the frequencies decides, so that the subject
            of one source does not.
    """
    given = [(counts, counts.total()) for counts in sources if counts]
    common = {word for counts, _ in given for word, _ in counts.most_common(_NUM_CANDIDATES)}
    logs = {
        word: sum(math.log(counts[word] / total + _RARE_FREQUENCY) for counts, total in given)
        for word in common
        if any(map(str.isalpha, word))
    }
    return tuple(sorted(logs, key=lambda word: (-logs[word], word))[:num])


def measure_texts(texts: Sequence[str], limits: Limits) -> list[Values]:
    """Return the statistics of the texts that are neither too short nor too long."""
    values = measure_each(texts, [limits] * len(texts))
    return [
        document_values
        for document_values in values
        if limits.min_words <= document_values["words"] <= limits.max_words
    ]


def count_losses(values: Iterable[Values], limits: Limits) -> Counter[str]:
    """Count for each reason the documents that it alone would drop."""
    lost: Counter[str] = Counter()
    for document_values in values:
        lost.update(
            {
                reason
                for reason, statistic, name, side in RULES
                if statistic in document_values
                and _is_beyond(document_values[statistic], getattr(limits, name), side)
            }
        )
    return lost


def fit(
    values: Sequence[Values],
    limits: Limits,
    max_drop: float,
    english_values: Sequence[Values] = (),
    reasons: Collection[str] = (),
) -> dict[str, float]:
    """Return fitted limits by name.

    Without ``english_values`` a limit is the quantile of its statistic that ``max_drop`` of the documents exceed; a
    reason that has several limits divides that share among them. With it a limit is its default times the ratio of
    this quantile to that of English documents which say the same: what is special about the kind of text cancels.

    Args:
        values: statistics of clean documents, as `measure_texts`.
        limits: those that the documents were measured with; what is off in them stays off.
        max_drop: share of the documents that each reason may drop, between 0 and 1.
        english_values: statistics of English documents of the same sources.
        reasons: those whose limits are fitted; empty for all but `UNFITTED_REASONS`.
    """
    num_limits = Counter(reason for reason, *_ in RULES)
    fitted_limits = {}
    for reason, statistic, name, side in RULES:
        sorted_values = _sorted_from_loose(values, statistic, side)
        is_off = getattr(limits, name) == (0.0 if side == "least" else 1.0)
        if not sorted_values or is_off or reason in UNFITTED_REASONS or (reasons and reason not in reasons):
            continue
        share = max_drop / num_limits[reason]
        number = _quantile(sorted_values, share)
        if english_values:
            theirs = _sorted_from_loose(english_values, statistic, side)
            if not theirs or _quantile(theirs, share) <= 0 or (side == "most" and number == 0):
                continue
            number *= getattr(Limits(), name) / _quantile(theirs, share)
        fitted_limits[name] = _clip_to_bounds(name, side, number)
    return fitted_limits


def _is_beyond(value: float, limit: float, side: str) -> bool:
    return value < limit if side == "least" else value > limit


def _sorted_from_loose(values: Sequence[Values], statistic: str, side: str) -> list[float]:
    """Return the values of a statistic, those that a limit drops first in front."""
    return sorted(
        (document_values[statistic] for document_values in values if statistic in document_values),
        reverse=side == "most",
    )


def _quantile(sorted_values: Sequence[float], share: float) -> float:
    """Return the value that at most ``share`` of the values lie beyond."""
    return sorted_values[int(share * len(sorted_values))]


def _clip_to_bounds(name: str, side: str, number: float) -> float:
    """Return a limit between the strictest and the loosest that is allowed, rounded to the loose side."""
    default = getattr(Limits(), name)
    if side == "most":
        number = max(default / _STRICTER_FACTOR, min(default * _LOOSER_FACTOR, number))
        return _round_up(number)
    strictest_limit = (
        default * _STRICTER_FACTOR if default > 1 else min(default * _STRICTER_FACTOR, (1 + default) / 2)
    )
    if name == "min_stop_words":
        return 0.0 if number < _MIN_SHARE else -_round_up(-min(strictest_limit, number))
    return -_round_up(-min(strictest_limit, max(default / _LOOSER_FACTOR, number)))


def _round_up(number: float) -> float:
    """Return the smallest multiple of ``1 / _PRECISION`` that is not below a number, as floats compare them."""
    steps = math.ceil(number * _PRECISION)
    # The product is rounded: .12000000000000001 times 10,000 is 1,200.
    return (steps if steps / _PRECISION >= number else steps + 1) / _PRECISION
