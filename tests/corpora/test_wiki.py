"""MediaWiki dumps: what a reader sees in the running text stays, the rest goes."""

from __future__ import annotations

import bz2
import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.corpora.sources import wiki, wikitemplates, wikitext
from xling.corpora.sources.source import Context, open_source
from xling.corpora.sources.wikitemplates import Page, country_names
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
        ("Tazama [http://a.b tovuti rasmi] na http://c.d/e?f=g.", "Tazama tovuti rasmi na."),
        ("a <!-- siri\nndefu --> b", "a b"),
        ("a<nowiki>[[b]] ''c''</nowiki>", "a[[b]] ''c''"),
        ("x<sub>2</sub> <span style='a'>y</span><br/>z &amp; &lt;b&gt;&nbsp;w", "x2 y\nz & <b> w"),
        ("a <math>x^2 + {{b}}</math> b <gallery>\nx.jpg|y\n</gallery>", "a b"),
        ("-{zh-hans:计算机; zh-hant:電腦}-是-{機器}-。", "计算机是機器。"),
        (
            "-{T|zh-hans:甲; zh-hant:乙}-子-{H|zh-cn:甲;zh-tw:乙}-丑-{R|乾隆}-，-{A|zh-cn:鼠标;zh-tw:滑鼠}-。",
            "子丑乾隆，鼠标。",
        ),
        (
            "[[-{zh-hans:甲; zh-hant:乙}-|-{zh-hans:丙; zh-hant:丁}-]]很贵。-{-|zh-cn:键;zh-tw:鍵}-",
            "丙很贵。",
        ),
        (
            "-{zh-hans:中间;zh-hant:{{lang|zh-Hant|中間}}}-，-{zh-cn:[[硬盘]];zh-tw:[[硬碟]]}-满。",
            "中间，硬盘满。",
        ),
        ("-{zh-hans:网址 http://a.b/x; zh-hant:網址}-。时间-{zh:12:30}-。", "网址。时间12:30。"),
        ("a-{b c} d e mid-{{lang|fr|x}}", "a-{b c} d e mid-x"),
        (
            "Kabla\n{|\n| haijafungwa\n\n== Baada ==\nMaandishi ya baada.\n| safu\nMwisho.",
            "Kabla\nBaada\nMaandishi ya baada.\nMwisho.",
        ),
        ("Kabla\n:{|\n| a\n:|}\nBaada", "Kabla\nBaada"),
        ("Kabla\n{| x\n{| y\n| a\n|}\n| b\n\nBaada", "Kabla\nBaada"),
        ("Jedwali {{nowrap|a {{!}} b {{=}} c}}", "Jedwali a | b = c"),
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
        assert all(note.startswith("template dropped") for note in ledger.notes), path
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
    [("zh-hans:A; zh-hant:B", "A"), ("H|zh-cn:C;zh-tw:D", ""), ("plain", "plain"), ("zh-hans", "zh-hans"),
     ("zh;zh-hans|zh-cn:C;zh-tw:D", "C"), ("x=>zh-cn:C", "C"), ("a|b", "a|b"),
     ("note: x", "note: x")],
)  # fmt: skip
def test_of_variants_the_first_is_read_and_other_text_stays(inner: str, text: str) -> None:
    assert wikitext._render_variant(inner) == text


