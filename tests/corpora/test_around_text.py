"""Documents as people bring them, with what stands around the text: front matter, licences, mail, contents, signs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpora.examples import docx_of, packed
from xling.core.errors import UserError
from xling.corpora.bitext.documents import _documents, _files
from xling.corpora.sources.source import Context, open_source
from xling.corpora.sources.text import TABLE_NOTE, TIMES_NOTE
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger
from xling.text.files.around_text import FRONT_NOTE, LICENCE_NOTE
from xling.text.files.corpus_reader import read_documents
from xling.text.files.globs import matching_files

ONE, TWO = "Mvua ilinyesha milimani usiku kucha.", "Daraja lilifungwa asubuhi, na watoto walitembea."
OFFICE = " ".join(f'xmlns:{name}="urn:{name}"' for name in ("office", "text", "style"))


def read(path: Path, scheme: str, data: str | bytes, **settings: object) -> tuple[list[Document], Ledger]:
    """The documents of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    ledger = Ledger()
    source = open_source(f"{scheme}:{path}", Context("sw", **settings))  # type: ignore[arg-type]
    return [doc for shard in source.shards() for doc in source.read(shard, ledger)], ledger


def texts_of(path: Path, scheme: str, data: str | bytes, **settings: object) -> list[str]:
    return [doc.text for doc in read(path, scheme, data, **settings)[0]]


FRONT = [
    ('---\ntitle: "Mvua"\ndate: 2024-01-02\ntags:\n  - hali\n  - mto\n---\n', 7),
    ("\ufeff+++\r\ntitle = 'Mvua'\r\n[extra]\r\nweight = 3\r\n+++\r\n", 5),
]


@pytest.mark.parametrize(("front", "num_lines"), FRONT)
def test_front_matter_is_no_text(tmp_path: Path, front: str, num_lines: int) -> None:
    docs, ledger = read(tmp_path / "a.txt", "text", f"{front}\n{ONE}\n{TWO}\n")
    assert [doc.text for doc in docs] == [f"{ONE}\n{TWO}"]
    assert ledger.notes[FRONT_NOTE] == num_lines
    row = json.dumps({"text": f"{front.removeprefix(chr(0xFEFF))}\n{ONE}\n{TWO}"})
    assert texts_of(tmp_path / "b.jsonl", "jsonl", row) == [f"{ONE}\n{TWO}"]


@pytest.mark.parametrize(
    "text", ["---\nAsha: Habari.\nJuma: Nzuri.\n---\n", "---\n", "+++\nJe, title = nini?\n"]
)
def test_rules_between_lines_of_text_are_no_front_matter(tmp_path: Path, text: str) -> None:
    docs, ledger = read(tmp_path / "a.txt", "text", text + ONE)
    assert docs[0].text == text + ONE
    assert not ledger.notes


BEFORE = "The Project Gutenberg eBook of Mvua\n\nThis eBook is for the use of anyone anywhere.\n\n"
START = "*** START OF THE PROJECT GUTENBERG EBOOK MVUA ***"
LONG_START = "*** START OF THIS PROJECT GUTENBERG EBOOK MVUA NA JUA NA UPEPO NA MAWINGU\nYA MILIMANI ***"
END = "*** END OF THE PROJECT GUTENBERG EBOOK MVUA ***\n\nUpdated editions will replace the previous one.\n"


@pytest.mark.parametrize("start", [START, LONG_START])
def test_licence_of_project_gutenberg_is_no_text(tmp_path: Path, start: str) -> None:
    book = f"{BEFORE}{start}\n\n{ONE}\n\n{TWO}\n\n{END}"
    docs, ledger = read(tmp_path / "a.txt", "text", book + book)
    assert [doc.text for doc in docs] == [ONE, TWO] * 2
    assert ledger.notes[LICENCE_NOTE] == 2 * len(f"{BEFORE}{start}\n{END}".splitlines())
    assert texts_of(tmp_path / "b.jsonl", "jsonl", json.dumps({"text": book})) == [f"{ONE}\n{TWO}"]
    page = "".join(f"<p>{line}</p>" for line in book.split("\n"))
    assert texts_of(tmp_path / "c.html", "html", f"<html><body>{page}</body></html>", extract="all") == [
        f"{ONE}\n{TWO}"
    ]


