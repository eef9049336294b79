"""Hashed features of words: what related words share, and what no script breaks."""

from __future__ import annotations

import hashlib
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core import languages
from xling.text.words.features import WINDOW_PREFIX, hash_features, split_tokens, word_features
from xling.text.words.han import simplify
from xling.text.words.romanise import consonants_of, romanise


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


# Names in each script of languages.tsv whose letters have words for names, or whose signs are no letters for `\\w`.
@pytest.mark.parametrize(
    ("word", "roman"),
    [
        ("කොළඹ", "kolmb"), ("ශ්\u200dරී", "shri\u200d"), ("මහින්ද", "mhind"), ("ⵎⵓⵃⴰⵎⵎⴰⴷ", "muhammad"), ("މާލެ", "male"),
        ("ᱥᱟᱱᱛᱟᱲᱤ", "santari"), ("ວຽງຈັນ", "wyngchan"), ("ភ្នំពេញ", "phnmpeny"), ("မြန်မာ", "mrnma"), ("ビルマ", "biruma"),
        ("パリ", "pari"), ("oʻzbek", "ozbek"), ("әлем", "alem"), ("ኀይለ", "hayela"), ("ਪੰਜਾਬ", "pnjab"),
        ("གངས་ཅན", "gngschn"), ("ߒߞߏ", "nkoo"), ("ڪراچي", "krachy"), ("ꦗꦮ", "jw"), ("ꦱꦺꦴꦭꦺꦴ", "solo"),
        ("ꦪꦺꦴꦒꦾꦏꦂꦠ", "yogykrt"), ("ᬩᬮᬶ", "bli"), ("ᬤᬾᬦ᭄ᬧᬲᬃ", "denpsr"), ("ᮘᮔ᮪ᮓᮥᮀ", "bndung"), ("ꯃꯅꯤꯄꯨꯔ", "mnipur"),
        ("װאַשינגטאָן", "washyngtan"), ("Әлем", "alem"), ("កម្ពុជា", "kmpucha"), ("བོད་", "bod"), ("ኢትዮጵያ", "iteyopeya"),
        ("ᐃᓄᒃᑎᑐᑦ", "inoktitot"), ("ᑲᑎᕐᔪᐊᕐᓂᕐᒥ", "katiryoarnirmi"), ("ᓀᐦᐃᔭᐍᐏᐣ", "nehiyawewin"),
        ("ᐊᓂᔑᓈᐯᒧᐎᓐ", "anishinapemowin"),
    ],
)  # fmt: skip
def test_letters_are_sounds_and_not_the_words_of_their_names(word: str, roman: str) -> None:
    assert romanise(word) == roman.replace("\u200d", "")


def test_the_features_of_words_keep_the_spellings_of_their_version() -> None:
    assert "Wsolo" not in word_features("ꦱꦺꦴꦭꦺꦴ") and romanise("ᬩᬮᬶ", 4) != romanise("ᬩᬮᬶ")


@pytest.mark.parametrize(
    ("first", "last"), [(0x1B00, 0x1B4C), (0x1B80, 0x1BAF), (0xA980, 0xA9C0), (0xABC0, 0xABED)]
)
def test_every_letter_of_insular_and_meetei_scripts_is_a_sound(first: int, last: int) -> None:
    chars = [chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code))[0] in "LM"]
    assert [char for char in chars if len(romanise(char)) > 2 or not romanise(char).isascii()] == []


def test_no_letter_of_a_living_script_is_spelled_by_its_name() -> None:
    scripts = {language.script for language in languages.LANGUAGES.values()} - {
        "Hans",
        "Hant",
        "Kore",
        "Jpan",
        "Zyyy",
    }
    letters = [c for c in map(chr, range(0x80, 0x2E80)) if c.isalpha() and languages.script_of(c) in scripts]
    assert len(letters) > 2000
    assert [c for c in letters if len(romanise(c)) > 5] == []
    silent = [c for c in letters if not romanise(c) and unicodedata.category(c) == "Lo"]
    assert len(silent) <= 42, silent  # glottal stops, clicks, signs, and letters that carry a vowel sign
    assert all(
        re.search("GLOTTAL|FINAL DOUBLE ACUTE", unicodedata.name(c))
        for c in silent
        if ord(c) in range(0x1401, 0x1680)
    )


@pytest.mark.parametrize(
    "word", ["කොළඹ", "މާލެ", "བོད་", "ߒߞߏ߫", "ᱥᱟᱱᱛᱟᱲᱤ", "ශ්\u200dරී", "မြန်မာ", "দেশ", "മലയാളം", "ਪੰਜਾਬ"]
)
def test_vowel_signs_stay_in_their_word(word: str) -> None:
    tokens = split_tokens(word)
    assert tokens[0] == word.rstrip("་") or tokens[0].startswith(WINDOW_PREFIX)


