"""Noise: worked by hand, and what must hold for any text."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from xling.core.sampling import rng
from xling.data import noise

VOCAB, MASK = 60, 59
STARTS = rng("starts").random(VOCAB) < 0.5
STARTS[MASK] = False
TOKENS = arrays.arrays(np.int64, st.integers(1, 80), elements=st.integers(0, MASK - 1))
SHARES, SEEDS = st.floats(0, 1), st.integers(0, 999)


class Scripted:
    """Stands for a generator whose answers are written down."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def answer(self, *arguments: object, **more: object) -> object:
        return self.answers.pop(0)

    random = permutation = integers = choice = uniform = poisson = answer


# ▁a b ▁c </s> ▁d ▁e f </s>: words a+b, c, d, e+f.
TEXT = np.array([10, 5, 11, 2, 12, 13, 6, 2])
BEGINS = np.arange(VOCAB) >= 10
WORDS = [0, 0, 1, -1, 2, 3, 3, -1]


def test_words_are_numbered_and_specials_belong_to_none() -> None:
    assert noise.words_of(TEXT, BEGINS).tolist() == WORDS
    assert noise.words_of(np.array([0, 2]), BEGINS).tolist() == [-1, -1]


def test_a_text_without_spaces_counts_piece_by_piece() -> None:
    text = np.array([10, *[5] * noise.LONGEST_WORD, 2, 11, 5])
    words = noise.words_of(text, BEGINS).tolist()
    assert words == [*range(noise.LONGEST_WORD + 1), -1, noise.LONGEST_WORD + 1, noise.LONGEST_WORD + 1]


def test_infilling_by_hand() -> None:
    # Four words, a share of .75: three of them, in spans of 0, 1 and (of 7 drawn) 2 words, so one word stays.
    script = Scripted(0.0, 0, 1, 7, np.array([0, 1]))  # budget's coin, lengths, the bars between gaps
    # One free word and two spans that do not meet leave no slack: span, word, span. The mask between two words has
    # room, since six pieces became three tokens; it is put before the piece drawn.
    script.answers.append(np.array([0]))
    made = noise.infill(TEXT, np.array(WORDS), 0.75, 3.5, MASK, script)  # type: ignore[arg-type]
    # a b | c | d, e f: c stays; d and e f are one span.
    assert made.tolist() == [MASK, MASK, 11, 2, MASK, 2]
    assert not script.answers


def test_a_span_over_the_end_of_a_sentence_has_a_mask_on_both_sides() -> None:
    script = Scripted(0.0, 2, np.array([1]))  # two words of four, in one span, that begins at the second
    made = noise.infill(TEXT, np.array(WORDS), 0.5, 3.5, MASK, script)  # type: ignore[arg-type]
    assert made.tolist() == [10, 5, MASK, 2, MASK, 13, 6, 2]


def test_shuffling_by_hand() -> None:
    # Places 0 1 2 3 plus 2.5 0 .5 .9: the first two words and none of the others change places.
    script = Scripted(np.array([2.5, 0.0, 0.5, 0.9]))
    made = noise.shuffle_words(TEXT, np.array(WORDS), 3, script)  # type: ignore[arg-type]
    assert made.tolist() == [11, 10, 5, 2, 12, 13, 6, 2]


def test_dropping_and_blanking_by_hand() -> None:
    coins = np.array([0.05, 0.5, 0.5, 0.05])
    dropped = noise.drop_words(TEXT, np.array(WORDS), 0.1, Scripted(coins))  # type: ignore[arg-type]
    assert dropped.tolist() == [11, 2, 12, 2]
    blank = noise.blank_words(TEXT, np.array(WORDS), 0.1, MASK, Scripted(coins))  # type: ignore[arg-type]
    assert blank.tolist() == [MASK, MASK, 11, 2, 12, MASK, MASK, 2]


def test_if_all_words_would_go_one_stays() -> None:
    script = Scripted(np.zeros(4), 3)
    made = noise.drop_words(TEXT, np.array(WORDS), 0.1, script)  # type: ignore[arg-type]
    assert made.tolist() == [2, 13, 6, 2]


