"""Conventions of other programs: plural rules, inherited marks, variants of a name, readings, terms not to be used."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from xling.core import languages
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger


def pairs(uri: str, tgt: str = "sw") -> tuple[list[tuple[str, str]], dict[str, int]]:
    ledger, context = Ledger(), SourceContext(languages.get("en"), languages.get(tgt))
    rows = [(a, b) for source in open_sources([uri], context) for a, b, _ in source.rows(ledger)]
    return rows, {reason: n for (_, reason), n in ledger.dropped.items()}


def texts(uri: str) -> list[str]:
    source = open_source(uri, Context(lang="sw"))
    return [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())]


ARABIC = (
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);"
)
SLOVENE = "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);"
LATVIAN = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);"
JAPANESE = "nplurals=1; plural=0;"


@pytest.mark.parametrize(
    ("lang", "rule", "forms", "one", "many"),
    [
        ("ar", ARABIC, ["صفر", "ملف واحد", "ملفان", "ملفات", "ملفا", "ملف"], 1, 5),
        ("sl", SLOVENE, ["%d datotek", "%d datoteka", "%d datoteki", "%d datoteke"], 1, 0),
        ("lv", LATVIAN, ["%d fails", "%d faili", "nav failu"], 0, 1),
        ("ja", JAPANESE, ["%d個のファイル"], 0, 0),
        ("sl", "", ["prva oblika", "druga oblika"], 0, 1),
        ("sl", "nplurals=2; plural=(n!=1", ["prva oblika", "druga oblika"], 0, 1),
    ],
)
def test_plural_forms_go_by_the_rule_of_the_catalogue(
    tmp_path: Path, lang: str, rule: str, forms: list[str], one: int, many: int
) -> None:
    head = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: {lang}\\n"\n'
    head += f'"Plural-Forms: {rule}\\n"\n' if rule else ""
    body = "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(forms))
    (tmp_path / "a.po").write_text(
        f'{head}\nmsgid "one file"\nmsgid_plural "%d files"\n{body}', encoding="utf-8"
    )
    expected = [("one file", forms[one]), ("%d files", forms[many])]
    assert pairs(f"po:{tmp_path}/a.po", lang) == (expected, {})


def test_variants_of_a_string_by_product_are_not_mixed(tmp_path: Path) -> None:
    for name, texts_of in {
        "en": [("tablet", "Turn off your tablet"), ("default", "Turn off your phone")],
        "sw": [("default", "Zima simu yako"), ("tablet", "Zima kompyuta kibao yako")],
    }.items():
        strings = "".join(
            f'<string name="off" product="{product}">{text}</string>' for product, text in texts_of
        )
        (tmp_path / f"{name}.xml").write_text(f"<resources>{strings}</resources>", encoding="utf-8")
    rows = [("Turn off your tablet", "Zima kompyuta kibao yako"), ("Turn off your phone", "Zima simu yako")]
    assert pairs(f"android:{tmp_path}/en.xml+{tmp_path}/sw.xml") == (rows, {})
    (tmp_path / "sw.xml").write_text('<resources><string name="off">Zima simu yako</string></resources>')
    assert pairs(f"android:{tmp_path}/en.xml+{tmp_path}/sw.xml") == ([rows[1]], {"missing_side": 1})


def test_json_under_the_code_of_its_language(tmp_path: Path) -> None:
    """Rails and others put all texts under one key, the code of the language."""
    for lang, text in (("en", "Good morning"), ("sw", "Habari za asubuhi")):
        content = {lang: {"greet": {"morning": text}, "names": ["A house"]}}
        (tmp_path / f"{lang}.json").write_text(json.dumps(content), encoding="utf-8")
    rows, _ = pairs(f"i18n:{tmp_path}/en.json+{tmp_path}/sw.json")
    assert rows == [("Good morning", "Habari za asubuhi"), ("A house", "A house")]


XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en">
<body><group translate="no">
<trans-unit id="0"><source>KEEP_ME</source><target xml:lang="sw">KEEP_ME</target></trans-unit>
<trans-unit id="1" translate="yes"><source>A house</source><target xml:lang="sw">Nyumba</target></trans-unit></group>
<trans-unit id="2"><source>Press <g id="1">Start</g></source><target xml:lang="sw">Bonyeza <g id="1">Anza</g></target>
<alt-trans><target xml:lang="sw">Gusa Anza</target></alt-trans></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="sw"><file id="f">
<group id="g" translate="no"><unit id="0"><segment><source>KEEP_ME</source><target>KEEP_ME</target></segment></unit>
<unit id="1" translate="yes"><segment><source>A house</source><target>Nyumba</target></segment></unit></group>
<unit id="2"><notes><note>a note</note></notes><segment><source>Press <pc id="1">Start</pc></source>
<target>Bonyeza <pc id="1">Anza</pc></target></segment></unit></file></xliff>"""


