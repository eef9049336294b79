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
_FLEX = (
    "<document><interlinear-text><paragraphs><paragraph><phrases>\n"
    + "".join(
        f'<phrase><item type="txt" lang="en">House {i} stands.</item><item type="gls" lang="ru">Дом {i} стоит.</item>'
        "</phrase>\n"
        for i in _NUMBERS
    )
    + "</phrases></paragraph></paragraphs></interlinear-text></document>\n"
)
_FILES = {"xliff": _XLIFF, "xliff2": _XLIFF_2, "tbx": _TBX, "po": _PO, "flextext": _FLEX}
_STRING, _SEG = '<string name="s{}">{}</string>\n', '<seg id="b.GEN.1.{}" type="verse">{}</seg>\n'
_TEXTS = {
    "en": [f"House {i} stands." for i in _NUMBERS],
    "ru": [f"Дом {i} стоит." for i in _NUMBERS],
}
_TWO_FILES = {
    scheme: {lang: head + "".join(map(form.format, _NUMBERS, texts)) + end for lang, texts in _TEXTS.items()}
    for scheme, head, form, end in (
        ("android", "<resources>\n", _STRING, "</resources>\n"),
        ("verses", "<cesDoc><text><body>\n", _SEG, "</body></text></cesDoc>\n"),
    )
}
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


@pytest.mark.parametrize("kind", _TWO_FILES)
@pytest.mark.parametrize("harm", [harm for harm in _HARMS if harm != "quote"])
def test_units_of_two_files_before_and_after_damage_are_kept(tmp_path: Path, kind: str, harm: str) -> None:
    en, ru = tmp_path / "en.xml", tmp_path / "ru.xml"
    en.write_bytes(_TWO_FILES[kind]["en"].encode().replace(*_HARMS[harm]))
    ru.write_bytes(_TWO_FILES[kind]["ru"].encode().replace(*_HARMS[harm]))
    rows, ledger = _read(Path(f"{en}+{ru}"), kind)
    assert rows == [(f"House {i} stands.", f"Дом {i} стоит.") for i in _NUMBERS if i != 3]
    assert ledger.dropped == {("read", "malformed"): 1, ("read", "missing_side"): 1}


@pytest.mark.parametrize("kind", ["xliff", "xliff2", "tbx", "flextext"])
@pytest.mark.parametrize("is_between", [False, True])
def test_a_file_that_is_cut_off_keeps_its_whole_units(tmp_path: Path, kind: str, is_between: bool) -> None:
    """One that breaks off between two units counts one more, since nobody knows how many are missing."""
    path = tmp_path / "a.xml"
    data = _FILES[kind].encode()
    end = data.index(b"House 6")
    end = data.rindex(b"\n", 0, end) if is_between else end
    path.write_bytes(data[:end])
    rows, ledger = _read(path, kind.removesuffix("2"))
    assert len(rows) == 6 and ledger.dropped == {("read", "malformed"): 1}


_JSON = (
    '{"menu": {"open": "Open, please", "list": ["One", "Two"]}, "greet": {"message": "Hello", "description": "x"},\n'
    '"end": "The end", "last": "Good bye"}'
)


@pytest.mark.parametrize("new", ['"Two",],}', '"Two"\n, ]}', '"Two"],}'])
def test_commas_at_the_end_of_json_are_no_damage(tmp_path: Path, new: str) -> None:
    (tmp_path / "en.json").write_text(_JSON.replace("Open, please", "Open, ]please,}"), encoding="utf-8")
    (tmp_path / "ru.json").write_text(_JSON.replace('"Two"]}', new), encoding="utf-8")
    rows, ledger = _read(Path(f"{tmp_path}/en.json+{tmp_path}/ru.json"), "i18n")
    assert [tgt for _, tgt in rows] == ["Open, please", "One", "Two", "Hello", "The end", "Good bye"]
    assert rows[0][0] == "Open, ]please,}" and not ledger.dropped


@pytest.mark.parametrize("end", [30, 60, -1])
def test_damaged_json_is_refused_with_its_place(tmp_path: Path, end: int) -> None:
    """Behind damage a key may belong to any object, and so to the text of another one."""
    (tmp_path / "en.json").write_text(_JSON, encoding="utf-8")
    (tmp_path / "ru.json").write_text(_JSON[:end], encoding="utf-8")
    with pytest.raises(UserError, match=r"ru.json is not JSON: .* line \d column \d+"):
        _read(Path(f"{tmp_path}/en.json+{tmp_path}/ru.json"), "i18n")


@pytest.mark.parametrize("kind", ["xliff", "tbx", "flextext", "android", "verses", "i18n"])
@pytest.mark.parametrize(("encoding", "name"), [("cp1251", "CP1251"), ("koi8-r", "KOI8-U")])
def test_files_in_another_encoding_are_told_how_to_be_converted(
    tmp_path: Path, kind: str, encoding: str, name: str
) -> None:
    content = _FILES.get(kind) or (_TWO_FILES[kind]["ru"] if kind in _TWO_FILES else '{"a": "Дом стоит"}')
    path = tmp_path / "a.xml"
    path.write_bytes(content.replace("Дом", "Большой дом").encode(encoding))
    with pytest.raises(UserError, match=f"iconv -f {name}"):
        _read(path if kind in _FILES else Path(f"{path}+{path}"), kind)


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
