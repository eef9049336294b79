"""Damage that other programs leave in text is undone, and right text stays as it is."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.text import repair

RUSSIAN = "Добрый день, где здесь вокзал?"
SENTENCES = (
    ("Latn", "Où est la gare ? Là-bas, près de l’église."), ("Latn", "Zażółć gęślą jaźń, proszę."),
    ("Cyrl", RUSSIAN), ("Deva", "यह एक घर है।"), ("Kore", "여기는 집입니다."), ("Latn", "Đây là một ngôi nhà đẹp."),
)  # fmt: skip


def wrongly(text: str, codec: str) -> str:
    """UTF-8 read in another encoding, as programs do it: Windows-1252 with the holes of Latin-1."""
    if codec != "cp1252":
        return text.encode().decode(codec)
    return "".join(
        bytes([b]).decode("cp1252") if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(b)
        for b in text.encode()
    )


@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
@pytest.mark.parametrize(("script", "text"), SENTENCES)
def test_utf8_that_was_read_in_a_western_encoding_comes_back(script: str, text: str, codec: str) -> None:
    damaged = wrongly(text, codec)
    assert damaged != text
    assert repair.decode_mojibake(damaged, {script}) == text
    assert repair.decode_mojibake(wrongly(damaged, codec), {script}) == text


@pytest.mark.parametrize(("codec", "script", "text"), [
    ("cp1251", "Cyrl", "Где вокзал? Там."), ("cp1250", "Latn", "Dzień dobry, będzie ładnie żyć."),
    ("mac_roman", "Latn", "L’élève était déjà là."), ("koi8_r", "Cyrl", RUSSIAN),
    ("cp437", "Latn", "Où est l’élève ?"), ("cp850", "Cyrl", RUSSIAN), ("cp1254", "Latn", "Değişmesi için"),
])  # fmt: skip
def test_eastern_encodings_come_back_too(codec: str, script: str, text: str) -> None:
    assert repair.decode_mojibake(wrongly(text, codec), {script}) == text


RIGHT = [
    "«LE CAFÉ» fin", "été…» et", "NÃO, NESCAFÉ®", "MAÇÃ…", "Рёбра и Сёмга", "Ça va, “Noël”…", "20 °C à l’ombre", "Ä… B",
    "AT&T",
    "x < y & y > z; R&D;", "FÜR Â ß", "naïve cliché – déjà vu", "It's 6\" long", 'He said "yes" and "no".',
]  # fmt: skip


@pytest.mark.parametrize("text", RIGHT)
def test_right_text_stays(text: str) -> None:
    mended = text
    for step in repair.REPAIR_STEPS.values():
        mended = step(mended, text, "Latn", {"Latn", "Cyrl"})
    assert mended == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn")), max_size=30))
def test_what_was_mended_needs_no_second_mending(text: str) -> None:
    once = repair.remove_invisible(repair.decode_entities(text), "Latn")
    assert repair.remove_invisible(once, "Latn") == once
    assert len(repair.decode_mojibake(text, {"Latn"})) <= len(text)


@pytest.mark.parametrize(("text", "mended"), [
    ("Fish &amp; chips", "Fish & chips"), ("Fish &amp;amp; chips", "Fish & chips"), ("&#233;t&eacute;", "été"),
    ("a&nbsp;b", "a b"), ("&unknown; &c", "&unknown; &c"),
    ("Caf=C3=A9, 2 =3D 1+1, n=\nchi", "Café, 2 = 1+1, nchi"), ("=E2=80=9CM=C5=ABsa=E2=80=9D", "“Mūsa”"),
    ("a=C3=28, b=3D, f?q=41=42", "a=C3=28, b=3D, f?q=41=42"),
])  # fmt: skip
def test_entities(text: str, mended: str) -> None:
    assert repair.decode_entities(text) == mended


@pytest.mark.parametrize(("text", "script", "mended"), [
    ("It\x07 is\x00 late", "Latn", "It is late"), ("\ufefflate\u200b", "Latn", "late"),
    ("\x93Yes\x94\x85", "Latn", "“Yes”…"),
    ("\x1b[1mbold\x1b[0m", "Latn", "bold"), ("one\u2028two\x0bthree", "Latn", "one two three"),
    ("می\u200cآیم\u200b", "Arab", "می\u200cآیم"),
    ("ភាសា\u200bខ្មែរ\u2060", "Khmr", "ភាសា\u200bខ្មែរ"), ("mid\u00addle", "Latn", "middle"),
])  # fmt: skip
def test_characters_that_nobody_sees(text: str, script: str, mended: str) -> None:
    assert repair.remove_invisible(text, script) == mended


@pytest.mark.parametrize(("text", "other", "mended"), [
    ("``Yes'', he said", '"Ja", sagte er', '"Yes", he said'), ("don`t, l´eau", "", "don't, l'eau"),
    ('He ""knows"" it', "«x»", 'He "knows" it'),
    ('"It is late."', "Es ist spät.", "It is late."), ('"It is late."', "„Es ist spät.“", '"It is late."'),
    ("“It is late.", "Es ist spät.", "It is late."), ('A door of 6"', "Eine Tür", 'A door of 6"'),
])  # fmt: skip
def test_quotes(text: str, other: str, mended: str) -> None:
    assert repair.repair_quotes(text, other) == mended


@pytest.mark.parametrize(
    "text",
    ["&amp;", "\x07", "cafÃ©", "â€™", "ÐŸÑ€", "РџСЂРё", "``", "DzieĹ„", "don`t", "\u200b", "√©", "п÷я"],
)
def test_the_first_look_misses_nothing(text: str) -> None:
    assert pl.Series([text]).str.contains(repair.DAMAGE_PATTERN).all()


@pytest.mark.parametrize(
    "text",
    [
        "市議会は月曜日の夜に新しい予算を承認した。",
        "Градско веће је усвојило нови буџет у понедељак.",
        "Žiniasklaida praneša apie šią didžiulę žinią.",
    ],
)
def test_latin_9_is_told_from_windows_1252_by_control_codes(text: str) -> None:
    assert repair.decode_mojibake(text.encode().decode("iso8859_15")) == text


@pytest.mark.parametrize("codec", ["gbk", "cp932", "cp874"])
def test_latin_letters_that_were_read_in_an_eastern_code_page(codec: str) -> None:
    text = "A házban hét férfi ült és várt."
    damaged = text.encode().decode(codec)
    assert repair.decode_entities(damaged) == text != damaged
    assert pl.Series([damaged]).str.contains(repair.DAMAGE_PATTERN).all()


@pytest.mark.parametrize(
    "text",
    ["iPhone和iPad都很贵，A股的B面。", "คำว่าcarและbusคือรถ", "The liquor 茅台 and 茅 a", "Tシャツとｶﾒﾗa"],
)
def test_eastern_letters_beside_latin_ones_stay(text: str) -> None:
    assert repair.decode_entities(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Заседание назначено на понедельник, дом 5.",
        "Η συνάντηση θα γίνει τη Δευτέρα.",
        "הפגישה תתקיים ביום שני.",
        "سيعقد الاجتماع يوم الاثنين.",
        "Հանդիպումը կկայանա երկուշաբթի օրը։",
    ],
)
def test_letters_of_two_bytes_that_were_read_as_gbk_come_back(text: str) -> None:
    damaged = text.encode().decode("gbk")
    assert repair.decode_entities(damaged) == text
    assert pl.Series([damaged]).str.contains(repair.DAMAGE_PATTERN).all()
    lost = f"{damaged} 鈥�"  # a dash in front of a space, whose third byte GBK does not have
    assert repair.decode_entities(lost) == f"{text} �"


def test_chinese_stays_as_it_is() -> None:
    for text in ("维护世界和平为未来。", "他未为围危位味伟喂。", "系统卫士稀有戏曲，习惯喜欢。"):
        assert repair.decode_entities(text) == text


@pytest.mark.parametrize(
    "text",
    ["L’è vero, l’è bello e l’è buono.", "S’écria-t-il jusqu’à l’âme.", "“État” — “Égal” et “Être”"],
)
def test_apostrophes_before_accents_are_no_armenian_read_as_mac_roman(text: str) -> None:
    assert repair.decode_mojibake(text) == text
    armenian = "Բարև ձեզ, ինչպես եք"
    assert repair.decode_mojibake(armenian.encode().decode("mac_roman")) == armenian
