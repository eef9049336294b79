"""Noise functions for denoising objectives; pure functions on arrays of token ids.

Every function takes tokens (num_tokens,) and returns new ones. Special tokens (ids below `FIRST_PIECE`) are
never masked, dropped or moved past; only sentence permutation moves the ``</s>`` at the end of a sentence. A
text with pieces always keeps at least one.

Source: Lewis et al. 2020, section 2.2 (BART: masking, deletion, infilling, permutation, rotation); Lample et
al. 2018, section 2.3, and XLM's code (shuffle, drop, blank).
"""

from __future__ import annotations

import numpy as np

from xling.array_types import Bool, Int
from xling.data.masking import word_numbers

EOS, FIRST_PIECE = 2, 4
LONGEST_WORD = 12  # pieces; longer runs are text written without spaces


def words_of(
    tokens: Int[np.ndarray, " tokens"], word_starts: Bool[np.ndarray, " vocab"]
) -> Int[np.ndarray, " tokens"]:
    """Return the word, from 0, of each piece, -1 for specials, (num_tokens,).

    In a run of more than `LONGEST_WORD` pieces without a space (Thai, Chinese) each piece counts as a word.
    Otherwise word noise would keep or drop whole sentences.
    """
    maskable = tokens >= FIRST_PIECE
    words = np.full(len(tokens), -1, dtype=np.int64)
    if not maskable.any():
        return words
    numbers = word_numbers(tokens, maskable, word_starts)
    long = np.bincount(numbers)[numbers] > LONGEST_WORD
    begins = np.concatenate([[True], np.diff(numbers) > 0]) | long
    words[maskable] = np.cumsum(begins) - 1
    return words


