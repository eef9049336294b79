"""Comparison of two runs: `diff` lists the changes."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.eval.rows.suite import suites
from xling.eval.scores import predictions, statistics
from xling.eval.scores.predictions import ScoredPredictions
from xling.eval.scores.statistics import Comparison, PairedStatistics


@dataclass(frozen=True)
class DiffConfig:
    """Settings of ``xling eval diff``.

    Args:
        runs: two folders with predictions; the first is the older.
        data: folder of the suites' files; default: what XLING_DATA names.
        rows: how many changed rows to print per file.
    """

    runs: tuple[Path, ...] = ()
    data: Path | None = None
    rows: int = 5


@dataclass(frozen=True)
class Change:
    """A row that two runs answer differently, with its scores."""

    id: str
    label: Any
    before: Any
    after: Any
    score_before: float
    score_after: float


@dataclass(frozen=True)
class FileDiff:
    """Changes in one file of predictions, by the suite's main metric."""

    name: str
    metric: str
    before: float
    after: float
    comparison: Comparison
    changes: list[Change] = field(default_factory=list)


def diff(cfg: DiffConfig) -> Answer:
    """Describe what changed between two runs."""
    if len(cfg.runs) != 2:
        raise UserError(
            f"xling eval diff was given {len(cfg.runs)} runs",
            "two: the older and the newer",
            "xling eval diff OLDER NEWER",
        )
    data = predictions.data_for(cfg.data, *cfg.runs)
    lines, answer_data = [], []
    for file_diff in differences(*cfg.runs, data):
        answer_data.append(asdict(file_diff))
        better = [c for c in file_diff.changes if c.score_after > c.score_before]
        worse = [c for c in file_diff.changes if c.score_after < c.score_before]
        test = file_diff.comparison
        lines.append(
            f"{file_diff.name}: {file_diff.metric} {file_diff.before:.1f} -> {file_diff.after:.1f} "
            f"({test.difference:+.1f}, 95 % {test.low:+.1f} to {test.high:+.1f}, p = "
            f"{test.p_two_sided:.3f}); "
            f"{len(file_diff.changes)} of {test.n} rows differ, {len(better)} better, {len(worse)} worse"
        )
        for change in (worse + better)[: cfg.rows]:
            lines.append(
                f"    {change.id}: {_shorten(change.before)} -> {_shorten(change.after)}, right: "
                f"{_shorten(change.label)}"
            )
    return Answer("\n".join(lines), answer_data)


def differences(before: Path, after: Path, data: Path) -> Iterator[FileDiff]:
    """Compare every file of predictions that both runs have.

    Raises:
        UserError: they have none in common.
    """
    old_files, new_files = (
        {p.relative_to(run): p for p in predictions.files(run)} for run in (before, after)
    )
    common_files = sorted(old_files.keys() & new_files.keys())
    if not common_files:
        raise UserError(
            f"{before} and {after} have no suite, system, protocol and language in common",
            f"runs that share one; these hold for example {min(old_files)} and {min(new_files)}",
            "evaluate both on the same suites",
        )
    for name in common_files:
        a, b = (main_score(path, data) for path in (old_files[name], new_files[name]))
        main = a.metric.name
        pair = PairedStatistics(a.origin.lang, a.stats, b.stats, a.ids, a.blocks, a.origin.seed)
        test = statistics.compare_systems([pair], a.metric, str(name))
        yield FileDiff(str(name.with_suffix("")), main, a.value, b.value, test, list(_changes(a, b)))


def main_score(path: Path, data: Path) -> ScoredPredictions:
    """Score a file of predictions by the main metric of its suite."""
    (result,) = predictions.evaluate_file(path, data, [suites()[predictions.read_origin(path).suite].metric])
    return result


def _changes(a: ScoredPredictions, b: ScoredPredictions) -> Iterator[Change]:
    scores = [s.metric.reduce(s.stats) for s in (a, b)]
    for i, row in enumerate(a.rows):
        if a.answers[i] != b.answers[i]:
            yield Change(
                row.id, row.label, a.answers[i], b.answers[i], float(scores[0][i]), float(scores[1][i])
            )


def _shorten(value: Any, limit: int = 60) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 3] + "..."