def test_sentences_are_permuted_with_their_ends() -> None:
    text = np.array([10, 2, 11, 5, 2, 12])
    script = Scripted(np.array([2, 0, 1]), np.array([2, 0]))  # two of three: the last and the first
    made = noise.permute_sentences(text, 0.5, script)  # type: ignore[arg-type]
    assert made.tolist() == [12, 11, 5, 2, 10, 2]


def test_rotation_by_hand() -> None:
    assert noise.rotate(TEXT, 0.5, Scripted(0.4, 4)).tolist() == [12, 13, 6, 10, 5, 11, 2, 2]  # type: ignore[arg-type]
    assert noise.rotate(TEXT, 0.5, Scripted(0.6)).tolist() == TEXT.tolist()  # type: ignore[arg-type]


def test_corrupted_spans_by_hand() -> None:
    # 20 tokens, a fifth: 4 in 2 spans, cut 4 = 1 + 3 and 16 = 5 + 11.
    spans = noise.corrupted_spans(20, 0.2, 2, Scripted(np.array([0]), np.array([4])))  # type: ignore[arg-type]
    assert spans.tolist() == [-1] * 5 + [0] + [-1] * 11 + [1] * 3


def pieces(tokens: np.ndarray) -> Counter[int]:
    return Counter(tokens[tokens >= noise.FIRST_PIECE].tolist())


def specials(tokens: np.ndarray) -> list[int]:
    found: list[int] = tokens[tokens < noise.FIRST_PIECE].tolist()
    return found


@given(TOKENS, SHARES, SEEDS)
def test_specials_stay_and_something_is_left(tokens: np.ndarray, share: float, seed: int) -> None:
    words, before = noise.words_of(tokens, STARTS), tokens.copy()
    for made in (
        noise.mask_tokens(tokens, share, MASK, rng(seed)),
        noise.delete_tokens(tokens, share, rng(seed)),
        noise.drop_words(tokens, words, share, rng(seed)),
        noise.blank_words(tokens, words, share, MASK, rng(seed)),
        noise.infill(tokens, words, share, 3.5, MASK, rng(seed)),
        noise.shuffle_words(tokens, words, 3, rng(seed)),
    ):
        assert specials(made) == specials(tokens)
        assert bool(pieces(made)) == bool(pieces(tokens))
        assert len(made) <= len(tokens)
        assert not pieces(made) - pieces(tokens) - Counter({MASK: 80})
    assert tokens.tolist() == before.tolist()


def test_functions_draw_what_they_need_and_no_more() -> None:
    """What follows in the generator is the same as after the draws written here; so no text changes that of others."""
    words = np.array(WORDS)

    def next_of(function: Any, *draws: Any) -> None:
        used, expected = rng("draws"), rng("draws")
        function(used)
        for draw in draws:
            draw(expected)
        assert used.random(3).tolist() == expected.random(3).tolist()

    next_of(lambda r: noise.mask_tokens(TEXT, 0.5, MASK, r), lambda r: r.random(8))
    next_of(lambda r: noise.delete_tokens(TEXT, 0.1, r), lambda r: r.random(6))
    next_of(lambda r: noise.drop_words(TEXT, words, 0.1, r), lambda r: r.random(4))
    next_of(lambda r: noise.blank_words(TEXT, words, 0.1, MASK, r), lambda r: r.random(4))
    next_of(lambda r: noise.shuffle_words(TEXT, words, 3, r), lambda r: r.uniform(0, 3, 4))
    next_of(
        lambda r: noise.shuffle_words(np.array([10, 2]), np.array([0, -1]), 3, r),
        lambda r: r.uniform(0, 3, 1),
    )
    next_of(lambda r: noise.shuffle_words(np.array([2]), np.array([-1]), 3, r))
    next_of(lambda r: noise.infill(TEXT, words, 0.0, 3.5, MASK, r), lambda r: r.random())
    next_of(lambda r: noise.rotate(np.array([2]), 0.5, r))
    next_of(lambda r: noise.rotate(TEXT, 0.0, r), lambda r: r.random())


