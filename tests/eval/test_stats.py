"""Intervals and tests beside row-by-row resampling, and the power of the gate by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from xling.eval import stats
from xling.eval.compare import FALSE_ALARMS
from xling.eval.metrics import METRICS
from xling.eval.metrics.base import with_count
from xling.eval.stats import Paired

ACCURACY = METRICS["accuracy"]
SPAN_F1 = METRICS["span_f1"]


def paired_accuracy(rng: np.random.Generator, n: int, accuracy: float, drop: float, differ: float) -> Paired:
    """Two systems right on ``accuracy`` and ``accuracy - drop`` of the rows, differing on ``differ`` of them."""
    kinds = rng.choice(4, size=n, p=_shares(accuracy, drop, differ))
    a, b = np.isin(kinds, (0, 1)), np.isin(kinds, (0, 2))
    return Paired("xx", with_count(a.astype(float)), with_count(b.astype(float)))


def _shares(accuracy: float, drop: float, differ: float) -> list[float]:
    only_a, only_b = (differ + drop) / 2, (differ - drop) / 2
    return [accuracy - only_a, only_a, only_b, 1 - accuracy - only_b]


@pytest.mark.parametrize("cost", [0, 20, 1000])
def test_bootstrap_equals_resampling_row_by_row(cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "COST_OF_DISTINCT", cost)
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 3, 400), rng.integers(1, 4, 400), rng.integers(1, 4, 400)], axis=1)
    rows = rows.astype(np.float64)
    low, high = stats.bootstrap(rows, SPAN_F1, "x", 4000)
    slow = [SPAN_F1.reduce(rows[rng.integers(0, 400, 400)].sum(axis=0)) for _ in range(4000)]
    assert (low, high) == pytest.approx(tuple(np.percentile(slow, [2.5, 97.5])), abs=0.5)
    assert low < float(SPAN_F1.reduce(rows.sum(axis=0))) < high


def test_randomisation_equals_swapping_row_by_row() -> None:
    rng = np.random.default_rng(1)
    pair = paired_accuracy(rng, 600, 0.7, 0.03, 0.2)
    found = stats.compare([pair], ACCURACY, "x", 8000)
    differences = pair.b[:, 0] - pair.a[:, 0]
    swaps = (rng.choice([-1, 1], size=(8000, 600)) * differences).mean(axis=1) * 100
    assert found.difference == pytest.approx(differences.mean() * 100)
    assert found.p_lower == pytest.approx(np.mean(swaps <= found.difference + 1e-9), abs=0.02)
    assert found.p_two_sided == pytest.approx(
        np.mean(np.abs(swaps) >= abs(found.difference) - 1e-9), abs=0.03
    )
    assert found.low < found.difference < found.high


def test_equal_input_gives_equal_numbers_and_equal_systems_no_difference() -> None:
    pair = paired_accuracy(np.random.default_rng(2), 500, 0.7, 0.0, 0.2)
    assert stats.compare([pair], ACCURACY, "k") == stats.compare([pair], ACCURACY, "k")
    same = stats.compare([Paired("xx", pair.a, pair.a)], ACCURACY)
    assert (same.difference, same.p_lower, same.p_two_sided) == (0.0, 1.0, 1.0)


def test_error_rates_are_turned_round() -> None:
    edits = np.stack([np.ones(200), np.full(200, 10.0)], axis=1)
    worse = stats.compare([Paired("xx", edits, edits * [2, 1])], METRICS["ter"])
    assert worse.difference == pytest.approx(-10)
    assert worse.p_lower < 0.01


def test_rows_needed_agrees_with_the_drop_found() -> None:
    n = stats.rows_needed(0.15, 2.0, FALSE_ALARMS)
    assert 6000 < n < 7500
    error = 100 * np.sqrt(0.15 / n)
    assert stats.power_drop(error, FALSE_ALARMS) == pytest.approx(2.0, abs=0.01)


@pytest.mark.slow
def test_the_gate_catches_two_points_and_stays_calm() -> None:
    """By simulation: 4 languages of 2,000 rows, systems that differ on 15 % of the rows, 200 draws each way."""
    rng = np.random.default_rng(3)
    caught, alarms, draws = 0, 0, 200
    for draw in range(draws):
        worse = [paired_accuracy(rng, 2000, 0.70, 0.02, 0.15) for _ in range(4)]
        equal = [paired_accuracy(rng, 2000, 0.70, 0.0, 0.15) for _ in range(4)]
        caught += stats.compare(worse, ACCURACY, f"w{draw}", 1000).p_lower <= FALSE_ALARMS
        alarms += stats.compare(equal, ACCURACY, f"e{draw}", 1000).p_lower <= FALSE_ALARMS
    assert caught / draws >= 0.95
    # At a true rate of 0.5 % more than 6 alarms in 200 have a probability below one in 10,000.
    assert alarms <= 6
