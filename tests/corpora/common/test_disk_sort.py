"""Sorting and connected components in bounded memory equal those in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from xling.corpora.common import disk_sort
from xling.corpora.common.disk_sort import Sorter, connected_stars, count_values, join_halves, split_halves

NUMBERS = st.lists(st.integers(0, 60), max_size=60)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_sort, "_MIN_BLOCK", 2)
        yield


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(NUMBERS, max_size=5), max_values=st.sampled_from([1, 3, 8, 1000]))
def test_numbers_come_sorted_and_once(parts: list[list[int]], max_values: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sorter = Sorter(Path(folder) / "runs", max_values)
        for part in parts:
            sorter.add(np.array(part, dtype=np.uint64))
        wanted = sorted({number for part in parts for number in part})
        for _ in range(2):  # as often as needed
            assert [n for block in sorter.blocks() for n in block.tolist()] == wanted
        if max_values < 10 and len(wanted) > 2 * max_values:
            assert list((Path(folder) / "runs").iterdir())
        sorter.close()
        assert not (Path(folder) / "runs").exists()


@settings(max_examples=40, deadline=None)
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40)).filter(lambda e: e[0] != e[1]), max_size=60
    ),
    max_values=st.sampled_from([2, 9, 1000]),
)
def test_stars_are_the_connected_components(edges: list[tuple[int, int]], max_values: int) -> None:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    _, labels = connected_components(coo_array((np.ones(len(ends)), ends.T), shape=(41, 41)), directed=False)
    first = {label: int(np.flatnonzero(labels == label)[0]) for label in set(labels.tolist())}
    wanted = [(i, first[label]) for i, label in enumerate(labels.tolist()) if first[label] != i]
    values = join_halves(*ends.T.astype(np.uint64))
    with tempfile.TemporaryDirectory() as folder:
        leaves = connected_stars(np.array_split(values, 3), Path(folder) / "sort", max_values)
        pairs = [
            pair
            for block in leaves.blocks()
            for pair in zip(*map(np.ndarray.tolist, split_halves(block)), strict=True)
        ]
        assert pairs == wanted
        leaves.close()
        assert not list((Path(folder)).rglob("*.u64"))


def test_a_long_chain_takes_few_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    original = disk_sort._run_large_star
    monkeypatch.setattr(disk_sort, "_run_large_star", lambda *given: rounds.append(0) or original(*given))
    order = np.random.default_rng(0).permutation(1500).astype(np.uint64)
    leaves = connected_stars([join_halves(order[:-1], order[1:])], tmp_path, 400)
    nodes, firsts = (np.concatenate(part) for part in zip(*map(split_halves, leaves.blocks()), strict=True))
    assert nodes.tolist() == list(range(1, 1500))
    assert not firsts.any()
    assert len(rounds) < 20


@settings(max_examples=30, deadline=None)
@given(numbers=NUMBERS, size=st.integers(1, 7))
def test_counts_over_blocks(numbers: list[int], size: int) -> None:
    ordered = np.sort(np.array(numbers, dtype=np.uint64))
    blocks = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    pairs = [(n, c) for ns, cs in count_values(blocks) for n, c in zip(ns.tolist(), cs.tolist(), strict=True)]
    assert pairs == [(n, numbers.count(n)) for n in sorted(set(numbers))]
