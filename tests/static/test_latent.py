"""Latent vectors of words from aligned rows: directions, the least squares, and what an encoder starts from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from xling.static.latent import build_documents, compute_latent_words, fit_feature_table
from xling.static.vectors import unit_length
from xling.text.files.nway import RowSet

NUM_MEANINGS = 30


def rows_of(source: str, num_rows: int, langs: tuple[int, ...], seed: int) -> RowSet:
    """Rows of six meanings; language k writes meaning m as word ``k * NUM_MEANINGS + m``."""
    meanings = np.random.default_rng(seed).integers(0, NUM_MEANINGS, (num_rows, 6))
    words = np.concatenate([(meanings + k * NUM_MEANINGS).ravel() for k in langs]).astype(np.uint32)
    ends = np.arange(num_rows + 1)[None] * 6 + np.arange(len(langs))[:, None] * num_rows * 6
    return RowSet(source, tuple(f"l{k}" for k in langs), ends, words)


def test_rows_in_two_languages_are_documents_that_sum_to_one() -> None:
    lonely = RowSet(
        "x", ("a", "b"), np.array([[0, 2, 3], [3, 3, 4]]), np.array([0, 1, 2, 3], dtype=np.uint32)
    )
    weights = np.array([1, 0.5, 1, 3], np.float32)
    matrix, mass, group = build_documents(
        [rows_of("seed", 5, (0, 1), 1), lonely], np.ones(60, np.float32), {"x": 4.0}
    )
    assert matrix.shape == (6, 60), "the row of one language is left out"
    assert np.allclose(matrix.sum(1), 1)
    assert mass == pytest.approx(np.array([1, 1, 1, 1, 1, 4]) / 1.5)
    assert group.tolist() == [0] * 5 + [1]
    (row,), _, _ = build_documents([lonely], weights, {})[0].toarray(), 0, 0
    assert row == pytest.approx([0, 0, 1 / 4, 3 / 4])


def test_words_of_one_meaning_have_one_direction() -> None:
    sets = [rows_of("seed", 400, (0, 1), 1), rows_of("bible", 400, (1, 2), 2)]
    matrix, mass, group = build_documents(sets, np.ones(3 * NUM_MEANINGS, np.float32), {})
    words = compute_latent_words(matrix, mass, group, 20, 3, 1)
    first, second, third = unit_length(words).chunk(3)
    for other in (second, third):  # the first and the third have no row in common
        assert ((first @ other.T).argmax(1) == torch.arange(NUM_MEANINGS)).float().mean() > 0.9


def test_the_table_is_that_of_ridge_regression() -> None:
    rng = np.random.default_rng(3)
    owners = sparse.csr_array((rng.random((40, 12)) < 0.4).astype(np.float32))
    owners = owners.multiply(1 / np.maximum(owners.sum(1), 1)[:, None]).tocsr()
    words, importance = rng.normal(size=(40, 5)).astype(np.float32), rng.random(40).astype(np.float32)
    dense, weight = owners.toarray(), np.diag(importance / importance.mean())
    normal = dense.T @ weight @ dense
    pull = 0.3 * np.median(np.diag(normal))
    wanted = np.linalg.solve(normal + pull * np.eye(12), dense.T @ weight @ words)
    found = fit_feature_table(owners, torch.from_numpy(words), importance, 40, 0.3)
    assert np.allclose(found.numpy(), wanted, atol=1e-3)
