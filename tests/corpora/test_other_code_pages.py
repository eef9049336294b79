"""UTF-8 read as DOS pages, Latin-9 or Latin-1: decoded; right text with such signs stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.core import languages
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.repair import Repair
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import paragraphs, running_text
from xling.text.document import Ledger
from xling.text.repair import decode_mojibake

_TEXTS = {
    "cp866": "Привет, мир! Как дела?",
    "cp852": "La situation n'a pas changé à l'été.",
    "cp437": "Siamo a cinque settimane da una delle più importanti elezioni.",
    "cp850": "“Sappiamo che non cambierà il comportamento",
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


def test_a_grave_of_code_page_850_ends_no_line() -> None:
    """Its byte is 0x85: ``voilà tout`` was cut in two lines, and the letter lost."""
    text = "Il est favorable à la paix, voilà tout."
    wrong = text.encode("cp850").decode("latin-1")
    assert paragraphs(wrong) == running_text(wrong, Ledger()) == wrong


_PAIRS = {
    "ar": ("أنت تحب السلام والعلم", ("utf-8", "latin-1"), ("cp1256", "cp1252")),
    "el": ("Το μοναδικό μήνυμα που έχω είναι ότι δεν απευθύνεται σε εσάς", ("utf-8", "latin-1")),
    "he": ("אבל למען האמת המסר האחד שיש לי הוא לתנועה", ("utf-8", "latin-1"), ("cp1255", "cp1252")),
    "ja": ("あなたは労働党員であろうとなかろうと私の支持者です", ("utf-8", "latin-1")),
    "ru": ("В двух магазинах я хотел купить хлеб", ("utf-8", "latin-1"), ("cp1251", "cp1252")),
    "zh": ("比利时球星在第二十五分钟打进一球，上半场球队领先", ("utf-8", "latin-1"), ("gb18030", "cp1252")),
}


@pytest.mark.parametrize("lang", _PAIRS)
def test_pairs_keep_the_bytes_that_look_like_blanks_and_quotes(lang: str, tmp_path: Path) -> None:
    """A side of pairs is decoded before its blanks are joined, its quotes rewritten and its controls deleted."""
    text, *pages = _PAIRS[lang]
    for right, mistaken in pages:
        wrong = text.encode(right).decode(mistaken)
        rows = "".join(f"The number {i} came home.\t{wrong} {i}\n" for i in range(10))
        (tmp_path / "a.tsv").write_text(rows, encoding="utf-8")
        (source,) = open_sources(
            [f"tsv:{tmp_path}/a.tsv"], SourceContext(languages.get("en"), languages.get(lang))
        )
        (batch,) = source.batches(Ledger())
        context = Context(languages.get("en"), languages.get(lang))
        mended, _ = Repair().repaired(batch, context)
        assert mended["tgt"].to_list() == [f"{text} {i}" for i in range(10)]
