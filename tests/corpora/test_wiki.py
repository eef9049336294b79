"""MediaWiki dumps: what a reader sees in the running text stays, the rest goes."""

from __future__ import annotations

import bz2
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.corpora.sources import wikitext
from xling.corpora.sources.source import Context, open_source
from xling.corpora.sources.wikitext import NamespaceNames, clean
from xling.text.document import Ledger

GOLDEN = Path(__file__).parent / "golden"
SWAHILI = NamespaceNames.from_names(["Picha", "Jamii"])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'''Nairobi''' ni ''mji''.", "Nairobi ni mji."),
        ("[[Kenya]] na [[Nairobi|mji mkuu]]", "Kenya na mji mkuu"),
        ("[[Kenya#Historia|historia]] [[Kenya#Watu]]", "historia Kenya"),
        ("[[:Jamii:Miji|orodha]]", "orodha"),
        ("{{Infobox|jina={{lang|sw|Nairobi}}|picha=[[Picha:a.jpg]]}}Mji.", "Mji."),
        ("Mto {{lang|fr|Seine}} na {{nowrap|5 km}}.", "Mto Seine na 5 km."),
        ("Umbali {{convert|5|km|mi}} au {{formatnum:12345}}.", "Umbali 5 km au 12345."),
        ("Berlin ({{IPA|bɛʁˈliːn}}; {{lang-de|Berlin}}) ni mji", "Berlin (Berlin) ni mji"),
        ("Berlin ({{IPA|bɛʁˈliːn}}) ni mji", "Berlin ni mji"),
        ("A ({{x}}, {{y}}), b; {{z}}, c ({{lang-en|A}}, {{w}}) na (a, b)", "A, b, c (A) na (a, b)"),
        ("A<ref>kitabu, {{cite|x=[[y]]}}</ref> B<ref name=a /> C<ref name='b'>z</ref>.", "A B C."),
        ("Kabla\n{| class=wikitable\n! a\n|-\n| b || [[c]]\n{| \n| d\n|}\n|}\nBaada", "Kabla\nBaada"),
        ("Kabla\n{|\n| haijafungwa\n| kabisa", "Kabla"),
        ("[[Picha:a.jpg|thumb|Maelezo na [[kiungo]] na {{t|x}}]]Mji", "Mji"),
        ("[[Bild:b.PNG|mini|Text]]Stadt [[Faili:c.svg|x]]", "Stadt"),
        ("Mji.\n[[Jamii:Miji]]\n[[en:Nairobi]]\n[[Category:Cities]]", "Mji."),
        ("Mji.\n[[Kategorie:Stadt]]", "Mji."),
        ("[[Star Wars: Kipindi|filamu]]\n[[Star Wars: Kipindi]]", "filamu\nStar Wars: Kipindi"),
        (
            "== Historia ==\nMaandishi.\n=== Tupu ===\n== Viungo ==\n* [http://a.b Tovuti]",
            "Historia\nMaandishi.",
        ),
        ("== A ==\n=== B ===\nneno", "A\nB\nneno"),
        ("* moja\n** mbili\n# tatu\n; nne\n: tano", "moja\nmbili\ntatu\nnne\ntano"),
        ("Tazama [http://a.b tovuti rasmi] na http://c.d/e?f=g.", "Tazama tovuti rasmi na"),
        ("a <!-- siri\nndefu --> b", "a b"),
        ("a<nowiki>[[b]] ''c''</nowiki>", "a[[b]] ''c''"),
        ("x<sub>2</sub> <span style='a'>y</span><br/>z &amp; &lt;b&gt;&nbsp;w", "x2 y\nz & <b> w"),
        ("a <math>x^2 + {{b}}</math> b <gallery>\nx.jpg|y\n</gallery>", "a b"),
        ("-{zh-hans:计算机; zh-hant:電腦}-是-{機器}-。", "计算机是機器。"),
        ("__NOTOC__ Mji __TOC__", "Mji"),
        ("Isiyofungwa {{jina|x\nMstari", "Isiyofungwa jina|x\nMstari"),
        ("Ziada }} hapa ]] na |}", "Ziada hapa ]] na |}"),
        ("[[kiungo {{t|]]}} baada", "kiungo baada"),
        ("Paris : la ville ? Oui !", "Paris : la ville ? Oui !"),
        ("", ""),
    ],
)
def test_clean(source: str, text: str) -> None:
    assert clean(source, SWAHILI) == text


@given(st.text(alphabet="[]{}|'=<>ab\n !:-", max_size=200))
def test_clean_never_fails_and_leaves_paragraphs(source: str) -> None:
    text = clean(source)
    assert all(line and line == line.strip() for line in text.split("\n")) or not text


@given(st.integers(min_value=1, max_value=3000), st.sampled_from(["{{", "[[", "{|\n", "{{a|[[b|"]))
def test_deep_nesting_is_no_recursion(depth: int, opener: str) -> None:
    clean(opener * depth + "x")


DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="sw">
<siteinfo><base>https://sw.wikipedia.org/wiki/Mwanzo</base><namespaces>
<namespace key="0"/><namespace key="6">Picha</namespace><namespace key="14">Jamii</namespace>
</namespaces></siteinfo>
<page><title>Mji mkuu</title><ns>0</ns><id>7</id><revision><timestamp>2020-07-23T03:41:36Z</timestamp>
<text>[[Picha:a|thumb|x]] '''Mji''' mkuu.</text></revision></page>
<page><title>B</title><ns>0</ns><id>8</id><redirect title="A"/><revision><text>#REDIRECT [[A]]</text></revision></page>
<page><title>Jamii:C</title><ns>14</ns><id>9</id><revision><text>Jamii.</text></revision></page>
<page><title>D</title><ns>0</ns><id>10</id><revision><text>{{x}}</text></revision></page>
<page><title>E</title><ns>0</ns><id>11</id><revision><model>json</model><text>{}</text></revision></page>
<page><title>F</title><ns>0</ns><id>12</id><revision><text/></revision></page>
<page><title>G</title><ns>0</ns><id>13</id><revision><text>Mwisho.</text></revision></page>
</mediawiki>"""


def read(path: Path) -> tuple[list[tuple[str, str, str, str]], Ledger]:
    source, ledger = open_source(f"wiki:{path}", Context(lang="sw")), Ledger()
    docs = [doc for shard in source.shards() for doc in source.read(shard, ledger)]
    assert all(doc.meta["declared_lang"] == "sw" for doc in docs)
    assert ledger.seen["read"] == len(docs) + sum(ledger.dropped.values())
    return [(doc.id, doc.text, doc.url, doc.date) for doc in docs], ledger


def test_articles_of_a_dump(tmp_path: Path) -> None:
    path = tmp_path / "swwiki-x.xml.bz2"
    path.write_bytes(bz2.compress(DUMP.encode()))
    docs, ledger = read(path)
    assert docs == [
        ("swwiki-x/7", "Mji mkuu.", "https://sw.wikipedia.org/wiki/Mji_mkuu", "2020-07-23T03:41:36Z"),
        ("swwiki-x/13", "Mwisho.", "https://sw.wikipedia.org/wiki/G", ""),
    ]
    assert ledger.dropped == {
        ("read", "redirect"): 1,
        ("read", "not an article"): 1,
        ("read", "empty"): 2,
        ("read", "content model json"): 1,
    }


def test_a_truncated_dump_gives_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "swwiki-x.xml"
    path.write_text(DUMP[:900], encoding="utf-8")
    docs, ledger = read(path)
    assert [doc[0] for doc in docs] == ["swwiki-x/7"]
    assert ledger.dropped["read", "damaged page"] == 1
    assert not ledger.unaccounted_bytes()


def test_golden_article() -> None:
    source = (GOLDEN / "article.wikitext").read_text(encoding="utf-8")
    assert clean(source) + "\n" == (GOLDEN / "article.txt").read_text(encoding="utf-8")


@pytest.mark.data
def test_real_dumps_leave_no_markup() -> None:
    folder = Path(os.environ["XLING_DATA"]) / "wiki"
    for path in sorted(folder.glob("*.bz2")):
        source, ledger = open_source(f"wiki:{path}", Context(lang="en")), Ledger()
        texts = [doc.text for shard in source.shards() for doc in source.read(shard, ledger)]
        text = "\n".join(texts)
        assert texts, path
        assert not ledger.notes, path
        for mark in ("{{", "}}", "[[", "<ref", "'''", "__NOTOC", "http://", "&nbsp;"):
            assert text.count(mark) <= len(texts) // 5, (path.name, mark)


@pytest.mark.parametrize(
    "part",
    ["{{", "[[", "{|", "<ref>", "{{a|", "<nowiki>", "<!--", "[[a|{{", "''", "[http://", "-{", "<gallery>"],
)
def test_hostile_markup_takes_little_time(part: str) -> None:
    start = time.process_time()
    clean(part * 50_000 + "}}" * 50_000 + "</ref>")
    assert time.process_time() - start < 5


def test_elements_that_are_no_prose_go_up_to_their_end_tag() -> None:
    text = "One<ref>a <ref name='b'>c</ref> two<REF>d</Ref> three<math>x</math> four<ref>open five"
    assert clean(text) == "One two three fouropen five"
    assert clean("A<nowiki>[[b]]</nowiki> c<nowiki/> <nowiki>d") == "A[[b]] c d"


@pytest.mark.parametrize(
    ("inner", "text"),
    [("zh-hans:A; zh-hant:B", "A"), ("H|zh-cn:C;zh-tw:D", "C"), ("plain", "plain"), ("zh-hans", "zh-hans"),
     ("note: x", "note: x")],
)  # fmt: skip
def test_of_variants_the_first_is_read_and_other_text_stays(inner: str, text: str) -> None:
    assert wikitext._render_variant(inner) == text
