"""The words that pieces make up."""

from __future__ import annotations

import numpy as np

from xling.text.words.of_pieces import PieceWords

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>"]


def test_words_begin_at_marks_at_signs_and_at_pieces_of_scripts_without_spaces() -> None:
    pieces = PieceWords([*SYMBOLS, "▁The", "▁house", "s", ",", "▁", "那是", "一", "'", "t"], 4)
    words, word_of = pieces.find(np.array([0, 4, 5, 6, 7, 8, 9, 10, 4, 11, 12, 2]))
    assert words == ["The", "houses", ",", "", "那是", "一", "The", "'", "t"]
    assert word_of.tolist() == [-1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, -1]


def test_vowel_signs_stand_inside_words() -> None:
    pieces = PieceWords([*SYMBOLS, "▁सरका", "र", "▁क", "ि", "या"], 4)
    assert pieces.find(np.array([0, 4, 5, 6, 7, 8, 2]))[0] == ["सरकार", "किया"]


def test_a_word_ends_at_a_symbol() -> None:
    """Sequences stand one after another in a packed batch; one that was cut may begin inside of a word."""
    pieces = PieceWords([*SYMBOLS, "▁house", "s"], 4)
    words, word_of = pieces.find(np.array([0, 4, 2, 0, 5, 3, 5, 2]))
    assert words == ["house", "s", "s"]
    assert word_of.tolist() == [-1, 0, -1, -1, 1, -1, 2, -1]
    assert pieces.find(np.array([0, 2]))[0] == []
