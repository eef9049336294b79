"""Groups of systems that a test cannot distinguish, suite by suite."""

from __future__ import annotations

from collections.abc import Sequence

from xling.eval.report import comparison
from xling.eval.report.comparison import System

SIGNIFICANCE_LEVEL = 0.05


def rank_groups(systems: Sequence[System]) -> dict[tuple[str, str], int]:
    """Return (suite, system) -> rank of its group, from 1.

    Systems are sorted by their averages. The best opens the first group. Each further system is tested
    against the system that opened the last group. If p is at most `SIGNIFICANCE_LEVEL`, divided by the
    number of tests of the suite, it opens the next group. So systems of one group are not distinguishable
    from its first, and each group's first is significantly worse than that of the group before. A suite with
    systems that were scored on other rows, or with fewer than two, has no ranks.

    Args:
        systems: systems with their answers, including controls.
    """
    ranks: dict[tuple[str, str], int] = {}
    for suite in dict.fromkeys(system.suite for system in systems):
        there = [system for system in systems if system.suite == suite]
        if len(there) < 2:
            continue
        try:
            ranks |= {(suite, name): rank for name, rank in _rank_systems(there).items()}
        except ValueError:
            # `comparison.tests` reports systems with other rows.
            continue
    return ranks


def _rank_systems(systems: Sequence[System]) -> dict[str, int]:
    against = {s.name: comparison.average_scores(systems[0], s) for s in systems[1:]}
    score = {name: scores[1] for name, scores in against.items()}
    score[systems[0].name] = next(iter(against.values()))[0]
    order = sorted(systems, key=lambda s: -score[s.name])
    level, best_of_rank, ranks = SIGNIFICANCE_LEVEL / (len(order) - 1), order[0], {order[0].name: 1}
    for system in order[1:]:
        test = comparison.test_average(best_of_rank, system)
        worse = test.comparison.p_two_sided <= level and test.comparison.difference < 0
        ranks[system.name] = ranks[best_of_rank.name] + worse
        best_of_rank = system if worse else best_of_rank
    return ranks
