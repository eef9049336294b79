"""Expected and reached precision of language identification, in simulated crawls where one language is rare.

Run:  XLING_DATA=FOLDER python -m benchmarks.base_rates

Bibles, translated programs and running text are joined to texts of 100 characters and more, up to 3,000 of a language
and set, in halves. The first half gives rates. The crawl is the second, weighted by shares like those of the web. Each
language with a smaller share is rare once: 1 in 1,000 or in 10,000. The second crawl is of both halves of the Bibles
alone, with the rates that ship with the package, which are of other sets.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean

from benchmarks.langid import code_of
from xling.corpora.fit.langid_eval import CHARS, answers, joined
from xling.corpora.langid.rates import BUILT_IN, EDGES, Rates, built_in
from xling.corpora.stages.langid import LangId
from xling.text.files import corpus_reader

# Shares of the web to the nearest order; they decide how hard a crawl is, and are no measurement.
WEB = {
    "en": 0.45, "ru": 0.06, "de": 0.055, "ja": 0.052, "zh": 0.05, "es": 0.046, "fr": 0.045, "it": 0.026, "pt": 0.023,
    "pl": 0.019, "nl": 0.018, "tr": 0.012, "id": 0.011, "cs": 0.011, "vi": 0.011, "sv": 0.007, "fa": 0.007,
    "ar": 0.007, "ko": 0.007, "ro": 0.006, "el": 0.006, "hu": 0.006, "da": 0.005, "fi": 0.004, "sk": 0.004, "uk": 0.006,
    "th": 0.005, "bg": 0.003, "nb": 0.004, "he": 0.003, "hr": 0.002, "lt": 0.002, "ca": 0.002, "sr": 0.002,
    "sl": 0.0015, "et": 0.0013, "lv": 0.001, "hi": 0.002, "bn": 0.001,
}  # fmt: skip
SHARES = (1e-3, 1e-4)
_MOST, _FEWEST, _TARGET, _LOWEST = 1500, 100, 0.9, 0.5
_NAMED = 0.97  # of the crawl: the languages of `WEB` that there is text of


def texts_of(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield set, language and texts."""
    patterns = {"bible": "bible/*.tsv.gz", "po": "po/*.tsv.gz", "mono_extra": "mono_extra/*.txt.gz"}
    for name, pattern in patterns.items():
        lines: dict[str, list[str]] = {}
        for path in sorted(data.glob(pattern)):
            part = path.name.split(".")[0 if name == "bible" else 1]
            rows = [line for line in corpus_reader.read_lines(path) if line.strip()]
            lang = (code_of(part) or part).partition("_")[0]
            lines.setdefault(lang, []).extend(row.rpartition("\t")[2] for row in rows)
        for lang, rows in lines.items():
            unique = list(dict.fromkeys(rows))
            random.Random(0).shuffle(unique)
            yield name, lang, list(joined(unique, CHARS))


def crawl_shares(langs: set[str], rare: str, share: float) -> dict[str, float]:
    """Return the shares of a crawl of some languages, of which one is rare."""
    named = {lang: value for lang, value in WEB.items() if lang in langs and lang != rare}
    shares = {lang: value * _NAMED / sum(named.values()) for lang, value in named.items()} | {rare: share}
    others = [lang for lang in langs if lang not in shares]
    return shares | {lang: (1 - sum(shares.values())) / len(others) for lang in others}


def reached(crawl: Rates, lang: str, shares: Mapping[str, float], threshold: float) -> float:
    """Return the precision of a language in a crawl; 0 if nothing of it passes."""
    place = EDGES.index(threshold)
    kept = {
        other: share * float(crawl.counts_of(other, lang)[place]) / crawl.texts[other]
        for other, share in shares.items()
    }
    return kept[lang] / sum(kept.values()) if kept[lang] else 0.0


def report(name: str, rates: Rates, crawl: Rates) -> None:
    """Print what the rates promise of each rare language, and what the crawl gives."""
    for share in SHARES:
        pairs = []
        for lang in crawl.texts:
            if lang not in rates.texts or WEB.get(lang, 0) > 3 * share or crawl.texts[lang] < _FEWEST:
                continue
            shares = crawl_shares({*crawl.texts}, lang, share)
            trust = rates.trust(lang, shares, _LOWEST, _TARGET)
            pairs.append((trust.precision or 0.0, reached(crawl, lang, shares, trust.threshold)))
        promised = [pair for pair in pairs if pair[0] >= _TARGET]
        others = [pair for pair in pairs if pair[0] < _TARGET]
        means = [mean(pair[side] for pair in promised) for side in (0, 1)]
        print(
            f"| {name} | {share:g} | {len(pairs)} | {len(promised)} | {sum(got >= _TARGET for _, got in promised)} "
            f"| {means[0]:.3f} | {means[1]:.3f} | {sum(got >= _TARGET for _, got in others)} of {len(others)} |"
        )


def main(data: Path) -> None:
    """Identify all texts, and print both tables."""
    stage = LangId(threshold=0.0, min_script_share=0.0)
    halves: tuple[list[tuple[str, str, float]], ...] = ([], [])
    bibles: list[tuple[str, str, float]] = []
    for name, lang, texts in texts_of(data):
        middle = len(texts) // 2
        for half, part in zip(halves, (texts[:middle], texts[middle:]), strict=True):
            rows = list(answers(stage, ((lang, text) for text in part[:_MOST])))
            half += rows
            bibles += rows if name == "bible" else []
    first, second, of_bibles = (Rates.count(BUILT_IN, CHARS, rows) for rows in (*halves, bibles))
    print(f"{len(halves[0]):,} and {len(halves[1]):,} texts in {len(first.texts)} languages")
    report("halves", first, second)
    report("bible", built_in(), of_bibles)


if __name__ == "__main__":
    if not os.environ.get("XLING_DATA"):
        sys.exit("benchmarks/base_rates.py needs the labelled sets: set XLING_DATA to the data folder")
    main(Path(os.environ["XLING_DATA"]))
