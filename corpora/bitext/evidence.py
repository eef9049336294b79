"""Sentence vectors for alignment that need no model: words in common, and translations learned from the documents.

A first alignment by lengths, numbers and names (hashed n-grams of words and of their Latin spelling) gives pairs of
single sentences. A lexicon is learned from them by IBM model 1. With its translations the documents are aligned
again.

Sources: Moore 2002 (lengths first, then a lexicon learned from what they aligned); Varga et al. 2005 (Hunalign: the
same from the documents themselves).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from xling.array_types import Float32, Int64
from xling.corpora.bitext.sentence_alignment import Bead, DocumentSide, align, scale_of
from xling.corpora.common import model1
from xling.text.words.features import WINDOW_PREFIX, hash_features, split_tokens

NUM_HASHES = 1 << 18
"""Columns of the hashed features."""
ROUNDS = 4
MAX_PAIRS = 6000
"""Sentence pairs from which a lexicon is learned."""

_MIN_PROBABILITY, _MIN_EXPECTED = 0.02, 1.3
_TRANSLATION_WEIGHT = 1.5
"""Weight of the translated words beside the words in common."""

Texts = Sequence[Sequence[str]]
"""Sentences of each document."""


@dataclass(frozen=True)
class SentenceWords:
    """The words of sentences as counts.

    Attributes:
        counts: (sentences, words), sparse.
        weights: inverse document frequency of each word, float32 (words,).
        hashes: (words, `NUM_HASHES`), the hashed features of each word, rows of length 1, sparse.
    """

    counts: Any
    weights: Float32[np.ndarray, " words"]
    hashes: Any


def words_of(sentences: Sequence[str]) -> SentenceWords:
    """Count the words of sentences (windows of characters where there are no spaces)."""
    ids: dict[str, int] = {}
    word_ids = [[ids.setdefault(word, len(ids)) for word in _words(text)] for text in sentences]
    ends = np.cumsum([0, *map(len, word_ids)])
    flat = np.array([i for row in word_ids for i in row], dtype=np.int64)
    counts = scipy.sparse.csr_matrix(
        (np.ones(len(flat), np.float32), flat, ends), shape=(len(word_ids), max(len(ids), 1))
    )
    counts.sum_duplicates()
    document_counts = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = np.log((len(word_ids) + 1) / np.maximum(document_counts, 1)).astype(np.float32)
    rows = [np.unique(hash_features(word) % NUM_HASHES) for word in ids] or [np.zeros(0, np.int64)]
    starts = np.cumsum([0, *map(len, rows)])
    values = np.concatenate([np.full(len(row), max(len(row), 1) ** -0.5, np.float32) for row in rows])
    hashes = scipy.sparse.csr_matrix((values, np.concatenate(rows), starts), shape=(len(rows), NUM_HASHES))
    return SentenceWords(counts, weights, hashes)


def _words(text: str) -> Iterator[str]:
    """Words in lower case; where there are no spaces, characters and pairs of them."""
    for token in split_tokens(text):
        if token.startswith(WINDOW_PREFIX):
            yield token[:2]
        if len(token) != 2 or not token.startswith(WINDOW_PREFIX):
            yield (token[:3] if token.startswith(WINDOW_PREFIX) else token).lower()


def unit(matrix: Any) -> Any:
    """Sparse rows of length 1; empty rows stay."""
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return (scipy.sparse.diags(1 / np.maximum(norms, 1e-9)) @ matrix).tocsr()


def shared_word_vectors(words: SentenceWords) -> Any:
    """Vectors of what sentences of two languages may share: names, numbers, loans; sparse (sentences, columns)."""
    return unit((words.counts.minimum(1) @ scipy.sparse.diags(words.weights)) @ words.hashes)


def translation_probabilities(
    src: SentenceWords, tgt: SentenceWords, pairs: Int64[np.ndarray, "pairs 2"]
) -> Any:
    """p(target word | source word) from pairs of sentences by model 1; sparse (source words, target words)."""
    src_counts, tgt_counts = src.counts[pairs[:, 0]], tgt.counts[pairs[:, 1]]
    cells = [
        (np.repeat(a, len(b)), np.tile(b, len(a)), np.full(len(a) * len(b), pair_index))
        for pair_index, (a, b) in enumerate(
            (
                src_counts.indices[src_counts.indptr[i] : src_counts.indptr[i + 1]],
                tgt_counts.indices[tgt_counts.indptr[i] : tgt_counts.indptr[i + 1]],
            )
            for i in range(len(pairs))
        )
    ]
    shape = src.counts.shape[1], tgt.counts.shape[1]
    if not cells:
        return scipy.sparse.csr_matrix(shape, dtype=np.float32)
    s, t, row = (np.concatenate([cell[k] for cell in cells]).astype(np.int64) for k in range(3))
    word_pairs, pair_index = np.unique(s * shape[1] + t, return_inverse=True)
    source_word, target_slot = word_pairs // shape[1], row * shape[1] + t
    _, target_slot = np.unique(target_slot, return_inverse=True)
    # A word that comes from none of the others of its pair has a share of its own, as NULL has in the model.
    _, expected, probabilities = model1.expected_links(
        pair_index, target_slot, source_word, null=None, smoothing=1.0
    )
    # A pair of words that one pair of sentences shows would only confirm that pair.
    sure = (probabilities >= _MIN_PROBABILITY) & (expected >= _MIN_EXPECTED)
    return scipy.sparse.csr_matrix(
        (probabilities[sure].astype(np.float32), (source_word[sure], word_pairs[sure] % shape[1])), shape
    )


def translated_word_vectors(
    src: SentenceWords, tgt: SentenceWords, forward: Any, backward: Any
) -> tuple[Any, Any]:
    """Vectors of both sides: their words, those that translate the other's, and what they have in common."""
    word_vectors = [unit(words.counts.minimum(1) @ scipy.sparse.diags(words.weights)) for words in (src, tgt)]
    there = unit(src.counts.minimum(1) @ scipy.sparse.diags(src.weights) @ forward)
    back = unit(tgt.counts.minimum(1) @ scipy.sparse.diags(tgt.weights) @ backward)
    shared = shared_word_vectors(src), shared_word_vectors(tgt)
    left = scipy.sparse.hstack(
        [_TRANSLATION_WEIGHT * there, _TRANSLATION_WEIGHT * word_vectors[0], shared[0]]
    )
    right = scipy.sparse.hstack(
        [_TRANSLATION_WEIGHT * word_vectors[1], _TRANSLATION_WEIGHT * back, shared[1]]
    )
    return unit(left.tocsr()), unit(right.tocsr())


