"""Writes the limits by language that ship with the package, and measures what limits drop of clean text.

Run:  XLING_DATA=FOLDER python -m benchmarks.limits train corpora/builtin/limits.tsv
      XLING_DATA=FOLDER python -m benchmarks.limits

``train`` fits `xling.corpora.builtin.limits` to the text of FOLDER: the New Testament in the Bibles, the Universal
Declaration of Human Rights, Common Voice's sentences, NLLB-Seed, African Storybook, VOA and the training files of
MAFAND. The table keeps ratios of counts and words, and no text. Tatoeba, NTREX, SIB-200, XNLI and files for
development or testing are not read. A document is ten lines, in the Declaration four, or a story. Each limit is
relative to English documents of the same sources.

Without a word it prints what each rule drops of clean documents that no limit was fitted to: of the other half of the
documents, and of the other sources where limits and stop words are fitted to one source alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from unicodedata import normalize

from benchmarks.langid import code_of
from xling.core import languages
from xling.corpora.builtin.limits import FittedLimits, Limits, limits_of, save
from xling.corpora.fit import limits as fit_limits
from xling.corpora.stages.filters import RULES
from xling.text.files import corpus_reader

PATTERNS = ("bible*/*.tsv.gz", "mono/cv.*.gz", "mono/voa.*.gz", "seed/*.gz", "udhr/*.txt", "mafand/*.train.*")
LINES, DECLARATION_LINES = 10, 4
TESTAMENT = 7900  # verses
MOST = 200  # documents of a source
DROP = 0.05
LEAST, MANY = 10, 100  # documents for word lengths and stop words, and for the other limits
ONE_SOURCE = 2.0  # text of another kind has fewer of the stop words of a single source
FEW_REASONS = ("mean_word_length", "few_stop_words")
# Two halves of a text differ in these by half as much as two languages, and stricter limits drop news: loosened only.
LOOSER_REASONS = ("few_letters", "top_ngram", "repeated_runs")
ALL_REASONS = (*FEW_REASONS, *LOOSER_REASONS)
ALBANIAN = "als"  # of the Declaration; elsewhere this is Swiss German

Texts = dict[str, dict[str, list[str]]]


def texts_of(data: Path) -> Texts:
    """Return language -> source -> documents, at most `MOST` of a source, evenly spread."""
    chunks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pattern in PATTERNS:
        for path in sorted(data.glob(pattern)):
            name, folder = path.name.removesuffix(".gz"), path.parent.name
            name = name.removeprefix("cv.").removeprefix("voa.")
            name = name.rpartition(".")[2] if folder == "mafand" else name.partition(".")[0]
            if not (code := "sq" if name == ALBANIAN else code_of(name)):
                continue
            lines = [line.rpartition("\t")[2] for line in corpus_reader.read_lines(path) if line.strip()]
            lines = lines[-TESTAMENT:] if folder.startswith("bible") else lines
            size = DECLARATION_LINES if folder == "udhr" else LINES
            chunks[code, folder] += [
                normalize("NFC", "\n".join(lines[i : i + size])) for i in range(0, len(lines), size)
            ]
    stories: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in corpus_reader.read_lines(data / "stories" / "asp.tsv"):
        story, lang, _, text = line.split("\t", 3)
        stories[code_of(lang), story].append(text)
    for (lang, _), pages in stories.items():
        chunks[lang, "stories"].append(normalize("NFC", "\n".join(pages)))
    texts: Texts = defaultdict(dict)
    for (lang, source), docs in chunks.items():
        texts[lang][source] = docs[:: max(1, len(docs) // MOST)][:MOST]
    return texts


class Fitter:
    """Fits limits to documents by source, relative to English ones of the same sources."""

    def __init__(self, english: Mapping[str, Sequence[str]]) -> None:
        self.english = english
        self._counts: dict[str, Counter[str]] = {}
        self._values: dict[tuple[str, ...], list[fit_limits.Values]] = {}

    def row(
        self, lang: str, texts: Mapping[str, Sequence[str]], counts: Mapping[str, Counter[str]]
    ) -> FittedLimits:
        """Return the row of a language in the table, from its documents and the counts of their words by source."""
        sources = tuple(sorted(texts))
        limits, values = _measured(lang, texts, counts)
        if len(values) < LEAST:
            return FittedLimits(len(values), sources, {}, ())
        if sources not in self._values:
            theirs = {name: self.english[name] for name in sources}
            for name in theirs.keys() - self._counts.keys():
                self._counts[name] = fit_limits.count_words(theirs[name])
            self._values[sources] = _measured("en", theirs, self._counts)[1]
        reasons = ALL_REASONS if len(values) >= MANY else FEW_REASONS
        fitted = fit_limits.fit(values, limits, DROP, self._values[sources], reasons)
        if len(sources) == 1 and lang != "en":
            fitted["min_stop_words"] = round(fitted["min_stop_words"] / ONE_SOURCE, 4)
        changed = {name: number for name, number in fitted.items() if _is_told(name, number)}
        return FittedLimits(len(values), sources, changed, limits.stop_words)


def _is_told(name: str, number: float) -> bool:
    """Return whether a number goes into the table: if it is not the default; of `LOOSER_REASONS` if it is looser."""
    default = getattr(Limits(), name)
    reason, side = next((reason, side) for reason, _, limit, side in RULES if limit == name)
    is_looser = number < default if side == "least" else number > default
    return is_looser or (reason in FEW_REASONS and number != default)


def _measured(
    lang: str, texts: Mapping[str, Sequence[str]], counts: Mapping[str, Counter[str]]
) -> tuple[Limits, list[fit_limits.Values]]:
    """Return limits with the stop words of these sources, and the statistics of the texts."""
    general = limits_of(languages.get(lang), Limits(), {})
    limits = general.with_changes({}, fit_limits.most_frequent_words(counts[name] for name in texts))
    return limits, fit_limits.measure_texts([text for docs in texts.values() for text in docs], limits)


def _counts(texts: Mapping[str, Sequence[str]]) -> dict[str, Counter[str]]:
    return {source: fit_limits.count_words(docs) for source, docs in texts.items()}


def train(out: Path, texts: Texts) -> None:
    """Write the table that ships with the package."""
    start = time.process_time()
    fitter = Fitter(texts["en"])
    rows = {lang: fitter.row(lang, docs, _counts(docs)) for lang, docs in texts.items() if lang}
    save(out, {lang: each for lang, each in rows.items() if each.documents >= LEAST})
    missing = [lang for lang, each in rows.items() if each.documents < LEAST]
    print(f"{len(rows) - len(missing)} languages, {out.stat().st_size:,} bytes; too few documents: {missing}")
    print(f"{time.process_time() - start:.0f} s of CPU")


class Losses:
    """Shares of documents that each rule alone drops, by language."""

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, lang: str, texts: Sequence[str], limits: Limits) -> None:
        """Count what the rules drop of these texts."""
        values = fit_limits.measure_texts(texts, limits)
        lost = fit_limits.count_losses(values, limits)
        for reason in ALL_REASONS if len(values) >= LEAST else ():
            self.shares[reason][lang].append(lost[reason] / len(values))

    def percent(self, reason: str) -> str:
        """Return the mean over languages, and the languages that lose most."""
        by_lang = {lang: 100 * mean(shares) for lang, shares in self.shares[reason].items()}
        worst = sorted(by_lang, key=lambda lang: -by_lang[lang])[:4]
        named = ", ".join(f"{lang} {by_lang[lang]:.1f}" for lang in worst if by_lang[lang] >= 1)
        return f"{mean(by_lang.values()):.2f} ({named})" if named else f"{mean(by_lang.values()):.2f}"


def check(texts: Texts) -> None:
    """Print what the rules drop of clean documents that nothing was fitted to."""
    kinds = ("default numbers", "other half", "other source")
    losses = {kind: Losses() for kind in kinds}
    halves = Fitter({source: docs[::2] for source, docs in texts["en"].items()})
    whole = Fitter(texts["en"])
    for lang, by_source in texts.items():
        if not lang or lang == "en":
            continue
        general = limits_of(languages.get(lang), Limits(), {})
        plain = Limits(units_per_word=general.units_per_word)
        first = {source: docs[::2] for source, docs in by_source.items()}
        counts = _counts(by_source)
        half = halves.row(lang, first, _counts(first))
        rest = [text for docs in by_source.values() for text in docs[1::2]]
        losses["other half"].add(lang, rest, general.with_changes(half.limits, half.stop_words))
        losses["default numbers"].add(lang, rest, replace(plain, stop_words=half.stop_words))
        for source, docs in by_source.items():
            one = whole.row(lang, {source: docs}, counts)
            others = [text for name, docs in by_source.items() if name != source for text in docs]
            losses["other source"].add(lang, others, general.with_changes(one.limits, one.stop_words))
    print("| rule | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for reason in ALL_REASONS:
        print(f"| {reason} | " + " | ".join(losses[kind].percent(reason) for kind in kinds) + " |")


if __name__ == "__main__":
    if not os.environ.get("XLING_DATA"):
        sys.exit("benchmarks/limits.py needs clean text: set XLING_DATA to the data folder")
    data = Path(os.environ["XLING_DATA"])
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), texts_of(data))
    else:
        check(texts_of(data))
