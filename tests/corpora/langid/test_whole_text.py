"""Texts of few letters beyond ASCII that were read in another code page: their strange characters tell together."""

from __future__ import annotations

import pytest

from tests.corpora.langid.test_code_pages import TEXTS, misread
from xling.corpora.langid.code_pages import WrongCodePage
from xling.corpora.langid.whole_text import Pages, misfits
from xling.corpora.stages.repair import Repair
from xling.text.document import Document

WESTERN = {
    "de": "Für die Nacht wünschen wir größere Räume.|Später öffneten sie die Tür und hörten Musik.",
    "es": "El niño está en su habitación.|¿Dónde está la estación más próxima?|Mañana irá a ver a su tía, dijo él.",
    "fr": "Les élèves étaient très fatigués.|Où êtes-vous allés à midi ?|Cela a déjà été dit à plusieurs.",
    "sv": "Hon gick på gatan för att köpa bröd.|Därför måste vi åka hem.|När är du född, frågade läraren.",
    "it": "Perché non c\u2019è più caffè?|La città è più bella di così.|È già tardi, però può venire anche lunedì.",
    "pt": "Não há razão para a preocupação.|Amanhã à noite começa a reunião.|Você já está com as crianças?",
    "uk": "Усі люди народжуються вільними і рівними.|Її діти живуть у місті Києві.|Він має своє ім'я, і є інші.",
}  # fmt: skip
DAMAGE = [
    *((lang, page, "cp1252") for lang in ("de", "es", "fr", "sv") for page in ("cp437", "cp850", "mac_roman")),
    *((lang, "cp850", read) for lang in ("de", "es", "fr", "sv", "pt") for read in ("cp1251", "koi8_r", "cp866")),
    ("it", "mac_roman", "cp1252"), ("it", "cp850", "cp1252"), ("it", "cp1252", "mac_roman"),
    ("fr", "mac_roman", "cp1250"), ("uk", "koi8_u", "cp1252"), ("uk", "koi8_u", "koi8_r"), ("uk", "koi8_u", "cp866"),
]  # fmt: skip


def written(lang: str, page: str) -> list[str]:
    return [line.encode(page, "ignore").decode(page) for line in WESTERN[lang].split("|")]


@pytest.mark.parametrize(("lang", "page", "read"), DAMAGE)
def test_a_text_comes_back(lang: str, page: str, read: str) -> None:
    right = "\n".join(written(lang, page))
    damaged = "\n".join(misread(line, page, read) for line in written(lang, page))
    assert damaged != right
    assert Repair(lang=lang).edit(Document("1", damaged)).text == right


@pytest.mark.parametrize("lang", [*WESTERN, "en", "nl", "pl", "all"])
def test_right_text_stays_whatever_its_language(lang: str) -> None:
    foreign = (
        "Zoë en Noël, één, vóór, België|„So\u201c – «non» – \u201cyes\u201d … 25 m², №5, £3, 20°C, ¡Sí! •Uno"
    )
    foreign += "|Các Đại biểu Quốc hội lo lắng về việc đổi tên; Ẹ̀gbẹ́ náà ti dé sí ọjà."
    lines = [*WESTERN.values(), *TEXTS.values(), foreign]
    for text in (line.replace("|", "\n") for line in lines):
        verdict = Repair(lang=lang).edit(Document("1", text))
        assert (verdict.reason, verdict.text) == (None, text)


@pytest.mark.parametrize("read", ["cp1252", "koi8_r", "cp866"])
def test_what_cannot_be_told_is_dropped(read: str) -> None:
    damaged = "\n".join(misread(line, "cp850", read) for line in written("es", "cp850"))
    assert Repair(lang="sw").edit(Document("1", damaged)).reason == "mojibake"


@pytest.mark.parametrize(("text", "count"), [
    ("¿Qué? “Sí”, «no»… l\u2019été 5 m² 20 °C", 0), ("f”r p†s │lus citt‚ consternÈs", 5), ("a\x81b", 1),
    ("Bangsa‐Bangsa, hoe‐hoe, ta‑ta", 0),
    ("▁The ▁house x≤y, a∈A, √n A→B Smith†, Lee†", 0), ("est∞n bef√rchten f√r", 2),
])  # fmt: skip
def test_characters_out_of_their_place(text: str, count: int) -> None:
    assert misfits(text) == count


@pytest.mark.parametrize("lang", ["en", "pl", "ru", "el"])
def test_readings_that_may_be_right_are_told_of_many_texts_at_once(lang: str) -> None:
    pages = WrongCodePage.of(lang)
    texts = [misread(text, "cp1250", "cp1251") for text in TEXTS.values()]
    texts.append(misread("It’s here, isn’t it?", "cp1252", "mac_roman"))
    texts += [line for lines in WESTERN.values() for line in lines.split("|")] + ["abc", "", "中文和é", "ż"]
    answers = list(pages._readings.possible(texts * 9))  # more than one block
    assert answers == [expected_readings(text, pages) for text in texts] * 9
    assert any(answers)
    assert not all(answers)


def expected_readings(text: str, pages: WrongCodePage) -> dict[Pages, int]:
    """The readings of a text by their definition."""
    strange, answers = [char for char in text if not char.isascii()], {}
    for name, table in pages._tables.items():
        both = [(old, table.get(ord(old), old)) for old in strange]
        changed = [(old, new) for old, new in both if old != new]
        foreign = sum(new.isalpha() and new not in pages.letters for _, new in both)
        right = sum(
            new in pages.letters or new == "’" or (new in "¿¡" and not old.isalpha()) for old, new in changed
        )
        if changed and foreign <= 0.1 * len(strange) and 2 * right >= len(changed):
            answers[name] = foreign
    return answers
