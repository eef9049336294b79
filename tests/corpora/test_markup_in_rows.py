"""What programs leave in and around texts: tags, values of Python, names of characters, saved pages, contents."""

import gzip
import json
import zipfile

import pytest

from xling import cli
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.corpora.stages.detokenise import Detokenise
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger
from xling.text.repair import decode_entities
from xling.text.tokenised import tokenised_kind, undo

TAGS = "tags of HTML or BBCode"


def texts_of(path, data, scheme, lang="sw", **settings):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    source = open_source(f"{scheme}:{path}", Context(lang, **settings))
    return [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())]


def rows_of(uri):
    (source,) = open_sources([uri], SourceContext(languages.get("en"), languages.get("sw")))
    return list(source.rows(Ledger()))


@pytest.mark.parametrize(
    ("text", "kind", "plain"),
    [
        ("<p>Mwalimu <b>Juma</b> alifika.</p><p>Mvua</p>", TAGS, "Mwalimu Juma alifika.\nMvua\n"),
        ('Soma <a href="http://a.b/?c=1&d=2">hapa</a>.<br/>Basi.', TAGS, "Soma hapa.\nBasi."),
        ("[b]Juma[/b] [url=http://a.b]hapa[/url]", TAGS, "Juma hapa"),
        ("<start_of_turn>Habari<end_of_turn>", "marks of training", "Habari"),
        ("[INST] Habari [/INST]", "marks of training", "Habari"),
        ("ikiwa a < b na c > d, [1] na [i] katika <p>", "", "ikiwa a < b na c > d, [1] na [i] katika <p>"),
    ],
)
def test_tags_are_told_and_undone(text, kind, plain):
    assert tokenised_kind(text) == kind
    assert undo(text) == plain


def test_tags_in_rows_are_named_with_the_stage_that_takes_them_out(tmp_path, capsys):
    words = [f"<p>Mwalimu wa {name} alifika <b>mapema</b> leo.</p>" for name in ("Juma", "Amina", "Musa")]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in words))
    common = ["corpus", "mono", "lang=sw", f"source=jsonl:{path}", "dedup=false", "near_dedup=false"]
    assert cli.main([*common, "after_dedup=[]", "before_dedup=repair", f"out={tmp_path}/out"]) == 0
    assert (
        f"100.0 % was tokenised before ({TAGS} 3); before_dedup=repair,detokenise" in capsys.readouterr().out
    )
    assert Detokenise().edit(Document("1", words[0])).text == "Mwalimu wa Juma alifika mapema leo."


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("b'Mwalimu caf\\xc3\\xa9'", "Mwalimu café"),
        ('b"Ng\'ombe"', "Ng'ombe"),
        ("['Mvua ilinyesha.', \"Ng'ombe\"]", "Mvua ilinyesha.\nNg'ombe"),
        ("['Mvua' 'Soko']", None),  # numpy's arrays have no commas, and Python would join the words
        ("['a', 1]", None),
        ("b'\\xff'", None),
        ("b'\\d'", None),
        ("['" + "[" * 100_000 + "', [" + "[" * 100_000 + "'x']", None),
        ("['Juma'] na ['Amina']", None),
        ("'Mvua ilinyesha.'", None),
    ],
)
def test_a_text_that_is_a_value_of_python_is_what_it_holds(written, text):
    assert decode_entities(written) == (written if text is None else text)


def test_values_of_python_in_columns_and_pairs(tmp_path):
    rows = "".join(f"b'Teacher caf\\xc3\\xa9 {i}'\t['Mvua {i}.', 'Soko.']\n" for i in range(5))
    (tmp_path / "a.tsv").write_text(f"en\tsw\n{rows}")
    words = ["corpus", "parallel", "pair=en-sw", f"source=tsv:{tmp_path}/a.tsv", f"out={tmp_path}/out"]
    assert cli.main([*words, "filters=repair", "audit=false", "dev_pairs=0", "test_pairs=0"]) == 0
    assert (tmp_path / "out/train.en").read_text().splitlines() == [f"Teacher café {i}" for i in range(5)]
    assert (tmp_path / "out/train.sw").read_text().splitlines() == [f"Mvua {i}. Soko." for i in range(5)]
    (text,) = texts_of(tmp_path / "a.csv", "text\n\"b'caf\\xc3\\xa9 ya Juma'\"\n", "csv")
    assert Repair().edit(Document("1", text)).text == "café ya Juma"


