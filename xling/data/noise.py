"""Noise for denoising objectives, piece by piece; pure functions on arrays of token ids.

Every function takes tokens (num_tokens,) and returns new ones. Special tokens (ids below `FIRST_PIECE`) are never
masked, dropped or moved past, except that sentences are permuted with the ``</s>`` that ends them, and a text that
had pieces never comes back without any.

Source: Lewis et al. 2020, section 2.2 (BART: masking, deletion, infilling, permutation, rotation); Lample et al.
2018, section 2.3, and XLM's code (shuffle, drop, blank).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xling.core.errors import UserError, unknown
from xling.data.masking import word_numbers

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

EOS, FIRST_PIECE = 2, 4
LONGEST_WORD = 12  # pieces; what is longer is text written without spaces


def check_share(name: str, share: float) -> None:
    """Refuse a setting that is no probability.

    Raises:
        UserError: it is below 0 or above 1.
    """
    if not 0 <= share <= 1:
        raise UserError(f"{name}={share}", "a share from 0 to 1")


def check_style(name: str, style: str, valid: Sequence[str]) -> None:
    """Refuse a style that objective ``name`` does not have.

    Raises:
        UserError: it is none of ``valid``.
    """
    if style not in valid:
        raise unknown(f"objectives.{name}.style", style, valid)


def words_of(
    tokens: Int[np.ndarray, " tokens"], word_starts: Bool[np.ndarray, " vocab"]
) -> Int[np.ndarray, " tokens"]:
    """The word, from 0, of each piece, -1 for specials, (num_tokens,).

    A run of more than `LONGEST_WORD` pieces without a space (Thai, Chinese) counts piece by piece, else noise on
    words would take or leave whole sentences.

    Args:
        tokens: ids.
        word_starts: bool (vocabulary,), True for pieces that begin a word.
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
    """Each piece becomes ``<mask>`` with probability ``prob``."""
    hit = (rng.random(len(tokens)) < prob) & (tokens >= FIRST_PIECE)
    return np.where(hit, mask_id, tokens)


def delete_tokens(
    tokens: Int[np.ndarray, " tokens"], prob: float, rng: np.random.Generator
) -> Int[np.ndarray, " kept"]:
    """Each piece is deleted with probability ``prob``; one that is drawn stays if all would go."""
    return tokens[_kept(np.where(tokens >= FIRST_PIECE, np.arange(len(tokens)), -1), prob, rng)]


def drop_words(
    tokens: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    prob: float,
    rng: np.random.Generator,
) -> Int[np.ndarray, " kept"]:
    """Each word is deleted with probability ``prob``; one that is drawn stays if all would go.

    Args:
        tokens: ids.
        words: of each, as `words_of` gives them.
        prob: share of the words.
        rng: source of randomness.
    """
    return tokens[_kept(words, prob, rng)]


def blank_words(
    tokens: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    prob: float,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " tokens"]:
    """Each word has all its pieces replaced by ``<mask>`` with probability ``prob``."""
    hit = rng.random(int(words.max(initial=-1)) + 1) < prob
    blank = np.zeros(len(tokens), dtype=bool)
    blank[words >= 0] = hit[words[words >= 0]]
    return np.where(blank, mask_id, tokens)


