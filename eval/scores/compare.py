"""Comparison of two runs: `diff` lists the changes, `gate` fails on a significant regression."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from xling.core.errors import UserError
from xling.core.output import sealed
from xling.core.output.command_result import Answer
from xling.eval.metrics import METRICS
from xling.eval.rows.suite import suites
from xling.eval.scores import predictions, statistics
from xling.eval.scores.predictions import ScoredPredictions
from xling.eval.scores.statistics import Comparison, PairedStatistics

BASELINE_FORMAT = "xling-baseline 1"
FALSE_ALARMS = 0.005
"""Probability that a gate over any number of suites fails although nothing got worse."""
GATE_RESAMPLES = 20_000
SCHEMA: dict[str, pl.DataType] = {
    "suite": pl.String(),
    "lang": pl.String(),
    "key": pl.String(),
    "id": pl.String(),
    "block": pl.String(),
    "stats": pl.List(pl.Float64),
}


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
class GateConfig:
    """Settings of ``xling eval gate``.

    Args:
        run: folder of the run to check.
        baseline: file of row statistics; with ``write=true`` it is made from the run.
        write: record the run as the new baseline instead of checking it.
        system: system whose predictions are checked.
        drop: loss in points that the gate should detect; it warns if there are too few rows for that.
        data: folder of the suites' files; default: what XLING_DATA names.
    """

    run: Path
    baseline: Path
    write: bool = False
    system: str = "pretrained"
    drop: float = 2.0
    data: Path | None = None


class RegressionError(UserError):
    """Raised when a run is significantly worse than its baseline; the command line exits with 1.

    It is an error and not an answer, so that a pipeline or a job ends with it; ``--json`` still prints its
    values.

    Args:
        given: what got worse, with all comparisons.
        data: the same as JSON-ready values.
    """

    exit_code = 1

    def __init__(self, given: str, data: dict[str, Any]) -> None:
        super().__init__(given)
        self.data = data


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


def gate(cfg: GateConfig) -> Answer:
    """Check a run against a baseline, or record it as one.

    The test is one-sided approximate randomisation on each suite's average over languages and seeds.
    With several suites the level is divided among them. So the whole gate raises a false alarm with a
    probability of at most `FALSE_ALARMS`.

    Raises:
        RegressionError: a suite got significantly worse.
        UserError: the baseline is missing, or has other rows than the run.
    """
    data = predictions.data_for(cfg.data, cfg.run)
    if cfg.baseline.is_dir():
        raise UserError(
            f"baseline={cfg.baseline} is a folder",
            "a file",
            f"for example baseline={cfg.baseline / 'baseline.parquet'}",
        )
    rows = _row_stats(cfg, data)
    if cfg.write:
        _write_baseline(cfg.baseline, rows)
        text = f"{len(rows)} row statistics of {cfg.run} recorded in {cfg.baseline}"
        return Answer(text, {"rows": len(rows), "baseline": str(cfg.baseline)})
    compared = compare_with_baseline(rows, _read_baseline(cfg.baseline), cfg.baseline)
    level = FALSE_ALARMS / len(compared)
    lines, failed_suites = [], {}
    for suite, test in sorted(compared.items()):
        metric = suites()[suite].metric
        lines.append(
            f"{suite} {metric}: {test.difference:+.2f} points on {test.n} rows "
            f"(95 % {test.low:+.2f} to {test.high:+.2f}, p = {test.p_lower:.4f}, level {level:.4f})"
        )
        if test.p_lower <= level:
            failed_suites[suite] = f"{suite} {metric} {test.difference:+.2f} points"
        elif test.detectable > cfg.drop:
            lines.append(
                f"    warning: too few rows to catch a drop of {cfg.drop:g} points; "
                f"this test finds drops of {test.detectable:.1f} with 95 % power"
            )
    answer_data = {
        "level": level,
        "suites": {suite: asdict(test) for suite, test in sorted(compared.items())},
        "failed": list(failed_suites),
    }
    if failed_suites:
        worse = "; ".join(failed_suites.values())
        raise RegressionError(f"worse than {cfg.baseline}: {worse}\n" + "\n".join(lines), answer_data)
    return Answer("\n".join([*lines, "no significant regression"]), answer_data)


def compare_with_baseline(rows: pl.DataFrame, baseline: pl.DataFrame, path: Path) -> dict[str, Comparison]:
    """Return one comparison per suite of two tables of row statistics.

    Raises:
        UserError: the tables have not the same suites, languages, seeds and rows.
    """
    keys = ["suite", "lang", "key", "id"]
    older = baseline.drop("block", strict=False)  # baselines of before 2026-11 have none
    joined_rows = older.join(rows, on=keys, how="full", suffix="_now", coalesce=True).sort(keys)
    unmatched = joined_rows.filter(pl.col("stats").is_null() | pl.col("stats_now").is_null())
    if len(unmatched):
        first = unmatched.row(0, named=True)
        where = "the run" if first["stats"] is None else "the baseline"
        raise UserError(
            f"{path}: {len(unmatched)} rows are on one side only; {first['suite']}/{first['lang']} "
            f"{first['key']} id {first['id']!r} only in {where}",
            "a baseline of the same suites, languages, seeds and rows",
            "record it again with write=true",
        )
    pairs: dict[str, list[PairedStatistics]] = {}
    for (suite, lang, key), part in joined_rows.group_by(["suite", "lang", "key"], maintain_order=True):
        before, after = (
            np.asarray(part[name].to_list(), dtype=np.float64) for name in ("stats", "stats_now")
        )
        blocks = part["block"].to_list()
        *_, split, seed = str(key).split(".")
        items = [f"{split} {name}" for name in part["id"]]
        pairs.setdefault(str(suite), []).append(
            PairedStatistics(str(lang), before, after, items, blocks, int(seed.removeprefix("seed")))
        )
    return {
        suite: statistics.compare_systems(
            parts, METRICS[suites()[suite].metric], f"gate/{suite}", GATE_RESAMPLES
        )
        for suite, parts in pairs.items()
    }


def _row_stats(cfg: GateConfig, data: Path) -> pl.DataFrame:
    """Return row statistics of the main metric of every file of one system."""
    frames = []
    for path in predictions.files(cfg.run):
        origin = predictions.read_origin(path)
        if origin.system != cfg.system:
            continue
        (scored,) = predictions.evaluate_file(path, data, [suites()[origin.suite].metric])
        setting_name = f"{origin.protocol}.{origin.select}.{origin.source}.{origin.split}.seed{origin.seed}"
        same = {"suite": origin.suite, "lang": origin.lang, "key": setting_name}
        columns = {name: [value] * len(scored.rows) for name, value in same.items()} | {
            "id": [row.id for row in scored.rows],
            "block": [None if block is None else str(block) for block in scored.blocks],
        }
        frames.append(pl.DataFrame({**columns, "stats": scored.stats.tolist()}, schema=SCHEMA))
    if not frames:
        raise UserError(f"{cfg.run} has no predictions of system {cfg.system!r}", fix="set system=")
    return pl.concat(frames)


def _write_baseline(path: Path, rows: pl.DataFrame) -> None:
    facts = {"format": BASELINE_FORMAT, predictions.ANSWERS: _digest_of(rows)}
    with sealed.replacing(path) as temporary:
        rows.write_parquet(temporary, metadata=facts)


def _read_baseline(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise UserError(f"no baseline at {path}", fix="record one with write=true")
    try:
        metadata, rows = pl.read_parquet_metadata(path), pl.read_parquet(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise UserError(
            f"{path} is not a Parquet file: {str(error).splitlines()[0]}",
            fix="record it again with write=true",
        ) from None
    if metadata.get("format") != BASELINE_FORMAT:
        raise UserError(f"{path} is not a baseline", f"a file with format {BASELINE_FORMAT!r}")
    if metadata.get(predictions.ANSWERS, digest := _digest_of(rows)) != digest:
        raise UserError(
            f"{path} was changed or damaged after it was written", fix="restore it, or record it again"
        )
    return rows


def _digest_of(rows: pl.DataFrame) -> str:
    return hashlib.sha256("\n".join(map(repr, rows.rows())).encode()).hexdigest()


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
