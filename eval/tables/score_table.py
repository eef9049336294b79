"""Tables of scores: per language, averages, transfer gap and controls; an average never ignores a gap silently."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import AVERAGE, CONTROLS, PUBLISHED, UNEXPOSED, Average, Score
from xling.eval.tables import sizes
from xling.eval.tables.averaged import published_of, set_note, token_note

MIN_FOR_CORRELATION = 4
MOST_NAMED = 40
"""Languages without a score that a note names."""


class Column(NamedTuple):
    """Properties shared by the numbers of one column."""

    suite: str
    metric: str
    system: str
    protocol: str
    select: str
    source: str


def column_of(score: Score | Average) -> Column:
    """Return the column that a score or an average belongs to."""
    return Column(score.suite, score.metric, score.system, score.protocol, score.select, score.source)


@dataclass(frozen=True)
class Cell:
    """A number in a table.

    Attributes:
        value: mean over seeds, or None if it is missing.
        spread: standard deviation over seeds (n - 1), or None with one seed.
        low: lower end of the bootstrap interval (mean over seeds), or None.
        high: upper end.
        mark: a sign that a note explains, such as ``*``.
    """

    value: float | None
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a table: its name, what it is, and a cell per column."""

    name: str
    kind: Literal["lang", "summary"]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ScoreTable:
    """A table ready to be written in any format.

    Attributes:
        title: heading.
        groups: (text, number of columns) above the column names.
        columns: column names.
        lines: rows.
        notes: sentences under it: protocol, selection, holes, what signs mean.
        synthetic: some rows were generated; every format says so.
    """

    title: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    synthetic: bool = False


_MEANINGS = (
    ("random", "random: the same model and training with weights that were never pre-trained."),
    (
        "majority",
        "majority: the most frequent label of the training rows (retrieval: the first row; translation: the source).",
    ),
    (
        "ngram",
        "ngram: character n-grams: logistic regression trained on the same rows; the nearest text in retrieval.",
    ),
    (
        "dictionary",
        "dictionary: the same after each word was replaced by its translation into the source language.",
    ),
    (
        "oracle",
        "oracle: the checkpoint was chosen on the target language's dev rows; not a zero-shot result.",
    ),
)

Values = dict[str, dict[int, float]]
"""lang -> seed -> score."""


Ends = Callable[["Column", Sequence[str], bool], tuple[float, float] | None]
"""(column, languages, whether the source's lead over them) -> the ends of the interval of an average."""


@dataclass
class _Holes:
    """Gaps found while a table is made, so that its notes can name them."""

    allow: bool
    langs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    used: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def language_table(
    scores: Sequence[Score],
    title: str = "Scores per language",
    allow_missing: bool = False,
    groups: Mapping[str, Mapping[str, str]] | None = None,
    corpus_sizes: Mapping[str, float] | None = None,
    ends: Ends | None = None,
) -> ScoreTable:
    """Return a table with languages as rows and systems as columns, grouped by suite, with averages below.

    The average without the source is over every language but the one trained on; the transfer gap is the
    source's score minus that average (Hu et al. 2020, XTREME, section 5). Spreads are over seeds. Published
    columns (``select`` is ``published``) add no language and make no hole.

    Args:
        scores: of any number of suites, systems and seeds.
        title: heading.
        allow_missing: take averages over the languages that are there and print which are not.
        groups: name of a grouping (``family``, ``script``) -> language -> group; adds an average per group.
        corpus_sizes: language -> size of its pre-training text; adds the rank correlation with the scores.
        ends: intervals of averages.

    Raises:
        UserError: there is no score, or one measurement is there twice.
    """
    if not scores:
        raise UserError("no scores to tabulate", fix="run an evaluation first, or give its scores.json")
    table = by_column(scores)
    columns = sorted_columns(table)
    langs_of = {c: averaged_of(table, c) for c in columns}
    sources = {c.source for c in columns}
    langs = _ordered({lang for c in columns for lang in langs_of[c]}, sources)
    others = _ordered({lang for c in columns for lang in languages_of(table, c.suite)} - {*langs}, sources)
    intervals = intervals_of(scores)
    holes = _Holes(allow_missing)
    by_lang = [
        Line(
            lang, "lang", tuple(_lang_cell(table[c], c, lang, langs_of[c], intervals, holes) for c in columns)
        )
        for lang in (*langs, *others)
    ]
    summaries = _summaries(table, columns, langs_of, groups or {}, holes, ends or _no_ends)
    notes = [*_column_notes(scores, columns), *_correlations(table, columns, corpus_sizes or {})]
    return ScoreTable(
        title=title,
        groups=tuple(_column_groups(columns)),
        columns=tuple(column_name(c, columns) for c in columns),
        lines=(*by_lang[: len(langs)], *summaries, *by_lang[len(langs) :]),
        notes=(
            *notes,
            *_set_notes(table),
            *_interval_notes(summaries),
            *_hole_notes(holes),
        ),
        synthetic=any(s.synthetic for s in scores),
    )


