"""Margins, retrievals and both kinds of search, on vectors in memory."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.mining.planted import mine, nearest, planted
from xling.core.errors import UserError
from xling.corpora.mining import margin, search
from xling.corpora.mining.margin import Pairs
from xling.corpora.mining.rows import VectorRows, normalise
from xling.corpora.mining.sentences import first_occurrences


@pytest.mark.parametrize("block", [64, 1000, 10_000])
def test_blocks_find_what_brute_force_finds(block):
    src, tgt, _ = planted()
    cosines, ids = nearest(src, tgt, 4, block)
    wanted = np.sort(src @ tgt.T, axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(cosines, wanted, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(src @ tgt.T, ids, 1), wanted, atol=1e-5)


def test_ratio_margin_by_hand():
    src = normalise(np.array([[1.0, 0.0], [0.0, 1.0]]))
    tgt = normalise(np.array([[1.0, 0.2], [0.2, 1.0]]))
    i, j, scores = mine(src, tgt, k=2, margin="ratio", retrieval="max")
    cos = src @ tgt.T
    around = (cos.mean(axis=1)[0] + cos.mean(axis=0)[0]) / 2
    assert i.tolist() == j.tolist()
    assert scores[0] == pytest.approx(cos[0, 0] / around, rel=1e-5)
    _, _, distance = mine(src, tgt, k=2, margin="distance", retrieval="max")
    assert distance[0] == pytest.approx(cos[0, 0] - around, rel=1e-5)
    _, _, absolute = mine(src, tgt, k=2, margin="absolute", retrieval="forward")
    assert absolute[0] == pytest.approx(cos[0, 0], rel=1e-5)


def f1_at_best_threshold(src, tgt, scores, gold):
    """Return precision, recall, F1 and threshold of the cut with the best F1, for pairs sorted best first."""
    hits = np.cumsum([(int(i), int(j)) in gold for i, j in zip(src, tgt, strict=True)])
    if not len(hits):
        return 0.0, 0.0, 0.0, float("inf")
    sizes = np.arange(1, len(hits) + 1)
    f1 = 2 * hits / (sizes + len(gold))
    cut = int(f1.argmax())
    return float(hits[cut] / sizes[cut]), float(hits[cut] / len(gold)), float(f1[cut]), float(scores[cut])


def test_margin_beats_the_cosine_and_intersection_is_most_precise():
    src, tgt, gold = planted()
    results = {
        (m, r): f1_at_best_threshold(*mine(src, tgt, 4, m, r), gold)
        for m in ("ratio", "absolute")
        for r in ("forward", "backward", "intersection", "max")
    }
    assert results["ratio", "max"][2] > 0.8
    assert results["ratio", "max"][2] > results["absolute", "max"][2]
    assert results["ratio", "intersection"][0] >= results["ratio", "forward"][0] - 0.02


@pytest.mark.parametrize("retrieval", ["forward", "backward", "intersection", "max"])
def test_retrievals_use_each_sentence_as_they_say(retrieval):
    src, tgt, _ = planted(50, 150)
    i, j, scores = mine(src, tgt, 4, "ratio", retrieval)
    assert (np.diff(scores) <= 0).all()
    if retrieval != "backward":
        assert len(set(i.tolist())) == len(i)
    if retrieval in ("intersection", "max", "backward"):
        assert len(set(j.tolist())) == len(j)


def indexed(tmp_path, keys, other, shards=3, **how):
    """The index of some keys, coded in shards, as the stage does it."""
    device = how.get("device", "cpu")
    faiss.write_index(
        search.train_index([VectorRows([keys]), VectorRows([other])], device), str(tmp_path / "trained")
    )
    files = []
    for number, part in enumerate(np.array_split(keys, shards)):
        files.append(tmp_path / f"codes{number}")
        search.add_codes(tmp_path / "trained", VectorRows([part]), files[-1])
    return search.SearchIndex(files, VectorRows(np.array_split(keys, 2)), **{"num_candidates": 32} | how)


def test_the_trained_index_finds_nearly_what_exact_search_finds_with_exact_cosines(tmp_path):
    src, tgt, _ = planted(400, 3600)
    exact, _ = nearest(src, tgt, 4)
    with ThreadPoolExecutor(1) as pool:
        cosines, ids = indexed(tmp_path, tgt, src).nearest(src, 4, pool)
    np.testing.assert_allclose(np.einsum("qd,qkd->qk", src, tgt[ids]), cosines, atol=1e-5)
    assert (np.diff(cosines, axis=1) <= 0).all()
    assert (cosines >= exact - 1e-5).mean() > 0.95
    assert (cosines <= exact + 1e-5).all()


def test_candidates_do_not_depend_on_threads_or_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_QUERIES_AT_ONCE", 64)
    monkeypatch.setattr(search, "_ROWS_AT_ONCE", 250)
    src, tgt, _ = planted(200, 1800)
    results = []
    for threads, shards in ((1, 1), (3, 1), (2, 4)):
        with ThreadPoolExecutor(threads) as pool:
            results.append(indexed(tmp_path, tgt, src, shards).nearest(src[:1000], 4, pool))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0][1], other[1])


def test_cells_whose_length_is_a_multiple_of_their_blocks_are_merged_whole(tmp_path):
    """faiss wrote past the end of such cells: shards of a million ended in an abort, or in wrong codes."""
    keys = normalise(np.random.default_rng(1).standard_normal((1200, 32)))
    trained = search.train_index([VectorRows([keys[:40]]), VectorRows([keys[:30]])])  # one cell
    faiss.write_index(trained, str(tmp_path / "trained"))
    lists = faiss.downcast_InvertedLists(faiss.extract_index_ivf(trained).invlists)
    block = lists.block_size  # 512, the bytes of 32 codes of 16 bytes
    for name, ends in (("whole", [0, 1200]), ("parts", [0, block, block, 700, 2 * block, 1200])):
        files = []
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            files.append(tmp_path / f"{name}{number}")
            search.add_codes(tmp_path / "trained", VectorRows([keys[start:end]]), files[-1])
        index = search.merged(files)
        found = index.search(keys[:100], 5)
        if name == "whole":
            expected = found
    assert index.ntotal == 1200
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


def test_more_probes_find_more(tmp_path):
    src, tgt, _ = planted(200, 1800)
    exact, _ = nearest(src, tgt, 4)
    results = []
    with ThreadPoolExecutor(1) as pool:
        for probes in (1, 4, 100_000):
            cosines, ids = indexed(tmp_path, tgt, src, probes=probes).nearest(src, 4, pool)
            assert ((ids >= 0) | (cosines == -1)).all()
            results.append((cosines >= exact - 1e-5).mean())
    assert results[0] < results[1] < results[2]
    assert results[2] > 0.98


@pytest.mark.parametrize("dim", [1, 3, 100, 1100])
def test_every_width_can_be_coded(tmp_path, dim):
    draw = np.random.default_rng(1)
    keys = normalise(draw.standard_normal((1000, dim)))
    with ThreadPoolExecutor(1) as pool:
        cosines, ids = indexed(tmp_path, keys, keys[:10]).nearest(keys[:50], 1, pool)
    np.testing.assert_allclose(cosines, 1, atol=1e-5)
    if dim > 1:
        assert ids[:, 0].tolist() == list(range(50))


def test_a_gpu_gets_codes_of_8_bits_and_a_machine_without_one_is_told(tmp_path, monkeypatch):
    """No GPU here: faiss's functions for it are replaced by ones that keep the index where it is."""
    with pytest.raises(UserError, match="sees no GPU here; valid: device=cpu"):
        search.check_device("gpu")
    moved = []
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: None, raising=False)
    monkeypatch.setattr(
        faiss, "index_cpu_to_all_gpus", lambda index: moved.append(index) or index, raising=False
    )
    knn_gpu = lambda resources, queries, keys, k, metric: faiss.knn(queries, keys, k, metric=metric)  # noqa: E731
    monkeypatch.setattr(faiss, "knn_gpu", knn_gpu, raising=False)
    search.check_device("gpu")
    src, tgt, _ = planted(200, 600, dim=8)
    wanted, _ = nearest(src, tgt, 4)
    np.testing.assert_allclose(
        search.exact_nearest(src, VectorRows([tgt]), 4, 1000, "gpu")[0], wanted, atol=1e-6
    )
    index = indexed(tmp_path, tgt, src, device="gpu")
    with search.thread_pool(0, "gpu") as pool:
        cosines, _ = index.nearest(src, 4, pool)
    assert (cosines >= wanted - 1e-5).mean() > 0.95
    cells = faiss.downcast_index(faiss.extract_index_ivf(moved[-1]))
    assert type(cells) is faiss.IndexIVFPQ and cells.pq.nbits == 8
    assert len(moved) == 2  # one to train, one to search


