"""Shares of stratified samples with their intervals, and the agreement of readers, against values worked elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.sampling import rng
from xling.corpora.audit.estimates import Stratum, agreement, estimate, wilson

LARGE = 10**12


@pytest.mark.parametrize(
    ("hits", "num", "low", "high"),
    [(90, 100, 0.826, 0.945), (180, 200, 0.851, 0.934), (20, 20, 0.839, 1), (0, 100, 0, 0.037)],
)
def test_one_large_stratum_has_wilsons_interval(hits: int, num: int, low: float, high: float) -> None:
    assert wilson(hits / num, num) == pytest.approx((low, high), abs=6e-4)
    found = estimate([Stratum(LARGE, num, hits)])
    assert found and (found.low, found.high) == pytest.approx(wilson(hits / num, num), abs=1e-6)
    assert (found.share, found.read, found.covered) == (hits / num, num, 1)


def test_strata_count_by_their_size_not_by_what_was_read() -> None:
    found = estimate([Stratum(900, 10, 10), Stratum(100, 90, 0)])
    assert found and found.share == pytest.approx(0.9)


def test_what_is_read_whole_is_known() -> None:
    found = estimate([Stratum(10, 10, 7)])
    assert found and (found.share, found.low, found.high) == (0.7, 0.7, 0.7)
    assert estimate([Stratum(10, 0, 0)]) is None


def test_strata_that_nobody_read_are_told_and_never_enough() -> None:
    found = estimate([Stratum(750, 700, 700), Stratum(250, 0, 0)])
    assert found and found.covered == 0.75
    assert not found.is_enough(0.5)


def test_the_interval_holds_the_share_of_the_population_as_often_as_it_says() -> None:
    random = rng(1, "coverage")
    sizes, shares, reads = (50, 400, 3000), (0.5, 0.05, 0.9), (20, 30, 40)
    truth = sum(n * round(n * s) / n for n, s in zip(sizes, shares, strict=True)) / sum(sizes)
    held = 0
    for _ in range(600):
        strata = [
            Stratum(n, k, float(random.hypergeometric(round(n * s), n - round(n * s), k)))
            for n, s, k in zip(sizes, shares, reads, strict=True)
        ]
        found = estimate(strata)
        held += bool(found and found.low <= truth <= found.high)
    assert 0.93 <= held / 600 <= 0.99


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=5))
def test_an_interval_lies_around_its_share(parts: list[tuple[int, int, float]]) -> None:
    found = estimate(Stratum(more + read, read, share * read) for more, read, share in parts)
    assert found and -1e-9 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1 + 1e-9


def test_alpha_is_krippendorffs() -> None:
    # Krippendorff 2011, section C: nominal data, four observers, missing values; alpha = .743.
    observers = [
        "1 2 3 3 2 1 4 1 2 . . .",
        "1 2 3 3 2 2 4 1 2 5 . 3",
        ". 3 3 3 2 3 4 2 2 5 1 .",
        "1 2 3 3 2 4 4 1 2 5 1 .",
    ]
    units = [
        [label for label in unit if label != "."] for unit in zip(*map(str.split, observers), strict=True)
    ]
    found = agreement(units)
    assert found and found.alpha == pytest.approx(0.743, abs=5e-4)
    assert (found.num_texts, found.raw) == (11, pytest.approx(8 / 11))


def test_alpha_of_labels_that_are_all_the_same_is_not_defined() -> None:
    found = agreement([["a", "a"], ["a", "a"], ["b"]])
    assert found and found.alpha is None and found.raw == 1
    assert agreement([["a"], []]) is None


def test_alpha_of_chance_is_near_zero() -> None:
    labels = np.array(list("ab"))[rng(2, "alpha").integers(2, size=(4000, 2))]
    found = agreement(labels.tolist())
    assert found and found.alpha is not None and abs(found.alpha) < 0.1