def _summaries(
    table: Mapping[Column, Values],
    columns: Sequence[Column],
    langs_of: Mapping[Column, list[str]],
    groups: Mapping[str, Mapping[str, str]],
    holes: _Holes,
    ends: Ends,
) -> list[Line]:
    """Return the averages and the transfer gap; empty lines are dropped."""
    every = sorted({lang for langs in langs_of.values() for lang in langs})
    wanted: list[tuple[str, Callable[..., Cell], Callable[[Column], list[str]]]] = [
        ("average without source", average, lambda c: transferred(c, langs_of[c])),
        ("average", average, lambda c: langs_of[c]),
        ("transfer gap", transfer_gap, lambda c: langs_of[c]),
    ]
    for kind, group_of in groups.items():
        for group in sorted({group_of[x] for x in every if x in group_of}):
            members = {x for x in every if group_of.get(x) == group}
            wanted.append((f"{kind} {group}", average, partial(_members, langs_of, members)))
    lines = [
        Line(name, "summary", tuple(cell(table[c], c, part(c), holes, ends) for c in columns))
        for name, cell, part in wanted
    ]
    printed = tuple(_printed_average(table[c]) for c in columns)
    lines.append(Line("average as published", "summary", printed))
    return [line for line in lines if any(cell.value is not None for cell in line.cells)]


def _printed_average(values: Values) -> Cell:
    printed = values.get(AVERAGE, {})
    return Cell(statistics.fmean(printed.values()) if printed else None)


def _correlations(
    table: Mapping[Column, Values], columns: Sequence[Column], amounts: Mapping[str, float]
) -> list[str]:
    """Return Spearman's rank correlation of score and corpus size over the languages other than the source."""
    notes = []
    for column in columns:
        langs = transferred(column, [x for x in table[column] if x in amounts])
        if column.select == PUBLISHED or len(langs) < MIN_FOR_CORRELATION:
            continue
        correlation = sizes.spearman(
            [statistics.fmean(table[column][x].values()) for x in langs], [amounts[x] for x in langs]
        )
        notes.append(
            f"{_title(column)}: rank correlation with corpus size {correlation:.2f} over {len(langs)} languages."
        )
    return notes


