"""Evidence beside the lexicon: the written form of pairs, and where they lie in the vectors of an encoder."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.corpora.parallel.clean import (
    embedding_distance,
    features,
    judge,
    lexical,
    names,
    near_duplicates,
    written_form,
)
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.align import Align
from xling.corpora.toyworld import para

NUM = 400


def table(pairs):
    return pl.DataFrame(list(pairs), {"src": pl.String, "tgt": pl.String}, orient="row")


def value(pairs, name, learned):
    values = written_form.measure(learned, written_form.forms(table(pairs)))
    return values[:, written_form.NAMES.index(name)]


@pytest.fixture(scope="module")
def learned():
    """Counts of pairs in Chinese, a third of which are questions; commas and a second sentence agree."""
    pairs = []
    for number in range(NUM):
        end, mark = ("?", "？") if number % 3 == 0 else (".", "。")
        comma = (", so", "，所以") if number % 5 == 0 else ("", "")
        pairs.append((f"The house{comma[0]} is {number} old{end}", f"房子{comma[1]}老{number}{mark}"))
        if number % 7 == 0:
            pairs[-1] = tuple(f"{text}{more}" for text, more in zip(pairs[-1], (" Go!", "去！"), strict=True))
    return written_form.train(written_form.forms(table(pairs)))


@pytest.mark.parametrize(
    ("trait", "right", "wrong"),
    [
        ("end_agree", ("Old?", "老？"), ("Old?", "老。")),
        ("end_given_src", ("It is old.", "它老。"), ("It is old.", "它")),
        ("sentences_agree", ("It is old. Go!", "它老。去！"), ("It is old.", "它老。去！")),
        ("sentences_given_tgt", ("It is old.", "它老。"), ("It is old. Go!", "它老。")),
        ("commas_agree", ("Old, so old.", "老，老。"), ("Old, so old.", "老老。")),
    ],
)
def test_marks_that_never_go_together_speak_against_a_pair(learned, trait, right, wrong):
    good, bad = value([right, wrong], trait, learned)
    assert good > bad + 1


def test_words_in_their_order_are_likelier_than_shuffled_ones():
    pairs = list(dict.fromkeys(para("en", "de", 900, 1)))
    known, new = pairs[:600], pairs[600:]
    learned = written_form.train(written_form.forms(table(known)))
    draw = np.random.default_rng(1)
    shuffled = [(src, " ".join(draw.permutation(tgt.split()))) for src, tgt in new if len(tgt.split()) > 4]
    for name in ("shapes", "endings"):
        in_order, mixed = value(new, name, learned), value(shuffled, name, learned)
        assert (in_order[:, None] > mixed[None]).mean() > 0.95, name


def test_texts_without_words_and_none_at_all_are_measured(learned):
    values = written_form.measure(learned, written_form.forms(table([("", ""), ("", "..."), ("a", "")])))
    assert values.shape == (3, len(written_form.NAMES))
    assert np.isfinite(values).all()
    assert written_form.measure(learned, written_form.forms(table([]))).shape == (0, len(written_form.NAMES))


def test_names_without_their_like_are_counted_in_any_script():
    pairs = [
        ("He met Angela Merkel in Berlin.", "Он встретил Ангелу Меркель в Берлине."),
        ("He met Angela Merkel in Berlin.", "Она живёт в Москве."),
        ("Berlin is big.", "संसार बहुत बड़ा है।"),  # the first word may be any word
        ("", ""),
    ]
    sides = table(pairs)
    values = names.measure(names.read_consonants(sides["src"]), names.read_consonants(sides["tgt"]))
    assert np.expm1(values).round().tolist() == [[3, 0, 0], [0, 3, 1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I see. You go.", 2),
        ("The U.S. Senate met Dr. A. I. May.", 1),
        ("It has colours (e.g. red). Good.", 2),
        ("“No?” he said. “Yes!”", 2),
        ("我来。你走！", 2),
        ("", 0),
    ],
)
def test_marks_of_initials_and_titles_end_no_sentence(text, sentences):
    codes = written_form._feature_codes(pl.Series("text", [text]))
    assert codes[0, written_form.FEATURES.index("sentences")] == sentences


def vectors(seed, size=NUM, dim=24):
    """Pairs of vectors that lie close to each other, both languages away from 0 in a direction of their own."""
    draw = np.random.default_rng(seed)
    meaning = draw.standard_normal((size, 1, dim))
    noise = 0.5 * draw.standard_normal((size, 2, dim))
    return (meaning + noise + 3 * np.eye(2, dim)).astype(np.float32)


def test_a_translation_lies_nearer_than_the_neighbours_of_both_sides():
    learned, pairs = embedding_distance.train(vectors(1)), vectors(2)
    wrong = np.stack([pairs[:, 0], np.roll(pairs[:, 1], 1, axis=0)], axis=1)
    right, other = embedding_distance.measure(learned, pairs), embedding_distance.measure(learned, wrong)
    for place, name in enumerate(embedding_distance.NAMES):
        assert (right[:, None, place] > other[None, :, place]).mean() > 0.98, name
    np.testing.assert_allclose(
        embedding_distance.measure(learned, 7 * (pairs - learned.means) + learned.means), right, atol=1e-4
    )
    np.testing.assert_allclose(embedding_distance.measure(learned, pairs[:3]), right[:3], atol=1e-5)
    assert embedding_distance.measure(learned, pairs[:0]).shape == (0, len(embedding_distance.NAMES))


def test_the_pairs_of_a_corpus_teach_where_the_other_language_lies():
    """Vectors of the target language are turned, so that only a map that was learned says what lies near."""
    turn = np.linalg.qr(np.random.default_rng(7).standard_normal((24, 24)))[0].astype(np.float32)
    learned, pairs = (
        np.stack([own[:, 0], own[:, 1] @ turn], axis=1) for own in (vectors(1), vectors(2, size=100))
    )
    wrong = np.stack([pairs[:, 0], np.roll(pairs[:, 1], 1, axis=0)], axis=1)
    margin = embedding_distance.NAMES.index("margin")
    place = embedding_distance.train(learned)
    right, other, swapped = (
        embedding_distance.measure(place, own)[:, margin]
        for own in (pairs, wrong, pairs[:, ::-1] - place.means[::-1] + place.means)
    )
    assert (right[:, None] > other[None]).mean() > 0.98
    assert (right[:, None] > swapped[None]).mean() > 0.98
    inside = embedding_distance.measure(embedding_distance.train(learned, pairs), pairs)
    assert (
        inside[:, embedding_distance.NAMES.index("lead")] > 0
    ).mean() > 0.9  # a partner is no rival of itself
    few = embedding_distance.train(learned[:5])
    assert np.isfinite(embedding_distance.measure(few, pairs)).all()


class Meanings:
    """Vectors that know which sentences of the toy world are translations."""

    def __init__(self, pairs):
        draw = np.random.default_rng(3)
        self.known = {text: draw.standard_normal(24) for pair in pairs for text in pair[:1]}
        self.known |= {tgt: self.known[src] + 0.3 * draw.standard_normal(24) for src, tgt in pairs}

    def embed(self, texts, lang):
        return np.array([self.known.get(text, np.ones(24)) for text in texts], np.float32)


def test_the_filter_learns_from_vectors_which_pairs_are_unrelated():
    """The words are drawn at random here, so only the vectors say which sides belong together."""
    draw = np.random.default_rng(5)
    texts = [
        " ".join(draw.choice([f"{a}{b}" for a in "bdfgk" for b in ("ana", "oro", "ili")], 6))
        for _ in range(800)
    ]
    pairs = [
        (f"{src} {i}x.", f"{tgt} {i}y.")
        for i, (src, tgt) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    wrong = np.arange(400) % 25 == 0
    mixed = [(src, pairs[(i + 7) % 400][1] if wrong[i] else tgt) for i, (src, tgt) in enumerate(pairs)]
    areas = []
    for encoder in (None, Meanings(pairs)):
        trained = judge.train(table(mixed), Context.of_pair("en-de", vectors=encoder).embed)
        assert trained is not None
        # Texts of all folds are compared, those of a pair's own fold too.
        assert {own.space.sample.shape[1] for own in trained.tables if own.space} == (
            {400} if encoder else set()
        )
        odds = trained.odds(table(mixed))[:, list(judge.GROUPS).index("unrelated")]
        areas.append((odds[~wrong][:, None] < odds[wrong][None]).mean())
    assert areas[1] >= 0.99 > 0.8 > areas[0]


@pytest.mark.parametrize(
    ("given", "has_encoder", "limit"),
    [(None, False, 7.0), (None, True, 5.75), (0.0, True, 0.0), (9.0, False, 9.0)],
)
def test_the_limit_of_unrelated_pairs_is_lower_with_an_encoder(given, has_encoder, limit):
    pairs = list(dict.fromkeys(para("en", "de", 300, 1)))
    place = list(judge.GROUPS).index("unrelated")
    encoder = Meanings(pairs) if has_encoder else None
    fitted = Align(unrelated=given).fitted(table(pairs), Context.of_pair("en-de", vectors=encoder))
    assert fitted.limits[place] == limit


def test_without_an_encoder_nothing_is_measured_by_one():
    pairs = table(list(dict.fromkeys(para("en", "de", 400, 1))))
    trained = judge.train(pairs)
    assert trained is not None
    assert not set(embedding_distance.NAMES) & set(features.names_of(trained.tables[0]))


CHARS = st.lists(st.sampled_from("东西南北中发白天地人"), min_size=5, max_size=12)


@given(CHARS, st.integers(0, 12), st.lists(st.sampled_from("东西南北你我他"), min_size=1, max_size=3))
def test_up_to_three_characters_more_are_found_where_no_spaces_stand(chars, place, extra):
    longer = [*chars[:place], *extra, *chars[place:]]
    bags = near_duplicates.letter_counts(
        near_duplicates.whole_words(
            pl.Series(["".join(chars), "".join(longer), "".join(longer) + "东西南北"])
        )
    )
    assert near_duplicates.has_few_more(bags[[0]], bags[[1]])[0]
    assert near_duplicates.has_few_more(bags[[1]], bags[[0]])[0]
    assert not near_duplicates.has_few_more(bags[[0]], bags[[0]])[0]
    assert not near_duplicates.has_few_more(bags[[0]], bags[[2]])[0]


def test_a_word_is_what_stands_between_spaces():
    words = near_duplicates.whole_words(pl.Series(["C'est l'eau, - non!", "", "…"]))
    assert words.lengths.tolist() == [3, 0, 0]


def test_the_codes_of_ends_and_beginnings_by_hand():
    codes = written_form._feature_codes(pl.Series("text", ["Hi.", "hi?", "1!", "(…) –", "hi"]))
    assert codes[:, :2].tolist() == [[1, 1], [2, 2], [3, 3], [4, 0], [0, 2]]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("词" * 200, 200),
        ("ที่นี่" * 120, 240),
        ("词" * 500, lexical.MAX_UNSPACED),
        ("word " * 200, lexical.MAX_WORDS),
    ],
)
def test_as_much_is_read_of_a_text_without_spaces_as_of_its_translation(text, read):
    assert lexical.tokens(pl.Series([text])).lengths.tolist() == [read]


def test_marks_behind_120_characters_without_spaces_are_read():
    shapes = written_form.forms(pl.DataFrame({"src": ["A."], "tgt": ["词" * 200 + "。"]})).shapes
    assert shapes.lengths.tolist() == [1 + 201]
