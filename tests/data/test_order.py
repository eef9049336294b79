"""Orders that are computed item by item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.sampling import rng
from xling.data import mixer as order
from xling.data.mixer import TABLE, Chunks, Permutation


@given(st.integers(1, 3000), st.integers(0, 99))
def test_a_network_permutes_any_number_of_items(num: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "TABLE", 0)
        permuted = Permutation(num, seed, "order")(np.arange(num))
    assert np.sort(permuted).tolist() == list(range(num))


def test_a_few_items_are_drawn_as_a_table() -> None:
    assert (Permutation(1000, 7, "x")(np.arange(1000)) == rng(7, "x").permutation(1000)).all()


def test_a_network_looks_like_a_random_order() -> None:
    num = 100_000
    permuted = Permutation(num, 1, "order")(np.arange(num))
    other = Permutation(num, 2, "order")(np.arange(num))
    # A random order leaves one item in its place, two orders agree in one place, and half of the neighbours ascend.
    assert (permuted == np.arange(num)).sum() < 10 and (permuted == other).sum() < 10
    assert (np.diff(permuted) > 0).mean() == pytest.approx(0.5, abs=0.01)
    assert abs(np.corrcoef(np.arange(num), permuted)[0, 1]) < 0.015
    # Any stretch is spread evenly: a chi-squared test of 100 cells, whose .999 quantile is 149.
    cells = np.bincount(permuted[20_000:30_000] * 100 // num, minlength=100)
    assert ((cells - 100) ** 2 / 100).sum() < 149
    # Neighbours are independent: pairs of halves come equally often.
    halves = permuted * 2 // num
    assert np.bincount(2 * halves[:-1] + halves[1:]) / num == pytest.approx(0.25, abs=0.01)


def test_a_place_is_computed_alone() -> None:
    billion = Permutation(10**9, 1, "order")
    some = np.array([0, 5, 10**9 - 1, 123_456_789])
    found = billion(some)
    assert ((found >= 0) & (found < 10**9)).all()
    assert [int(billion(some[i : i + 1])[0]) for i in range(4)] == found.tolist()


@given(st.integers(1, 400), st.integers(1, 30), st.integers(1, 6), st.integers(0, 9))
def test_chunks_are_read_together_and_hold_everything(num: int, chunk: int, buffer: int, seed: int) -> None:
    items = Chunks(num, chunk, buffer, seed)(np.arange(num))
    assert np.sort(items).tolist() == list(range(num))
    for first in range(0, num, chunk * buffer):
        # A buffer is whole chunks; the last one also holds the items that fill none.
        read = items[first : first + chunk * buffer]
        assert len(set((read // chunk).tolist())) <= buffer + 1
    middle = num // 2
    assert (Chunks(num, chunk, buffer, seed)(np.arange(middle, num)) == items[middle:]).all()


def test_numbers_are_scrambled_by_the_finaliser_of_split_mix_64() -> None:
    def reference(number: int, key: int) -> int:
        """In whole numbers: Steele et al. 2014, figure 17, and the upper half of the result."""
        mixed = (number + 1) * 0x9E3779B97F4A7C15 % 2**64 ^ key
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor % 2**64
        return mixed >> 32

    numbers, key = np.array([0, 1, 2, 12_345, 2**40], dtype=np.uint64), np.uint64(0xFEDCBA9876543210)
    scrambled = order._scrambled(numbers, key).tolist()
    assert scrambled == [reference(int(number), int(key)) for number in numbers]


def test_the_digits_of_a_network_cover_little_more_than_the_items() -> None:
    for num in (TABLE + 1, 2**17, 10**6 - 1, 10**6):
        drawn = Permutation(num, 1)
        assert num <= drawn._high * drawn._low < num + drawn._high