TEMPLATES = [
    ("{{script|Cyrl|Пример}}", "Пример"), ("{{gaps|1|000|000}}", "1000000"), ("6{{e|6}} kg", "6 × 10^6 kg"),
    ("{{euro|5}}", "€5"), ("{{euro}}", "€"), ("{{qq|we will}}", "“we will”"),
    ("{{convert|3|to|5|km|mi|abbr=on}}", "3 to 5 km"), ("{{convert|1,200|m|ft}}", "1,200 m"),
    ("{{convert|10|-|12|mi|km|0}}", "10–12 mi"), ("{{cvt|60|x|40|cm|in}}", "60 × 40 cm"),
    ("{{convert|5|ft|10|in|m}}", "5 ft 10 in"), ("{{convert|93|m|ft|abbr=off|sp=us}}", "93 m"),
    ("{{convert|20|+/-|2|kg}}", "20 ± 2 kg"), ("{{conversie|5|km|mi}}", "5 km"), ('{{"|we will}}', "“we will”"),
    ("{{lang|sw|Kombe}}", "Kombe"), ("{{lang-sw|Kombe}}", "Kombe"), ("{{langx|sw|Kombe}}", "Kombe"),
    ("{{val|3.5|u=m/s}}", "3.5 m/s"), ("{{val|1.2|0.3|e=5|ul=kg}}", "1.2 ± 0.3 × 10^5 kg"), ("{{frac|1|2}}", "1/2"),
    ("{{frac|3|1|2}}", "3 1/2"), ("{{circa|1900}}", "c. 1900"), ("{{c.|1910}}", "c. 1910"), ("{{chem|H|2|O}}", "H2O"),
    ("{{sortname|Anna|Otieno}}", "Anna Otieno"), ("{{start date|1998|5|4}}", "May 4, 1998"),
    ("{{start date|1998|5|4|df=y}}", "4 May 1998"), ("{{birth date and age|1950|1|1}}", "January 1, 1950"),
    ("{{age|1950|1|1}}", "70"), ("{{age|1950|12|1}}", "69"), ("{{age|1950|1|1|1999|12|31}}", "49"),
    ("{{percentage|1|4}}", "25%"), ("{{percentage|1|3|1}}", "33.3%"), ("{{as of|2010}}", "As of 2010"),
    ("{{as of|2010|5|lc=y}}", "as of May 2010"), ("{{formatnum:{{#expr:3000+500}}}}", "3500"),
    ("{{US$|3 million}}", "US$3 million"),
    ("{{GBP|2.4}} million", "£2.4 million"), ("{{currency|2|EUR}}", "€2"), ("{{nowrap|4 [[cup|cups]]}}", "4 cups"),
    ("{{nihongo|'''Cup'''|青い杯|Aoi}}", "Cup"), ("{{ill|Name|fr|Nom|lt=label}}", "label"), ("{{snd}}so", "– so"),
    ("{{color|red|text}}", "text"), ("{{ordinal|3}}", "3rd"), ("{{ordinal|12}}", "12th"),
    ("{{USS|Enterprise|CVN-65}}", "USS Enterprise"),
    ("{{lc:ABC}} {{ucfirst:abc}}", "abc Abc"), ("{{née|Kasner}}", "née Kasner"), ("{{nowrap|1=a = b}}", "a = b"),
]  # fmt: skip
FRENCH = [
    ("{{XXe siècle}}", "XXe siècle"), ("{{XIXe}}", "XIXe"), ("{{«|mot}}", "« mot »"),
    ("{{unité|3798|m}}", "3798 m"), ("{{unité|100|km|2}}", "100 km2"), ("{{date|9|4|1866}}", "9 avril 1866"),
    ("{{date-|12 mai 2012}}", "12 mai 2012"), ("{{s|XX}}", "XXe siècle"), ("{{-s|V}}", "Ve siècle av. J.-C."),
    ("{{citation|mot}}", "« mot »"), ("{{langue|la|verbum}}", "verbum"), ("{{heure|9|30}}", "9 h 30"),
    ("{{1er}}", "1er"),
    ("{{incise|dit-il}}", "– dit-il –"), ("{{lien|lang=en|trad=A|fr=Nom}}", "Nom"), ("{{tmp|3|°C}}", "3 °C"),
]  # fmt: skip


