"""Lines by themselves that were read in another code page: they tell together which one."""

from __future__ import annotations

import pytest

from xling.corpora.stages.repair import Repair
from xling.text.document import LONE, Document, Ledger

TEXTS = {
    "hu": "Az öreg hölgy megköszönte a segítséget.|A nő később jött.|Ő is tud főzni.|Az idő jó volt, a szőlő érett.",
    "hr": "Čovjek je došao kući.|Reče mu majka: dođi sutra.|Počeo je čitati knjigu.|Većina ih nije znala put.",
    "ru": "Старый мост через реку скоро починят.|Дети играли в парке после обеда.|Никто не знал, когда он придёт.",
    "th": "เด็กเล่นอยู่ในสวนหลังอาหารกลางวัน|ห้องสมุดของเมืองเปิดอีกครั้ง|แม่อ่านนิทานให้ลูกฟังทุกคืน",
    "ko": "이 도시의 도서관은 오랜 공사 끝에 다시 문을 열었다|아이들은 공원에서 놀고 있었다",
}  # fmt: skip
PAGES = [("hu", "cp1250"), ("hr", "cp1250"), ("ru", "cp866"), ("th", "cp874"), ("ko", "cp949")]


@pytest.mark.parametrize(("lang", "page"), PAGES)
def test_lines_that_were_read_as_windows_1252(lang: str, page: str) -> None:
    right = [line for line in TEXTS[lang].split("|") if not line.isascii()]
    damaged = [line.encode(page).decode("latin-1") for line in right]
    ledger = Ledger()
    docs = [Document(str(i), line, lang=lang, form=LONE) for i, line in enumerate(damaged)]
    assert [doc.text for doc in Repair(lang=lang)(docs, ledger)] == right
    assert ledger.notes["repaired_unicode"] == sum(map(str.__ne__, damaged, right))


@pytest.mark.parametrize("lang", TEXTS)
def test_right_lines_stay(lang: str) -> None:
    right = TEXTS[lang].split("|")
    docs = [Document(str(i), line, lang=lang, form=LONE) for i, line in enumerate(right)]
    assert [doc.text for doc in Repair(lang=lang)(docs, Ledger())] == right
