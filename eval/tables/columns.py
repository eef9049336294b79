"""Columns of a table of scores: which scores share one, their order, names and languages."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from xling.core import languages
from xling.core.errors import UserError
from xling.eval.metrics import METRICS
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import AVERAGE, CONTROLS, PUBLISHED, Average, Score


class Column(NamedTuple):
    """Properties shared by the numbers of one column."""

    suite: str
    metric: str
    system: str
    protocol: str
    select: str
    source: str


ScoresBySeed = dict[str, dict[int, float]]
"""lang -> seed -> score."""


def column_of(score: Score | Average) -> Column:
    """Return the column that a score or an average belongs to."""
    return Column(score.suite, score.metric, score.system, score.protocol, score.select, score.source)


def by_column(scores: Iterable[Score]) -> dict[Column, ScoresBySeed]:
    """Return scores as column -> language -> seed -> value.

    Raises:
        UserError: one measurement is there twice with different values.
    """
    table: dict[Column, ScoresBySeed] = defaultdict(lambda: defaultdict(dict))
    for s in scores:
        seeds = table[column_of(s)][s.lang]
        if seeds.setdefault(s.seed, s.value) != s.value:
            raise UserError(
                f"two scores of {s.suite}/{s.lang}/{s.metric}, {s.system}, seed {s.seed}: "
                f"{seeds[s.seed]} and {s.value}",
                "one score per measurement",
                "give each system its own name",
            )
    return {column: dict(values) for column, values in table.items()}


def sorted_columns(table: Mapping[Column, ScoresBySeed]) -> list[Column]:
    """Order the columns by suite as given, systems before their controls."""
    suites = list(dict.fromkeys(c.suite for c in table))
    metrics = list(dict.fromkeys(c.metric for c in table))

    def sort_key(c: Column) -> tuple[int, int, int, int]:
        control = CONTROLS.index(c.system) + 1 if c.system in CONTROLS else 0
        control += len(CONTROLS) + 1 if c.select == PUBLISHED else 0
        return suites.index(c.suite), metrics.index(c.metric), control, list(table).index(c)

    return sorted(table, key=sort_key)


def languages_of(table: Mapping[Column, ScoresBySeed], suite: str) -> list[str]:
    """Return every language of a suite in any column: each column needs all of them for an average."""
    columns = [c for c in table if c.suite == suite]
    measured = [c for c in columns if c.select != PUBLISHED] or columns
    return source_first(
        {lang for c in measured for lang in table[c]} - {AVERAGE}, {c.source for c in measured}
    )


def averaged_languages(table: Mapping[Column, ScoresBySeed], column: Column) -> list[str]:
    """Return the languages of a column's averages; see `averaged_in_publication`."""
    return averaged_in_publication(column.suite, languages_of(table, column.suite), column.metric)


def without_source(column: Column, langs: Sequence[str]) -> list[str]:
    """Return the languages that a column was not trained in, excluding other treebanks of the source language."""
    return [lang for lang in langs if not languages.is_same(lang, column.source)]


def source_first(langs: Iterable[str], sources: Iterable[str]) -> list[str]:
    """Sort languages, those that were trained on before all others."""
    first_langs = set(sources)
    return sorted(langs, key=lambda lang: (lang not in first_langs, lang))


def unique_title(column: Column) -> str:
    """Return a unique name of a column, without the usual settings."""
    usual_settings = ("zero_shot", "none", "source-dev", "last", PUBLISHED, "en", "")
    settings = [x for x in (column.protocol, column.select, column.source) if x not in usual_settings]
    return f"{column.suite} {column.metric} of {' '.join([column.system, *settings])}"


def column_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return each heading of neighbouring columns of a suite and metric, with their number."""
    groups: list[tuple[str, int]] = []
    for column in columns:
        name = f"{column.suite} ({column.metric})"
        if groups and groups[-1][0] == name:
            groups[-1] = (name, groups[-1][1] + 1)
        else:
            groups.append((name, 1))
    return groups


def column_name(column: Column, columns: Sequence[Column]) -> str:
    """Return the system's name, with protocol, selection and source if columns of its suite differ in them."""
    columns_of_suite = [c for c in columns if c.suite == column.suite and c.system not in CONTROLS]
    if column.select == PUBLISHED:
        return column.system
    columns_of_suite = [c for c in columns_of_suite if c.select != PUBLISHED]
    parts = [column.system]
    for part in ("protocol", "select", "source"):
        value = getattr(column, part)
        if value and column.system not in CONTROLS and len({getattr(c, part) for c in columns_of_suite}) > 1:
            parts.append(f"from {value}" if part == "source" else value)
    return " ".join(parts)


# Which languages belong in one average: those of the published suite, whose scores count the same tokens.


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