@pytest.mark.parametrize(("lang", "source", "text"), [
    *(("en", *case) for case in TEMPLATES), *(("fr", *case) for case in FRENCH),
    ("de", '{{"|Wort}}', "„Wort“"), ("ru", "{{нп5|А|Б|en|C}}", "Б"), ("ru", "{{lang-en|word}}", "word"),
    ("de", "{{enS|house}}", "house"), ("de", "{{grcS|λόγος}}", "λόγος"), ("de", "{{FormatZahlLokal|12345}}", "12345"),
    ("ru", "{{num|5|км}}", "5 км"), ("ru", "{{число|12345}}", "12345"), ("pt", "{{fmtn|5|km}}", "5 km"),
    ("it", "{{M|5|u=km}}", "5 km"), ("en", "{{MS|Estonia}}", "MS Estonia"), ("de", "{{SMS|Emden|1908}}", "SMS Emden"),
    ("pt", "{{dtlink|4|5|1960}}", "4.5.1960"), ("en", "{{USS|Nimitz|CVN-68}}", "USS Nimitz"),
    ("fr", "{{numéro|5}}", "n° 5"), ("fr", "10{{exp|6}}", "10⁶"), ("fr", "{{unité/2|5|m|2}}", "5 m²"),
    ("es", "{{fecha|3|5|1900}}", "3 de mayo de 1900"), ("es", "{{siglo|V|a|s}}", "siglo V a. C."),
    ("ru", "{{num|12345}}", "12345"), ("ja", "{{要出典|範囲=この文|date=2010}}", "この文"),
    ("en", "10<sup>6</sup> m<sup>2</sup>", "10⁶ m²"), ("en", "10<SUP>−3</SUP>", "10⁻³"),
    ("en", "5<sup>th</sup>", "5th"),
    ("en", "10{{sup|-3}}", "10⁻³"), ("en", "{{as of|2010|June|lc=y}}", "as of June 2010"),
    ("en", "H<sub>2</sub>O", "H2O"), ("ru", "{{дата|3|5|1950}}", "3.5.1950"), ("ko", "{{llang|en|London}}", "London"),
    ("he", "{{אנגלית|house}}", "house"), ("ar", "{{إنج|house}}", "house"),
    ("ru", "{{Флагификация|Кения}}", "Кения"), ("es", "{{bandera2|Kenia}}", "Kenia"), ("ko", "{{국기|케냐}}", "케냐"),
    ("tr", "{{bayrak|Kenya}}", "Kenya"), ("ar", "{{علم|كينيا}}", "كينيا"), ("de", "{{FormatZahl|10000}}", "10000"),
    ("tr", "{{birim|324|m}}", "324 m"),
    ("fi", "{{k-de|Wort}}", "Wort"), ("de", "{{start date|1998|5|4}}", "1998-05-04"),
])  # fmt: skip
def test_templates_keep_the_text_that_they_show(lang: str, source: str, text: str) -> None:
    dropped: Counter[str] = Counter()
    page = Page(lang, "2020-07-23T03:41:36Z")
    assert clean(f"It is {source}.", page=page, dropped=dropped) == f"It is {text}."
    assert not dropped


@pytest.mark.parametrize("name", ["quote", "blockquote", "quotation", "cquote", "zitat", "цитата"])
def test_a_quotation_is_a_paragraph(name: str) -> None:
    for argument in ("The water came.|Mary", "text=The water came.|author=A", "1=The water came."):
        assert (
            clean(f"They wrote: {{{{{name}|{argument}}}}} And so on.")
            == "They wrote:\nThe water came.\nAnd so on."
        )


@pytest.mark.parametrize(
    ("lang", "source", "shown"),
    [
        ("en", "Men from {{KEN}} won in {{flag|ETH}} and {{GER}}.", "Men from Kenya won in Ethiopia and Germany."),
        ("en", "{{IND}} is a land.\n* {{KEN}}\n* {{UGA}}", "India is a land."),
        ("ar", "تقع القاهرة في {{مصر}} وهي كبيرة.\n{{مصر}}", "تقع القاهرة في مصر وهي كبيرة."),
        ("hi", "{{भारत}} एक देश है।", "भारत एक देश है।"),
        ("ja", "{{KEN}}に住む。", "ケニアに住む。"),
        ("ja", "{{COD}}と{{COG}}は隣国。", "コンゴ民主共和国とコンゴ共和国は隣国。"),
        ("de", "Er kam aus {{HKG}} über {{MAC}} nach {{COD}}.", "Er kam aus Hongkong über Macau nach Kongo-Kinshasa."),
        ("sw", "Aliishi {{PLE}}, {{CGO}} na {{MYA}} pia.", "Aliishi Palestina, Kongo-Brazzaville na Myanmar pia."),
        ("sq", "Ai jeton në {{flag|KOS}} sot.", "Ai jeton në Kosovë sot."),
    ],
)  # fmt: skip
def test_a_country_within_a_line_is_its_name_in_the_language(lang: str, source: str, shown: str) -> None:
    dropped: Counter[str] = Counter()
    assert clean(source, page=Page(lang), dropped=dropped) == shown
    assert not dropped


