"""Numbers of items, languages and seeds needed to detect a difference between two systems: ``xling eval power``."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.eval.metrics import METRICS
from xling.eval.report.overall import number_of
from xling.eval.rows.suite import data_folder, suites
from xling.eval.scores import predictions, statistics
from xling.eval.scores.compare import main_score
from xling.eval.scores.predictions import Origin, ScoredPredictions
from xling.eval.scores.statistics import PairedStatistics, VarianceComponents
from xling.pages import tabular

NUM_SEEDS = (1, 3, 5, 10)


@dataclass(frozen=True)
class PowerConfig:
    """Settings of ``xling eval power``.

    Args:
        runs: a folder with the predictions of both systems, or one folder each.
        suite: suite whose main metric is used.
        systems: names of the two systems; one name if both have it, each in its own run.
        difference: difference in points to detect.
        power: probability of detecting it.
        alpha: rate of false alarms, two-sided.
        data: folder of the suites' files; default: what XLING_DATA names.
    """

    runs: tuple[Path, ...]
    suite: str
    systems: tuple[str, ...] = ("pretrained", "random")
    difference: float = 2.0
    power: float = 0.8
    alpha: float = 0.05
    data: Path | None = None


def run(cfg: PowerConfig) -> Answer:
    """Estimate the variance between items, languages and seeds, and what a difference needs.

    Raises:
        UserError: a setting is out of range, or the systems have no language, protocol and seed in common.
    """
    if not (cfg.difference > 0 and 0.5 <= cfg.power < 1 and 0 < cfg.alpha < 1):
        raise UserError(
            f"difference={cfg.difference:g} power={cfg.power:g} alpha={cfg.alpha:g}",
            "a difference above 0, a power from .5 to 1, an alpha between 0 and 1",
        )
    if len(cfg.runs) not in (1, 2) or len(cfg.systems) not in (1, 2) or len(cfg.runs) + len(cfg.systems) < 3:
        raise UserError(
            f"{len(cfg.runs)} runs and systems={','.join(cfg.systems)}",
            "one run and two systems, or two runs and one or two systems",
        )
    metric = METRICS[suites()[cfg.suite].metric]
    spread = statistics.variance_components(_pairs(cfg, data_folder(cfg.data)), metric, f"power/{cfg.suite}")
    units = NormalDist().inv_cdf(1 - cfg.alpha / 2) + NormalDist().inv_cdf(cfg.power)
    now = units * math.sqrt(spread.variance(spread.items, spread.langs, spread.seeds))
    rows = [
        {
            "languages": langs,
            "seeds": seeds,
            "items": items_needed(spread, langs, seeds, cfg.difference / units),
        }
        for langs in sorted({1, spread.langs})
        for seeds in sorted({spread.seeds, *(NUM_SEEDS if spread.seeds > 1 else ())})
    ]
    shown = [
        [str(r["languages"]), str(r["seeds"]), str(r["items"] or "no number: seeds differ by more")]
        for r in rows
    ]
    lines = [
        f"{cfg.suite} {metric.name}: {number_of(spread.items, 'item')}, {number_of(spread.langs, 'language')} and "
        f"{number_of(spread.seeds, 'seed')} find a difference of {now:.1f} points with {100 * cfg.power:.0f} % power "
        f"at alpha {cfg.alpha:g}.",
        *([] if spread.seeds > 1 else ["One seed: what seeds add is unknown and left out."]),
        "",
        *tabular.markdown_grid(
            [["languages", "seeds", f"items for {cfg.difference:g} points"], *shown], [True] * 3
        ),
    ]
    return Answer("\n".join(lines), {"detectable": now, "spread": asdict(spread), "needed": rows})


def items_needed(spread: VarianceComponents, langs: int, seeds: int, standard_error: float) -> int | None:
    """Return the number of items at which the difference has this standard error; None if seeds alone exceed it."""
    left = standard_error**2 - spread.seed / seeds
    each = spread.variance(1, langs, seeds) - spread.seed / seeds
    return max(1, math.ceil(each / left)) if left > 0 else None


def _pairs(cfg: PowerConfig, data: Path) -> list[PairedStatistics]:
    first, second = (
        _scored(run_of, system, cfg.suite, data)
        for run_of, system in ((cfg.runs[0], cfg.systems[0]), (cfg.runs[-1], cfg.systems[-1]))
    )
    common = sorted(first.keys() & second.keys())
    if not common:
        raise UserError(
            f"{cfg.systems[0]} and {cfg.systems[-1]} have no language, protocol and seed of {cfg.suite} in common",
            "two systems that were trained with the same seeds",
            "name others with systems=",
        )
    both = [(first[key], second[key]) for key in common]
    return [
        PairedStatistics(a.origin.lang, a.stats, b.stats, a.ids, a.blocks, a.origin.seed) for a, b in both
    ]


def _scored(folder: Path, system: str, suite: str, data: Path) -> dict[tuple[str, ...], ScoredPredictions]:
    scored = {}
    for path in predictions.files(folder):
        origin = predictions.read_origin(path)
        if (origin.suite, origin.system) == (suite, system):
            scored[_key(origin)] = main_score(path, data)
    return scored


def _key(origin: Origin) -> tuple[str, ...]:
    return (origin.lang, origin.split, origin.protocol, origin.select, origin.source, str(origin.seed))
