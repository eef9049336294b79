"""Rows with their errors: source, gold and the answers of two systems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from xling.eval.report.comparison import System
from xling.eval.report.sections import Section
from xling.eval.rows.suite import suites
from xling.eval.scores.predictions import Scored
from xling.pages.tabular import Table

MOST_CHARS = 240
LEAD = (
    "Rows that at least one of two systems got wrong, as many of each language and of each kind of mistake as there is "
    "room for. Rows of test sets that are put on the web end up in training text: publish this section with care."
)
KINDS = ("the first is better", "the second is better", "both are wrong")


def rows(systems: Sequence[System], most: int) -> Section:
    """Return the section that shows wrongly answered test rows, a table per suite.

    Its first system beside its second, or beside the first control if there is one system.

    Args:
        systems: with their answers.
        most: rows a suite; 0 leaves the section out.
    """
    section = Section("Rows", LEAD)
    for suite in dict.fromkeys(s.suite for s in systems) if most else ():
        there = sorted((s for s in systems if s.suite == suite and s.scored), key=lambda s: s.control)
        if len(there) < 2 or suite not in suites():
            continue
        first, second = there[:2]
        keys = sorted(first.scored.keys() & second.scored.keys())
        # One seed and one way of choosing a language: the first.
        by_lang = {key[0]: key for key in reversed(keys)}
        faults = {
            lang: _faults(first.scored[key](), second.scored[key]()) for lang, key in sorted(by_lang.items())
        }
        chosen = _shared_out(faults, most)
        if chosen:
            heads = ("language", "row", "source", "gold", first.name, second.name, "what")
            columns = tuple((head, "") for head in heads)
            section.details.append(
                Table(f"rows_{suite}", f"{suite}: rows with errors", columns, tuple(chosen))
            )
    return section


Row = tuple[str, ...]


def _faults(a: Scored, b: Scored) -> dict[str, list[Row]]:
    """Group rows by kind of mistake, without those that both systems got right."""
    shape, by_kind = suites()[a.origin.suite].shape, defaultdict(list)
    if [row.id for row in a.rows] != [row.id for row in b.rows]:
        return {}
    best = a.metric.reduce(
        a.metric.stats(a.rows, [shape.right_answer(row) for row in a.rows], a.origin.lang).sum(axis=0)
    )
    sign = 1 if a.metric.higher_is_better else -1
    for number, row in enumerate(a.rows):
        one, two = (sign * float(x.metric.reduce(x.stats[number])) for x in (a, b))
        if min(one, two) >= sign * float(best):
            continue
        kind = KINDS[0] if one > two else KINDS[1] if two > one else KINDS[2]
        texts = (
            shape.source_of(row),
            *(
                shape.shown(x, row, a.rows)
                for x in (shape.right_answer(row), a.answers[number], b.answers[number])
            ),
        )
        by_kind[kind].append((a.origin.lang, row.id, *map(_short, texts), kind))
    return by_kind


def _shared_out(faults: dict[str, dict[str, list[Row]]], most: int) -> list[Row]:
    """Interleave rows of languages and kinds, then order them by language."""
    queues = [iter(faults[lang].get(kind, ())) for kind in KINDS for lang in faults]
    chosen: list[Row] = []
    while queues and len(chosen) < most:
        queues = [queue for queue in queues if len(chosen) < most and _take(queue, chosen)]
    return sorted(chosen, key=lambda row: (row[0], KINDS.index(row[-1])))


def _take(queue: Iterator[Row], chosen: list[Row]) -> bool:
    row = next(queue, None)
    if row is not None:
        chosen.append(row)
    return row is not None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + "…"