def greedy(pairs):
    """What `choose` does for max, one pair at a time."""
    kept, src, tgt = [], set(), set()
    for i, j, score in zip(*pairs, strict=True):
        if i not in src and j not in tgt:
            kept.append((int(i), int(j), float(score)))
            src.add(i)
            tgt.add(j)
    return kept


@pytest.mark.parametrize("rounds", [0, 1, 64])
@given(
    edges=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5)), max_size=60),
)
def test_pairs_are_taken_from_the_best_down(rounds, edges):
    src, tgt, scores = (np.array([edge[i] for edge in edges], np.int64) for i in range(3))
    pairs = margin._sort_pairs(Pairs(src, tgt, scores.astype(np.float32)))
    before, margin._ROUNDS = margin._ROUNDS, rounds
    try:
        taken = margin._use_each_once(pairs, 13, 13)
    finally:
        margin._ROUNDS = before
    assert [(int(i), int(j), float(s)) for i, j, s in zip(*taken, strict=True)] == greedy(pairs)


@pytest.mark.parametrize("retrieval", ["forward", "backward", "intersection", "max"])
def test_a_threshold_takes_away_what_is_below_and_nothing_else(retrieval):
    draw = np.random.default_rng(3)
    sides = [
        margin.BestNeighbours(draw.integers(0, 50, 50), draw.random(50).astype(np.float32).round(1))
        for _ in range(2)
    ]
    whole, cut = (margin.choose_pairs(*sides, retrieval, threshold) for threshold in (-np.inf, 0.5))
    kept = whole.scores >= 0.5
    assert 0 < kept.sum() < len(kept)
    for field, part in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(field[kept], part)


