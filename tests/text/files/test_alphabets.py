"""The encoding that a refusal names is that of the letters of the language, not of a sister page."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.text.document import Ledger
from xling.text.files import corpus_reader
from xling.text.files.compressed import read_lines

_TEXTS = {
    "cs": ("Žluťoučký kůň úpěl ďábelské ódy, řekl šéf.", "cp1250 iso8859_2 cp852 mac_latin2"),
    "el": ("Άλλοι βουλευτές μίλησαν για το όνομα.", "cp1253 iso8859_7 cp737"),
    "eo": ("Ĉiuj homoj ŝatas la ĝardenon ĉi-jare, ĵaŭde.", "iso8859_3"),
    "hu": ("Árvíztűrő tükörfúrógép, őrült kővel.", "cp1250 cp852"),
    "kk": ("Қазақстан әлемдегі ең үлкен өңір және оның ғылымы.", "ptcp154 kz1048"),
    "lv": ("Šī mēneša pārskati ģimenei, ļoti ņemts ķieģelis.", "cp1257 iso8859_4 cp775"),
    "mk": ("Мокрите лисја ми се лепат за ѓоновите, ќе видиме.", "cp1251 cp855 mac_cyrillic"),
    "mt": ("Allura b'wiċċi minn quddiem nistaqsi għaliex hemm dawl ġdid żgħir.", "iso8859_3"),
    "pl": ("Zażółć gęślą jaźń, rzekł ślepy źrebak.", "cp1250 iso8859_2 cp852 mac_latin2"),
    "tr": ("Yine de konuşmasının tonu geçen yıl değişti, İğdır'dan.", "cp1254 cp857"),
    "uk": ("Він не завершив, її з'їзд чорнолісців гречно.", "cp1251 koi8_u mac_cyrillic iso8859_5"),
    "vi": ("Thành phố Hồ Chí Minh là thành phố lớn nhất nước.", "cp1258"),
}
_ICONV = {"MAC-CENTRALEUROPE": "mac_latin2", "MAC-CYRILLIC": "mac_cyrillic", "RK1048": "kz1048"}
_CASES = [(lang, page) for lang, (_, pages) in _TEXTS.items() for page in pages.split()]
_TONES = "\u0300\u0301\u0303\u0309\u0323"


def _in_page(text: str, page: str) -> bytes:
    if page != "cp1258":
        return text.encode(page)
    parts = [[*unicodedata.normalize("NFD", char)] for char in text]
    return "".join(
        unicodedata.normalize("NFC", "".join(each for each in part if each not in _TONES))
        + "".join(each for each in part if each in _TONES)
        for part in parts
    ).encode(page)


@pytest.mark.parametrize(("lang", "page"), _CASES)
@pytest.mark.parametrize("num_lines", [3, 60])
def test_the_conversion_that_a_refusal_names_gives_the_text(
    tmp_path: Path, lang: str, page: str, num_lines: int
) -> None:
    text = _TEXTS[lang][0]
    data = _in_page(f"{text}\n", page) * num_lines
    path = tmp_path / f"talks.{lang}"
    path.write_bytes(data)
    for read in (lambda: read_lines(path, Ledger(), lang=lang), lambda: corpus_reader.read_lines(path)):
        with pytest.raises(UserError) as refused:
            list(read())
        iconv = str(refused.value).partition("iconv -f ")[2].partition(" ")[0]
        converted = data.decode(_ICONV.get(iconv, iconv))
        assert unicodedata.normalize("NFC", converted) == f"{text}\n" * num_lines
