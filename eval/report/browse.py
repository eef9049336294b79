"""Rows with their errors: source, gold and the answers of two systems."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from xling.eval.report.comparison import System
from xling.eval.report.sections import Section
from xling.eval.rows.suite import suites
from xling.eval.scores.predictions import ScoredPredictions
from xling.pages.tabular import Table

MAX_CHARS = 240
INTRODUCTION = (
    "Rows that at least one of two systems got wrong, as many of each language and of each kind of mistake as there is "
    "room for. Rows of test sets that are put on the web end up in training text: publish this section with care."
)
KINDS = ("the first is better", "the second is better", "both are wrong")


def rows(systems: Sequence[System], max_rows: int) -> Section:
    """Return the section that shows wrongly answered test rows, a table per suite.

    Its first system beside its second, or beside the first control if there is one system.

    Args:
        max_rows: rows a suite; 0 leaves the section out.
    """
    section = Section("Rows", INTRODUCTION)
    for suite in dict.fromkeys(s.suite for s in systems) if max_rows else ():
        scored_systems = sorted(
            (s for s in systems if s.suite == suite and s.scored), key=lambda s: s.control
        )
        if len(scored_systems) < 2 or suite not in suites():
            continue
        first_system, second_system = scored_systems[:2]
        keys = sorted(first_system.scored.keys() & second_system.scored.keys())
        # One seed and one way of choosing a language: the first.
        by_lang = {key[0]: key for key in reversed(keys)}
        wrong_rows = {
            lang: _wrong_rows(first_system.scored[key](), second_system.scored[key]())
            for lang, key in sorted(by_lang.items())
        }
        shown_rows = _interleave(wrong_rows, max_rows)
        if shown_rows:
            heads = ("language", "row", "source", "gold", first_system.name, second_system.name, "what")
            columns = tuple((head, "") for head in heads)
            section.details.append(
                Table(f"rows_{suite}", f"{suite}: rows with errors", columns, tuple(shown_rows))
            )
    return section


Row = tuple[str, ...]


def _wrong_rows(a: ScoredPredictions, b: ScoredPredictions) -> dict[str, list[Row]]:
    """Group rows by kind of mistake, without those that both systems got right."""
    suite_kind, by_kind = suites()[a.origin.suite].shape, defaultdict(list)
    if [row.id for row in a.rows] != [row.id for row in b.rows]:
        return {}
    best_score = a.metric.reduce(
        a.metric.stats(a.rows, [suite_kind.right_answer(row) for row in a.rows], a.origin.lang).sum(axis=0)
    )
    sign = 1 if a.metric.higher_is_better else -1
    for number, row in enumerate(a.rows):
        first_score, second_score = (sign * float(x.metric.reduce(x.stats[number])) for x in (a, b))
        if min(first_score, second_score) >= sign * float(best_score):
            continue
        kind = (
            KINDS[0] if first_score > second_score else KINDS[1] if second_score > first_score else KINDS[2]
        )
        answers = (suite_kind.right_answer(row), a.answers[number], b.answers[number])
        texts = (suite_kind.source_of(row), *(suite_kind.answer_text(x, row, a.rows) for x in answers))
        by_kind[kind].append((a.origin.lang, row.id, *map(_shorten, texts), kind))
    return by_kind


def _interleave(wrong_rows: dict[str, dict[str, list[Row]]], max_rows: int) -> list[Row]:
    """Interleave rows of languages and kinds, then order them by language."""
    queues = [wrong_rows[lang].get(kind, []) for kind in KINDS for lang in wrong_rows]
    taken_rows = [row for turn in zip_longest(*queues) for row in turn if row is not None][:max_rows]
    return sorted(taken_rows, key=lambda row: (row[0], KINDS.index(row[-1])))


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
