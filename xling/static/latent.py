"""Initial word vectors of a static encoder: latent semantic analysis of aligned rows in all languages at once.

The rows of an n-way corpus are documents with the words of all their languages, so translations of a word
occur in the same documents. Subspace iteration finds the directions of rows that words share. The vector of a
word is the mean of its rows, and least squares distributes it over the word's features.

Sources: Dumais et al. 1997, Automatic cross-language retrieval using latent semantic indexing; weights as in
correspondence analysis (Greenacre 1984); conjugate gradients with a diagonal preconditioner (Golub & Van
Loan, 11.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from xling.array_types import Float32, Int64, UInt32
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.static.settings import SOURCE_MASS, LatentConfig
from xling.text.files.nway import RowSet

MIN_VECTOR_LENGTH = 0.02
"""Smallest vector length used to weight errors."""
MAX_COUNTED = 2000
"""Number of occurrences at which a word's weight in the least squares stops growing."""


def latent_table(
    sets: Sequence[RowSet],
    hashes: UInt32[np.ndarray, " features"],
    hash_ends: Int64[np.ndarray, " ends"],
    weights: Float32[np.ndarray, " words"],
    shape: tuple[int, int],
    cfg: LatentConfig,
    seed: int,
) -> Float32[Tensor, "rows dim"]:
    """Compute the table whose words are nearest to their latent vectors, float32 (num_table_rows, dim).

    Args:
        hash_ends: int64 (num_words + 1), offsets of each word's features.
        shape: (rows of the table, dim).
    """
    matrix, row_mass, row_sets = build_documents(sets, weights, cfg.mass or SOURCE_MASS)
    with Progress("latent vectors", cfg.rounds + cfg.fit_rounds + 1, "rounds") as progress:
        words = compute_latent_words(matrix, row_mass, row_sets, shape[1], cfg.rounds, seed, progress)
        counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
        # Weight errors relative to a word's length: rare words have long vectors and would dominate the
        # frequent ones.
        lengths = words.norm(dim=1).clamp_min(MIN_VECTOR_LENGTH).numpy()
        importance = (np.sqrt(np.minimum(counts, MAX_COUNTED)) / lengths**2).astype(np.float32)
        num_features = np.diff(hash_ends)
        values = np.repeat((1 / np.maximum(num_features, 1)).astype(np.float32), num_features)
        index = (hashes % np.uint32(shape[0])).astype(np.int32)
        size = (len(num_features), shape[0])
        feature_matrix = sparse.csr_array((values, index, hash_ends.astype(np.int32)), shape=size)
        return fit_feature_table(feature_matrix, words, importance, cfg.fit_rounds, cfg.ridge, progress)


def build_documents(
    sets: Sequence[RowSet], weights: Float32[np.ndarray, " words"], mass_of_source: Mapping[str, float]
) -> tuple[sparse.csr_array, Float32[np.ndarray, " rows"], Int64[np.ndarray, " rows"]]:
    """Build documents from rows with two or more languages.

    Returns:
        The shares of the words of each row, float32 (num_rows, num_words), each row summing to 1; the mass of
        the rows, float32, 1 on average; and the index of the set of each row.
    """
    rows, words, shares, masses, groups = [], [], [], [], []
    num_rows = 0
    for set_index, row_set in enumerate(sets):
        lengths = np.diff(row_set.ends, axis=1)
        num_langs = (lengths > 0).sum(0)
        is_kept = num_langs > 1
        row_numbers = num_rows + np.cumsum(is_kept) - 1
        for column, count in zip(row_set.ends, lengths, strict=True):
            row_of_word = np.repeat(np.arange(len(is_kept)), count)
            is_word_kept = is_kept[row_of_word]
            text = row_set.words[column[0] : column[-1]]
            rows.append(row_numbers[row_of_word[is_word_kept]].astype(np.int32))
            words.append(text[is_word_kept].astype(np.int32))
            shares.append(
                (1 / count[row_of_word[is_word_kept]]).astype(np.float32) * weights[text[is_word_kept]]
            )
        masses.append(num_langs[is_kept] * mass_of_source.get(row_set.source, 1.0))
        groups.append(np.full(int(is_kept.sum()), set_index))
        num_rows += int(is_kept.sum())
    index = (np.concatenate(rows), np.concatenate(words))
    matrix = sparse.coo_array((np.concatenate(shares), index), shape=(num_rows, len(weights))).tocsr()
    total = np.asarray(matrix.sum(1)).ravel()
    matrix.data /= np.repeat(np.maximum(total, 1e-9), np.diff(matrix.indptr)).astype(np.float32)
    all_masses = np.concatenate(masses)
    return matrix, (all_masses / all_masses.mean()).astype(np.float32), np.concatenate(groups)


