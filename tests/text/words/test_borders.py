"""Word borders that closed classes show in text without spaces."""

from itertools import pairwise

import pytest

from xling.corpora.codeswitch.words import word_cutter
from xling.text.word_segmentation import Segmenter
from xling.text.words.borders import certain_borders


def cut(text: str, lang: str) -> list[str]:
    places = [0, *certain_borders(text, lang), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


@pytest.mark.parametrize(
    ("lang", "text", "pieces"),
    [
        ("zh", "我们的学校很大", ["我们", "的", "学校", "很大"]),
        ("zh", "目的地", ["目的地"]),
        ("zh", "犹他州", ["犹他州"]),
        ("zh", "归还其他人质", ["归还其他人质"]),
        ("ja", "彼は東京に行ったことがある", ["彼", "は", "東京に", "行ったこと", "がある"]),
        ("ja", "お茶を飲む", ["お茶", "を", "飲む"]),
        ("ja", "ドイツに対する", ["ドイツ", "に対する"]),
        ("ja", "この男の子", ["この男の子"]),
        ("ja", "わが子", ["わが子"]),
        ("th", "บ้านของฉัน", ["บ้าน", "ของ", "ฉัน"]),
        ("th", "เอกฉันท์", ["เอกฉันท์"]),
        ("th", "ภูเขาไฟ", ["ภูเขาไฟ"]),
        ("km", "ខ្ញុំស្រឡាញ់អ្នក", ["ខ្ញុំស្រឡាញ់អ្នក"]),
        # The sign of attributes in Chinese is a suffix in Japanese.
        ("ja", "世界的規模", ["世界的規模"]),
    ],
)
def test_text_is_cut_beside_words_of_closed_classes_alone(lang: str, text: str, pieces: list[str]) -> None:
    assert cut(text, lang) == pieces


def test_words_are_found_where_nothing_can_be_learned() -> None:
    text = "彼女は東京を訪れた"
    assert [text[a:b] for a, b in word_cutter("ja", [text], {})(text)] == [
        "彼女",
        "は",
        "東京",
        "を",
        "訪れた",
    ]


def test_no_border_is_inside_a_letter_with_its_signs() -> None:
    # The word of four letters holds "มี", behind a vowel that is written first.
    text = "เมียของเขา"
    words = [text[a:b] for a, b in Segmenter([text], (), "th").word_spans(text)]
    assert words == ["เมีย", "ของ", "เขา"]