@pytest.mark.parametrize("content", [XLIFF_1, XLIFF_2])
def test_what_a_group_says_holds_for_its_units(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.xlf").write_text(content, encoding="utf-8")
    rows = [("A house", "Nyumba"), ("Press Start", "Bonyeza Anza")]
    assert pairs(f"xliff:{tmp_path}/a.xlf") == (rows, {"unfinished": 1})


def test_what_is_no_translation_stays_none_whatever_its_text_says(tmp_path: Path) -> None:
    """The head of a catalogue, as po2xliff of translate-toolkit writes it, and a unit rejected in memoQ."""
    unit = '<trans-unit {}><source>{}</source><target state="translated">{}</target></trans-unit>'
    units = [
        unit.format('id="1" approved="no" restype="x-gettext-domain-header"', "Language: en", "Language: sw"),
        unit.format('id="2" mq:status="Rejected"', "No.", "Hapana."),
        unit.format('id="3"', "A house", "Nyumba"),
    ]
    (tmp_path / "a.xlf").write_text(
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" xmlns:mq="MQXliff" version="1.1">'
        f'<file source-language="en" target-language="sw"><body>{"".join(units)}</body></file></xliff>',
        encoding="utf-8",
    )
    assert pairs(f"xliff:{tmp_path}/a.xlf") == ([("A house", "Nyumba")], {"unfinished": 2})


TERMS = {
    "v2": '<tig><term>{}</term><termNote type="administrativeStatus">{}</termNote></tig>',
    "v2 groups": '<ntig><termGrp><term>{}</term><termNote type="administrativeStatus">{}</termNote></termGrp></ntig>',
    "v3 by attributes": '<termSec><term>{}</term><termNote type="administrativeStatus">{}</termNote></termSec>',
    "v3 by names": "<termSec><term>{}</term><min:administrativeStatus>{}</min:administrativeStatus></termSec>",
}


@pytest.mark.parametrize("dialect", TERMS)
def test_terms_that_are_not_to_be_used_are_left_out(tmp_path: Path, dialect: str) -> None:
    term = TERMS[dialect].format
    entry, lang = ("termEntry", "langSet") if dialect.startswith("v2") else ("conceptEntry", "langSec")
    sides = {
        "en": [
            term("computing engine", "deprecatedTerm-admn-sts"),
            term("computer", "preferredTerm-admn-sts"),
        ],
        "sw": [term("kompyuta", "admittedTerm-admn-sts"), term("ngamizi", "supersededTerm-admn-sts")],
    }
    inner = "".join(f'<{lang} xml:lang="{code}">{"".join(each)}</{lang}>' for code, each in sides.items())
    (tmp_path / "a.tbx").write_text(
        f'<tbx xmlns:min="http://www.tbxinfo.net/ns/min"><text><body><{entry}>{inner}</{entry}></body></text></tbx>'
    )
    assert pairs(f"tbx:{tmp_path}/a.tbx") == ([("computer", "kompyuta")], {})


def test_readings_above_characters_are_no_text_of_word(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt>"
        "<w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r><w:r><w:t>に行きました。</w:t></w:r></w:p>"
    )
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>')
    assert texts(f"docx:{tmp_path}/a.docx") == ["東京に行きました。"]


def test_descriptions_of_pictures_are_no_text_of_libreoffice(tmp_path: Path) -> None:
    frame = (
        "<draw:frame><draw:image/><svg:title>Picha 1</svg:title><svg:desc>Picha ya simba</svg:desc></draw:frame>"
        "<draw:frame><draw:text-box><text:p>Simba: <text:title>Wanyama</text:title></text:p></draw:text-box>"
        "</draw:frame>"
    )
    names = 'xmlns:text="t" xmlns:draw="d" xmlns:svg="s" xmlns:office="o"'
    content = f"<office:body {names}><text:p>Simba analala{frame} chini ya mti.</text:p></office:body>"
    with zipfile.ZipFile(tmp_path / "a.odt", "w") as archive:
        archive.writestr("content.xml", content)
    assert texts(f"odt:{tmp_path}/a.odt") == ["Simba: Wanyama\nSimba analala chini ya mti."]


ODF = 'xmlns:office="o" xmlns:style="s" xmlns:text="t" xmlns:fo="f"'
STYLED = (
    '<office:automatic-styles><style:style style:name="T1"><style:text-properties style:text-position="super 58%"/>'
    '</style:style><style:style style:name="T2"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="T3"><style:text-properties style:text-position="-33% 58%" fo:color="#00f"/></style:style>'
    "</office:automatic-styles>"
)
STYLED_BODY = (
    '<office:body><office:text><text:p>Kilo 10<text:span text:style-name="T1">6</text:span> za H'
    '<text:span text:style-name="T3">2</text:span>O<text:span text:style-name="T2"> siri</text:span>, m'
    '<text:span text:style-name="T3"><text:span text:style-name="T1">2</text:span></text:span> moja.</text:p>'
    "</office:text></office:body>"
)


def test_raised_digits_of_libreoffice_stay_raised_and_hidden_text_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.odt", "w") as archive:
        archive.writestr(
            "content.xml", f"<office:document-content {ODF}>{STYLED}{STYLED_BODY}</office:document-content>"
        )
    assert texts(f"odt:{tmp_path}/a.odt") == ["Kilo 10⁶ za H2O, m² moja."]


def test_flat_texts_of_libreoffice_have_no_headers_and_no_bytes_of_pictures(tmp_path: Path) -> None:
    header = (
        "<office:master-styles><style:header><text:p>Ukurasa</text:p></style:header></office:master-styles>"
    )
    picture = "<text:p><office:binary-data>iVBORw0KGgo=</office:binary-data>Picha ya mji.</text:p>"
    body = STYLED_BODY.replace("</office:text>", f"{picture}</office:text>")
    (tmp_path / "a.fodt").write_text(f"<office:document {ODF}>{STYLED}{header}{body}</office:document>")
    (tmp_path / "b.fodt").write_text("<office:document")
    assert texts(f"odt:{tmp_path}/a.fodt") == ["Kilo 10⁶ za H2O, m² moja.\nPicha ya mji."]
    assert texts(f"odt:{tmp_path}/b.fodt") == []


NOTE_MARKS = {
    "a book": '<sup><a epub:type="noteref" href="#f1">1</a></sup>',
    "a book, by its style alone": '<a epub:type="noteref" class="raised" href="notes.xhtml#f1">12</a>',
    "pandoc": '<a href="#fn1" class="footnote-ref" id="fnref1" role="doc-noteref"><sup>1</sup></a>',
    "pandoc's older books": '<a href="#fn1" class="footnote-ref" id="fnref1">1</a>',
    "the way back": '<a href="#fnref1" class="footnote-back">\u21a9\ufe0e</a>',
    "the way back of Markdown": '<a class="footnote-backref" href="#fnref:1">\u21a9</a>',
    "the source of a formula": '<math><semantics><annotation encoding="tex">x^2<b/></annotation></semantics></math>',
    "MediaWiki": '<sup id="cite_ref-1" class="reference"><a href="#cite_note-1">[1]</a></sup>',
    "MediaWiki since 2024": '<sup class="reference"><a href="#c"><span class="cite-bracket">&#91;</span>1'
    '<span class="cite-bracket">&#93;</span></a></sup>',
    "Word's filtered HTML": '<a href="#_ftn1" name="_ftnref1"><sup>*</sup></a>',
}


def write_book(path: Path, page: str, contents: str) -> None:
    package = (
        '<package version="2.0"><manifest><item id="t" href="toc.xhtml"/><item id="p" href="p%201.xhtml"/></manifest>'
        f'<spine><itemref idref="t"/><itemref idref="p"/></spine><guide>{contents}</guide></package>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/container.xml", '<container><rootfile full-path="b/c.opf"/></container>')
        archive.writestr("b/c.opf", package)
        archive.writestr("b/toc.xhtml", "<html><body><h1>Yaliyomo</h1><p>Sura ya kwanza</p></body></html>")
        archive.writestr("b/p 1.xhtml", page)


@pytest.mark.parametrize("mark", NOTE_MARKS)
def test_marks_of_footnotes_are_no_text(tmp_path: Path, mark: str) -> None:
    kept = '<p>Eneo ni 10 km<sup>2</sup>, na <a href="#b">2</a> kati ya <sup><a href="x.html">TM</a></sup> ni mpya.</p>'
    page = f"<html><body><p>Alikuwa na watoto watatu{NOTE_MARKS[mark]} nyumbani.</p>{kept}</body></html>"
    write_book(tmp_path / "a.epub", page, "")
    assert texts(f"epub:{tmp_path}/a.epub")[1].startswith(
        "Alikuwa na watoto watatu nyumbani.\nEneo ni 10 km², na 2 kati ya TM ni mpya."
    )
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    source = open_source(f"html:{tmp_path}/a.html", Context(lang="sw", extract="all"))
    assert "watoto watatu nyumbani" in next(
        doc.text for shard in source.shards() for doc in source.read(shard, Ledger())
    )


def test_a_page_that_a_book_does_not_list_is_counted(tmp_path: Path) -> None:
    page = "<html><body><p>Siku moja walikwenda msituni kutafuta asali.</p></body></html>"
    write_book(tmp_path / "a.epub", page, "")
    with zipfile.ZipFile(tmp_path / "a.epub") as book, zipfile.ZipFile(tmp_path / "b.epub", "w") as changed:
        for name in book.namelist():
            changed.writestr(name, book.read(name).replace(b'idref="t"', b'idref="ghost"'))
    source, ledger = open_source(f"epub:{tmp_path}/b.epub", Context(lang="sw")), Ledger()
    (shard,) = source.shards()
    assert [doc.text for doc in source.read(shard, ledger)] == [
        "Siku moja walikwenda msituni kutafuta asali."
    ]
    assert ledger.dropped == {("read", "locked page"): 1}


def test_the_contents_of_an_older_book_are_left_out(tmp_path: Path) -> None:
    page = "<html><body><p>Siku moja walikwenda msituni kutafuta asali.</p></body></html>"
    write_book(tmp_path / "a.epub", page, '<reference type="toc" href="toc.xhtml#top"/>')
    assert texts(f"epub:{tmp_path}/a.epub") == ["Siku moja walikwenda msituni kutafuta asali."]
