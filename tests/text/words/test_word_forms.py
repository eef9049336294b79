import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.text.files.dictionary import Cosda, read_dictionary
from xling.text.pairs import word_spans
from xling.text.words.substitution import expand_elided_words, render_text, token_langs
from xling.text.words.word_forms import (
    copy_capitals,
    dictionary_key,
    expand_elided,
    find_inflected,
    split_elided,
)


def switched(text, base, dictionaries, spaced=("en", "fr", "it", "tr", "de"), **settings):
    cosda = Cosda(base, dictionaries, 1.0, **settings)
    places = list(split_elided(text, word_spans(text), base))
    made = expand_elided_words(cosda([text[a:b] for a, b in places], 1), base)
    new = render_text(made, text, places, spaced)
    assert len(token_langs(new, made)) == len(new.split())
    return new


def test_turkish_capitals():
    assert switched("Good WORK", "en", {"tr": {"good": ("iyi",), "work": ("iş",)}}) == "İyi İŞ"
    assert switched("IŞIK İyi", "tr", {"en": {"ışık": ("light",), "iyi": ("good",)}}) == "LIGHT Good"


@pytest.mark.parametrize(
    ("translation", "word", "lang", "new"),
    [
        ("ijs", "Ice", "nl", "IJs"),
        ("კატა", "Cat", "ka", "კატა"),
        ("კატა", "CAT", "ka", "კატა"),
        ("ich", "I", "de", "ich"),
        ("straße", "Street", "de", "Straße"),
        ("猫", "Cat", "zh", "猫"),
    ],
)
def test_capitals_by_language(translation, word, lang, new):
    assert copy_capitals(translation, word, lang, "en") == new


@pytest.mark.parametrize("mark", "'’")
def test_elided_words_are_apart_and_written_in_full_before_a_consonant(mark):
    french = {"en": {"eau": ("water",), "ami": ("ally",), "homme": ("man",)}}
    assert switched(f"un verre d{mark}eau", "fr", french) == "un verre de water"
    assert switched(f"l{mark}ami", "fr", french) == f"l{mark}ally"
    assert switched(f"L{mark}homme", "fr", french) == "Le man"
    assert switched(f"aujourd{mark}hui", "fr", french) == f"aujourd{mark}hui"
    assert switched(f"dell{mark}acqua", "it", {"en": {"acqua": ("water",)}}) == "del water"
    assert expand_elided("d'", "honneur", "fr") == "d'"


def test_elided_translations_stand_by_their_word():
    assert switched("glass of water", "en", {"fr": {"of water": ("d' eau",)}}) == "glass d'eau"


def test_apostrophes_are_one(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text("don’t\tnicht\nİyi\tgut\n", encoding="utf-8")
    assert read_dictionary(path, "tr") == {"don't": ("nicht",), "iyi": ("gut",)}
    assert dictionary_key("l’Eau") == dictionary_key("L'eau")


def test_the_longest_entry_is_taken():
    dictionary = {
        "de": {"ice": ("Eis",), "ice cream": ("Speiseeis",), "new york city": ("NYC",), "new": ("neu",)}
    }
    assert switched("ice cream in New York now", "en", dictionary) == "Speiseeis in Neu York now"


def test_new_neighbours_without_a_space_do_not_run_together():
    assert switched("苹果手机", "zh", {"en": {"苹": ("apple",), "手": ("hand",)}}) == "apple果hand机"
    assert switched("苹手", "zh", {"en": {"苹": ("apple",), "手": ("hand",)}}) == "apple hand"


def test_the_language_is_drawn_first_where_that_is_asked():
    dictionaries = {"de": {"cat": ("Katze",)}, "fr": {"dog": ("chien",)}}
    words = ["cat", "dog"] * 500
    both = Cosda("en", dictionaries, 1.0)(words, 1)
    first = Cosda("en", dictionaries, 1.0, language_first=True)(words, 1)
    assert both.num_replaced("en") == 1000
    assert first.num_replaced("en") == pytest.approx(500, abs=60)


def test_changes_of_endings_are_learned():
    stems = ["walk", "jump", "play", "look", "call", "turn", "kick", "rain", "paint", "cook"]
    entries = {*stems, "intern", "nation"}
    found = find_inflected(
        [s + e for s in stems for e in ("ed", "ing", "s")] + ["internet", "walked"], entries
    )
    assert found["walked"] == "walk"
    assert found["cooking"] == "cook"
    assert "internet" not in found


def test_changes_of_beginnings_are_learned():
    roots = ["toto", "tu", "kulima", "limu", "falme", "zee", "gonjwa", "pishi", "chezaji", "imbaji"]
    found = find_inflected(["wa" + root for root in roots], {"m" + root for root in roots})
    assert found["watoto"] == "mtoto"
    assert found["wafalme"] == "mfalme"


@given(st.text("abc d'eéİIıiß", max_size=20))
def test_keys_are_stable_and_parts_are_the_text(text):
    assert dictionary_key(dictionary_key(text, "tr"), "tr") == dictionary_key(text, "tr")
    places = word_spans(text)
    cut = list(split_elided(text, places, "fr"))
    assert "".join(text[a:b] for a, b in cut) == "".join(text[a:b] for a, b in places)
    assert all(a < b for a, b in cut)
