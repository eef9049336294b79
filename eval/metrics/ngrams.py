"""chrF++'s counts for all rows at once, as arrays: the counts of sacrebleu's Python loops in a fifth of the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.metrics.base import Array

Codes = npt.NDArray[np.int64]
ROWS_AT_ONCE = 1000


def chrf_stats(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
    """What ``CHRF._extract_corpus_statistics`` gives for one reference.

    Args:
        metric: sacrebleu's CHRF, whose orders and splitting into words are taken.
        hypotheses: one per row.
        references: as many.

    Returns:
        float64 (num_rows, 3 * orders): n-grams of the hypothesis, of the reference, and shared ones, for
        characters without white space and then words. As in sacrebleu, those of the hypothesis count as none
        where the reference has none.
    """
    assert not (metric.lowercase or metric.whitespace or metric.eps_smoothing)
    parts = [
        _chunk(metric, hypotheses[i : i + ROWS_AT_ONCE], references[i : i + ROWS_AT_ONCE])
        for i in range(0, len(hypotheses), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros((0, 3 * metric.order)), *parts])


def _chunk(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
    texts = [*hypotheses, *references]
    bare = ["".join(text.split()) for text in texts]
    chars = np.frombuffer("".join(bare).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(
        np.int64
    )
    known: dict[str, int] = {}
    words = [metric._remove_punctuation(text) for text in texts]
    word_codes = np.array([known.setdefault(w, len(known)) for row in words for w in row], dtype=np.int64)
    return np.concatenate(
        [
            _shared(chars, np.array([len(text) for text in bare]), metric.char_order),
            _shared(word_codes, np.array([len(row) for row in words]), metric.word_order),
        ],
        axis=1,
    )


def _shared(codes: Codes, lengths: Codes, order: int) -> Array:
    """Counts of n-grams, n = 1 to ``order``, of sequences laid end to end: first all hypotheses, then all references.

    An n-gram is numbered by the number of its first n - 1 symbols and its last symbol; the numbers of the
    1-grams hold the row, so n-grams of different rows never meet.
    """
    num_rows = len(lengths) // 2
    _, codes = np.unique(codes, return_inverse=True)
    width = int(codes.max(initial=0)) + 1
    row = np.repeat(np.arange(2 * num_rows) % max(num_rows, 1), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(
        len(codes)
    )  # symbols to the end of the sequence
    split = int(lengths[:num_rows].sum())
    keys, places = row * width + codes, np.arange(len(codes))
    found = []
    for n in range(1, order + 1):
        distinct, numbers = np.unique(keys, return_inverse=True)
        first = places < split
        counts = [np.bincount(numbers[side], minlength=len(distinct)) for side in (first, ~first)]
        owner = np.zeros(len(distinct), dtype=np.int64)
        owner[numbers] = row[places]
        of_row = [
            np.bincount(owner, weights=count, minlength=num_rows) for count in (*counts, np.minimum(*counts))
        ]
        of_row[0] = np.where(of_row[1] > 0, of_row[0], 0)
        found += of_row
        longer = left[places] > n
        places, numbers = places[longer], numbers[longer]
        keys = numbers * width + codes[places + n]
    return np.stack(found, axis=1)