def mask_tokens(
    tokens: Int[np.ndarray, " tokens"], prob: float, mask_id: int, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Replace each piece by ``<mask>`` with probability ``prob``."""
    hit = (rng.random(len(tokens)) < prob) & (tokens >= FIRST_PIECE)
    return np.where(hit, mask_id, tokens)


def delete_tokens(
    tokens: Int[np.ndarray, " tokens"], prob: float, rng: np.random.Generator
) -> Int[np.ndarray, " kept"]:
    """Delete each piece with probability ``prob``; one random piece is kept if all would be deleted."""
    return tokens[_kept(np.where(tokens >= FIRST_PIECE, np.arange(len(tokens)), -1), prob, rng)]


def drop_words(
    tokens: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    prob: float,
    rng: np.random.Generator,
) -> Int[np.ndarray, " kept"]:
    """Delete each word with probability ``prob``; one random word is kept if all would be deleted."""
    return tokens[_kept(words, prob, rng)]


def blank_words(
    tokens: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    prob: float,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " tokens"]:
    """Replace all pieces of each word by ``<mask>`` with probability ``prob`` per word."""
    hit = rng.random(int(words.max(initial=-1)) + 1) < prob
    blank = np.zeros(len(tokens), dtype=bool)
    blank[words >= 0] = hit[words[words >= 0]]
    return np.where(blank, mask_id, tokens)


def shuffle_words(
    tokens: Int[np.ndarray, " tokens"], words: Int[np.ndarray, " tokens"], k: float, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Move words by fewer than ``k`` places: sort them by position plus U(0, k); specials keep their places.

    Args:
        k: 3 in XLM and XNLG; 0 keeps the order.
    """
    if not len(words) or words.max() < 0:
        return tokens
    keys = np.arange(words.max() + 1) + rng.uniform(0, k, int(words.max()) + 1)
    segment = np.cumsum(words < 0)  # equal for words between the same two specials
    order = np.lexsort((np.arange(len(tokens)), np.where(words < 0, -1.0, keys[words]), segment))
    return tokens[order]


def infill(
    tokens: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    share: float,
    mean: float,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " infilled"]:
    """Text infilling: replace spans of Poisson(``mean``) words, ``share`` of all words, by one ``<mask>`` each.

    A span of zero words inserts a ``<mask>`` between two words. There are at most as many of these as removed
    tokens, so a text never grows. Spans do not touch: where there is too little room between them, they are
    shorter.

    Args:
        share: share of the words to mask, .35 in mBART; rounded up or down at random.
        mean: mean span length, 3.5 in mBART.

    Source: Lewis et al. 2020, section 2.2. Our choice: a span that reaches a special ends there and continues
    after it with another mask.
    """
    num_words = int(words.max(initial=-1)) + 1
    budget = min(int(share * num_words + rng.random()), num_words)
    if budget == 0:
        return tokens
    lengths, num_empty = _span_lengths(budget, mean, rng)
    # At least one word stands between two spans, so more spans than this cannot be placed.
    if len(lengths) > (most := num_words - budget + 1):
        lengths = np.append(lengths[: most - 1], lengths[most - 1 :].sum())
    gaps = _gaps(num_words - budget, len(lengths), rng)
    starts = np.cumsum(gaps[:-1]) + np.cumsum(lengths) - lengths
    span_of_word = np.full(num_words + 1, -1)  # the last entry is for specials
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        span_of_word[start : start + length] = number
    spans = span_of_word[words]
    first = (spans >= 0) & (spans != np.concatenate([[-1], spans[:-1]]))
    infilled = np.where(first, mask_id, tokens)[(spans < 0) | first]
    places = np.flatnonzero(infilled >= FIRST_PIECE)
    num_empty = min(num_empty, len(tokens) - len(infilled))
    return np.insert(infilled, rng.choice(places, num_empty), mask_id) if num_empty else infilled


def fairseq_word_begins(
    tokens: Int[np.ndarray, " tokens"], word_starts: Bool[np.ndarray, " vocab"]
) -> Bool[np.ndarray, " tokens"]:
    """Return where words begin for fairseq's noise: at word-initial pieces and at every special.

    In text without spaces each piece is a word, as in `words_of`; fairseq has a setting that lists such
    languages.
    """
    words = words_of(tokens, word_starts)
    inside = np.concatenate([[False], (words[1:] != words[:-1]) & (words[:-1] >= 0)])
    return word_starts[tokens] | (tokens < FIRST_PIECE) | inside


def infill_overlapping(
    tokens: Int[np.ndarray, " tokens"],
    begins: Bool[np.ndarray, " tokens"],
    share: float,
    mean: float,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " infilled"]:
    """Text infilling as in fairseq's code, used to train mBART: spans may overlap, and ``</s>`` counts as a word.

    Spans of Poisson(``mean``) words, in all a ``share`` of the words rounded up, begin at different words
    drawn at random. The first piece of each span becomes ``<mask>`` and the others are removed, even if one
    is another span's mask. Fewer words are removed than the share says: 31 % for .35. Spans of zero words
    insert a ``<mask>`` anywhere but at the ends, at most as many as tokens were removed. The first and the
    last token are kept.

    Args:
        begins: where words begin, as `fairseq_word_begins` gives them; ignored at the first and last token.
        share: share of the words, .35 in mBART.
        mean: mean span length, 3.5 in mBART.

    Source: ``DenoisingDataset`` of fairseq, with whole words masked.
    """
    firsts = np.flatnonzero(begins[1:-1]) + 1
    budget = int(np.ceil(len(firsts) * share))
    if budget == 0:
        return tokens
    lengths, num_empty = _span_lengths(budget, mean, rng)
    chosen = rng.permutation(len(firsts))[: len(lengths)]
    ends = np.append(firsts, len(tokens) - 1)[np.minimum(chosen + lengths, len(firsts))]
    depth = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.add.at(depth, firsts[chosen] + 1, 1)
    np.add.at(depth, ends, -1)
    infilled = tokens.copy()
    infilled[firsts[chosen]] = mask_id
    infilled = infilled[np.cumsum(depth)[:-1] == 0]
    num_empty = min(num_empty, len(tokens) - len(infilled))
    whole = np.full(len(infilled) + num_empty, mask_id)
    new = rng.permutation(len(whole) - 2)[:num_empty] + 1
    whole[np.setdiff1d(np.arange(len(whole)), new)] = infilled
    return whole


def permute_sentences(
    tokens: Int[np.ndarray, " tokens"], share: float, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Permute a ``share`` of the sentences (rounded up), each with the ``</s>`` that ends it."""
    ends = np.flatnonzero(tokens == EOS) + 1
    if not len(ends) or ends[-1] != len(tokens):
        ends = np.append(ends, len(tokens))
    sentences = np.split(tokens, ends[:-1])
    chosen = np.sort(rng.permutation(len(sentences))[: int(np.ceil(share * len(sentences)))])
    order = np.arange(len(sentences))
    order[chosen] = rng.permutation(chosen)
    return np.concatenate([sentences[i] for i in order])


def rotate(
    tokens: Int[np.ndarray, " tokens"], prob: float, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Rotate the text with probability ``prob`` so that it begins at a random piece.

    A special at the very end stays there.
    """
    places = np.flatnonzero(tokens >= FIRST_PIECE)
    if not len(places) or rng.random() >= prob:
        return tokens
    end = len(tokens) - int(tokens[-1] < FIRST_PIECE)
    start = int(rng.choice(places))
    return np.concatenate([tokens[start:end], tokens[:start], tokens[end:]])


def corrupted_spans(
    num_tokens: int, share: float, mean: float, rng: np.random.Generator
) -> Int[np.ndarray, " {num_tokens}"]:
    """Choose corrupted spans: return the span number of each token from 0, -1 outside of spans, (num_tokens,).

    A share of the tokens is divided at random into spans of ``mean`` tokens on average. The rest is divided
    into as many segments between them; the text begins with an uncorrupted segment.

    Source: Raffel et al. 2020, section 3.1.4 and ``random_spans_noise_mask`` of its code.
    """
    num_noise, num_spans = span_counts(num_tokens, share, mean)
    spans = np.full(num_tokens, -1)
    if num_noise < 1:
        return spans
    noise, kept = (_cut(total, num_spans, rng) for total in (num_noise, num_tokens - num_noise))
    start = 0
    for number in range(num_spans):
        start += kept[number]
        spans[start : start + noise[number]] = number
        start += noise[number]
    return spans


def span_counts(num_tokens: int, share: float, mean: float) -> tuple[int, int]:
    """Return how many of ``num_tokens`` tokens are in corrupted spans, and in how many spans.

    0, 0 below two tokens.
    """
    num_noise = min(max(round(num_tokens * share), 1), num_tokens - 1)
    if num_noise < 1:
        return 0, 0
    return num_noise, min(max(round(num_noise / mean), 1), num_noise, num_tokens - num_noise)


def _kept(groups: np.ndarray, prob: float, rng: np.random.Generator) -> np.ndarray:
    """Draw which tokens are kept, group by group, bool (num_tokens,).

    Groups (-1: always kept) are kept with probability 1 - ``prob``, at least one of them.
    """
    present = np.unique(groups[groups >= 0])
    gone = rng.random(len(present)) < prob
    if len(present) and gone.all():
        gone[rng.integers(len(present))] = False
    return ~np.isin(groups, present[gone])


def _span_lengths(budget: int, mean: float, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Draw lengths from 1 that sum to ``budget``; also return how many lengths of 0 were drawn."""
    lengths: list[int] = []
    num_empty = total = 0
    while total < budget:
        length = int(rng.poisson(mean))
        if length == 0:
            num_empty += 1
            continue
        lengths.append(min(length, budget - total))
        total += lengths[-1]
    return np.array(lengths), num_empty


def _gaps(free: int, num_spans: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the words before, between (at least one) and after spans, (num_spans + 1,), uniformly over all divisions."""
    slack = free - (num_spans - 1)
    bars = np.sort(rng.choice(slack + num_spans, num_spans, replace=False))
    gaps = np.diff(np.concatenate([[-1], bars, [slack + num_spans]])) - 1
    gaps[1:-1] += 1
    return gaps


def _cut(total: int, num_parts: int, rng: np.random.Generator) -> np.ndarray:
    """Divide ``total`` into ``num_parts`` positive integers, uniformly over all divisions."""
    cuts = np.sort(rng.choice(total - 1, num_parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))