def shuffle_words(
    tokens: Int[np.ndarray, " tokens"], words: Int[np.ndarray, " tokens"], k: float, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Words move by fewer than ``k`` places, each sorted by its place plus U(0, k); specials stay where they are.

    Args:
        tokens: ids.
        words: of each, as `words_of` gives them.
        k: 3 in XLM and XNLG; 0 leaves the order.
        rng: source of randomness.
    """
    if not len(words) or words.max() < 0:
        return tokens
    keys = np.arange(words.max() + 1) + rng.uniform(0, k, int(words.max()) + 1)
    segment = np.cumsum(words < 0)  # words between the same two specials
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
    """Text infilling: spans of Poisson(``mean``) words, ``share`` of all words, each replaced by one ``<mask>``.

    A span of no word puts a ``<mask>`` between two words; there are at most as many of these as tokens that went, so
    a text never grows. Spans do not meet: where there is too little room between them, they are shorter.

    Args:
        tokens: ids.
        words: of each, as `words_of` gives them.
        share: of the words, .35 in mBART; rounded up or down at random.
        mean: of the span lengths, 3.5 in mBART.
        mask_id: id of ``<mask>``.
        rng: source of randomness.

    Source: Lewis et al. 2020, section 2.2. Decided here: a span that reaches a special ends and goes on behind it
    with another mask.
    """
    num_words = int(words.max(initial=-1)) + 1
    budget = min(int(share * num_words + rng.random()), num_words)
    if budget == 0:
        return tokens
    lengths, num_empty = _span_lengths(budget, mean, rng)
    # At least one word stands between two spans, so more than this many cannot be placed.
    lengths = _merged(lengths, num_words - budget + 1)
    gaps = _gaps(num_words - budget, len(lengths), rng)
    starts = np.cumsum(gaps[:-1]) + np.cumsum(lengths) - lengths
    span_of_word = np.full(num_words + 1, -1)  # the last for specials
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        span_of_word[start : start + length] = number
    spans = span_of_word[words]
    first = (spans >= 0) & (spans != np.concatenate([[-1], spans[:-1]]))
    made = np.where(first, mask_id, tokens)[(spans < 0) | first]
    places = np.flatnonzero(made >= FIRST_PIECE)
    num_empty = min(num_empty, len(tokens) - len(made))
    return np.insert(made, rng.choice(places, num_empty), mask_id) if num_empty else made


def fairseq_begins(
    tokens: Int[np.ndarray, " tokens"], word_starts: Bool[np.ndarray, " vocab"]
) -> Bool[np.ndarray, " tokens"]:
    """Where words begin for fairseq's noise: at pieces that begin one and at every special.

    Text without spaces counts piece by piece, as in `words_of`; fairseq is told of such languages by a setting.
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
    """Text infilling as fairseq's code has it, which made mBART: spans may overlap, and ``</s>`` counts as a word.

    Spans of Poisson(``mean``) words, in all a ``share`` of the words rounded up, begin at different words drawn at
    random. The first piece of each becomes ``<mask>`` and the others go, also where one is another span's mask. Fewer
    words go than the share says: 31 % for .35. Spans of no word put a ``<mask>`` anywhere but at the ends, at most
    as many as tokens went. The first and the last token stay.

    Args:
        tokens: ids, ``<s>`` first and the last symbol last.
        begins: where words begin, as `fairseq_begins` gives them; not asked at the first and last token.
        share: of the words, .35 in mBART.
        mean: of the span lengths, 3.5 in mBART.
        mask_id: id of ``<mask>``.
        rng: source of randomness.

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
    made = tokens.copy()
    made[firsts[chosen]] = mask_id
    made = made[np.cumsum(depth)[:-1] == 0]
    num_empty = min(num_empty, len(tokens) - len(made))
    whole = np.full(len(made) + num_empty, mask_id)
    new = rng.permutation(len(whole) - 2)[:num_empty] + 1
    whole[np.setdiff1d(np.arange(len(whole)), new)] = made
    return whole


def permute_sentences(
    tokens: Int[np.ndarray, " tokens"], share: float, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
    """Sentences, each with the ``</s>`` that ends it, change places among a ``share`` of them (rounded up)."""
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
    """With probability ``prob`` the text begins at a piece drawn at random and its beginning follows its end.

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
    """Which tokens are in a corrupted span, and in which: numbers from 0, -1 for none, (num_tokens,).

    A share of the tokens is cut at random into spans of ``mean`` tokens on average, and the rest into as many
    pieces between them; the text begins with a piece that stays.

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
    """How many of ``num_tokens`` tokens are in corrupted spans, and in how many; 0 and 0 for less than two tokens."""
    num_noise = min(max(round(num_tokens * share), 1), num_tokens - 1)
    if num_noise < 1:
        return 0, 0
    return num_noise, min(max(round(num_noise / mean), 1), num_noise, num_tokens - num_noise)


def _kept(groups: np.ndarray, prob: float, rng: np.random.Generator) -> np.ndarray:
    """Bool (num_tokens,): groups (-1: always kept) stay with probability 1 - ``prob``, at least one of them."""
    present = np.unique(groups[groups >= 0])
    gone = rng.random(len(present)) < prob
    if len(present) and gone.all():
        gone[rng.integers(len(present))] = False
    return ~np.isin(groups, present[gone])


def _span_lengths(budget: int, mean: float, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Lengths from 1 that sum to ``budget``, and how many of length 0 were drawn among them."""
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


def _merged(lengths: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` lengths: those that are too many are joined to the last."""
    if len(lengths) <= most:
        return lengths
    return np.append(lengths[: most - 1], lengths[most - 1 :].sum())


def _gaps(free: int, num_spans: int, rng: np.random.Generator) -> np.ndarray:
    """Words before, between (at least one) and behind spans, (num_spans + 1,), all divisions equally likely."""
    slack = free - (num_spans - 1)
    bars = np.sort(rng.choice(slack + num_spans, num_spans, replace=False))
    gaps = np.diff(np.concatenate([[-1], bars, [slack + num_spans]])) - 1
    gaps[1:-1] += 1
    return gaps


def _cut(total: int, num_parts: int, rng: np.random.Generator) -> np.ndarray:
    """``total`` as the sum of ``num_parts`` numbers from 1, all divisions equally likely."""
    cuts = np.sort(rng.choice(total - 1, num_parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))
