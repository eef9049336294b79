"""Which languages belong in one average: those of the published suite, whose scores count the same tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from xling.eval.metrics import METRICS
from xling.eval.rows.suite import suites


def averaged_in_publication(suite: str, langs: Sequence[str], metric: str = "") -> list[str]:
    """Return those of ``langs`` that belong in one average.

    They are in the published suite, or all are if it has none of them. If the metric splits their texts in several
    ways, those of the most common way are kept.
    """
    every = suites()
    published = every[suite].languages if suite in every else ()
    chosen = [lang for lang in langs if lang in published] or list(langs)
    split = tokenisation_of_langs(metric, chosen)
    common = Counter(split.values()).most_common(1)
    return [lang for lang in chosen if split[lang] == common[0][0]]


def tokenisation_of_langs(metric: str, langs: Sequence[str]) -> dict[str, str]:
    """Return what a metric counts in each language, "" if it counts the same in all."""
    tokens = METRICS[metric].tokens if metric in METRICS else None
    return {lang: tokens(lang) if tokens else "" for lang in langs}


def note_on_languages(suite: str, langs: Sequence[str]) -> str:
    """Return a sentence on the languages that the published suite lacks, or ""."""
    own = averaged_in_publication(suite, langs)
    more = " ".join(lang for lang in langs if lang not in own)
    return (
        f"{suite}: averages are over languages of the published suite; not in them: {more}." if more else ""
    )


def note_on_tokenisation(suite: str, metric: str, langs: Sequence[str]) -> str:
    """Return a sentence on the languages that are in no average because their scores count other tokens, or ""."""
    averaged, split = (
        averaged_in_publication(suite, langs, metric),
        tokenisation_of_langs(metric, averaged_in_publication(suite, langs)),
    )
    others: dict[str, list[str]] = defaultdict(list)
    for lang in split:
        if lang not in averaged:
            others[split[lang]].append(lang)
    told = "; ".join(f"{how}: {' '.join(names)}" for how, names in sorted(others.items()))
    how = split[averaged[0]] if averaged else ""
    return (
        f"{suite}, {metric}: averages are over scores that count {how}; not in them: {told}." if told else ""
    )