def test_a_dump_that_ends_between_two_pages_is_told(tmp_path: Path) -> None:
    page = "<page><title>T</title><ns>0</ns><revision><text>{}</text></revision></page>"
    whole = f"<mediawiki>{page.format('Moja.')}{page.format('Mbili.')}</mediawiki>"
    for text, notes in ((whole, {}), (whole[: whole.rindex("<page>")], {"truncated dump": 1})):
        (tmp_path / "a.xml").write_text(text, encoding="utf-8")
        ledger = Ledger()
        source = open_source(f"wiki:{tmp_path}/a.xml", Context(lang="sw"))
        assert [doc for shard in source.shards() for doc in source.read(shard, ledger)]
        assert {note: n for note, n in ledger.notes.items() if "truncated" in note} == notes


def test_every_language_has_the_country_names_that_are_written_in_two_ways() -> None:
    codes = ("HKG", "MAC", "COD", "COG", "PSE", "MMR", "XKX")
    table = (Path(wikitemplates.__file__).parent / "countries.tsv").read_text(encoding="utf-8")
    for lang in (line.split("\t")[0] for line in table.splitlines()[1:]):
        names = country_names(lang)
        assert len({names[code] for code in codes}) == len(codes), lang


@pytest.mark.parametrize(
    "text", ["{{X}}の首都は東京。", "{{X}} में लोग रहते हैं।", "{{X}}은 나라이다.", "{{X}} میں لوگ رہتے ہیں۔"]
)
def test_a_template_dropped_before_a_particle_is_counted(text: str) -> None:
    """In scripts without capitals too, at the start of a sentence."""
    dropped: Counter[str] = Counter()
    clean(text, dropped=dropped)
    assert dropped == {"x": 1}


def test_a_template_dropped_from_within_a_sentence_is_counted() -> None:
    dropped: Counter[str] = Counter()
    text = clean(
        "{{Infobox|a=b}}\nIt has {{Some_thing|a}} of {{foo|{{bar}}}} (and {{baz}}). {{x}}\n{{y}}",
        dropped=dropped,
    )
    assert text == "It has of (and)."
    assert dropped == {"some thing": 1, "foo": 1, "baz": 1}
    silent = Counter[str]()
    clean("It rains{{sfn|A|2000}}, he says{{citation needed|date=x}}{{efn|b}}.", dropped=silent)
    assert not silent


@pytest.mark.parametrize(
    "before",
    [
        "这条河很长，",
        "川は長く、",
        "यह नदी लंबी है",
        "แม่น้ำสายนี้ยาวที่",
        "نهر طويل،",
        "இது ஒரு ஆறு,",
        "ဒီမြစ်က ရှည်တဲ့",
        "他说（一）",
    ],
)
def test_a_dropped_template_is_counted_after_signs_of_every_script(before: str) -> None:
    dropped: Counter[str] = Counter()
    clean(f"{before}{{{{foo|x}}}} b.", dropped=dropped)
    assert dropped == {"foo": 1}
    ended = Counter[str]()
    for end in "。।॥።۔။?！":
        clean(f"{before}a{end}{{{{foo|x}}}}", dropped=ended)
    assert not ended


def test_sums_are_computed_and_nothing_else() -> None:
    cases = {"1+2*3": "7", "(10-4)/4": "1.5", "10/3 round 1": "3.3", "-5": "-5"}
    for source, value in cases.items():
        assert clean(f"It is {{{{#expr:{source}}}}}.") == f"It is {value}."
    for hostile in ("9**9**9", "1/0", "(" * 5000, "__import__", "1 if 2", ""):
        assert clean(f"It is {{{{#expr:{hostile}}}}} here.").endswith("here.")


