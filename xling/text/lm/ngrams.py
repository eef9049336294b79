"""N-gram tables of a tokenised text, one per order, in time and memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt32

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
UNK_ID, BOS_ID, EOS_ID = range(3)

Ints = NDArray[np.int64]


@dataclass
class Order:
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
    numbers = {UNK: UNK_ID, BOS: BOS_ID, EOS: EOS_ID}
    parts: list[NDArray[np.uint32]] = []
    num_tokens = 0
    for line in lines:
        tokens = line.split()
        if not tokens:
            continue
        ids = [BOS_ID, *[numbers.setdefault(token, len(numbers)) for token in tokens], EOS_ID]
        parts.append(np.array(ids, dtype=np.uint32))
        num_tokens += len(ids)
        if max_tokens and num_tokens >= max_tokens:
            break
    return list(numbers), np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def count_ngrams(tokens: UInt32[np.ndarray, " tokens"], num_words: int, max_order: int) -> list[Order]:
    """Count n-grams of orders 1 to ``max_order``; no n-gram crosses the end of a line.

    The table of order 1 holds every word of the vocabulary, its index being the word's id.

    Args:
        tokens: from `read_tokens`, ``(num_tokens,)``.
        num_words: size of the vocabulary.
        max_order: highest order.
    """
    words = tokens.astype(np.int64)
    all_words = np.arange(num_words)
    none = np.zeros(num_words, dtype=np.int64)
    counts = np.bincount(words, minlength=num_words)
    orders = [Order(none, all_words, none, counts, all_words == BOS_ID)]
    ids = words  # index of the n-gram of the order below that starts at each place
    places = np.arange(len(words))  # places where an n-gram starts
    for _ in range(2, max_order + 1):
        # Extend the n-grams that do not end with the line.
        n = len(orders)
        places = places[words[places + n - 1] != EOS_ID]
        key = (ids[places].astype(np.uint64) << np.uint64(32)) | words[places + n].astype(np.uint64)
        unique, first, inverse, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        at = places[first]
        prefix = (unique >> np.uint64(32)).astype(np.int64)
        word = (unique & np.uint64(0xFFFFFFFF)).astype(np.int64)
        orders.append(Order(prefix, word, ids[at + 1], count.astype(np.int64), words[at] == BOS_ID))
        ids = np.zeros(len(words), dtype=np.int64)
        ids[places] = inverse
    return orders