def test_other_commands_leave_out_what_stands_around_a_text(tmp_path: Path) -> None:
    files = {
        "a.txt": f"{FRONT[0][0]}\n{ONE}\n\n{TWO}\n",
        "b.txt": f"{BEFORE}{START}\n\n{ONE}\n\n{TWO}\n\n{END}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert list(read_documents([f"{tmp_path}/{name}"])) == [[ONE], [TWO]]
        ((_, lines),) = _documents(tmp_path / name, tmp_path)
        assert list(filter(None, lines)) == [ONE, TWO]
    (tmp_path / "c.txt").write_text(f"0:00:00.000,0:00:00.900\n{ONE}\n" * 6, encoding="utf-8")
    with pytest.raises(UserError, match="subtitles"):
        list(read_documents([f"{tmp_path}/c.txt"]))


def test_licence_of_a_page_in_a_section(tmp_path: Path) -> None:
    section = '<section class="pg-boilerplate pgheader" id="pg-header"><h2>eBook</h2><p>Anyone.</p></section>'
    page = f"<html><body>{section}<p>{ONE} {TWO}</p><p>{TWO} {ONE}</p></body></html>"
    for extract in ("main", "all"):
        assert texts_of(tmp_path / "a.html", "html", page, extract=extract) == [f"{ONE} {TWO}\n{TWO} {ONE}"]


MAIL = "Return-Path: <a@b.org>\nMessage-ID: <1@b>\nSubject: Mvua\nMIME-Version: 1.0\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", f"From a@b.org Mon Jan  1 00:00:00 2024\n{MAIL}\n{ONE}\n{TWO}\n"),
        ("a.txt", "".join(f"# Kichwa {i}\n\n{ONE} [hapa](https://x.org/{i})\n\n" for i in range(5))),
        ("a.txt", "".join(f"2024-01-02 12:00:0{i},123 INFO {ONE}\n" for i in range(6))),
        ("a.txt", "".join(f"Jan  2 12:00:0{i} mashine sshd[1]: {ONE}\n" for i in range(6))),
        ("a.yaml", f"makala:\n  - matini: {ONE}\n"),
        ("a.ini.gz", f"[a]\nmatini={ONE}\n"),
    ],
)
def test_mail_markdown_logs_and_settings_are_announced(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path / name, "text", text)[1].notes[TABLE_NOTE] == 1
    assert read(tmp_path / "b.txt", "text", f"{ONE}\n- {TWO}\nSubject: {ONE}\n")[1].notes[TABLE_NOTE] == 0


def test_captions_with_a_mark_of_byte_order_and_of_subviewer(tmp_path: Path) -> None:
    times = [f"00:00:0{i},000 --> 00:00:0{i},900" for i in range(6)]
    lines = [f"Mvua ya {i} ilinyesha." for i in range(6)]
    cues = "".join(
        f"{i}\n{time}\n{line}\n\n" for i, (time, line) in enumerate(zip(times, lines, strict=True), 1)
    )
    for data in (cues.encode("utf-8-sig"), cues.encode("utf-16")):
        docs, ledger = read(tmp_path / "a.srt", "text", data)
        assert ("\n".join(doc.text for doc in docs), ledger.notes[TIMES_NOTE]) == ("\n".join(lines), 12)
    cues = "".join(f"0:00:0{i}.000,0:00:0{i}.900\n{line}\n\n" for i, line in enumerate(lines))
    docs, ledger = read(tmp_path / "a.sbv", "text", cues)
    assert ("\n".join(doc.text for doc in docs), ledger.notes[TIMES_NOTE]) == ("\n".join(lines), 6)


@pytest.mark.parametrize("extract", ["main", "all"])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "Bonyeza <label for=x>kijani</label> na <button>nyekundu</button> sasa.",
            "Bonyeza kijani na nyekundu sasa.",
        ),
        ('Mtu<span class="pagenum" id="p12">[12]</span>mmoja alifika.', "Mtummoja alifika."),
        ('Watu<span epub:type="pagebreak" title="xii">xii</span> wawili.', "Watu wawili."),
    ],
)
def test_words_on_buttons_stay_in_sentences_and_numbers_of_pages_do_not(
    tmp_path: Path, extract: str, written: str, text: str
) -> None:
    body = f"<p>{ONE} {TWO}</p><p>{written} {ONE}</p><p>{TWO} {ONE}</p>"
    page = f"<html><body><article>{body}</article></body></html>"
    assert f"\n{text} {ONE}\n" in texts_of(tmp_path / "a.html", "html", page, extract=extract)[0]