def compute_latent_words(
    matrix: sparse.csr_array,
    row_mass: Float32[np.ndarray, " rows"],
    row_sets: Int64[np.ndarray, " rows"],
    dim: int,
    rounds: int,
    seed: int,
    progress: Progress | None = None,
) -> Float32[Tensor, "words dim"]:
    """Compute vectors of words, float32 (num_words, dim): the mean of their rows' vectors.

    The vectors of rows are computed from their words and vice versa, repeatedly, with orthonormalisation in
    between. The mean of every set is subtracted; otherwise the first directions would only encode the set of
    a row.
    """
    word_matrix = (sparse.diags_array(row_mass) @ matrix).T.tocsr()
    total = torch.from_numpy(np.asarray(word_matrix.sum(1), dtype=np.float32).ravel())
    inverse_mass = (1 / total.clamp_min(1e-6))[:, None]
    vectors = torch.from_numpy(rng("latent", seed).standard_normal((matrix.shape[0], dim), dtype=np.float32))
    order = np.argsort(row_sets, kind="stable")
    rows_by_set = np.split(order, np.flatnonzero(np.diff(row_sets[order])) + 1)
    for _ in range(rounds):
        vectors = sparse_product(matrix, sparse_product(word_matrix, vectors) * inverse_mass)
        for set_rows in map(torch.from_numpy, rows_by_set):
            vectors[set_rows] -= vectors[set_rows].mean(0)
        covariance = (vectors.T @ (vectors * torch.from_numpy(row_mass)[:, None])).double() / len(vectors)
        eigenvalues, eigenvectors = torch.linalg.eigh(covariance)
        vectors = vectors @ (eigenvectors / eigenvalues.clamp_min(1e-12).sqrt()).float()
        if progress:
            progress.update(note=f"least direction {float(eigenvalues[0].clamp_min(0).sqrt()):.3f}")
    words = sparse_product(word_matrix, vectors) * inverse_mass
    if progress:
        progress.update()
    return words


def sparse_product(
    matrix: sparse.csr_array, dense: Float32[Tensor, "columns dim"]
) -> Float32[Tensor, "rows dim"]:
    """Multiply ``matrix @ dense`` in float32; five times as fast as scipy, and uses as many threads as torch."""
    indices, starts, values = (torch.from_numpy(x) for x in (matrix.indices, matrix.indptr[:-1], matrix.data))
    return F.embedding_bag(indices, dense, starts, mode="sum", per_sample_weights=values)


def fit_feature_table(
    feature_matrix: sparse.csr_array,
    words: Float32[Tensor, "words dim"],
    importance: Float32[np.ndarray, " words"],
    rounds: int,
    ridge: float,
    progress: Progress | None = None,
) -> Float32[Tensor, "rows dim"]:
    """Find by ridge regression the table whose mean over each word's features is nearest to the word's vector.

    Args:
        feature_matrix: (num_words, num_table_rows), one over the number of a word's features at each of them.
        rounds: iterations of conjugate gradients.
        ridge: see `LatentConfig`.

    Returns:
        float32 (num_table_rows, dim).
    """
    weight = importance / max(float(importance.mean()), 1e-9)
    transposed = feature_matrix.T.tocsr()
    diagonal = transposed.power(2) @ weight
    ridge_weight = float(ridge * np.median(diagonal[diagonal > 0]))
    preconditioner = torch.from_numpy((1 / (diagonal + ridge_weight)).astype(np.float32))[:, None]
    transposed.data *= weight[transposed.indices]
    table = torch.zeros(feature_matrix.shape[1], words.shape[1])
    residual = sparse_product(transposed, words)
    direction = preconditioner * residual
    old_norm = _dot(residual, direction)
    for _ in range(rounds):
        if old_norm <= 0:
            break
        image = sparse_product(transposed, sparse_product(feature_matrix, direction)).add_(
            direction, alpha=ridge_weight
        )
        step_length = old_norm / _dot(direction, image)
        table.add_(direction, alpha=step_length)
        residual.sub_(image, alpha=step_length)
        image = torch.mul(preconditioner, residual, out=image)
        new_norm = _dot(residual, image)
        direction.mul_(new_norm / old_norm).add_(image)
        old_norm = new_norm
        if progress:
            progress.update(note=f"rest {old_norm:.3g}")
    return table


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a.reshape(-1), b.reshape(-1)))
