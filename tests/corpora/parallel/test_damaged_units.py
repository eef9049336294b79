"""Damage of a translator's file costs the unit that it is in; rows that carriage returns part are rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.text.document import Ledger

_NUMBERS = range(8)
_XLIFF = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2"><file source-language="en" target-language="ru" '
    'original="a"><body>\n'
    + "".join(
        f'<trans-unit id="{i}"><source>House {i} stands.</source><target>Дом {i} стоит.</target></trans-unit>\n'
        for i in _NUMBERS
    )
    + "</body></file></xliff>\n"
)
_XLIFF_2 = (
    '<xliff xmlns="urn:x" version="2.0" srcLang="en" trgLang="ru"><file id="f">\n'
    + "".join(
        f'<unit id="{i}"><segment><source>House {i} stands.</source><target>Дом {i} стоит.</target></segment></unit>\n'
        for i in _NUMBERS
    )
    + "</file></xliff>\n"
)
_TBX = (
    '<martif type="TBX" xml:lang="en"><text><body>\n'
    + "".join(
        f'<termEntry><langSet xml:lang="en"><tig><term>House {i} stands.</term></tig></langSet>'
        f'<langSet xml:lang="ru"><tig><term>Дом {i} стоит.</term></tig></langSet></termEntry>\n'
        for i in _NUMBERS
    )
    + "</body></text></martif>\n"
)
_PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n' + "\n".join(
    f'msgid "House {i} stands."\nmsgstr "Дом {i} стоит."\n' for i in _NUMBERS
)
_FILES = {"xliff": _XLIFF, "xliff2": _XLIFF_2, "tbx": _TBX, "po": _PO}
_HARMS = {
    "control": (b"House 3", b"House \x013"),
    "ampersand": (b"House 3", b"House & 3"),
    "byte": ("Дом 3".encode(), "Дом ".encode() + b"\xff3"),
    "tag": (b"House 3 stands.", b"<b>House 3"),
    "quote": (b"House 3", b'"House" 3'),
}


def _read(path: Path, scheme: str, lang: str = "ru") -> tuple[list[tuple[str, str]], Ledger]:
    ledger = Ledger()
    context = SourceContext(languages.get("en"), languages.get(lang))
    (source,) = open_sources([f"{scheme}:{path}"], context)
    return [row[:2] for row in source.rows(ledger)], ledger


@pytest.mark.parametrize("kind", _FILES)
@pytest.mark.parametrize("harm", _HARMS)
def test_units_before_and_after_damage_are_kept(tmp_path: Path, kind: str, harm: str) -> None:
    if kind == "po" and harm in ("control", "ampersand", "tag"):
        return  # these are text there
    if kind != "po" and harm == "quote":
        return
    path = tmp_path / f"a.{kind}"
    path.write_bytes(_FILES[kind].encode().replace(*_HARMS[harm]))
    rows, ledger = _read(path, kind.removesuffix("2"))
    assert rows == [(f"House {i} stands.", f"Дом {i} стоит.") for i in _NUMBERS if i != 3]
    assert sum(ledger.dropped.values()) == 1


@pytest.mark.parametrize("kind", ["xliff", "xliff2", "tbx"])
def test_a_file_that_is_cut_off_keeps_its_whole_units(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.xml"
    data = _FILES[kind].encode()
    path.write_bytes(data[: data.index(b"House 6")])
    rows, ledger = _read(path, kind.removesuffix("2"))
    assert len(rows) == 6 and sum(ledger.dropped.values()) == 1


def test_a_damaged_file_that_declares_an_entity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xliff"
    path.write_text(
        _XLIFF.replace("House 3", "House & 3") + '<!DOCTYPE x [<!ENTITY a "b">]>', encoding="utf-8"
    )
    with pytest.raises(UserError):
        _read(path, "xliff")


def test_a_message_with_a_separator_of_lines_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(_PO.replace("Дом 3", "Дом\u2028\x85 3"), encoding="utf-8")
    rows, ledger = _read(path, "po")
    assert rows[3] == ("House 3 stands.", "Дом\u2028\x85 3 стоит.") and len(rows) == 8 and not ledger.dropped


_ROWS = [(f'House "{i}", small', f"Дом {i}") for i in range(30)]


@pytest.mark.parametrize("scheme", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("ends", [("\n", "\r"), ("\r\n", "\r"), ("\n", "\r\n", "\r"), ("\r\r\n",)])
def test_mixed_line_ends_end_rows(tmp_path: Path, scheme: str, ends: tuple[str, ...]) -> None:
    lines = {
        "csv": ["en,ru", *(f'"{en.replace(chr(34), chr(34) * 2)}",{ru}' for en, ru in _ROWS)],
        "tsv": ["en\tru", *(f"{en}\t{ru}" for en, ru in _ROWS)],
        "jsonl": [f'{{"en": "{en.replace(chr(34), "~")}", "ru": "{ru}"}}' for en, ru in _ROWS],
    }[scheme]
    path = tmp_path / f"a.{scheme}"
    path.write_text(
        "".join(line + ends[i % len(ends)] for i, line in enumerate(lines)), encoding="utf-8", newline=""
    )
    rows, ledger = _read(path, scheme)
    assert [(en.replace("~", '"'), ru) for en, ru in rows] == _ROWS
    assert not ledger.dropped
