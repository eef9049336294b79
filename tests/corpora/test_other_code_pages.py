"""UTF-8 read as DOS pages, Latin-9 or Latin-1: decoded; right text with such signs stays."""

from __future__ import annotations

import pytest

from xling.corpora.sources.source import paragraphs, running_text
from xling.text.document import Ledger
from xling.text.repair import decode_mojibake

_TEXTS = {
    "cp866": "Привет, мир! Как дела?",
    "cp852": "La situation n'a pas changé à l'été.",
    "cp437": "Siamo a cinque settimane da una delle più importanti elezioni.",
    "cp850": "Milhões de pessoas",
    "cp1250": "Er ließ sie gehen.",
    "cp1251": "está mesmo a crepitar",
    "mac_roman": "Mirándome a la cara",
    "iso8859_15": "Arbetsgivaren ville se förändringar.",
}


@pytest.mark.parametrize("page", _TEXTS)
def test_utf8_read_in_another_page_is_decoded_even_where_few_letters_are(page: str) -> None:
    assert decode_mojibake(_TEXTS[page].encode().decode(page)) == _TEXTS[page]


@pytest.mark.parametrize(
    "text",
    [
        "Brusquement, la lampe s’éteignit.",
        "Oggi non c’è nessuno dei due.",
        "Не все согласны, рам много.",
        "Łódź, Gdańsk i Kraków: 5 √ 3 ═ ├ x",
        "À la fin; États-Unis, Ångström",
    ],
)
def test_right_text_stays(text: str) -> None:
    assert decode_mojibake(text) == text


@pytest.mark.parametrize(
    "text", ["أنت تحب السلام", "Kolik stojí ten dům v Praze? Však víš.", "עוד לא ידוע", "città"]
)
@pytest.mark.parametrize("ending", ["", ". ", "\n"])
def test_bytes_of_letters_that_look_like_line_ends_stay(text: str, ending: str) -> None:
    """U+0085 and U+00A0 are bytes of Arabic, Czech and Italian letters in text read as Latin-1."""
    for read in (paragraphs, lambda wrong: running_text(wrong, Ledger())):
        assert decode_mojibake(read((text + ending).encode().decode("latin-1"))) == text + ending.strip()


def test_a_next_line_of_ebcdic_ends_a_line() -> None:
    assert paragraphs("First line.\x85Second line.\x85") == "First line.\nSecond line."