def test_neighbours_that_were_not_found_do_not_count():
    cosines = np.array([[0.5, -1], [-1, -1]], np.float32)
    ids = np.array([[1, -1], [-1, -1]])
    mean = margin.mean_cosine(cosines, ids)
    assert mean.tolist() == [0.5, 0]
    for kind in ("ratio", "distance", "absolute"):
        results = margin.best(cosines, ids, mean, np.ones(2, np.float32), kind)
        assert results.ids.tolist() == [1, -1] and np.isfinite(results.scores).tolist() == [True, False]
        assert margin.choose_pairs(results, results, "forward").src.tolist() == [0]


def test_large_and_small_numbers_keep_their_direction():
    rows = np.array([[3e30, 4e30], [3e-30, 4e-30], [0, 0]], np.float32)
    np.testing.assert_allclose(normalise(rows), [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-5)


@pytest.mark.parametrize("shards", [1, 4])
def test_rows_are_the_same_in_one_file_or_many(tmp_path, shards):
    whole = np.random.default_rng(1).standard_normal((37, 5)).astype(np.float16)
    files = []
    for number, part in enumerate(np.array_split(whole, shards)):
        files.append(tmp_path / f"{number}.npy")
        np.save(files[-1], part)
    rows = VectorRows(files)
    assert (len(rows), rows.dim) == whole.shape
    for start, block in rows.blocks(10):
        np.testing.assert_array_equal(block, whole[start : start + 10])
    np.testing.assert_array_equal(rows.block(8, 22), whole[8:22])
    numbers = np.array([36, 0, 9, 9, 10, 30])
    np.testing.assert_array_equal(rows.take(numbers), whole[numbers])


def test_repeated_and_empty_lines_are_taken_once():
    assert first_occurrences(["a", "", "b", "a", " "]).tolist() == [0, 2]
