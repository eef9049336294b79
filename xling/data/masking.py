"""Selection and corruption of tokens for masked language modelling; pure functions on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xling.array_types import Bool, Int
from xling.core.errors import UserError

SPAN_STOP, LONGEST_SPAN = 0.2, 10


@dataclass(frozen=True)
class MaskRule:
    """Rule for choosing and corrupting positions.

    Attributes:
        prob: share of the maskable positions that are chosen.
        leave: share of the chosen that keep their token (BERT: .1).
        random: share of the chosen that get a random piece (BERT: .1); the rest become ``<mask>``.
        mask_id: id of ``<mask>``.
        first_piece: random pieces are drawn from ``first_piece <= id < end_piece``.
        end_piece: see ``first_piece``.
        unit: unit of choice: single tokens, whole words, or spans of words.
        word_starts: bool (vocabulary,), True for pieces that begin a word; needed for words and spans.
        unspaced: bool (vocabulary,), True for pieces that begin a word without a space before it; empty for none.
    """

    prob: float
    leave: float
    random: float
    mask_id: int
    first_piece: int
    end_piece: int
    unit: str = "token"
    word_starts: Bool[np.ndarray, " vocab"] = field(
        default_factory=lambda: np.zeros(0, dtype=bool), compare=False
    )
    unspaced: Bool[np.ndarray, " vocab"] = field(
        default_factory=lambda: np.zeros(0, dtype=bool), compare=False
    )

    def __post_init__(self) -> None:
        check_shares(self.leave, self.random)


def check_shares(leave: float, random: float) -> None:
    """Raise UserError where more is to be kept or replaced at random than is chosen."""
    if leave + random > 1:
        raise UserError(f"leave_unmasked_prob={leave} and random_token_prob={random}", "at most 1 in all")


def choose(
    tokens: Int[np.ndarray, " tokens"], rule: MaskRule, rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """Choose positions to predict among the pieces of ``tokens`` (num_tokens,); sorted int64 (num_chosen,).

    Special tokens (ids below ``rule.first_piece``) are never chosen.
    """
    maskable = tokens >= rule.first_piece
    if rule.unit == "token":
        return choose_positions(maskable, rule.prob, rng)
    positions = np.flatnonzero(maskable)
    starts = rule.word_starts | rule.unspaced if rule.unspaced.any() else rule.word_starts
    groups = word_numbers(tokens, maskable, starts)
    if rule.unit == "span" and len(groups):
        # The share holds in a single sentence too: one long span would be most of it.
        longest = min(LONGEST_SPAN, max(1, int(rule.prob * (groups[-1] + 1))))
        groups = span_numbers(groups, positions, rng, longest)
    return positions[choose_groups(groups, rule.prob, rng)]


def word_numbers(
    tokens: Int[np.ndarray, " tokens"],
    maskable: Bool[np.ndarray, " tokens"],
    word_starts: Bool[np.ndarray, " vocab"],
) -> Int[np.ndarray, " maskable"]:
    """Return the word number, from 0, of each maskable token, (num_maskable,).

    A special ends a word.
    """
    new = word_starts[tokens] | np.concatenate([[True], ~maskable[:-1]])
    return np.cumsum(new[maskable]) - (1 if maskable.any() else 0)


def span_numbers(
    words: Int[np.ndarray, " maskable"],
    positions: Int[np.ndarray, " maskable"],
    rng: np.random.Generator,
    longest: int = LONGEST_SPAN,
) -> Int[np.ndarray, " maskable"]:
    """Cut the text into spans and return the span, from 0, of each maskable token, (num_maskable,).

    Spans have Geometric(.2) words, at most ``longest``, and never cross a special token. Choosing whole spans from
    such a division gives disjoint spans with SpanBERT's lengths without rejection sampling.

    Args:
        longest: words of the longest span.

    Source: Joshi et al. 2020, section 3.1.
    """
    if not len(words):
        return words
    num_words = int(words[-1]) + 1
    ends = np.cumsum(np.minimum(rng.geometric(SPAN_STOP, num_words), longest))
    spans = np.searchsorted(ends, words, side="right")
    cut = np.concatenate([[False], (np.diff(spans) > 0) | (np.diff(positions) > 1)])
    return np.cumsum(cut)


def choose_groups(
    groups: Int[np.ndarray, " tokens"], prob: float, rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """Choose whole groups with a share ``prob`` of the tokens on average, at least one; return token indices.

    Args:
        groups: group of each token, numbered from 0 without a gap, (num_tokens,).
    """
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    ends, budget = np.cumsum(sizes[order]), prob * len(groups)
    # The group that crosses the budget is taken with a probability equal to the share that fits, so the mean
    # is exact. Where that leaves none, as in a short sentence, it is the first group that fits alone.
    share = rng.random()
    fits = ends - sizes[order] * (1 - share) <= budget
    first = int(np.argmax(sizes[order] * share <= budget))
    taken = order[: int(fits.sum())] if fits[0] else order[first : first + 1]
    return np.flatnonzero(np.isin(groups, taken))


def choose_positions(
    maskable: Bool[np.ndarray, " tokens"], prob: float, rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """Choose a share ``prob`` of the maskable positions, rounded up or down at random, at least one.

    Returns:
        Sorted positions, int64 of shape (num_chosen,); empty only when nothing is maskable.

    Source: RoBERTa as in fairseq's MaskTokensDataset (an exact share, not independent coin flips).
    """
    (candidates,) = maskable.nonzero()
    if not len(candidates):
        return candidates
    count = min(max(1, int(prob * len(candidates) + rng.random())), len(candidates))
    chosen = rng.permutation(candidates)[:count]
    chosen.sort()
    return chosen


def corrupt(
    tokens: Int[np.ndarray, " tokens"],
    chosen: Int[np.ndarray, " chosen"],
    rule: MaskRule,
    rng: np.random.Generator,
) -> Int[np.ndarray, " tokens"]:
    """Return a copy of ``tokens`` whose chosen positions are masked, replaced or kept.

    Source: Devlin et al. 2019, section 3.1 (80 / 10 / 10).
    """
    corrupted = tokens.copy()
    fate = rng.random(len(chosen))
    pieces = rng.integers(rule.first_piece, rule.end_piece, len(chosen))
    pieces[fate >= rule.leave + rule.random] = rule.mask_id
    changed = fate >= rule.leave
    corrupted[chosen[changed]] = pieces[changed]
    return corrupted
