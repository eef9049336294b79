"""The first table of a report: every system on every suite, with intervals and significance."""

from collections.abc import Mapping, Sequence

from xling.eval.report.comparison import AVERAGE, SIGNIFICANCE_LEVEL, Test
from xling.eval.scores.score_file import CONTROLS, Score
from xling.eval.tables import score_table
from xling.eval.tables.columns import (
    Column,
    averaged_languages,
    by_column,
    column_name,
    sorted_columns,
    without_source,
)
from xling.eval.tables.score_table import AverageInterval
from xling.pages.tabular import Table

REFERENCE_MARK, BETTER, WORSE, ALIKE = "(a)", "better", "worse", "alike"


def overall(
    scores: Sequence[Score],
    interval_of: AverageInterval,
    tests: Sequence[Test],
    ranks: Mapping[tuple[str, str], int] | None = None,
) -> Table:
    """Return systems by suites: the mean main metric over the languages except the source, with its interval.

    Each number is followed by the rank of its group of systems that a test cannot distinguish
    (`xling.eval.report.comparison.rank_groups`). Then comes the comparison with the suite's reference system,
    ``(a)``: better or worse if p adjusted for all averages is at most 5 %, else alike. A gap has no number.

    Args:
        scores: scores of any number of suites and systems.
        tests: tests of averages; others are ignored.
        ranks: (suite, system) -> rank of its group.
    """
    table = by_column(scores)
    columns = sorted_columns(table)
    suites = list(dict.fromkeys(c.suite for c in columns))
    main = {suite: next(c.metric for c in columns if c.suite == suite) for suite in suites}
    main_columns = [c for c in columns if c.metric == main[c.suite]]
    names = {c: column_name(c, columns) for c in main_columns}
    systems = sorted(dict.fromkeys(names[c] for c in main_columns), key=lambda name: name in CONTROLS)
    test_of = {(t.suite, t.system): t for t in tests if t.lang == AVERAGE}
    references = {(t.suite, t.baseline) for t in test_of.values()}

    def cell(suite: str, system: str) -> str | None:
        column = next((c for c in main_columns if (c.suite, names[c]) == (suite, system)), None)
        if column is None:
            return None
        langs = without_source(column, averaged_languages(table, column)) or [column.source]
        mean = score_table.average(
            table[column], column, langs, score_table.MissingScores(allowed=False), interval_of
        )
        if mean.value is None:
            return None
        text = f"{mean.value:.1f}"
        if mean.low is not None and mean.high is not None:
            text += f" [{mean.low:z.1f}, {mean.high:z.1f}]"
        if rank := (ranks or {}).get((suite, column.system)):
            text += f" rank {rank}"
        return f"{text} {_compare_with_reference(column, test_of.get((suite, column.system)), references)}".rstrip()

    rows = tuple((system, *(cell(suite, system) for suite in suites)) for system in systems)
    heads = (("system", ""), *((f"{suite} ({main[suite]})", "") for suite in suites))
    return Table("overall", "Overall", heads, rows, _table_notes(rows))


def _compare_with_reference(column: Column, test: Test | None, references: set[tuple[str, str]]) -> str:
    """Describe in one word how a column compares with the reference system."""
    if test is None or test.p_holm is None:
        return REFERENCE_MARK if (column.suite, column.system) in references else ""
    if test.p_holm > SIGNIFICANCE_LEVEL:
        return ALIKE
    return BETTER if test.comparison.difference > 0 else WORSE


def _table_notes(rows: Sequence[tuple[str | None, ...]]) -> tuple[str, ...]:
    text = " ".join(cell for row in rows for cell in row[1:] if cell)
    notes = ["Means over the languages of the test set other than the source, with 95 % intervals."]
    if " rank " in text:
        notes.append(
            "rank: systems of one rank are not told apart from the best of them; the best of each rank is worse than "
            "the best of the rank before (p at most 0.05, shared out among the tests of a suite)."
        )
    if REFERENCE_MARK in text:
        notes.append(
            "better, worse, alike: than the system marked (a) in the same column; alike where p, adjusted for the "
            "number of averages compared (Holm), is above 0.05."
        )
    return tuple(notes)


def sort_findings(findings: Sequence[tuple[float, float, str]]) -> list[str]:
    """Return the findings (lead over the controls, score, text), those farthest from their controls first.

    Those that are equally far, as without controls, follow in order of their scores.
    """
    return [text for *_, text in sorted(findings, key=lambda finding: (-abs(finding[0]), -finding[1]))]


def number_of(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 language``, ``2 languages``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