def group_maps(scores: Iterable[Score], kinds: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return language -> group for ``family`` and ``script`` if requested; a pair counts by its first side.

    Raises:
        UserError: another kind of group, or a language that the table of languages lacks.
    """
    langs = {s.lang for s in scores}
    for kind in kinds:
        if kind not in ("family", "script"):
            raise unknown("grouping", kind, ("family", "script"))
    return {
        kind: {lang: getattr(languages.get_variant(lang.partition("-")[0])[0], kind) for lang in langs}
        for kind in kinds
    }


def by_column(scores: Iterable[Score]) -> dict[Column, Values]:
    """Return scores as column -> language -> seed -> value.

    Raises:
        UserError: one measurement is there twice with different values.
    """
    table: dict[Column, Values] = defaultdict(lambda: defaultdict(dict))
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


def sorted_columns(table: Mapping[Column, Values]) -> list[Column]:
    """Order the columns by suite as given, systems before their controls."""
    suites = list(dict.fromkeys(c.suite for c in table))
    metrics = list(dict.fromkeys(c.metric for c in table))

    def place(c: Column) -> tuple[int, int, int, int]:
        control = CONTROLS.index(c.system) + 1 if c.system in CONTROLS else 0
        control += len(CONTROLS) + 1 if c.select == PUBLISHED else 0
        return suites.index(c.suite), metrics.index(c.metric), control, list(table).index(c)

    return sorted(table, key=place)


def languages_of(table: Mapping[Column, Values], suite: str) -> list[str]:
    """Return every language of a suite in any column: each column needs all of them for an average."""
    columns = [c for c in table if c.suite == suite]
    own = [c for c in columns if c.select != PUBLISHED] or columns
    return _ordered({lang for c in own for lang in table[c]} - {AVERAGE}, {c.source for c in own})


def _no_ends(column: Column, langs: Sequence[str], is_gap: bool) -> None:
    return None


def averaged_of(table: Mapping[Column, Values], column: Column) -> list[str]:
    """Return the languages of a column's averages; see `published_of`."""
    return published_of(column.suite, languages_of(table, column.suite), column.metric)


def transferred(column: Column, langs: Sequence[str]) -> list[str]:
    """Return the languages that a column was not trained in, excluding other treebanks of the source language."""
    return [lang for lang in langs if not languages.is_same(lang, column.source)]


def _set_notes(table: Mapping[Column, Values]) -> list[str]:
    """Return which languages are shown but in no average, and why."""
    notes = [set_note(suite, languages_of(table, suite)) for suite in dict.fromkeys(c.suite for c in table)]
    kinds = dict.fromkeys((c.suite, c.metric) for c in table)
    notes += [token_note(suite, metric, languages_of(table, suite)) for suite, metric in kinds]
    return [note for note in notes if note]


def average(
    values: Values, column: Column, langs: Sequence[str], holes: _Holes, ends: Ends = _no_ends
) -> Cell:
    """Return the mean over languages per seed, then mean and spread over seeds; None if a language is missing."""
    there, seeds = _complete(values, column, langs, holes)
    if not there:
        return Cell(None)
    means = [statistics.fmean(values[lang][seed] for lang in there) for seed in seeds]
    low, high = ends(column, there, False) or (None, None)
    return replace(over_seeds(means, holes, column), low=low, high=high)


def transfer_gap(
    values: Values, column: Column, langs: Sequence[str], holes: _Holes, ends: Ends = _no_ends
) -> Cell:
    """Score of the source language minus the average of the others, per seed."""
    others = transferred(column, langs)
    if column.source not in values or not others:
        return Cell(None)
    there, seeds = _complete(values, column, [column.source, *others], holes)
    there = [lang for lang in there if lang != column.source]
    if not there:
        return Cell(None)
    gaps = [
        values[column.source][seed] - statistics.fmean(values[lang][seed] for lang in there) for seed in seeds
    ]
    low, high = ends(column, there, True) or (None, None)
    return replace(over_seeds(gaps, holes, column), low=low, high=high)


def over_seeds(values: Sequence[float], holes: _Holes | None = None, column: Column | None = None) -> Cell:
    """Return mean and sample standard deviation over seeds."""
    incomplete = holes is not None and column is not None and bool(holes.used.get(_title(column)))
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), spread, mark="*" if incomplete else "")


def _members(langs_of: Mapping[Column, Sequence[str]], members: set[str], column: Column) -> list[str]:
    return [lang for lang in transferred(column, langs_of[column]) if lang in members]


def _complete(
    values: Values, column: Column, langs: Sequence[str], holes: _Holes
) -> tuple[list[str], list[int]]:
    """Return the languages and seeds that an average may use; empty if a gap is not allowed."""
    seeds = sorted({seed for lang in langs for seed in values.get(lang, {})})
    # A language that lacks one seed of the others is a gap too; with no seed at all there is nothing to
    # average.
    missing = [lang for lang in langs if set(values.get(lang, {})) != set(seeds) or not seeds]
    if not missing:
        return list(langs), seeds
    if column.select == PUBLISHED:
        return [], []
    title = _title(column)
    holes.langs[title] = sorted({*holes.langs[title], *missing})
    if not holes.allow:
        return [], []
    holes.used[title] = holes.langs[title]
    there = [lang for lang in langs if lang not in missing]
    return there, seeds if there else []


def _lang_cell(
    values: Values,
    column: Column,
    lang: str,
    expected: Sequence[str],
    intervals: Mapping[tuple[Column, str], tuple[float, float]],
    holes: _Holes,
) -> Cell:
    if lang not in values:
        named = column.select == PUBLISHED or lang in holes.langs[_title(column)]
        if lang in expected and not named:
            holes.langs[_title(column)].append(lang)
        return Cell(None)
    cell = over_seeds(list(values[lang].values()))
    low, high = intervals.get((column, lang), (None, None))
    return Cell(cell.value, cell.spread, low, high)


