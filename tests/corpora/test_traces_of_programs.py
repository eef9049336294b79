"""What programs leave in texts and around them: escapes, markers between documents, marks of direction, joined rows."""

import gzip
import io
import json
import zipfile

import pytest
import zstandard

from xling import cli
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common.json_rows import JOINED_NOTE
from xling.corpora.common.raised import without_note_marks
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.corpora.sources.text import TABLE_NOTE
from xling.corpora.sources.warc import html_text
from xling.corpora.stages.filters import is_ended
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger
from xling.text.repair import decode_entities
from xling.text.words.sentence_ends import split_sentences

SENTENCES = [f"Mwalimu wa {name} alifika shuleni mapema leo." for name in ("Juma", "Amina", "Musa", "Zuhura")]


def documents(path, data, scheme, lang="sw"):
    """The texts of a file and the ledger."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    ledger = Ledger()
    source = open_source(f"{scheme}:{path}", Context(lang))
    return [doc.text for shard in source.shards() for doc in source.read(shard, ledger)], ledger


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"Mvua ilinyesha.\nSoko lilifungwa.", "Mvua ilinyesha.\nSoko lilifungwa."),
        (r"Kichwa\r\nMvua ilinyesha.\r\n\r\nMwisho.", "Kichwa\nMvua ilinyesha.\nMwisho."),
        (r"你好。\n再见。", "你好。\n再见。"),
        (r"G\u00f6r\u00fcnmek \ud83d\ude00 \"kukla\"", 'Görünmek 😀 "kukla"'),
        ("Tom &amp; Jerry&#39;s caf&eacute;, A &amp;amp; B", "Tom & Jerry's café, A & B"),
        ("\x1b[36;44mMvua\x1b[0m ilinyesha.", "Mvua ilinyesha."),
        (r"Let \nu = 5. \nabla is in C:\new\users, \alpha.", None),
        (r"AT&T; R&D, a < b & c", None),
    ],
)
def test_escapes_of_programs_are_read_and_mathematics_stays(written, text):
    verdict = Repair().edit(Document("1", written))
    assert verdict.text == (text or written)


def test_a_pair_stays_one_line_whatever_its_references_stand_for(tmp_path):
    rows = [(f"A{i} &#10; B &NewLine;&Tab;C", rf"Mvua {i}.\nSoko.") for i in range(5)]
    (tmp_path / "a.tsv").write_text("en\tsw\n" + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    words = ["corpus", "parallel", "pair=en-sw", f"source=tsv:{tmp_path}/a.tsv", f"out={tmp_path}/out"]
    assert cli.main([*words, "filters=repair", "audit=false", "dev_pairs=0", "test_pairs=0"]) == 0
    assert (tmp_path / "out/train.en").read_text(encoding="utf-8").count("\n") == 5
    assert (tmp_path / "out/train.sw").read_text(encoding="utf-8").split("\n")[:-1] == [
        f"Mvua {i}. Soko." for i in range(5)
    ]


@pytest.mark.parametrize("end", ["<|endoftext|>", "\n<|endoftext|>\n"])
def test_markers_of_language_models_end_documents(tmp_path, end):
    texts, _ = documents(tmp_path / "a.txt", end.join(SENTENCES), "text")
    assert texts == SENTENCES


def test_documents_of_wikiextractor(tmp_path):
    text = "".join(
        f'<doc id="{i}" url="https://x.org/?curid={i}" title="a > b">\nKichwa {i}\n\n{one}\n\nMwisho.\n\n</doc>\n'
        for i, one in enumerate(SENTENCES)
    )
    texts, _ = documents(tmp_path / "a.txt", text, "text")
    assert texts == [f"Kichwa {i}\n{one}\nMwisho." for i, one in enumerate(SENTENCES)]


def test_indented_text_is_no_table(tmp_path):
    texts, ledger = documents(tmp_path / "a.txt", "\n\n".join(f"\t{one}" for one in SENTENCES * 3), "text")
    assert texts == SENTENCES * 3
    assert TABLE_NOTE not in ledger.notes


@pytest.mark.parametrize("head", ['{"text": "Mvua."}', "<!DOCTYPE html><html>", "<mediawiki>", "WARC/1.0"])
def test_files_of_other_formats_that_are_read_as_text_are_announced(tmp_path, head):
    assert documents(tmp_path / "a.txt", f"{head}\n{SENTENCES[0]}", "text")[1].notes[TABLE_NOTE] == 1


@pytest.mark.parametrize(("indent", "width"), [("    ", 60), ("\u3000\u3000", 30)])
def test_an_indented_line_begins_a_paragraph_of_wrapped_text(tmp_path, indent, width):
    word, end = ("maneno ", ".") if width == 60 else ("言葉文字数行", "。")
    # The last line of each paragraph is full, so that its length does not tell its end.
    line = (word * 20)[: width - 1].rstrip() + end
    body = (word * 20)[:width].rstrip()
    paragraph = [indent + body[len(indent) :], body, body, line]
    texts, _ = documents(tmp_path / "a.txt", "\n".join(paragraph * 10), "text")
    assert len("\n".join(texts).split("\n")) == 10


@pytest.mark.parametrize("mark", ["\u200f", "\u202c", "\u2069", "\u200e"])
def test_marks_of_direction_behind_a_sentence(mark):
    assert is_ended(f"وصل المعلم إلى المدرسة.{mark}")
    assert split_sentences(f"وصل المعلم.{mark} ثم ذهب.{mark}") == [f"وصل المعلم.{mark}", f"ثم ذهب.{mark}"]


@pytest.mark.parametrize(
    "marks",
    [
        "\u202a{}\u202c",
        "\u2068{}\u2069",
        "\u200f{}\u200f",
        "\u200e{}",
        "{}\u2060 {}",
        "{}\u200a{}",
        "\u2003{}",
    ],
)
@pytest.mark.parametrize("lang", ["sw", "en"])
def test_blanks_of_all_widths_and_marks_of_direction_are_no_wrong_encoding(marks, lang):
    text = "\n".join(marks.format(one, one) for one in SENTENCES)
    verdict = Repair(lang=lang).edit(Document("1", text))
    assert not verdict.reason
    assert "Mwalimu wa Juma alifika" in verdict.text


def test_rows_of_json_whose_line_ends_are_missing(tmp_path):
    rows = [json.dumps({"text": one}) for one in SENTENCES]
    texts, ledger = documents(tmp_path / "a.jsonl", f"{rows[0]}{rows[1]}\n{rows[2]}\n{rows[3]}", "jsonl")
    assert texts == SENTENCES
    assert ledger.notes[JOINED_NOTE] == 1
    texts, ledger = documents(tmp_path / "b.jsonl", f'{rows[0]}{{"text": "cut', "jsonl")
    assert (texts, sum(ledger.dropped.values())) == (SENTENCES[:1], 1)


def test_the_fields_of_a_row_without_text_are_named(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"instruction": "Soma", "output": "Ndiyo."}\n', encoding="utf-8")
    assert (
        cli.main(["corpus", "mono", "lang=sw", f"source=jsonl:{tmp_path}/a.jsonl", f"out={tmp_path}/out"])
        == 2
    )
    assert "the first such row has instruction, output" in capsys.readouterr().err


def test_pages_that_a_server_sent_in_zstd(tmp_path):
    page = zstandard.compress(f"<html><body><p>{SENTENCES[0]}</p></body></html>".encode())
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: zstd\r\n\r\n" + page
    head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://x.org/\r\nContent-Type: application/http\r\n"
    record = f"{head}Content-Length: {len(http)}\r\n\r\n".encode() + http + b"\r\n\r\n"
    assert documents(tmp_path / "a.warc", record, "warc")[0] == SENTENCES[:1]


def test_packed_pages_and_files_that_are_packed_twice(tmp_path):
    page = f"<html><body><p>{SENTENCES[0]}</p></body></html>".encode()
    assert documents(tmp_path / "a.html", gzip.compress(page), "html")[0] == SENTENCES[:1]
    with pytest.raises(UserError, match="compressed by gzip twice"):
        documents(tmp_path / "a.txt.gz", gzip.compress(gzip.compress(SENTENCES[0].encode())), "text")


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("shift_jis", "cp932", "東京①髙﨑の㎏です"),
        ("x-sjis", "cp932", "東京①髙﨑の㎏です"),
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("ks_c_5601-1987", "cp949", "똠방각하 펲시콜라"),
        ("gb2312", "gbk", "朱镕基总理"),
        ("big5", "big5hkscs", "嘅咁啲香港"),
        ("tis-620", "cp874", "ภาษา“ไทย”"),
    ],
)
def test_pages_hold_what_browsers_read_under_a_charset(charset, codec, text):
    page = f'<html><head><meta charset="{charset}"></head><body>{text}</body></html>'.encode(codec)
    assert text in html_text(page, "", Ledger())
    assert text in html_text(page, f"text/html; charset={charset}", Ledger())


def test_readings_above_characters_are_no_text_of_a_page():
    ruby = "<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<RT class=x>じ</RT></ruby>を<ruby>東<rt>とう<rp>)</ruby>へ"
    assert without_note_marks(ruby) == "<ruby>漢字</ruby>を<ruby>東</ruby>へ"
    open_end = f"<ruby>漢<rt>{'text ' * 60}<p>more"
    assert without_note_marks(open_end) == open_end


def test_the_body_of_word_on_the_web_and_what_a_damaged_file_is(tmp_path, capsys):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        name = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        body = f"<w:body><w:p><w:r><w:t>{SENTENCES[0]}</w:t></w:r></w:p></w:body>"
        archive.writestr("word/document2.xml", f'<w:document xmlns:w="{name}">{body}</w:document>')
    assert documents(tmp_path / "a.docx", packed.getvalue(), "docx")[0] == SENTENCES[:1]
    (tmp_path / "b.docx").write_bytes(b"\xd0\xcf\x11\xe0 an old document")
    assert (
        cli.main(["corpus", "mono", "lang=sw", f"source=docx:{tmp_path}/b.docx", f"out={tmp_path}/out"]) == 2
    )
    assert f"damaged file: {tmp_path}/b.docx" in capsys.readouterr().err


def test_what_a_mac_adds_beside_each_file_is_not_read(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/a.html").write_text(f"<p>{SENTENCES[0]}</p>", encoding="utf-8")
    (tmp_path / "pages/._a.html").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        ")
    source, ledger = open_source(f"html:{tmp_path}/pages", Context("sw")), Ledger()
    assert [doc.text for shard in source.shards() for doc in source.read(shard, ledger)] == SENTENCES[:1]
    sides = "".join(f'<tuv xml:lang="{lang}"><seg>{lang}.</seg></tuv>' for lang in ("en", "sw"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.tmx", f'<tmx version="1.4"><body><tu>{sides}</tu></body></tmx>')
        archive.writestr("__MACOSX/._a.tmx", b"\0\5\x16\7\0\2\0\0Mac OS X        ")
    (memory,) = open_sources([f"tmx:{tmp_path}/a.zip"], SourceContext(*languages.get_pair("en-sw")))
    assert [row[:2] for row in memory.rows(ledger)] == [("en.", "sw.")]


def test_line_breaks_of_android_part_words(tmp_path):
    for lang, text in (("en", "Go<br/>now"), ("sw", "Nenda<br/>sasa")):
        (tmp_path / f"{lang}.xml").write_text(
            f'<resources><string name="a">{text}</string></resources>', encoding="utf-8"
        )
    words = ["corpus", "parallel", "pair=en-sw", f"source=android:{tmp_path}/en.xml+{tmp_path}/sw.xml"]
    settings = ["filters=repair", "audit=false", "dev_pairs=0", "test_pairs=0", f"out={tmp_path}/out"]
    assert cli.main([*words, *settings]) == 0
    assert (tmp_path / "out/train.sw").read_text(encoding="utf-8") == "Nenda sasa\n"


def test_references_of_characters_are_read_twice_at_most():
    assert decode_entities("&amp;amp;lt;") == "&lt;"
