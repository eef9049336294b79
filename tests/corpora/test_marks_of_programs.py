"""What programs put beside or between texts: labels, separators of segments, lists, markup in files of lines."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.corpora.examples import packed
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.bitext import documents
from xling.corpora.common.packed_xml import OUTSIDE_NOTE
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.parallel.sources.po import KEYS_NOTE
from xling.corpora.sources.jsonl import LISTED_NOTE
from xling.corpora.sources.source import Context, open_source
from xling.corpora.sources.wikitext import clean
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger
from xling.text.files.corpus_reader import read_documents
from xling.text.tokenised import tokenised_kind, undo


def texts(uri: str) -> tuple[list[str], Ledger]:
    """The texts of a source, and what was counted."""
    ledger = Ledger()
    source = open_source(uri, Context("sw"))
    return [doc.text for shard in source.shards() for doc in source.read(shard, ledger)], ledger


def pairs(uri: str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The pairs of a source, and why others were dropped."""
    ledger = Ledger()
    sources = open_sources([uri], SourceContext(*languages.get_pair("en-sw")))
    found = [row[:2] for source in sources for row in source.rows(ledger)]
    return found, {reason: num for (_, reason), num in ledger.dropped.items()}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "__label__sw Mvua ilinyesha.\n__label__sw Soko lilifungwa.",
            "Mvua ilinyesha.\nSoko lilifungwa.",
        ),  # fastText
        ("Mvua ilinyesha. ~~~ Soko lilifungwa.", "Mvua ilinyesha. Soko lilifungwa."),  # hunalign
    ],
)
def test_labels_and_separators_are_named_and_undone(written: str, text: str) -> None:
    assert tokenised_kind(written) == "marks of training"
    assert undo(written) == text
    assert not tokenised_kind("It is ~5 km ~ 3 miles, ~~struck~~ and __init__.")


def test_glyphs_of_a_pdf_that_stand_for_no_letter_are_lost_letters() -> None:
    assert (
        Repair().edit(Document("1", "(cid:55)(cid:75)(cid:72) serikali ilitangaza.")).reason == "undecodable"
    )
    long = "Serikali ilitangaza kwamba shule zitafunguliwa. " * 9
    assert Repair().edit(Document("1", f"{long}(cid:55)")).text == f"{long}(cid:55)"


