"""N-gram tables of a tokenised text, one per order, in time and memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xling.array_types import Bool, Int64, UInt32

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
UNK_ID, BOS_ID, EOS_ID = range(3)

IntArray = NDArray[np.int64]


@dataclass
class NgramTable:
    """The distinct n-grams of one order, sorted by their first n - 1 words, then by the last.

    Args:
        prefix: index of the first n - 1 words in the order below, ``(num,)``.
        word: last word, ``(num,)``.
        suffix: index of the last n - 1 words in the order below, ``(num,)``.
        count: occurrences, ``(num,)``.
        starts: whether the first word is ``<s>``, ``(num,)``.
    """

    prefix: Int64[np.ndarray, " ngrams"]
    word: Int64[np.ndarray, " ngrams"]
    suffix: Int64[np.ndarray, " ngrams"]
    count: Int64[np.ndarray, " ngrams"]
    starts: Bool[np.ndarray, " ngrams"]

    def __len__(self) -> int:
        return len(self.word)


def read_tokens(lines: Iterable[str], max_tokens: int = 0) -> tuple[list[str], UInt32[np.ndarray, " tokens"]]:
    """Return vocabulary and token ids of tokenised lines, with ``<s>`` and ``</s>`` around each line.

    Args:
        lines: tokens separated by single spaces; empty lines are skipped.
        max_tokens: stop after this many; 0 reads all.
    """
    id_of_token = {UNK: UNK_ID, BOS: BOS_ID, EOS: EOS_ID}
    id_arrays: list[NDArray[np.uint32]] = []
    num_tokens = 0
    for line in lines:
        tokens = line.split()
        if not tokens:
            continue
        ids = [BOS_ID, *[id_of_token.setdefault(token, len(id_of_token)) for token in tokens], EOS_ID]
        id_arrays.append(np.array(ids, dtype=np.uint32))
        num_tokens += len(ids)
        if max_tokens and num_tokens >= max_tokens:
            break
    return list(id_of_token), np.concatenate(id_arrays) if id_arrays else np.zeros(0, dtype=np.uint32)


def count_ngrams(tokens: UInt32[np.ndarray, " tokens"], num_words: int, max_order: int) -> list[NgramTable]:
    """Count n-grams of orders 1 to ``max_order``; no n-gram crosses the end of a line.

    The table of order 1 holds every word of the vocabulary, its index being the word's id.

    Args:
        tokens: from `read_tokens`, ``(num_tokens,)``.
        num_words: size of the vocabulary.
        max_order: highest order.
    """
    token_ids = tokens.astype(np.int64)
    all_words = np.arange(num_words)
    no_index = np.zeros(num_words, dtype=np.int64)
    counts = np.bincount(token_ids, minlength=num_words)
    orders = [NgramTable(no_index, all_words, no_index, counts, all_words == BOS_ID)]
    ngram_ids = token_ids  # index of the n-gram of the order below that starts at each place
    start_places = np.arange(len(token_ids))  # places where an n-gram starts
    for _ in range(2, max_order + 1):
        # Extend the n-grams that do not end with the line.
        n = len(orders)
        start_places = start_places[token_ids[start_places + n - 1] != EOS_ID]
        key = (ngram_ids[start_places].astype(np.uint64) << np.uint64(32)) | token_ids[
            start_places + n
        ].astype(np.uint64)
        unique, first_indices, inverse, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        first_places = start_places[first_indices]
        prefix = (unique >> np.uint64(32)).astype(np.int64)
        word = (unique & np.uint64(0xFFFFFFFF)).astype(np.int64)
        orders.append(
            NgramTable(
                prefix,
                word,
                ngram_ids[first_places + 1],
                count.astype(np.int64),
                token_ids[first_places] == BOS_ID,
            )
        )
        ngram_ids = np.zeros(len(token_ids), dtype=np.int64)
        ngram_ids[start_places] = inverse
    return orders