@pytest.mark.parametrize("name", ["title", "script", "style", "iframe"])
def test_elements_that_xhtml_closes_at_once_do_not_hold_the_page(tmp_path: Path, name: str) -> None:
    space = 'xmlns="http://www.w3.org/1999/xhtml"'
    page = f'<html {space}><head><{name} src="a"/></head><body><p>{ONE} {TWO}</p><p>{TWO}</p></body></html>'
    for extract in ("main", "all"):
        assert texts_of(tmp_path / "a.xhtml", "html", page, extract=extract) == [f"{ONE} {TWO}\n{TWO}"]
    book = {
        "META-INF/container.xml": '<container><rootfile full-path="a.opf"/></container>',
        "a.opf": '<package><item id="p" href="p.xhtml" media-type="x/xhtml"/><itemref idref="p"/></package>',
        "p.xhtml": page,
    }
    assert texts_of(tmp_path / "a.epub", "epub", packed(book)) == [f"{ONE} {TWO}\n{TWO}"]


@pytest.mark.parametrize(
    "tag", ['<a id="p{}"/>', '<span class="page" id="p{}" />', "<i/>", "<div/>", "<br/>", "<p/>"]
)
def test_a_book_of_one_file_with_a_mark_on_each_page(tmp_path: Path, tag: str) -> None:
    body = "".join(f"{tag.format(i)}<p>{ONE} {TWO} {i}</p>" for i in range(1200))
    page = (
        f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>{body}</body></html>'
    )
    (text,) = texts_of(tmp_path / "a.xhtml", "html", page, extract="all")
    assert text.split("\n") == [f"{ONE} {TWO} {i}" for i in range(1200)]


def test_the_charset_that_a_page_names_late_or_wrongly(tmp_path: Path) -> None:
    for charset, head in (("iso-8859-2", "x" * 3000), ("utf-16", ""), ("utf-16le", "x" * 3000)):
        codec = "utf-8" if "16" in charset else charset
        head = f"<script>{head}</script><meta charset={charset}>"
        page = f"<html><head>{head}</head><body><p>{TWO} Zażółć gęślą jaźń.</p>"
        assert texts_of(tmp_path / "a.html", "html", page.encode(codec)) == [f"{TWO} Zażółć gęślą jaźń."]
    page = f"<html><head><meta charset=utf-16></head><body><p>{TWO} Zażółć.</p>"
    for data in (page.encode("utf-16"), page.encode("utf-16-le")):
        assert texts_of(tmp_path / "a.html", "html", data) == [f"{TWO} Zażółć."]


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def sign(font: str, code: str) -> str:
    return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'


def control(kind: str, text: str) -> str:
    return f"<w:sdt><w:sdtPr>{kind}</w:sdtPr><w:sdtContent>{paragraph(run(text))}</w:sdtContent></w:sdt>"


MATHS = (
    "<m:oMath><m:r><m:t>mc</m:t></m:r><m:sSup><m:e/><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
)
HALF = "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
CONTENTS = '<w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj>'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph(run("kwa "), sign("Symbol", "F062"), run("-karotini "), sign("Symbol", "B3")), "kwa β-karotini ≥"),
        (paragraph(run("a"), sign("Wingdings", "F0E0"), run("b"), sign("Arial", "00E9")), "abé"),
        (paragraph("<w:del>", sign("Symbol", "F062"), "</w:del>", run("c")), "c"),
        (paragraph(run("pembe "), run("\uf061", '<w:rFonts w:ascii="Symbol"/>'), run(" ni a")), "pembe α ni a"),
        (paragraph("<w:r><w:t>A</w:t><w:ptab/><w:t>B</w:t></w:r>"), "A B"),
        (paragraph(run("Nishati ni "), MATHS, run(" au "), HALF), "Nishati ni mc² au 1/2"),
        (control(CONTENTS, "Sura 1 .... 5") + paragraph(run("Mwili.")), "Mwili."),
        (control("<w:showingPlcHdr/>", "Click here.") + control("", "Jibu."), "Jibu."),
        (paragraph('<w:pPr><w:pStyle w:val="TOC1"/></w:pPr>', run("Sura 1 5")) + paragraph(run("Mwili.")), "Mwili."),
    ],
)  # fmt: skip
def test_signs_formulas_and_contents_of_word(tmp_path: Path, body: str, text: str) -> None:
    assert texts_of(tmp_path / "a.docx", "docx", docx_of(body)) == [text]


