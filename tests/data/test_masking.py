"""Choosing and corrupting tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.languages import LANGUAGES
from xling.core.sampling import rng
from xling.data.masking import MaskRule, choose, choose_positions, corrupt
from xling.text.word_segmentation import begins_unspaced_word

FIRST, MASK = 4, 100
RULE = MaskRule(prob=0.15, leave=0.1, random=0.1, mask_id=MASK, first_piece=FIRST, end_piece=MASK)
_TOKENS = st.lists(st.integers(0, MASK - 1), max_size=200).map(lambda ids: np.array(ids, dtype=np.int64))


@given(_TOKENS, st.floats(0, 1), st.integers(0, 10**6))
def test_chosen_are_maskable_sorted_and_as_many_as_the_share_says(
    tokens: np.ndarray, prob: float, seed: int
) -> None:
    maskable = tokens >= FIRST
    chosen = choose_positions(maskable, prob, rng(seed))
    assert maskable[chosen].all()
    assert (np.diff(chosen) > 0).all()
    exact = prob * maskable.sum()
    allowed = {0} if not maskable.any() else {max(1, math.floor(exact)), max(1, math.floor(exact + 1))}
    assert len(chosen) in {min(n, int(maskable.sum())) for n in allowed}


@given(_TOKENS, st.integers(0, 10**6))
def test_only_chosen_positions_change(tokens: np.ndarray, seed: int) -> None:
    before = tokens.copy()
    chosen = choose_positions(tokens >= FIRST, RULE.prob, rng(seed))
    after = corrupt(tokens, chosen, RULE, rng(seed, "corrupt"))
    assert (tokens == before).all(), "the input was changed"
    others = np.setdiff1d(np.arange(len(tokens)), chosen)
    assert (after[others] == tokens[others]).all()
    assert ((after[chosen] == MASK) | ((after[chosen] >= FIRST) & (after[chosen] < MASK))).all()


@given(st.integers(0, 10**6))
def test_the_same_key_gives_the_same_masks(seed: int) -> None:
    # Long enough for every fate: with few positions another source of randomness may agree by chance.
    tokens = np.arange(600) % MASK

    def made() -> tuple[np.ndarray, np.ndarray]:
        generator = rng(seed, "mask")
        chosen = choose_positions(tokens >= FIRST, RULE.prob, generator)
        return chosen, corrupt(tokens, chosen, RULE, generator)

    for first, second in zip(made(), made(), strict=True):
        assert (first == second).all()


@pytest.mark.parametrize("length", [7, 33, 255])
def test_the_share_is_exact_in_the_mean(length: int) -> None:
    maskable = np.ones(length, dtype=bool)
    maskable[::7] = False
    counts = np.array([len(choose_positions(maskable, 0.3, rng(1, "share", i))) for i in range(4000)])
    # Each count is floor or ceiling of the exact share, so its deviation is at most a half.
    assert abs(counts.mean() - 0.3 * maskable.sum()) < 5 * 0.5 / math.sqrt(len(counts))


def test_every_position_is_chosen_alike() -> None:
    maskable = np.ones(20, dtype=bool)
    hits = np.zeros(20)
    for index in range(4000):
        hits[choose_positions(maskable, 0.25, rng(2, "where", index))] += 1
    assert np.abs(hits / 4000 - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / 4000)


def test_fates_are_80_10_10_and_random_pieces_uniform() -> None:
    tokens = np.full(60_000, 7)
    chosen = np.arange(len(tokens))
    after = corrupt(tokens, chosen, RULE, rng(3))
    masked = (after == MASK).mean()
    drawn = after[(after != MASK) & (after != 7)]
    kept = (after == 7).mean()
    bound = 5 * math.sqrt(0.25 / len(tokens))
    pieces = MASK - FIRST
    assert abs(masked - 0.8) < bound
    # A random piece may be the right one.
    assert abs(kept - (0.1 + 0.1 / pieces)) < bound
    counts = np.bincount(drawn, minlength=MASK)[FIRST:]
    assert counts[7 - FIRST] == 0 and (np.delete(counts, 7 - FIRST) > 0).all()
    assert set(np.flatnonzero(np.bincount(drawn))) <= set(range(FIRST, MASK))


def test_one_piece_is_enough_to_learn_from() -> None:
    assert choose_positions(np.array([False, True, False]), 0.01, rng(1)).tolist() == [1]
    assert choose_positions(np.zeros(3, dtype=bool), 0.5, rng(1)).tolist() == []


def test_shares_above_all_are_user_errors() -> None:
    with pytest.raises(UserError, match="at most 1 in all"):
        MaskRule(prob=0.15, leave=0.6, random=0.6, mask_id=MASK, first_piece=FIRST, end_piece=MASK)


_LETTERS = {
    **{"Mymr": "ကခဂ", "Tibt": "ཀཁག", "Hant": "中文字", "Hans": "中文字", "Jpan": "あい日"},
    **{"Khmr": "កខគ", "Laoo": "ກຂຄ", "Tale": "ᥐᥑᥒ", "Thai": "กขค"},
}


@pytest.mark.parametrize("unit", ["word", "span"])
@pytest.mark.parametrize("script", sorted({each.script for each in LANGUAGES.values() if not each.spaces}))
def test_a_sentence_of_a_language_without_spaces_is_not_masked_as_one_word(script: str, unit: str) -> None:
    pieces = ["▁" + _LETTERS[script], *_LETTERS[script]]
    unspaced = np.array([False] * FIRST + [begins_unspaced_word(piece) for piece in pieces] + [False])
    starts = np.array([False] * FIRST + [piece.startswith("▁") for piece in pieces] + [False])
    last = FIRST + len(pieces)
    rule = MaskRule(0.15, 0.1, 0.1, last, FIRST, last, unit, starts, unspaced)
    tokens = np.array([FIRST, *np.tile(np.arange(FIRST + 1, last), 13)])
    chosen = [len(choose(tokens, rule, rng(seed))) for seed in range(400)]
    assert abs(np.mean(chosen) / len(tokens) - 0.15) < 0.02


# Geometric spans of up to ten words took .24 to .3 of a sentence. One word at least is chosen: a long one, taken where
# none fits, was .2 of short sentences.
@pytest.mark.parametrize(
    ("unit", "num_words", "most", "num_draws"),
    [("word", 7, 6, 1000), ("word", 8, 6, 1000), ("span", 7, 6, 1000), ("span", 8, 6, 1000),
     ("span", 12, 3, 300), ("span", 25, 3, 300)],
)  # fmt: skip
def test_words_of_a_single_sentence_hold_the_share(
    unit: str, num_words: int, most: int, num_draws: int
) -> None:
    starts = np.array([False] * FIRST + [True] * 48 + [False] * 49)
    rule = MaskRule(0.15, 0.1, 0.1, MASK, FIRST, MASK, unit, starts)
    num_chosen = num_tokens = 0
    for seed in range(num_draws):
        draw = rng(seed, "short" if most == 6 else "sentence")
        words = [
            [draw.integers(FIRST, 52), *draw.integers(52, MASK, draw.integers(most))]
            for _ in range(num_words)
        ]
        tokens = np.concatenate(words)
        num_chosen, num_tokens = num_chosen + len(choose(tokens, rule, draw)), num_tokens + len(tokens)
    assert abs(num_chosen / num_tokens - 0.15) < 0.02