def align_documents(src: Texts, tgt: Texts) -> list[list[Bead]]:
    """The beads of each pair of documents, with a lexicon that all of them teach.

    Args:
        src: documents as lists of sentences.
        tgt: their translations, as many documents.
    """
    flat = [[sentence for document in side for sentence in document] for side in (src, tgt)]
    ends = [np.cumsum([0, *map(len, side)]) for side in (src, tgt)]
    words = [words_of(side) for side in flat]
    lengths = scaled_lengths(flat[0], flat[1])
    vectors = shared_word_vectors(words[0]), shared_word_vectors(words[1])
    beads: list[list[Bead]] = []
    for number in range(ROUNDS + 1):
        scale = scale_of(*vectors)
        sides = [
            [DocumentSide(lengths[side][a:b], vectors[side][a:b]) for a, b in itertools.pairwise(ends[side])]
            for side in (0, 1)
        ]
        beads = [
            align(src_side, tgt_side, scale, lengths_first=number == 0)
            for src_side, tgt_side in zip(*sides, strict=True)
        ]
        if number == ROUNDS:
            break
        pairs = _one_to_one(beads, ends)
        forward = translation_probabilities(words[0], words[1], pairs)
        backward = translation_probabilities(words[1], words[0], pairs[:, ::-1])
        vectors = translated_word_vectors(words[0], words[1], forward, backward)
    return beads


def _one_to_one(beads: Iterable[Sequence[Bead]], ends: Sequence[Any]) -> Int64[np.ndarray, "pairs 2"]:
    """Sentence numbers of the best beads of one sentence a side."""
    sentence_numbers = [
        (bead.score, ends[0][d] + bead.src[0], ends[1][d] + bead.tgt[0])
        for d, document in enumerate(beads)
        for bead in document
        if bead.src[1] - bead.src[0] == 1 == bead.tgt[1] - bead.tgt[0]
    ]
    best = sorted(sentence_numbers, reverse=True)[: min(MAX_PAIRS, max(1, int(0.9 * len(sentence_numbers))))]
    return np.array([pair[1:] for pair in best], dtype=np.int64).reshape(-1, 2)


def scaled_lengths(src: Sequence[str], tgt: Sequence[str]) -> tuple[Any, Any]:
    """Characters of each sentence, those of the target scaled so that both sides are as long; float32."""
    left, right = (np.array([len(text) for text in side], dtype=np.float32) for side in (src, tgt))
    return left, right * np.float32(max(float(left.sum()), 1.0) / max(float(right.sum()), 1.0))
