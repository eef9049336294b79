"""Tables of scores: per language, averages, transfer gap and controls; an average never ignores a gap silently."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.package_tables import load_table
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import AVERAGE, CONTROLS, PUBLISHED, Score
from xling.eval.tables.columns import (
    Column,
    ScoresBySeed,
    averaged_languages,
    by_column,
    column_groups,
    column_name,
    column_of,
    languages_of,
    note_on_languages,
    note_on_tokenisation,
    sorted_columns,
    source_first,
    unique_title,
    without_source,
)

MIN_FOR_CORRELATION = 4
MAX_NAMED = 40
"""Languages without a score that a note names."""


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
        groups: (text, number of columns) above the column names.
        notes: sentences under it: protocol, selection, holes, what signs mean.
        synthetic: some rows were generated; every format says so.
    """

    title: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    synthetic: bool = False


_NOTES_OF_SYSTEMS: dict[str, str] = load_table(__package__, "notes.yaml")
"""System, or way of choosing a checkpoint -> the note under its table."""

AverageInterval = Callable[["Column", Sequence[str], bool], tuple[float, float] | None]
"""(column, languages, whether the source's lead over them) -> the ends of the interval of an average."""


@dataclass
class MissingScores:
    """Gaps found while a table is made, so that its notes can name them."""

    allowed: bool
    langs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def language_table(
    scores: Sequence[Score],
    title: str = "Scores per language",
    allow_missing: bool = False,
    groups: Mapping[str, Mapping[str, str]] | None = None,
    corpus_sizes: Mapping[str, float] | None = None,
    interval_of: AverageInterval | None = None,
) -> ScoreTable:
    """Return a table with languages as rows and systems as columns, grouped by suite, with averages below.

    The average without the source is over every language but the one trained on; the transfer gap is the
    source's score minus that average (Hu et al. 2020, XTREME, section 5). Spreads are over seeds. Published
    columns (``select`` is ``published``) add no language and make no hole.

    Args:
        scores: of any number of suites, systems and seeds.
        allow_missing: take averages over the languages that are there and print which are not.
        groups: name of a grouping (``family``, ``script``) -> language -> group; adds an average per group.
        corpus_sizes: language -> size of its pre-training text; adds the rank correlation with the scores.

    Raises:
        UserError: there is no score, or one measurement is there twice.
    """
    if not scores:
        raise UserError("no scores to tabulate", fix="run an evaluation first, or give its scores.json")
    table = by_column(scores)
    columns = sorted_columns(table)
    langs_of = {c: averaged_languages(table, c) for c in columns}
    sources = {c.source for c in columns}
    langs = source_first({lang for c in columns for lang in langs_of[c]}, sources)
    unaveraged = source_first(
        {lang for c in columns for lang in languages_of(table, c.suite)} - {*langs}, sources
    )
    intervals = row_intervals(scores)
    missing_scores = MissingScores(allow_missing)
    by_lang = [
        Line(
            lang,
            "lang",
            tuple(_lang_cell(table[c], c, lang, langs_of[c], intervals, missing_scores) for c in columns),
        )
        for lang in (*langs, *unaveraged)
    ]
    summaries = _summary_lines(
        table, columns, langs_of, groups or {}, missing_scores, interval_of or _no_interval
    )
    notes = [*_column_notes(scores, columns), *_correlations(table, columns, corpus_sizes or {})]
    notes += _language_notes(table)
    return ScoreTable(
        title=title,
        groups=tuple(column_groups(columns)),
        columns=tuple(column_name(c, columns) for c in columns),
        lines=(*by_lang[: len(langs)], *summaries, *by_lang[len(langs) :]),
        notes=(*notes, *_interval_notes(summaries), *_missing_notes(missing_scores)),
        synthetic=any(s.synthetic for s in scores),
    )


def _summary_lines(
    table: Mapping[Column, ScoresBySeed],
    columns: Sequence[Column],
    langs_of: Mapping[Column, list[str]],
    groups: Mapping[str, Mapping[str, str]],
    missing_scores: MissingScores,
    interval_of: AverageInterval,
) -> list[Line]:
    """Return the averages and the transfer gap; empty lines are dropped."""
    all_langs = sorted({lang for langs in langs_of.values() for lang in langs})
    averages: list[tuple[str, Callable[..., Cell], Callable[[Column], list[str]]]] = [
        ("average without source", average, lambda c: without_source(c, langs_of[c])),
        ("average", average, lambda c: langs_of[c]),
        ("transfer gap", transfer_gap, lambda c: langs_of[c]),
    ]
    if all(without_source(c, langs_of[c]) == langs_of[c] for c in columns):
        del averages[0]  # it would repeat the next line
    for kind, group_of in groups.items():
        for group in sorted({group_of[x] for x in all_langs if x in group_of}):
            members = {x for x in all_langs if group_of.get(x) == group}
            averages.append((f"{kind} {group}", average, partial(_members_of_group, langs_of, members)))
    lines = [
        Line(name, "summary", tuple(cell(table[c], c, part(c), missing_scores, interval_of) for c in columns))
        for name, cell, part in averages
    ]
    published = [table[c].get(AVERAGE, {}).values() for c in columns]
    printed = tuple(Cell(statistics.fmean(values) if values else None) for values in published)
    lines.append(Line("average as published", "summary", printed))
    return [line for line in lines if any(cell.value is not None for cell in line.cells)]