def test_lists_in_the_place_of_a_text_are_counted(tmp_path: Path) -> None:
    rows = [{"text": ["Mvua", "ilinyesha", "."]}, {"text": ["Soko lilifungwa."]}, {"text": "Jua liliwaka."}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found, ledger = texts(f"jsonl:{tmp_path}/a.jsonl")
    assert found == ["Mvua\nilinyesha\n.", "Soko lilifungwa.", "Jua liliwaka."]
    assert ledger.notes[LISTED_NOTE] == 1


@pytest.mark.parametrize(
    "head", ['<srcset setid="x">', '<?xml version="1.0"?>', '<tmx version="1.4">', "<doc id=1>"]
)
def test_markup_is_not_read_as_lines_of_a_pair(tmp_path: Path, head: str) -> None:
    for lang in ("en", "sw"):
        (tmp_path / f"a.{lang}").write_text(f'{head}\n<seg id="1">Mvua.</seg>\n', encoding="utf-8")
    with pytest.raises(UserError, match="holds a table, markup or subtitles"):
        pairs(f"moses:{tmp_path}/a")


def test_translations_that_two_catalogues_give_are_doubtful(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(
        'msgid ""\nmsgstr "Language: sw\\n"\n\nmsgid "Rain"\nmsgstr ""\n"#-#-#-#-#  a.po  #-#-#-#-#\\n"\n"Mvua\\n"\n'
        '"#-#-#-#-#  b.po  #-#-#-#-#\\n"\n"Manyunyu"\n\nmsgid "Sun"\nmsgstr "Jua"\n',
        encoding="utf-8",
    )
    assert pairs(f"po:{tmp_path}/a.po") == ([("Sun", "Jua")], {"unfinished": 1})


def test_pages_of_a_book_outside_of_the_reading_order_are_counted(tmp_path: Path) -> None:
    items = "".join(
        f'<item id="i{i}" href="{i}.xhtml" media-type="application/xhtml+xml"/>' for i in range(3)
    )
    spine = '<spine><itemref idref="i0"/><itemref idref="i1" linear="no"/></spine>'
    book = {
        "META-INF/container.xml": '<container><rootfile full-path="a.opf"/></container>',
        "a.opf": f"<package><manifest>{items}</manifest>{spine}</package>",
        **{f"{i}.xhtml": f"<html><body><p>Ukurasa wa {i}.</p></body></html>" for i in range(3)},
    }
    (tmp_path / "a.epub").write_bytes(packed(book))
    found, ledger = texts(f"epub:{tmp_path}/a.epub")
    assert (found, ledger.notes[OUTSIDE_NOTE]) == (["Ukurasa wa 0."], 2)


def test_a_dropped_template_with_which_a_sentence_begins_is_counted() -> None:
    dropped = Counter[str]()
    clean("{{foo|Silaha}} ni mbaya. {{foo|Vita}} ni mbaya.", dropped=dropped)
    assert dropped == {"foo": 2}
    none = Counter[str]()
    clean(
        "{{infobox|a=b}}Mji ni mkubwa. {{coord|1|2}} Una watu wengi.{{foo}}\n{{foo}}ქართული ენა.",
        dropped=none,
    )
    assert not none


def test_annotations_of_elan_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    def tier(name: str, parent: str, annotations: list[str]) -> str:
        inside = "".join(f"<ANNOTATION>{one}</ANNOTATION>" for one in annotations)
        return f'<TIER TIER_ID="{name}" {parent}>{inside}</TIER>'

    value = "<ANNOTATION_VALUE>{}</ANNOTATION_VALUE>".format
    slots = "".join(f'<TIME_SLOT TIME_SLOT_ID="t{i}" TIME_VALUE="{i * 950}"/>' for i in range(5))
    aligned = [
        f'<ALIGNABLE_ANNOTATION ANNOTATION_ID="a{i}" TIME_SLOT_REF1="t{i}" TIME_SLOT_REF2="t{i + 1}">{value(f"R{i}")}'
        "</ALIGNABLE_ANNOTATION>"
        for i in (1, 0, 3, 2)
    ]
    referring = [
        f'<REF_ANNOTATION ANNOTATION_ID="b{i}" ANNOTATION_REF="a{i}">{value(f"Mstari {i}.")}</REF_ANNOTATION>'
        for i in (2, 0, 3, 1)
    ]
    text = tier("tx", 'PARENT_REF="ref"', referring) + tier("ref", "", aligned)
    (tmp_path / "a.eaf").write_text(
        f"<ANNOTATION_DOCUMENT><TIME_ORDER>{slots}</TIME_ORDER>{text}</ANNOTATION_DOCUMENT>", encoding="utf-8"
    )
    assert texts(f"eaf:{tmp_path}/a.eaf#tx")[0] == ["Mstari 0.\nMstari 1.\nMstari 2.\nMstari 3."]
    assert texts(f"eaf:{tmp_path}/a.eaf#ref")[0] == ["R0\nR1\nR2\nR3"]


SRT = "".join(
    f"{i}\n00:00:{i:02d},000 --> 00:00:{i:02d},900\nMvua ilinyesha\nsiku {i}.\n\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.srt", SRT),
        ("a.csv", "id,text\n1,Mvua.\n"),
        ("a.html", "<p>Mvua ilinyesha.</p>\n"),
        ("a.jsonl", '{"text": "Mvua ilinyesha."}\n'),
        ("a.json", '[\n {\n  "text": "Mvua ilinyesha."\n }\n]\n'),
        ("a.strings", '"a" = "Mvua";\n' * 6),
        ("a.po", 'msgid "Rain"\nmsgstr "Mvua"\n\n' * 6),
        ("a.sql", "INSERT INTO `t` VALUES (1,'Mvua');\n"),
        ("chat.txt", "12/01/2024, 10:05 - Juma: Mvua ilinyesha.\n" * 6),
        ("a.conllu", "# text = Mvua\n1\tMvua\tmvua\tNOUN\n\n" * 6),
    ],
)
def test_other_formats_are_refused_where_text_is_read_alone(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="holds a table, markup or subtitles") as refused:
        list(read_documents([str(tmp_path / name)]))
    assert "xling corpus mono" in refused.value.fix
    if ".json" not in name:  # which documents may be
        with pytest.raises(UserError, match="holds a table, markup or subtitles"):
            documents.read([str(tmp_path / name)], split=True)