def test_an_encoder_of_before_has_the_features_of_before() -> None:
    text = "කොළඹ ශ්‍රී ලංකාව ⵎⵓⵃⴰⵎⵎⴰⴷ މާލެ ᱥᱟᱱᱛᱟᱲᱤ ビルマ パリ oʻzbek әлем ኢትዮጵያ ਪੰਜਾਬ གངས་ཅན ߒߞߏ सूर्य Merkel Ленин محمد ישראל Αθήνα서울 東京 ประเทศไทย ღვინო Երևան 2019 e-mail"  # fmt: skip # noqa: E501
    features = [word_features(token, 3) for token in split_tokens(text, 3)]
    assert hashlib.sha256(repr(features).encode()).hexdigest()[:16] == "6fcdf820ca6b657e"
    same = "सूर्य Merkel Ленин محمد ישראל Αθήνα 서울 東京 ประเทศไทย ღვინო Երևան 2019 দেশ தமிழ் తెలుగు"
    for token in split_tokens(same):
        assert hash_features(token, 3).tolist() == hash_features(token).tolist()


def test_a_name_has_the_same_consonants_in_five_scripts() -> None:
    names = ["merkel", "меркель", "मर्केल", "ميركل", "మెర్కెల్"]
    assert {consonants_of(romanise(name)) for name in names} == {"mrkl"}
    shared = set.intersection(*(set(word_features(name)) for name in names))
    assert shared == {"Smrkl"}


def test_words_and_marks_in_their_case_and_order() -> None:
    assert split_tokens("Don't buy 3,000 e-mails (मुम्बई में).") == [
        "Don't", "buy", "3", ",", "000", "e-mails", "(", "मुम्बई", "में", ")", ".",
    ]  # fmt: skip


def test_scripts_without_spaces_are_read_in_windows() -> None:
    assert split_tokens("東京へ 年") == [
        WINDOW_PREFIX + "東京",
        WINDOW_PREFIX + "京へ",
        WINDOW_PREFIX + "へ",
        WINDOW_PREFIX + "年",
    ]
    assert word_features(WINDOW_PREFIX + "京都") == [WINDOW_PREFIX + "京", WINDOW_PREFIX + "京都"]
    assert split_tokens("กรุงเทพ")[:2] == [WINDOW_PREFIX + "กรุ", WINDOW_PREFIX + "รุง"]


def test_a_number_is_the_same_in_any_digits_and_katakana_is_a_word() -> None:
    assert (
        word_features("２０１９") == word_features("2019") == word_features("२०१९") == word_features("٢٠١٩")
    )
    assert split_tokens("メルケルは") == ["メルケル", WINDOW_PREFIX + "は"]
    assert "Smrkr" in word_features("メルケル")


def test_chinese_characters_are_compared_in_their_simplified_form() -> None:
    assert (
        word_features(WINDOW_PREFIX + "圖書")
        == word_features(WINDOW_PREFIX + "図書")
        == word_features(WINDOW_PREFIX + "图书")
    )
    assert word_features(WINDOW_PREFIX + "圖書") == [WINDOW_PREFIX + "图", WINDOW_PREFIX + "图书"]
    assert split_tokens("圖書") == [WINDOW_PREFIX + "圖書", WINDOW_PREFIX + "書"]  # what is shown stays
    assert simplify("這樣的處理 Ab かな 한국") == "这样的处理 Ab かな 한국"


def test_every_simplified_character_is_one_character_and_stays() -> None:
    every = "".join(map(chr, (*range(0x2E80, 0xA000), *range(0xF900, 0xFB00), *range(0x20000, 0x32000))))
    assert len(once := simplify(every)) == len(every)
    assert simplify(once) == once and sum(a != b for a, b in zip(every, once, strict=True)) > 4000


@given(st.text())
def test_a_simplified_text_keeps_its_length(text: str) -> None:
    assert len(simplify(text)) == len(text)


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
    assert {name: consonants_of(romanise(name.lower())) for name in names} == dict.fromkeys(names, consonants)


def test_a_composed_letter_is_that_of_its_parts() -> None:
    parts = unicodedata.normalize("NFD", "Łódź")
    assert split_tokens(parts) == split_tokens("Łódź")


def test_features_are_those_of_the_lower_case_and_sorted() -> None:
    found = word_features("Berlin")
    assert found == sorted(found) == word_features("berlin")
    assert {"Wberlin", "<be", "lin>", "erlin", "Sprln"} <= set(found)
    assert hash_features("Berlin").dtype == np.uint32
    assert len(hash_features("Berlin")) == len(found)


@given(st.text(max_size=40))
def test_every_token_of_any_text_has_features(text: str) -> None:
    for token in split_tokens(text):
        assert word_features(token)
