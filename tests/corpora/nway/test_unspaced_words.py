"""Likely words of scripts without spaces."""

from __future__ import annotations

import numpy as np

from xling.corpora.nway.word_alignments import merged


def test_characters_are_joined_to_words_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(1)
    words = ["".join(chr(0x4E00 + i) for i in rng.integers(0, 400, rng.integers(1, 4))) for _ in range(300)]
    shares = 1 / np.arange(1, 301)
    right = [[words[i] for i in rng.choice(300, 8, p=shares / shares.sum())] for _ in range(600)]
    texts = [["Diddy", *"".join(row), ".", "x"] for row in right]
    found = merged(texts)
    assert ["".join(text) for text in found] == ["".join(text) for text in texts]
    assert all(text[0] == "Diddy" and text[-2:] == [".", "x"] for text in found)
    same = sum(len(set(a[1:-2]) & set(b)) for a, b in zip(found, right, strict=True))
    assert same / sum(len(set(b)) for b in right) > 0.55  # single characters alone: a third


def test_texts_with_few_such_characters_stay() -> None:
    texts = [["Die", "Stadt", "東", "京"]] * 3
    assert merged(texts) == texts
    assert merged([]) == []


def test_short_texts_of_many_characters_are_cut() -> None:
    """2,500 characters allow 250 pieces; 1,000 are different."""
    drawn = np.random.default_rng(1).permutation(2500) % 1000
    texts = [[chr(0x4E00 + n) for n in row] for row in drawn.reshape(125, 20).tolist()]
    found = merged(texts)
    assert ["".join(words) for words in found] == ["".join(words) for words in texts]
