"""Retrieval beside brute-force loops, and thresholds that come from the training pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.nearest_neighbours import Candidate


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def loop_scores(src: np.ndarray, tgt: np.ndarray, distance: str) -> np.ndarray:
    """Scores pair by pair, from the definitions."""
    table = np.array([[cosine(a, b) for b in tgt] for a in src])
    k = {"cosine": 1, "margin": 4, "csls": 10}[distance]
    forward = [np.mean(sorted(row)[-k:]) for row in table]
    backward = [np.mean(sorted(column)[-k:]) for column in table.T]
    for i in range(len(src)):
        for j in range(len(tgt)):
            if distance == "margin":
                table[i, j] /= (forward[i] + backward[j]) / 2
            elif distance == "csls":
                table[i, j] = 2 * table[i, j] - forward[i] - backward[j]
    return table


@pytest.mark.parametrize("distance", ["cosine", "margin", "csls"])
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), m=st.integers(1, 12))
def test_nearest_equals_a_brute_force_loop(distance: str, seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    src, tgt = rng.normal(size=(n, 5)) + 1, rng.normal(size=(m, 5)) + 1
    table = loop_scores(src, tgt, distance)
    found = nearest_neighbours.nearest_rows(src.astype(np.float32), tgt.astype(np.float32), distance)  # type: ignore[arg-type]
    for i, j in enumerate(found):
        assert table[i, j] == pytest.approx(table[i].max(), abs=1e-4)


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    src, tgt = (rng.normal(size=(50, 6)).astype(np.float32) for _ in range(2))
    whole = nearest_neighbours.nearest_rows(src, tgt, "margin")
    monkeypatch.setattr(nearest_neighbours, "BLOCK_ROWS", 7)
    assert (nearest_neighbours.nearest_rows(src, tgt, "margin") == whole).all()


def test_csls_lets_go_of_hubs() -> None:
    # One target is near everything; cosine gives it to both sources, CSLS does not.
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 20)).astype(np.float32)
    noise = rng.normal(size=(30, 20)).astype(np.float32)
    hub = base.mean(axis=0, keepdims=True) * 5
    tgt = np.vstack([base + 1.2 * noise, hub])
    right = {
        d: int((nearest_neighbours.nearest_rows(base, tgt, d)[:30] == np.arange(30)).sum())
        for d in ("cosine", "csls")
    }  # type: ignore[arg-type]
    assert right["csls"] >= right["cosine"]


def test_mining_takes_each_row_once_and_fits_its_threshold() -> None:
    rng = np.random.default_rng(0)
    src = rng.normal(size=(40, 16)).astype(np.float32)
    tgt = np.vstack([src[:20] + 0.05 * rng.normal(size=(20, 16)), rng.normal(size=(30, 16))]).astype(
        np.float32
    )
    pairs = nearest_neighbours.mine_pairs(src, tgt)
    assert len({p.src for p in pairs}) == len(pairs) == len({p.tgt for p in pairs})
    assert [p.score for p in pairs] == sorted((p.score for p in pairs), reverse=True)
    gold = {(i, i) for i in range(20)}
    threshold, f1 = nearest_neighbours.fit_threshold(pairs, gold)
    assert f1 == 100
    assert {(p.src, p.tgt) for p in pairs if p.score >= threshold} == gold


def test_the_threshold_is_the_best_of_all_cuts() -> None:
    pairs = [Candidate(i, i, 1 - i / 10) for i in range(8)]
    gold = {(0, 0), (2, 2), (3, 3), (6, 6)}
    by_cut = [200 * len(gold & {(p.src, p.tgt) for p in pairs[:n]}) / (n + len(gold)) for n in range(1, 9)]
    threshold, f1 = nearest_neighbours.fit_threshold(pairs, gold)
    assert f1 == pytest.approx(max(by_cut))
    assert sum(p.score >= threshold for p in pairs) == by_cut.index(max(by_cut)) + 1
    with pytest.raises(UserError, match="no mined pair of the training split is right"):
        nearest_neighbours.fit_threshold(pairs, {(0, 5)})


def test_bad_vectors_and_distances_are_refused() -> None:
    good = np.ones((2, 3), dtype=np.float32)
    with pytest.raises(UserError, match="vector 1 has length 0"):
        nearest_neighbours.nearest_rows(np.array([[1, 2], [0, 0]], dtype=np.float32), good[:, :2])
    with pytest.raises(UserError, match="vector 0 has length nan"):
        nearest_neighbours.nearest_rows(np.full((1, 3), np.nan, dtype=np.float32), good)
    with pytest.raises(UserError, match="vectors of shape"):
        nearest_neighbours.nearest_rows(np.zeros((0, 3), dtype=np.float32), good)
    with pytest.raises(UserError, match=r"unknown distance 'cosin'.*'cosine'"):
        nearest_neighbours.nearest_rows(good, good, "cosin")  # type: ignore[arg-type]


@given(st.integers(0, 10_000), st.floats(0, 10))
def test_what_a_language_adds_to_every_vector_is_taken_off(seed: int, much: float) -> None:
    draw = np.random.default_rng(seed)
    src = draw.standard_normal((12, 8))
    tgt = src + 0.1 * draw.standard_normal((12, 8))
    languages = much * draw.standard_normal((2, 8))
    a, b = (
        nearest_neighbours.centre((side + lang).astype(np.float32))
        for side, lang in zip((src, tgt), languages, strict=True)
    )
    assert np.abs(a.mean(0)).max() < 1e-4 * (1 + much)
    expected = src - src.mean(0)
    np.testing.assert_allclose(a, expected, atol=1e-4 * (1 + much))
    assert (
        nearest_neighbours.nearest_rows(a, b).tolist()
        == loop_scores(expected, tgt - tgt.mean(0), "cosine").argmax(1).tolist()
    )


def test_rows_that_are_all_alike_stay() -> None:
    rows = np.full((3, 4), 0.5, dtype=np.float32)
    assert (nearest_neighbours.centre(rows) == rows).all()
    one = np.array([[1, 2]], dtype=np.float32)
    assert (nearest_neighbours.centre(one) == one).all()