def test_text_in_variants_is_read_in_the_script_of_the_corpus(tmp_path: Path) -> None:
    text = "-{zh-hans:打印机; zh-hant:印表機}-在-{zh-cn:意大利;zh-tw:義大利;zh-hk:意大利}-。"
    page = f"<page><title>T</title><ns>0</ns><id>1</id><revision><text>{text}</text></revision></page>"
    path = tmp_path / "d.xml"
    path.write_text(
        f"<mediawiki><siteinfo><base>https://zh.wikipedia.org/wiki/M</base></siteinfo>{page}",
        encoding="utf-8",
    )
    for lang, wanted in (
        ("zh", "打印机在意大利。"),
        ("zh_Hant", "印表機在義大利。"),
        ("en", "打印机在意大利。"),
    ):
        source, ledger = open_source(f"wiki:{path}", Context(lang=lang)), Ledger()
        assert [doc.text for shard in source.shards() for doc in source.read(shard, ledger)] == [wanted]


PREPOSITIONS = {
    "en": "of|in|at|by|to|from|with|for|on|than|about|between|into|near|is|was|are|the|a|an|and|or",
    "ro": "de|la|în|din|cu|pe",
    "fr": "de|du|des|à|au|aux|en|dans|par|pour|avec|sur|le|la|les|un|une|et|est",
    "sv": "av|i|på|till|från|med|för|om|och",
    "de": "von|in|an|auf|mit|bei|nach|zu|aus|für|über|unter|der|die|das|dem|den|und|oder|ein|eine", "tr": "ve|ile",
    "ru": "в|на|с|из|к|от|до|по|о|для|при|за|и", "bg": "в|на|с|от|до|по|за|и",
    "id": "di|ke|dari|pada|untuk|dengan|dan|yang",
    "ar": "في|من|إلى|على|عن|مع|و", "hi": "में|से|के|की|का|पर|और|को", "ur": "میں|سے|کے|کی|کا|پر|اور|کو",
    "sw": "ya|wa|na|kwa|la",
    "eu": "eta|edo", "yo": "ni|ti|si", "fi": "ja|noin",
}  # fmt: skip


@pytest.mark.data
def test_no_sentence_ends_in_a_preposition_because_of_a_dropped_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wikitext, "_tidy_line", lambda line: wikitext._ONE_HOLE.sub("⟦⟧", line).strip())
    for path in sorted((Path(os.environ["XLING_DATA"]) / "wiki").glob("*.bz2")):
        words = PREPOSITIONS.get(path.name[:2], "の|は|を|が|に|的|在|是|和|இல்")
        cut = re.compile(rf"(?:^|[\s(])(?:{words}) *(?:⟦⟧ *)+[.。।۔](?:\s|$)")
        source, ledger = open_source(f"wiki:{path}", Context(lang="en")), Ledger()
        for shard in source.shards():
            for doc in source.read(shard, ledger):
                assert not cut.search(doc.text), (path.name, cut.search(doc.text))


@pytest.mark.parametrize(("source", "text"), [
    ("网址-{http://a.example/x}-以后还有文字。", "网址以后还有文字。"),
    ("見よhttp://a.example/x。次の文。", "見よ。次の文。"),
    ("ดูhttp://a.example/xได้", "ดูได้"), ("사이트http://a.example/x에서", "사이트에서"),
    ("Siehe http://a.example/ü dort.", "Siehe dort."),
])  # fmt: skip
def test_an_address_ends_before_letters_of_scripts_without_spaces(source: str, text: str) -> None:
    assert " ".join(clean(source).split()) == text