def _correlations(
    table: Mapping[Column, ScoresBySeed], columns: Sequence[Column], corpus_sizes: Mapping[str, float]
) -> list[str]:
    """Return Spearman's rank correlation of score and corpus size over the languages other than the source."""
    notes = []
    for column in columns:
        langs = without_source(column, [x for x in table[column] if x in corpus_sizes])
        if column.select == PUBLISHED or len(langs) < MIN_FOR_CORRELATION:
            continue
        correlation = spearman(
            [statistics.fmean(table[column][x].values()) for x in langs], [corpus_sizes[x] for x in langs]
        )
        notes.append(
            f"{unique_title(column)}: rank correlation with corpus size {correlation:.2f} over {len(langs)} languages."
        )
    return notes


def groups_of_languages(scores: Iterable[Score], kinds: Sequence[str]) -> dict[str, dict[str, str]]:
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


def _no_interval(column: Column, langs: Sequence[str], is_gap: bool) -> None:
    return None


def _language_notes(table: Mapping[Column, ScoresBySeed]) -> list[str]:
    """Return which languages are shown but in no average, and why."""
    notes = [
        note_on_languages(suite, languages_of(table, suite))
        for suite in dict.fromkeys(c.suite for c in table)
    ]
    kinds = dict.fromkeys((c.suite, c.metric) for c in table)
    notes += [note_on_tokenisation(suite, metric, languages_of(table, suite)) for suite, metric in kinds]
    return [note for note in notes if note]


def average(
    values: ScoresBySeed,
    column: Column,
    langs: Sequence[str],
    missing_scores: MissingScores,
    interval_of: AverageInterval = _no_interval,
) -> Cell:
    """Return the mean over languages per seed, then mean and spread over seeds; None if a language is missing."""
    present, seeds = _complete_languages(values, column, langs, missing_scores)
    if not present:
        return Cell(None)
    means = [statistics.fmean(values[lang][seed] for lang in present) for seed in seeds]
    low, high = interval_of(column, present, False) or (None, None)
    return replace(mean_over_seeds(means, missing_scores, column), low=low, high=high)


def transfer_gap(
    values: ScoresBySeed,
    column: Column,
    langs: Sequence[str],
    missing_scores: MissingScores,
    interval_of: AverageInterval = _no_interval,
) -> Cell:
    """Score of the source language minus the average of the others, per seed."""
    others = without_source(column, langs)
    if column.source not in values or not others:
        return Cell(None)
    present, seeds = _complete_languages(values, column, [column.source, *others], missing_scores)
    present = [lang for lang in present if lang != column.source]
    if not present:
        return Cell(None)
    gaps = [
        values[column.source][seed] - statistics.fmean(values[lang][seed] for lang in present)
        for seed in seeds
    ]
    low, high = interval_of(column, present, True) or (None, None)
    return replace(mean_over_seeds(gaps, missing_scores, column), low=low, high=high)


def mean_over_seeds(
    values: Sequence[float], missing_scores: MissingScores | None = None, column: Column | None = None
) -> Cell:
    """Return mean and sample standard deviation over seeds."""
    incomplete = (
        missing_scores is not None
        and column is not None
        and bool(missing_scores.left_out.get(unique_title(column)))
    )
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), spread, mark="*" if incomplete else "")


def _members_of_group(
    langs_of: Mapping[Column, Sequence[str]], members: set[str], column: Column
) -> list[str]:
    return [lang for lang in without_source(column, langs_of[column]) if lang in members]


def _complete_languages(
    values: ScoresBySeed, column: Column, langs: Sequence[str], missing_scores: MissingScores
) -> tuple[list[str], list[int]]:
    """Return the languages and seeds that an average may use; empty if a gap is not allowed."""
    seeds = sorted({seed for lang in langs for seed in values.get(lang, {})})
    # A language that lacks one seed of the others is a gap too; with no seed at all there is nothing to
    # average.
    missing_langs = [lang for lang in langs if set(values.get(lang, {})) != set(seeds) or not seeds]
    if not missing_langs:
        return list(langs), seeds
    if column.select == PUBLISHED:
        return [], []
    title = unique_title(column)
    missing_scores.langs[title] = sorted({*missing_scores.langs[title], *missing_langs})
    if not missing_scores.allowed:
        return [], []
    missing_scores.left_out[title] = missing_scores.langs[title]
    present = [lang for lang in langs if lang not in missing_langs]
    return present, seeds if present else []