@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'])
@pytest.mark.parametrize("scheme", ["tmx", "xliff"])
def test_names_of_characters_that_a_file_does_not_declare_are_read(tmp_path, scheme, doctype):
    text = "Caf&eacute;&hellip; R&amp;D &zzz; {}"
    if scheme == "tmx":
        unit = f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="sw"><seg>Mkahawa {{}}</seg></tuv></tu>'
        head, tail = '<tmx version="1.4"><header srclang="en"/><body>', "</body></tmx>"
    else:
        unit = f'<trans-unit id="{{}}"><source>{text}</source><target>Mkahawa {{}}</target></trans-unit>'
        head = '<xliff version="1.2"><file source-language="en" target-language="sw"><body>'
        tail = "</body></file></xliff>"
    units = "".join(unit.format(*[i] * unit.count("{}")) for i in range(3))
    path = tmp_path / f"a.{scheme}"
    path.write_text(f'<?xml version="1.0"?>{doctype if scheme == "tmx" else ""}{head}{units}{tail}')
    assert [row[:2] for row in rows_of(f"{scheme}:{path}")] == [
        (f"Café… R&D &zzz; {i}", f"Mkahawa {i}") for i in range(3)
    ]


def test_catalogues_that_are_packed_or_utf_16_are_refused_with_what_helps(tmp_path):
    text = 'msgid ""\nmsgstr ""\n"Language: sw\\n"\n\nmsgid "Rain"\nmsgstr "Mvua é"\n'
    (tmp_path / "a.po.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(UserError, match=r"compressed by gzip; .*fix: unpack it"):
        rows_of(f"po:{tmp_path}/a.po.gz")
    for mark in ("", "\ufeff"):
        (tmp_path / "a.po").write_bytes(f"{mark}{text}".encode("utf-16-le"))
        with pytest.raises(UserError, match="iconv -f UTF-16LE"):
            rows_of(f"po:{tmp_path}/a.po")


def test_pages_that_a_browser_saved_with_their_pictures(tmp_path):
    page = "<html><body><p>Mwalimu wa shule ya caf=C3=A9 alifika ma=\r\npema leo.</p></body></html>"
    parts = [
        f"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{page}\r\n",
        "Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n",
    ]
    head = "From: <Saved by Blink>\r\nMIME-Version: 1.0\r\nContent-Type: "
    multi = f'{head}multipart/related;\r\n\tboundary="B"'
    data = f"{multi}\r\n\r\n" + "".join(f"--B\r\n{part}" for part in parts) + "--B--\r\n"
    texts = texts_of(tmp_path / "a.mht", data, "html", extract="all")
    assert texts == ["Mwalimu wa shule ya café alifika mapema leo."]
    single = f"{head}text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{page}"
    assert texts_of(tmp_path / "a.mhtml", single, "html", extract="all") == texts


@pytest.mark.parametrize("text", ["Mwalimu wa café", "It’s here", "El señor", "Přišel šest", "Barua – leo"])
@pytest.mark.parametrize("head", ["", '<script charset="x"></script>'])
def test_a_page_in_utf_8_that_states_no_charset_is_no_guess(tmp_path, text, head):
    page = f"<html><head>{head}</head><body><p>{text}</p></body></html>"
    assert texts_of(tmp_path / "a.html", page, "html", extract="all") == [text]


def test_blocks_of_pages_are_neither_glued_nor_left_out(tmp_path):
    page = (
        "<details><summary>Habari</summary>Mvua ilinyesha.</details><dialog open>Soko</dialog>Jioni."
        "<figure class=x><img alt=y><figcaption>Picha ya mji.</figcaption></figure>"
        "<figure><table><tr><td>Juma</td></tr></table></figure>"
    )
    (text,) = texts_of(tmp_path / "a.html", f"<html><body>{page}</body></html>", "html", extract="all")
    assert text.split("\n") == ["Habari", "Mvua ilinyesha.", "Soko", "Jioni.", "Picha ya mji.", "Juma"]


def test_contents_and_indices_of_texts_are_left_out(tmp_path):
    kinds = ("table-of-content", "illustration-index", "table-index", "alphabetical-index")
    indices = "".join(
        f"<t:{kind}><t:index-body><t:p>Sura 3</t:p></t:index-body></t:{kind}>" for kind in kinds
    )
    body = f'<d xmlns:t="t"><body>{indices}<t:p>Mvua ilinyesha.</t:p></body></d>'
    with zipfile.ZipFile(tmp_path / "b.odt", "w") as archive:
        archive.writestr("content.xml", body)
    assert texts_of(tmp_path / "a.odt", (tmp_path / "b.odt").read_bytes(), "odt") == ["Mvua ilinyesha."]


def test_code_inside_of_a_sentence_of_an_article_stays(tmp_path):
    article = "Faili &lt;code&gt;a.txt&lt;/code&gt; na &lt;code class='x'&gt;b.txt&lt;/code&gt; ziko hapa."
    page = f"<page><title>T</title><ns>0</ns><id>1</id><revision><id>1</id><text>{article}</text></revision></page>"
    dump = f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">{page}</mediawiki>'
    assert texts_of(tmp_path / "a.xml", dump, "wiki") == ["Faili a.txt na b.txt ziko hapa."]
