"""The lexicon of tags: shares by spelling, other scripts, and a text's own tags left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling.static.tag_lexicon import PRIOR_COUNT, TagLexicon
from xling.static.tag_projection import IGNORED_TAG

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
WORDS = ("Merkel", "merkel", "Меркель", "Paris", "Париж", "in", "7", "", "東京", "ß")
texts_drawn = st.lists(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([*LABELS, IGNORED_TAG])), max_size=6),
    min_size=1,
    max_size=8,
)


def split(text):
    return [word for word, _ in text], [tag for _, tag in text]


def test_shares_are_by_type_and_leave_out_words_outside_of_names():
    lexicon = TagLexicon(
        LABELS, [(["Paris", "Hilton"], ["B-PER", "I-PER"]), (["Paris", "fell"], ["B-LOC", "O"])]
    )
    assert lexicon.dim == 4  # persons and places, by letters and by consonants
    expected = [[1 / (2 + PRIOR_COUNT)] * 4, [1 / (1 + PRIOR_COUNT), 0] * 2, [0] * 4, [0] * 4]
    torch.testing.assert_close(lexicon.features(["Paris", "Hilton", "fell", "new"]), torch.tensor(expected))


def test_other_scripts_and_spellings_share_their_evidence():
    lexicon = TagLexicon(LABELS, [(["Merkel"], ["B-PER"])])
    known = 1 / (1 + PRIOR_COUNT)
    features = lexicon.features(["меркель", "Merkels", "Márkul", "Mer"])
    assert features[0].tolist() == pytest.approx([known, 0, known, 0])
    assert features[1].tolist() == [0] * 4
    assert features[2].tolist() == pytest.approx([0, 0, known, 0]), "the same consonants"
    assert features[3].tolist() == [0] * 4, "too few consonants to tell names apart"


def test_traditional_and_simplified_characters_share_their_evidence():
    lexicon = TagLexicon(LABELS, [(["臺灣"], ["B-LOC"])])
    simplified, other = lexicon.features(["台湾", "台北"])
    assert simplified.any() and not other.any()


@given(texts_drawn, st.data())
def test_a_text_left_out_is_as_if_it_had_not_been_counted(texts, data):
    rows = [split(text) for text in texts]
    chosen = data.draw(st.integers(0, len(rows) - 1))
    words, tags = rows[chosen]
    lexicon = TagLexicon(LABELS, rows)
    without = TagLexicon(LABELS, rows[:chosen] + rows[chosen + 1 :])
    torch.testing.assert_close(lexicon.features(words, lexicon.shares(tags)), without.features(words))


@given(texts_drawn)
def test_counting_at_once_or_one_by_one_is_the_same(texts):
    rows = [split(text) for text in texts]
    at_once, one_by_one = TagLexicon(LABELS, rows), TagLexicon(LABELS)
    for words, tags in rows:
        one_by_one.add_texts([words], [one_by_one.shares(tags)])
    torch.testing.assert_close(at_once.features(WORDS), one_by_one.features(WORDS))


def test_probabilities_of_labels_become_those_of_types():
    lexicon = TagLexicon(LABELS)
    probabilities = np.array([[0.1, 0.2, 0.3, 0.25, 0.15]], np.float32)
    np.testing.assert_allclose(lexicon.type_probabilities(probabilities), [[0.1, 0.5, 0.4]], rtol=1e-6)
    lexicon.add_texts([["Berlin"]], [lexicon.type_probabilities(probabilities)])
    np.testing.assert_allclose(
        lexicon.features(["Berlin"]).numpy(), [np.array([0.5, 0.4, 0.5, 0.4]) / (1 + PRIOR_COUNT)], rtol=1e-6
    )


def test_unknown_tags_and_empty_texts_add_nothing():
    lexicon = TagLexicon(LABELS, [([], []), (["Rom"], [IGNORED_TAG])])
    assert lexicon.features([]).shape == (0, 4)
    assert not lexicon.features(["Rom"]).any()