def intervals_of(scores: Sequence[Score]) -> dict[tuple[Column, str], tuple[float, float]]:
    """Bootstrap intervals, averaged over seeds."""
    ends_of: dict[tuple[Column, str], list[tuple[float, float]]] = defaultdict(list)
    for s in scores:
        if s.low is not None and s.high is not None:
            ends_of[column_of(s), s.lang].append((s.low, s.high))
    return {
        key: (statistics.fmean(low for low, _ in ends), statistics.fmean(high for _, high in ends))
        for key, ends in ends_of.items()
    }


def _ordered(langs: Iterable[str], sources: Iterable[str]) -> list[str]:
    first = set(sources)
    return sorted(langs, key=lambda lang: (lang not in first, lang))


def _title(column: Column) -> str:
    """Return a unique name of a column, without the usual settings."""
    usual = ("zero_shot", "none", "source-dev", "last", PUBLISHED, "en", "")
    how = [x for x in (column.protocol, column.select, column.source) if x not in usual]
    return f"{column.suite} {column.metric} of {' '.join([column.system, *how])}"


def _column_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
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
    alike = [c for c in columns if c.suite == column.suite and c.system not in CONTROLS]
    if column.select == PUBLISHED:
        return column.system
    alike = [c for c in alike if c.select != PUBLISHED]
    parts = [column.system]
    for part in ("protocol", "select", "source"):
        value = getattr(column, part)
        if value and column.system not in CONTROLS and len({getattr(c, part) for c in alike}) > 1:
            parts.append(f"from {value}" if part == "source" else value)
    return " ".join(parts)


def _column_notes(scores: Sequence[Score], columns: Sequence[Column]) -> list[str]:
    """Describe training, selection, splits and seeds of every suite."""
    notes = []
    for suite in dict.fromkeys(c.suite for c in columns):
        own = [s for s in scores if s.suite == suite and not s.system.endswith(UNEXPOSED)]
        main = [s for s in own if s.system not in CONTROLS and s.select != PUBLISHED] or own
        splits = defaultdict(set)
        for s in own:
            if s.select != PUBLISHED:
                splits[s.split].add(s.lang)
        where = "; ".join(
            f"{split} rows" if len(splits) == 1 else f"{split} rows of {' '.join(sorted(langs))}"
            for split, langs in sorted(splits.items())
        )
        seeds = sorted({s.seed for s in main})
        trained = [s for s in main if s.source]
        how = ", ".join(dict.fromkeys(f"{s.protocol} from {s.source}" for s in trained)) or "no fine-tuning"
        select = ", ".join(dict.fromkeys(s.select for s in trained if s.select != "none"))
        chosen = f" checkpoint chosen by {select};" if select else ""
        notes.append(f"{suite}: {how};{chosen} {where}; {len(seeds)} seed{'s' * (len(seeds) != 1)}.")
        notes += _unscored(suite, {s.lang for s in main})
    cited = dict.fromkeys(f"{s.system}: {s.signature}." for s in scores if s.select == PUBLISHED)
    notes += cited
    present = {name for c in columns for name in (c.system, c.select)}
    return notes + [sentence for sign, sentence in _MEANINGS if sign in present]


def _unscored(suite: str, langs: set[str]) -> list[str]:
    """Return languages of the published suite that no average here covers."""
    every = suites()
    known = every[suite] if suite in every else None  # noqa: SIM401 - a registry's get raises
    langs = {languages.canonical(lang) for lang in langs} | langs
    gone = [lang for lang in known.languages if lang not in langs] if known else []
    if not known or not gone or len(gone) == len(known.languages):
        return []
    more = len(gone[MOST_NAMED:])
    return [
        f"{suite}: {len(known.languages) - len(gone)} of the suite's {len(known.languages)} languages; "
        f"not scored: {' '.join(gone[:MOST_NAMED])}{f' and {more} more' if more else ''}."
    ]


def _interval_notes(lines: Sequence[Line]) -> list[str]:
    if all(cell.low is None for line in lines for cell in line.cells):
        return []
    return [
        "Intervals of averages are 95 %: items are drawn in all languages and seeds at once, with the rows of their "
        "passage or document, and seeds are a random factor."
    ]


def _hole_notes(holes: _Holes) -> list[str]:
    notes = []
    for title, langs in sorted(holes.langs.items()):
        if langs and holes.allow:
            notes.append(f"* {title}: averages leave out {' '.join(sorted(langs))}, which have no score.")
        elif langs:
            notes.append(f"{title}: no score in {' '.join(sorted(langs))}, so no average.")
    return notes