def test_a_mask_is_put_before_any_piece_the_first_one_too() -> None:
    text, words = np.array([4, 4, 4, 4, 2]), np.array([0, 1, 2, 3, -1])

    class Choosing(Scripted):
        """Keeps the places that a mask may be put before."""

        def choice(self, places: Any, *arguments: Any, **more: Any) -> Any:
            self.places = places
            return self.answer()

    # Half of four words in one span of two; a length of 0 is drawn first, and the span begins at the second word.
    script = Choosing(0.0, 0, 2, np.array([1]), np.array([0]))
    infilled = noise.infill(text, words, 0.5, 3.5, MASK, script)  # type: ignore[arg-type]
    assert script.places.tolist() == [0, 1, 2]
    assert infilled.tolist() == [MASK, 4, MASK, 4, 2]


@given(TOKENS, SHARES, SEEDS)
def test_permuting_and_rotating_keep_every_token(tokens: np.ndarray, share: float, seed: int) -> None:
    for made in (noise.permute_sentences(tokens, share, rng(seed)), noise.rotate(tokens, share, rng(seed))):
        assert sorted(made.tolist()) == sorted(tokens.tolist())


@given(st.integers(1, 60), st.integers(1, 5), SEEDS)
def test_no_word_moves_by_k_places_and_pieces_of_a_word_stay_together(num: int, k: int, seed: int) -> None:
    tokens = np.stack([np.full(num, 5), np.arange(num) + 100], 1).ravel()  # each word 5, then its number
    words = np.repeat(np.arange(num), 2)
    made = noise.shuffle_words(tokens, words, k, rng(seed)).reshape(-1, 2)
    assert (made[:, 0] == 5).all()
    assert (np.abs(made[:, 1] - 100 - np.arange(num)) < k).all()


@given(TOKENS, SHARES, st.floats(0.5, 8), SEEDS)
def test_infilling_takes_whole_words_and_its_share(
    tokens: np.ndarray, share: float, mean: float, seed: int
) -> None:
    words = noise.words_of(tokens, STARTS)
    made = noise.infill(tokens, words, share, mean, MASK, rng(seed))
    left = pieces(made)
    left.pop(MASK, None)
    num_words = int(words.max(initial=-1)) + 1
    lengths = np.bincount(words[words >= 0], minlength=num_words)
    gone = sum(pieces(tokens).values()) - sum(left.values())
    least, most = np.sort(lengths)[: int(share * num_words)].sum(), np.sort(lengths)[::-1]
    assert least <= gone <= most[: int(share * num_words) + 1].sum()


def test_infilling_masks_35_percent_in_spans_of_3_and_a_half() -> None:
    tokens, words = np.full(400, 20), np.arange(400)
    made = [noise.infill(tokens, words, 0.35, 3.5, MASK, rng(i)) for i in range(200)]
    left = np.mean([(m != MASK).sum() for m in made])
    assert left == pytest.approx(400 * 0.65, abs=0.5)
    masks = np.mean([(m == MASK).sum() for m in made])
    assert masks == pytest.approx(140 / 3.5, rel=0.03)


@given(st.integers(2, 300), st.floats(0.01, 0.9), st.floats(1, 10), SEEDS)
def test_corrupted_spans_are_apart_and_have_their_share(
    num: int, share: float, mean: float, seed: int
) -> None:
    spans = noise.corrupted_spans(num, share, mean, rng(seed))
    assert spans[0] == -1
    assert (spans >= 0).sum() == min(max(round(num * share), 1), num - 1)
    numbers = spans[spans >= 0]
    assert (np.diff(numbers) >= 0).all() and set(numbers) == set(range(numbers.max() + 1))
    runs = np.flatnonzero((spans >= 0) & (np.concatenate([[-1], spans[:-1]]) != spans))
    assert len(runs) == numbers.max() + 1
    assert all(spans[i - 1] == -1 for i in runs)