def test_a_dump_that_names_no_wiki_has_the_language_of_the_corpus(tmp_path: Path) -> None:
    text = "Le {{date|14|7|1789}}, {{unité|5|m}}."
    page = f"<page><title>T</title><ns>0</ns><id>1</id><revision><text>{text}</text></revision></page>"
    (tmp_path / "part.xml").write_text(f"<mediawiki>{page}</mediawiki>", encoding="utf-8")
    source = open_source(f"wiki:{tmp_path}/part.xml", Context(lang="fr"))
    (doc,) = source.read(*source.shards(), Ledger())
    assert doc.text == "Le 14 juillet 1789, 5 m."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("L'''Iliade'' d'Homère", "L'Iliade d'Homère"),
        ("L''''Autriche''' (''Österreich'')", "L'Autriche (Österreich)"),
        ("l''''amour''' et '''''les deux'''''", "l'amour et les deux"),
        ("''a'' de l'''Énéide'' et '''b'''\n'''c'''", "a de l'Énéide et b\nc"),
        ("Soko, http://a.b/c. Mvua (http://a.b/d), jua.", "Soko,. Mvua, jua."),
    ],
)
def test_apostrophes_and_full_stops_beside_markup_stay(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_formulas_that_are_missing_from_a_sentence_are_counted() -> None:
    dropped = Counter[str]()
    text = "Acha <math>x</math> iwe namba, na {{foo|<ce>H2O</ce>}} ni maji.\n: <math>x = 1</math>\n"
    assert clean(text, dropped=dropped) == "Acha iwe namba, na ni maji."
    assert dropped == {"<math>": 1, "foo": 1}


@pytest.mark.parametrize(
    ("lang", "text", "shown"),
    [
        (
            "en",
            "{{convert|5|C|F}}, {{convert|1.5|e6km2}}, {{cvt|3|e5m3}}",
            "5 °C, 1.5 million km², 3 × 10^5 m³",
        ),
        ("en", "{{val|5|2}}, {{val|10|-|20|u=m}}, {{val|10|s}}", "5 ± 2, 10–20 m, 10 s"),
        ("it", "{{M|5|k|m}}, {{M|5||km}}, {{secolo|XIX}}", "5 km, 5 km, XIX secolo"),
        ("fr", "XIX{{e}} siècle, 5{{e|6}}", "XIXe siècle, 5 × 10^6"),
        (
            "en",
            "{{OldStyleDate|16 August|1700|5 August}}, {{d.|1990}}, {{CO2}}",
            "16 August 1700, d. 1990, CO₂",
        ),
        ("ko", "{{한자|漢字}}, {{색|red|빨강}}, {{단위 변환|5|km}}", "漢字, 빨강, 5 km"),
    ],
)
def test_units_and_names_of_other_wikis(lang: str, text: str, shown: str) -> None:
    assert clean(text, page=Page(lang)) == shown


def test_the_last_revision_of_a_page_is_read(tmp_path: Path) -> None:
    revisions = "".join(
        f"<revision><id>{i}</id><timestamp>20{i}0-01-01T00:00:00Z</timestamp><text>{text}</text></revision>"
        for i, text in enumerate(("Mji mdogo.", "Mji mkubwa."), 1)
    )
    path = tmp_path / "new.xml"  # which is also the code of a language
    site = "<siteinfo><base>https://fr.wikipedia.org/wiki/Accueil</base></siteinfo>"
    path.write_text(
        f"<mediawiki>{site}<page><title>A</title><ns>0</ns><id>1</id>{revisions}</page></mediawiki>",
        encoding="utf-8",
    )
    ledger, source = Ledger(), open_source(f"wiki:{path}", Context("sw"))
    (doc,) = [doc for shard in source.shards() for doc in source.read(shard, ledger)]
    assert (doc.text, doc.date) == ("Mji mkubwa.", "2020-01-01T00:00:00Z")
    assert "declared_lang" not in doc.meta
    assert ledger.notes[wiki.OLDER_NOTE] == 1


@pytest.mark.parametrize("siteinfo", ["", "<siteinfo><sitename>W</sitename></siteinfo>"])
@pytest.mark.parametrize("begin", ["<pagw>", "<pag", "< page >"])
def test_a_first_page_without_its_tag_is_counted(tmp_path: Path, siteinfo: str, begin: str) -> None:
    """Damage before the first page is not taken for the head of the dump."""
    page = "<title>T</title><ns>0</ns><id>1</id><revision><text>Nairobi ni mji mkuu.</text></revision></page>"
    (tmp_path / "a.xml").write_text(
        f'<mediawiki xml:lang="sw">\n{siteinfo}\n{begin}{page}</mediawiki>', encoding="utf-8"
    )
    _, ledger = read(tmp_path / "a.xml")
    assert ledger.dropped_chars["read", "bytes outside any page"] + ledger.dropped_chars[
        "read", "damaged page"
    ] >= len(page)
    assert not ledger.unaccounted_bytes()