def test_subtitles_are_no_lines_of_a_pair(tmp_path: Path) -> None:
    for lang in ("en", "sw"):
        (tmp_path / f"a.{lang}").write_text(SRT, encoding="utf-8")
        (tmp_path / f"b.{lang}").write_text("Faili --> Hifadhi\n" * 9, encoding="utf-8")
    with pytest.raises(UserError, match="holds a table, markup or subtitles"):
        pairs(f"moses:{tmp_path}/a")
    assert len(pairs(f"moses:{tmp_path}/b")[0]) == 9


def test_messages_under_names_are_counted(tmp_path: Path) -> None:
    rows = [
        ("menu.file.open", "Fungua"),
        ("label_close", "Funga"),
        ("Open e.g. a file", "Fungua"),
        ("OK", "Sawa"),
    ]
    text = "".join(f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in rows)
    (tmp_path / "a.po").write_text(f'msgid ""\nmsgstr "Language: sw\\n"\n\n{text}', encoding="utf-8")
    ledger = Ledger()
    (source,) = open_sources([f"po:{tmp_path}/a.po"], SourceContext(*languages.get_pair("en-sw")))
    assert [row[:2] for row in source.rows(ledger)] == rows
    assert ledger.notes[KEYS_NOTE] == 2


OSIS = (
    '<osis><chapter osisID="Gen.1"><title>Kichwa</title><verse sID="Gen.1.1" osisID="Gen.1.1"/>{0}'
    "<note>tazama <reference>Yn 1</reference></note> <q>{1}</q>.<l>{2}</l><l>B</l>&#160;c&amp;d"
    '<verse eID="Gen.1.1"/><title>Kichwa</title><verse osisID="Gen.1.2"><title canonical="true">Zaburi.</title> E'
    "</verse></chapter></osis>"
)
USX = (
    '<usx><para style="s1">Kichwa</para><para style="p"><verse number="1" sid="GEN 1:1"/>{0} {1}.</para>'
    '<para style="s">Kichwa</para><para style="q1">{2} B c&amp;d<note caller="+"><char style="ft">tazama</char></note>'
    '<verse eid="GEN 1:1"/><verse number="2" sid="GEN 1:2"/>Zaburi. E<verse eid="GEN 1:2"/></para></usx>'
)


@pytest.mark.parametrize(("form", "ending"), [(OSIS, "xml"), (USX, "usx")])
def test_notes_and_titles_of_verses_are_no_text(tmp_path: Path, form: str, ending: str) -> None:
    for lang in ("en", "sw"):
        (tmp_path / f"{lang}.{ending}").write_text(
            form.format(f"{lang}Hapo", "mwanzo", "A"), encoding="utf-8"
        )
    found = pairs(f"verses:{tmp_path}/en.{ending}+{tmp_path}/sw.{ending}")[0]
    assert found == [("enHapo mwanzo. A B c&d", "swHapo mwanzo. A B c&d"), ("Zaburi. E", "Zaburi. E")]
