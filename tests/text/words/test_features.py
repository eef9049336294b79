"""Hashed features of words: what related words share, and what no script breaks."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.text.words.features import WINDOW, features, hashed, tokens
from xling.text.words.han import simplified
from xling.text.words.romanise import romanise, skeleton


@pytest.mark.parametrize(
    ("word", "roman"),
    [
        ("путин", "putin"), ("йорк", "iork"), ("αθήνα", "athina"), ("محمد", "mhmd"), ("ירושלים", "yrwshlym"),
        ("merkel", "merkel"), ("меркель", "merkel"), ("मर्केल", "mrkel"), ("서울", "seoul"), ("ქართული", "kartuli"),
        ("አዲስ", "adise"), ("łódź", "lodz"), ("東京", ""), ("かな", "kana"),
    ],
)  # fmt: skip
def test_a_word_has_its_latin_spelling(word: str, roman: str) -> None:
    assert romanise(word) == roman


def test_a_name_has_the_same_consonants_in_five_scripts() -> None:
    names = ["merkel", "меркель", "मर्केल", "ميركل", "మెర్కెల్"]
    assert {skeleton(romanise(name)) for name in names} == {"mrkl"}
    shared = set.intersection(*(set(features(name)) for name in names))
    assert shared == {"Smrkl"}


def test_words_and_marks_in_their_case_and_order() -> None:
    assert tokens("Don't buy 3,000 e-mails (मुम्बई में).") == [
        "Don't", "buy", "3", ",", "000", "e-mails", "(", "मुम्बई", "में", ")", ".",
    ]  # fmt: skip


def test_scripts_without_spaces_are_read_in_windows() -> None:
    assert tokens("東京へ 年") == [WINDOW + "東京", WINDOW + "京へ", WINDOW + "へ", WINDOW + "年"]
    assert features(WINDOW + "京都") == [WINDOW + "京", WINDOW + "京都"]
    assert tokens("กรุงเทพ")[:2] == [WINDOW + "กรุ", WINDOW + "รุง"]


def test_a_number_is_the_same_in_any_digits_and_katakana_is_a_word() -> None:
    assert features("２０１９") == features("2019") == features("२०१९") == features("٢٠١٩")
    assert tokens("メルケルは") == ["メルケル", WINDOW + "は"]
    assert "Smrkr" in features("メルケル")


def test_chinese_characters_are_compared_in_their_simplified_form() -> None:
    assert features(WINDOW + "圖書") == features(WINDOW + "図書") == features(WINDOW + "图书")
    assert features(WINDOW + "圖書") == [WINDOW + "图", WINDOW + "图书"]
    assert tokens("圖書") == [WINDOW + "圖書", WINDOW + "書"]  # what is shown stays
    assert simplified("這樣的處理 Ab かな 한국") == "这样的处理 Ab かな 한국"


def test_every_simplified_character_is_one_character_and_stays() -> None:
    every = "".join(map(chr, (*range(0x2E80, 0xA000), *range(0xF900, 0xFB00), *range(0x20000, 0x32000))))
    assert len(once := simplified(every)) == len(every)
    assert simplified(once) == once and sum(a != b for a, b in zip(every, once, strict=True)) > 4000


@given(st.text())
def test_a_simplified_text_keeps_its_length(text: str) -> None:
    assert len(simplified(text)) == len(text)


@pytest.mark.parametrize(
    ("names", "consonants"),
    [
        (["Gandhi", "காந்தி", "गांधी", "गान्धी"], "knt"),
        (["Obama", "اوباما", "Обама", "אובמה"], "apm"),
        (["William", "ولیم"], "alm"),
        (["Alexander's", "Александр", "ალექსანდრე"], "alksntr"),
        (["Church", "चर्च", "சர்ச்"], "srs"),
        (["Beckham", "Μπέκαμ"], "pkm"),
        (["Cindy", "Sindi", "Синди"], "snt"),
        (["Johnson", "جونسون", "জনসন"], "ansn"),
    ],
)
def test_similar_sounds_of_scripts_are_one(names: list[str], consonants: str) -> None:
    assert {name: skeleton(romanise(name.lower())) for name in names} == dict.fromkeys(names, consonants)


def test_a_composed_letter_is_that_of_its_parts() -> None:
    parts = unicodedata.normalize("NFD", "Łódź")
    assert tokens(parts) == tokens("Łódź")


def test_features_are_those_of_the_lower_case_and_sorted() -> None:
    found = features("Berlin")
    assert found == sorted(found) == features("berlin")
    assert {"Wberlin", "<be", "lin>", "erlin", "Sprln"} <= set(found)
    assert hashed("Berlin").dtype == np.uint32
    assert len(hashed("Berlin")) == len(found)


@given(st.text(max_size=40))
def test_every_token_of_any_text_has_features(text: str) -> None:
    for token in tokens(text):
        assert features(token)
