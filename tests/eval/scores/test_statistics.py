"""Intervals and tests beside resampling one by one; rates of false alarms and coverage where rows are correlated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.eval import calibration
from tests.eval.worlds import WORLDS, rates
from xling.eval.metrics import METRICS
from xling.eval.metrics.base import with_count
from xling.eval.rows.suite import suites
from xling.eval.scores import statistics
from xling.eval.scores.score_file import Score
from xling.eval.scores.statistics import PairedStatistics, RowStatistics
from xling.eval.tables.columns import column_of
from xling.eval.tables.publish import Averages

ACCURACY = METRICS["accuracy"]
SPAN_F1 = METRICS["span_f1"]


def paired_accuracy(
    rng: np.random.Generator, n: int, accuracy: float, drop: float, differ: float
) -> PairedStatistics:
    """Two systems right on ``accuracy`` and ``accuracy - drop`` of the rows, differing on ``differ`` of them."""
    kinds = rng.choice(4, size=n, p=_shares(accuracy, drop, differ))
    a, b = np.isin(kinds, (0, 1)), np.isin(kinds, (0, 2))
    return PairedStatistics("xx", with_count(a.astype(float)), with_count(b.astype(float)))


def _shares(accuracy: float, drop: float, differ: float) -> list[float]:
    only_a, only_b = (differ + drop) / 2, (differ - drop) / 2
    return [accuracy - only_a, only_a, only_b, 1 - accuracy - only_b]


@pytest.mark.parametrize("cost", [0, 20, 1000])
def test_bootstrap_equals_resampling_row_by_row(cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "COST_OF_DISTINCT", cost)
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 3, 400), rng.integers(1, 4, 400), rng.integers(1, 4, 400)], axis=1)
    rows = rows.astype(np.float64)
    low, high = statistics.average_interval([RowStatistics("xx", rows)], SPAN_F1, "x", num_resamples=4000)
    slow = [SPAN_F1.reduce(rows[rng.integers(0, 400, 400)].sum(axis=0)) for _ in range(4000)]
    assert (low, high) == pytest.approx(tuple(np.percentile(slow, [2.5, 97.5])), abs=0.5)
    assert low < float(SPAN_F1.reduce(rows.sum(axis=0))) < high


def test_randomisation_equals_swapping_row_by_row() -> None:
    rng = np.random.default_rng(1)
    pair = paired_accuracy(rng, 600, 0.7, 0.03, 0.2)
    found = statistics.compare_systems([pair], ACCURACY, "x", 8000)
    differences = pair.b[:, 0] - pair.a[:, 0]
    swaps = (rng.choice([-1, 1], size=(8000, 600)) * differences).mean(axis=1) * 100
    assert found.difference == pytest.approx(differences.mean() * 100)
    assert found.p_two_sided == pytest.approx(
        np.mean(np.abs(swaps) >= abs(found.difference) - 1e-9), abs=0.03
    )
    assert found.low < found.difference < found.high


def test_equal_input_gives_equal_numbers_and_equal_systems_no_difference() -> None:
    pair = paired_accuracy(np.random.default_rng(2), 500, 0.7, 0.0, 0.2)
    assert statistics.compare_systems([pair], ACCURACY, "k") == statistics.compare_systems(
        [pair], ACCURACY, "k"
    )
    same = statistics.compare_systems([PairedStatistics("xx", pair.a, pair.a)], ACCURACY)
    assert (same.difference, same.p_two_sided) == (0.0, 1.0)


def test_error_rates_are_turned_round() -> None:
    edits = np.stack([np.ones(200), np.full(200, 10.0)], axis=1)
    worse = statistics.compare_systems([PairedStatistics("xx", edits, edits * [2, 1])], METRICS["ter"])
    assert worse.difference == pytest.approx(-10)
    assert worse.p_two_sided < 0.01


def test_clusters_join_items_over_languages_and_seeds_and_rows_of_one_block() -> None:
    rows = np.zeros((4, 2))
    parts = [
        RowStatistics("de", rows, ["1", "2", "3", "4"], ["p", "p", None, "q"]),
        RowStatistics("fr", rows, ["4", "3", "2", "9"], ["x", None, None, None]),
        RowStatistics("fr", rows[:1], ["9"], [None], seed=2),
        RowStatistics("sw", rows[:2]),
    ]
    found, count = statistics.assign_clusters(parts)
    de, fr, again, sw = (part.tolist() for part in found)
    assert count == 6
    assert de[0] == de[1] == fr[2], "the passage joins items 1 and 2"
    assert len({de[0], de[2], de[3], fr[3]}) == 4
    assert (fr[0], fr[1], fr[3]) == (de[3], de[2], again[0])
    assert len({*sw, *de, *fr}) == 6, "without ids every row is its own"
    other = [RowStatistics("de", rows[:1], ["1"], ["p"]), RowStatistics("fr", rows[:1], ["2"], ["p"])]
    assert statistics.assign_clusters(other)[1] == 2, "a block is of one language"


def test_a_swap_is_of_a_whole_cluster() -> None:
    """Two languages with the same answers to six items: the differences are those of one language."""
    a, b = with_count([1, 0, 0, 0, 0, 0]), with_count([1, 1, 1, 1, 1, 0])
    ids = [str(i) for i in range(6)]
    one = statistics.compare_systems([PairedStatistics("de", a, b, ids)], ACCURACY, "k", 20_000)
    two = statistics.compare_systems(
        [PairedStatistics("de", a, b, ids), PairedStatistics("fr", a, b, ids)], ACCURACY, "k", 20_000
    )
    assert (one.clusters, two.clusters, two.n) == (6, 6, 12)
    # All four items that differ have to fall on one side: 2 of 16.
    assert one.p_two_sided == pytest.approx(0.125, abs=0.01)
    assert two.p_two_sided == pytest.approx(0.125, abs=0.01)
    assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=3)
    apart = statistics.compare_systems(
        [PairedStatistics("de", a, b), PairedStatistics("fr", a, b)], ACCURACY, "k", 20_000
    )
    assert apart.p_two_sided == pytest.approx(2 / 256, abs=0.003), "as if the rows had nothing in common"


def test_seeds_that_disagree_widen_the_interval() -> None:
    ids = [str(i) for i in range(400)]
    base = np.random.default_rng(4).random(400)
    right = [with_count((base < share).astype(float)) for share in (0.60, 0.70, 0.80)]
    alike = [PairedStatistics("de", with_count(base < 0.5), right[1], ids, seed=s) for s in (1, 2, 3)]
    apart = [PairedStatistics("de", with_count(base < 0.5), r, ids, seed=s) for s, r in enumerate(right)]
    narrow, wide = (statistics.compare_systems(pairs, ACCURACY, "k") for pairs in (alike, apart))
    assert narrow.difference == pytest.approx(wide.difference, abs=1)
    assert (narrow.seeds, wide.seeds) == (3, 3)
    # Seeds at 10, 20 and 30 points: a mean of 20 with an interval of t(2) = 4.3 standard errors of 5.8.
    assert narrow.high - narrow.low < 9
    assert wide.high - wide.low == pytest.approx(2 * 4.3 * 10 / 3**0.5, rel=0.25)
    assert narrow.p_two_sided < 0.01 < 0.05 < wide.p_two_sided


@pytest.mark.parametrize(("right", "n"), [(204, 204), (0, 204), (99, 100), (1, 30)])
def test_wilson_worked_by_its_formula(right: int, n: int) -> None:
    rows = with_count([1.0] * right + [0.0] * (n - right))
    z, share = 1.959964, right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    found = statistics.score_interval(rows, ACCURACY, "k")
    assert found == pytest.approx((100 * (middle - half), 100 * (middle + half)), abs=1e-4)
    assert found[0] < 100 * share or right == 0
    assert found[1] > 100 * share or right == n


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_average_that_is_right_or_wrong_everywhere_has_wilsons_interval_over_its_items(
    value: float,
) -> None:
    """Three languages of one set of rows say as much as one; three sets of rows as much as all of them."""
    rows, ids = with_count([value] * 40), [str(i) for i in range(40)]
    same = [RowStatistics(lang, rows, ids) for lang in ("de", "fr", "sw")]
    other = [RowStatistics(lang, rows) for lang in ("de", "fr", "sw")]
    assert statistics.average_interval(same, ACCURACY, "k") == statistics.score_interval(rows, ACCURACY, "k")
    pooled = statistics.score_interval(with_count([value] * 120), ACCURACY, "k")
    halves = [RowStatistics(part.lang, np.tile([1.0, 2.0], (40, 1)), ids) for part in same]
    low, high = statistics.average_interval(halves, ACCURACY, "k")
    assert (low, high) == pytest.approx(statistics.score_interval(halves[0].stats, ACCURACY, "k"))
    assert low < 40 and high > 60, "one word of two right in every sentence"
    assert statistics.average_interval(other, ACCURACY, "k") == pytest.approx(pooled)
    assert pooled[0] > 0 or pooled[1] < 100
    scores = [Score("xnli", part.lang, metric="accuracy", value=100 * value, n=40, seed=1) for part in other]
    averages = Averages(list(zip(scores, other, strict=True)))
    assert averages(column_of(scores[0]), ("de", "fr", "sw"), is_gap=False) == pytest.approx(pooled)


def test_questions_of_one_passage_count_as_one() -> None:
    """Ten passages with ten questions each that are all right or all wrong say as much as ten rows."""
    values = [float(p % 2) for p in range(10) for _ in range(10)]
    blocks = [p for p in range(10) for _ in range(10)]
    found = statistics.score_interval(with_count(values), ACCURACY, "k", blocks)
    assert found == pytest.approx(
        statistics.score_interval(with_count(values[::10]), ACCURACY, "k"), abs=1e-9
    )


@pytest.mark.parametrize("name", WORLDS)
def test_correlated_rows_raise_no_more_alarms_than_they_should(name: str) -> None:
    """At a rate of 5 %, ten alarms or more in 60 draws have a probability of 0.1 %; so has a coverage of 50 in 60."""
    found = rates(WORLDS[name], 60)
    assert found["alarms"] < 10 / 60, found
    assert found["covered"] > 50 / 60, found
    assert found["averages"] > 50 / 60, found


@pytest.mark.parametrize("suite", ["sib200", "panx", "ntrex"])
def test_rates_on_real_predictions(suite: str) -> None:
    """Rows of two controls in several languages, which are correlated as real ones are.

    Accuracy, spans and retrieval stand for the ten suites that `docs/results.d/eval.md` has.
    At a rate of 5 %, ten alarms or more in 60 draws have a probability of 0.1 %; so has a coverage of 50 in 60.
    `docs/results.d/eval.md` has 2,000 draws.
    """
    metric, pairs = METRICS[suites()[suite].metric], calibration.recorded(suite)
    is_shared = suite in ("sib200", "ntrex")
    found = calibration.measured(metric, pairs, 60, suite, 40 if is_shared else 0)["percent"]
    assert len(pairs) > 2 and found["clusters"]["alarms"] < 1000 / 60, found
    assert min(found["clusters"]["difference"], found["clusters"]["average"]) > 5000 / 60, found
    if is_shared:
        assert found["rows"]["alarms"] > 15, (
            "rows drawn one by one raise false alarms, or this would miss them"
        )


def test_a_comparison_catches_two_points_and_stays_calm() -> None:
    """By simulation: 4 languages of 2,000 rows that differ on 15 % of them, 30 draws one way and 60 the other."""
    rng = np.random.default_rng(3)
    caught, alarms, draws = 0, 0, 60
    for draw in range(draws):
        equal = [paired_accuracy(rng, 2000, 0.70, 0.0, 0.15) for _ in range(4)]
        alarms += statistics.compare_systems(equal, ACCURACY, f"e{draw}", 1000).p_two_sided <= 0.01
        if draw % 2:
            continue
        worse = [paired_accuracy(rng, 2000, 0.70, 0.02, 0.15) for _ in range(4)]
        caught += statistics.compare_systems(worse, ACCURACY, f"w{draw}", 1000).p_two_sided <= 0.01
    assert caught >= 0.95 * draws / 2
    # At a true rate of 1 % more than 3 alarms in 60 have a probability of 0.3 %.
    assert alarms <= 3


def test_what_items_explain_of_the_seeds_spread_is_taken_off() -> None:
    draw = np.random.default_rng(1)
    # Two seeds, one part each; every resample moves both averages alike but for what items do to one seed alone.
    shared, alone = draw.normal(0, 3, (4000, 1)), draw.normal(0, 1, (4000, 2))
    observed, shares = np.array([50.0, 56.0]), np.array([0.5, 0.5])
    variance, free = statistics.seed_variance(observed + shared + alone, observed, shares, [1, 2])
    assert free == 1
    # Half the squared distance is 18; items explain about 1 of it, and the mean of two seeds has half of the rest.
    assert variance == pytest.approx((18 - 1) / 2, abs=0.1)
    assert statistics.seed_variance(observed + shared + 20 * alone, observed, shares, [1, 2])[0] == 0