def _lang_cell(
    values: ScoresBySeed,
    column: Column,
    lang: str,
    expected_langs: Sequence[str],
    intervals: Mapping[tuple[Column, str], tuple[float, float]],
    missing_scores: MissingScores,
) -> Cell:
    if lang not in values:
        is_noted = column.select == PUBLISHED or lang in missing_scores.langs[unique_title(column)]
        if lang in expected_langs and not is_noted:
            missing_scores.langs[unique_title(column)].append(lang)
        return Cell(None)
    cell = mean_over_seeds(list(values[lang].values()))
    low, high = intervals.get((column, lang), (None, None))
    return Cell(cell.value, cell.spread, low, high)


def row_intervals(scores: Sequence[Score]) -> dict[tuple[Column, str], tuple[float, float]]:
    """Bootstrap intervals, averaged over seeds."""
    bounds_of: dict[tuple[Column, str], list[tuple[float, float]]] = defaultdict(list)
    for s in scores:
        if s.low is not None and s.high is not None:
            bounds_of[column_of(s), s.lang].append((s.low, s.high))
    return {
        key: (statistics.fmean(low for low, _ in bounds), statistics.fmean(high for _, high in bounds))
        for key, bounds in bounds_of.items()
    }


def _column_notes(scores: Sequence[Score], columns: Sequence[Column]) -> list[str]:
    """Describe training, selection, splits and seeds of every suite."""
    notes = []
    for suite in dict.fromkeys(c.suite for c in columns):
        suite_scores = [s for s in scores if s.suite == suite]
        model_scores = [
            s for s in suite_scores if s.system not in CONTROLS and s.select != PUBLISHED
        ] or suite_scores
        splits = defaultdict(set)
        for s in suite_scores:
            if s.select != PUBLISHED:
                splits[s.split].add(s.lang)
        split_text = "; ".join(
            f"{split} rows" if len(splits) == 1 else f"{split} rows of {' '.join(sorted(langs))}"
            for split, langs in sorted(splits.items())
        )
        seeds = sorted({s.seed for s in model_scores})
        trained = [s for s in model_scores if s.source]
        training_text = (
            ", ".join(dict.fromkeys(f"{s.protocol} from {s.source}" for s in trained)) or "no fine-tuning"
        )
        select = ", ".join(dict.fromkeys(s.select for s in trained if s.select != "none"))
        selection_text = f" checkpoint chosen by {select};" if select else ""
        notes.append(
            f"{suite}: {training_text};{selection_text} {split_text}; {len(seeds)} seed{'s' * (len(seeds) != 1)}."
        )
        notes += _unscored_notes(suite, {s.lang for s in model_scores})
    citations = dict.fromkeys(f"{s.system}: {s.signature}." for s in scores if s.select == PUBLISHED)
    notes += citations
    present = {name for c in columns for name in (c.system, c.select)}
    return notes + [sentence for sign, sentence in _NOTES_OF_SYSTEMS.items() if sign in present]


def _unscored_notes(suite: str, langs: set[str]) -> list[str]:
    """Return languages of the published suite that no average here covers."""
    all_suites = suites()
    published_suite = all_suites[suite] if suite in all_suites else None  # noqa: SIM401 - a registry's get raises
    langs = {languages.canonical(lang) for lang in langs} | langs
    unscored = [lang for lang in published_suite.languages if lang not in langs] if published_suite else []
    if not published_suite or not unscored or len(unscored) == len(published_suite.languages):
        return []
    num_more, num_langs = len(unscored[MAX_NAMED:]), len(published_suite.languages)
    return [
        f"{suite}: {num_langs - len(unscored)} of the suite's {num_langs} languages; "
        f"not scored: {' '.join(unscored[:MAX_NAMED])}{f' and {num_more} more' if num_more else ''}."
    ]


def _interval_notes(lines: Sequence[Line]) -> list[str]:
    if all(cell.low is None for line in lines for cell in line.cells):
        return []
    return [
        "Intervals of averages are 95 %: items are drawn in all languages and seeds at once, with the rows of their "
        "passage or document, and seeds are a random factor."
    ]


def _missing_notes(missing_scores: MissingScores) -> list[str]:
    notes = []
    for title, langs in sorted(missing_scores.langs.items()):
        if langs and missing_scores.allowed:
            notes.append(f"* {title}: averages leave out {' '.join(sorted(langs))}, which have no score.")
        elif langs:
            notes.append(f"{title}: no score in {' '.join(sorted(langs))}, so no average.")
    return notes


# Corpus sizes by language, and their rank correlation with scores.


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation, ties at their mean rank; 0 when one side is constant."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def read_sizes(path: Path) -> dict[str, float]:
    """Corpus sizes from lines ``language<TAB>size``.

    Raises:
        UserError: the file is missing, or a line does not hold a language and a number.
    """
    if not path.is_file():
        raise UserError(f"no corpus sizes at {path}", "lines of language, tab, size")
    sizes = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        lang, _, size = line.partition("\t")
        if not size.replace(".", "", 1).isdigit():
            raise UserError(f"{path}:{number}: {line[:40]!r}", "a language and a number with a tab between")
        sizes[languages.get(lang).code] = float(size)
    return sizes
