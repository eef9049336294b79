"""Monolingual word vectors by truncated SVD of positive pointwise mutual information, and other word features.

Source: Levy & Goldberg 2014; Levy et al. 2015, section 3 (context distribution smoothing .75, square root of
the singular values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used

from xling.array_types import Float, Float32, Float64, Int64
from xling.core.errors import UserError
from xling.text.word_translation import split_words as words_of

SMOOTHING = 0.75
NUM_POSITION_BINS = 8  # bins of the position of a word in its sentence
NUM_CONTEXTS = 1500
CONTEXT_REACH = 5  # context words on each side


@dataclass(frozen=True)
class WordVectors:
    """The most frequent words of a language.

    Attributes:
        words: most frequent first.
        counts: of each, int64 (num_words,).
        places: how its occurrences spread from the beginning to the end of sentences, rows sum to 1,
            float64 (num_words, BINS).
        vectors: of unit length, float64 (num_words, dim).
        contexts: positive pointwise mutual information with the most frequent words nearby, rows of unit length,
            float32 (num_words, min(num_words, NUM_CONTEXTS)).
    """

    words: list[str]
    counts: Int64[np.ndarray, " words"]
    places: Float64[np.ndarray, "words bins"]
    vectors: Float64[np.ndarray, "words dim"]
    contexts: Float32[np.ndarray, "words contexts"]


def learn_vectors(lines: Iterable[str], size: int, dim: int, window: int, min_count: int) -> WordVectors:
    """Learn word vectors from counts of neighbouring words.

    Args:
        lines: sentences.
        size: words kept at most.
        dim: of the vectors, at most.
        window: words on each side that count as context.
        min_count: occurrences of a word at least.

    Raises:
        UserError: fewer than three words are left, or none beside another.
    """
    sentences = [words_of(line) for line in lines]
    word_counts = Counter(word for sentence in sentences for word in sentence)
    vocabulary = sorted(
        (w for w, n in word_counts.items() if n >= min_count), key=lambda w: (-word_counts[w], w)
    )[:size]
    if len(vocabulary) < 3:
        raise UserError(
            f"only {len(vocabulary)} words occur {min_count} times or more",
            "at least three",
            "give more text, or a lower min_count=",
        )
    index = {word: i for i, word in enumerate(vocabulary)}
    # Dropped words keep their place, so that contexts do not move closer.
    rows = [np.array([index.get(word, -1) for word in sentence]) for sentence in sentences if sentence]
    stream = np.concatenate([np.append(row, np.full(max(window, CONTEXT_REACH), -1)) for row in rows])
    counts = np.array([word_counts[word] for word in vocabulary])
    if not any(len(row) > 1 and (row >= 0).sum() > 1 for row in rows):
        raise UserError(
            "no sentence has two frequent words",
            "text with one sentence of several words per line",
            "give other text",
        )
    pairs = [
        _pairs(stream, len(vocabulary), distance) for distance in range(1, max(window, CONTEXT_REACH) + 1)
    ]
    contexts = sum((a + a.T for a in pairs[1:CONTEXT_REACH]), pairs[0] + pairs[0].T).tocsr()[:, :NUM_CONTEXTS]
    return WordVectors(
        vocabulary,
        counts,
        _position_counts(rows, len(vocabulary)),
        _factorise(_ppmi(pairs[:window]), dim),
        unit_rows(_positive_pmi(contexts.tocoo()).toarray().astype(np.float32)),
    )


def _pairs(stream: np.ndarray, size: int, distance: int) -> scipy.sparse.csr_matrix:
    """Count how often a word (row) has another (column) at a given distance after it, (size, size)."""
    left, right = stream[:-distance], stream[distance:]
    both = (left >= 0) & (right >= 0)
    ones = np.ones(int(both.sum()))
    return scipy.sparse.coo_matrix((ones, (left[both], right[both])), (size, size)).tocsr()


def _ppmi(pairs: list[scipy.sparse.csr_matrix]) -> scipy.sparse.csr_matrix:
    """Count co-occurrences of words (rows) and context words, by `_pairs` at distances from 1."""
    # Contexts are kept apart at the distances where order matters most, and summed at the others.
    counted = [pairs[0], pairs[0].T.tocsr()]
    if far := pairs[1:]:
        counted.append(sum((a + a.T for a in far[1:]), far[0] + far[0].T))
    return scipy.sparse.hstack([_positive_pmi(counts.tocoo()) for counts in counted]).tocsr()


def _positive_pmi(counts: scipy.sparse.coo_matrix) -> scipy.sparse.coo_matrix:
    rows = np.asarray(counts.sum(1)).ravel()
    columns = np.asarray(counts.sum(0)).ravel() ** SMOOTHING
    share = columns / max(columns.sum(), 1e-12)
    values = np.log(counts.data / (rows[counts.row] * share[counts.col]))
    pmi = scipy.sparse.coo_matrix((np.maximum(values, 0), (counts.row, counts.col)), counts.shape)
    return pmi


def _factorise(matrix: scipy.sparse.csr_matrix, dim: int) -> np.ndarray:
    rank = min(dim, min(matrix.shape) - 1)
    start = np.random.default_rng(1).standard_normal(min(matrix.shape))  # else svds draws its own
    left, values, _ = scipy.sparse.linalg.svds(matrix, k=rank, v0=start)
    return unit(left[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0)))


def unit(rows: Float[np.ndarray, "words dim"]) -> Float[np.ndarray, "words dim"]:
    """Return rows centred and scaled to length 1; zeros are kept."""
    rows = unit_rows(rows)
    return unit_rows(rows - rows.mean(0))


def unit_rows(rows: Float[np.ndarray, "words dim"]) -> Float[np.ndarray, "words dim"]:
    """Return rows divided by their length; zeros are kept."""
    out: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return out


def _position_counts(rows: list[np.ndarray], size: int) -> np.ndarray:
    flat = np.concatenate(rows)
    place = np.concatenate([np.arange(len(row)) * NUM_POSITION_BINS // len(row) for row in rows])
    counts_of = np.full((size, NUM_POSITION_BINS), 0.5)
    np.add.at(counts_of, (flat[flat >= 0], place[flat >= 0]), 1)
    out: np.ndarray = counts_of / counts_of.sum(1, keepdims=True)
    return out