def test_hidden_text_of_opendocument(tmp_path: Path) -> None:
    style = '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
    body = (
        '<text:section text:display="none"><text:p>siri</text:p></text:section>'
        '<text:section text:name="s"><text:p>wazi</text:p></text:section><text:p text:style-name="H">siri</text:p>'
        "<text:user-index><text:p>siri</text:p></text:user-index><text:h>Kichwa</text:h>"
    )
    content = f"<office:document-content {OFFICE}>{style}<office:body>{body}</office:body></office:document-content>"
    assert texts_of(tmp_path / "a.odt", "odt", packed({"content.xml": content})) == ["wazi\nKichwa"]


def test_names_of_files_with_the_sign_of_a_column(tmp_path: Path) -> None:
    row = json.dumps({"body": ONE, "text": TWO})
    assert texts_of(tmp_path / "c#1" / "a#b.jsonl", "jsonl", row) == [TWO]
    source = open_source(f"jsonl:{tmp_path}/c#1/a#b.jsonl#body", Context("sw"))
    assert [doc.text for doc in source.read(source.shards()[0], Ledger())] == [ONE]


def test_a_glob_names_no_locks_and_copies_of_editors(tmp_path: Path) -> None:
    for name in ("a.txt", "#1 habari.txt", "~$a.txt", "a.txt~", "#a.txt#", ".b.txt"):
        (tmp_path / name).write_text(ONE, encoding="utf-8")
    assert [path.name for path in matching_files(f"{tmp_path}/*")] == ["#1 habari.txt", "a.txt"]
    assert matching_files(f"{tmp_path}/a.txt~")
    assert [path.name for path, _ in _files([str(tmp_path)])] == ["#1 habari.txt", "a.txt"]


def test_rows_of_json_as_people_and_crawls_write_them(tmp_path: Path) -> None:
    rows = [
        json.dumps(
            {"content": ONE, "warc_headers": {"warc-target-uri": "http://x.org/a", "warc-date": "2021-02-03"}}
        ),
        json.dumps({"text": TWO, "timestamp": "2020/01/02 03:04:05"}),
    ]
    docs, ledger = read(tmp_path / "a.jsonl", "jsonl", "\n".join(rows))
    assert [(doc.text, doc.url, doc.date) for doc in docs] == [
        (ONE, "http://x.org/a", "2021-02-03"),
        (TWO, "", "2020-01-02T03:04:05"),
    ]
    assert not ledger.dropped


def test_what_databases_write_for_no_text_is_none(tmp_path: Path) -> None:
    values = ["\\N", "NULL", "<NA>", "NaN", "#N/A", "NULLA", "Naan"]
    docs, ledger = read(
        tmp_path / "a.csv", "csv", "id,text\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values))
    )
    assert ([doc.text for doc in docs], ledger.dropped["read", "empty"]) == (["NULLA", "Naan"], 5)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("\ufee3\ufeae\ufea3\ufe92\ufe8e \ufe91\ufedc\ufee2", "مرحبا بكم"),
        ("\ufefb \ufb8e\ufe98\ufe8e\ufb8f", "لا کتاک"),
        ("قال \ufdfa ثم ﴿آية﴾ ﬁ", None),
    ],
)
def test_letters_of_arabic_in_the_shapes_of_print(written: str, text: str | None) -> None:
    assert Repair().edit(Document("1", written)).text == (text or written)


def test_commands_without_counters_say_what_they_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(f"{FRONT[0][0]}\n{ONE}\n", encoding="utf-8")
    assert list(read_documents([str(path)])) == [[ONE]]
    assert f"{path}: 7 {FRONT_NOTE}" in capsys.readouterr().err
