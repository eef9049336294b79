"""A small input of every source, and what is read of it: the contract tests run on these."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from xling.corpora import toyworld
from xling.corpora.common.shards import SCHEMA, to_row
from xling.corpora.sources.routed import INDEX_FILE, PARTS_FOLDER, PLAN_FILE
from xling.corpora.sources.source import paragraphs
from xling.text.document import Document

TEXTS = ("Habari za leo", "Mji mkuu")
DOCS = ("Habari za leo\nMji mkuu", "Mvua ilinyesha")
PAGE = "Mji mkuu wa nchi yetu uko karibu na bahari kubwa."
PAIRS = (("A house", "Nyumba", ""), ("Two dogs", "Mbwa wawili", ""))
DUMP = "CC-MAIN-2024-22"
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


@dataclass(frozen=True)
class Sample:
    """What stands behind the scheme in the URI, what is read, and the files by their paths.

    ``{folder}`` is the folder of the files, ``{server}`` the address of a server of them.
    """

    rest: str
    read: tuple[object, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    base_urls: Mapping[str, str] = field(default_factory=dict)

    def contents(self) -> dict[str, bytes]:
        """The files as bytes."""
        return {name: text.encode() if isinstance(text, str) else text for name, text in self.files.items()}


def packed(members: Mapping[str, str]) -> bytes:
    """A zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return data.getvalue()


def record_of(kind: str, body: bytes) -> bytes:
    """A record of WARC 1.0."""
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a.example/\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"\r\n\r\n"


def parquet_of(table: pa.Table) -> bytes:
    """A file of one table."""
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def eaf_of(tiers: Mapping[str, tuple[str, ...]]) -> str:
    """A file of ELAN with tiers in languages, whose annotations stand on the same stretches of time."""
    slots = "".join(f'<TIME_SLOT TIME_SLOT_ID="t{i}" TIME_VALUE="{1000 * i}"/>' for i in range(3))
    body = ""
    for lang, texts in tiers.items():
        annotations = "".join(
            f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="{lang}{i}" '
            f'TIME_SLOT_REF1="t{i}" TIME_SLOT_REF2="t{i + 1}">'
            f"<ANNOTATION_VALUE>{text}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>"
            for i, text in enumerate(texts)
        )
        body += f'<TIER TIER_ID="speaker {lang}" LANG_REF="{lang}">{annotations}</TIER>'
    return f"<ANNOTATION_DOCUMENT><TIME_ORDER>{slots}</TIME_ORDER>{body}</ANNOTATION_DOCUMENT>"


def docx_of(body: str) -> bytes:
    """A document of Word."""
    return packed({"word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>"})


INLINE = '<c t="inlineStr"><is><t xml:space="preserve">{}</t></is></c>'


def xlsx_of(*sheets: Sequence[Sequence[str]]) -> bytes:
    """A spreadsheet of sheets, each a list of rows; a cell is text, or XML that begins with ``<c``."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    office = f'<Relationship Id="r1" Type="{relation}/officeDocument" Target="xl/workbook.xml"/>'
    names, targets, members = "", "", {}
    for n, rows in enumerate(sheets, 1):
        names += f'<sheet name="s{n}" sheetId="{n}" r:id="r{n}"/>'
        targets += f'<Relationship Id="r{n}" Type="{relation}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        cells = "".join(
            f"<row>{''.join(cell if cell.startswith('<c') else INLINE.format(cell) for cell in row)}</row>"
            for row in rows
        )
        members[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        )
    members |= {
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">{office}</Relationships>',
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relation}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">{targets}</Relationships>',
    }
    return packed(members)


def routed() -> Sample:
    """A part with one row group a language."""
    texts = {"en": "Good morning\nto all", "sw": DOCS[0]}
    part = io.BytesIO()
    with pq.ParquetWriter(part, SCHEMA) as file:
        for lang, text in texts.items():
            row = to_row(Document(f"a/{lang}", text, lang=lang))
            file.write_table(pa.Table.from_pylist([row], schema=SCHEMA))
    index = {
        lang: {"00000": {"groups": [i], "documents": 1, "characters": len(text), "sha256": ""}}
        for i, (lang, text) in enumerate(texts.items())
    }
    plan = {"sources": [], "scopes": [{"first_part": 0, "num_parts": 1}]}
    files = {INDEX_FILE: json.dumps(index), PLAN_FILE: json.dumps(plan)}
    return Sample("{folder}", (DOCS[0],), files | {f"{PARTS_FOLDER}/00000.parquet": part.getvalue()})


def cc_index() -> Sample:
    """A dump of one part with one row, and the record that it names."""
    packed_record = gzip.compress(RESPONSE, mtime=0)
    row = {
        "content_languages": "swa,eng",
        "warc_filename": "warc/a.warc.gz",
        "warc_record_offset": 3,
        "warc_record_length": len(packed_record),
        "content_digest": "A" * 32,
        "fetch_status": 200,
    }
    part = io.BytesIO()
    pl.DataFrame([row]).write_parquet(part)
    path = f"cc-index/crawl={DUMP}/subset=warc/part-0.parquet"
    files = {
        f"crawl-data/{DUMP}/cc-index-table.paths.gz": path,
        path: part.getvalue(),
        "warc/a.warc.gz": b"..." + packed_record,
    }
    return Sample(DUMP, (PAGE,), files, {"cc": "{folder}"})


def both(before: str, between: str, after: str) -> str:
    """The two pairs with marks around their texts."""
    return "".join(f"{before}{src}{between}{tgt}{after}" for src, tgt, _ in PAIRS)


def sides(ending: str, before: str, after: str, head: str = "", foot: str = "") -> dict[str, str]:
    """Two files, one a language; ``{n}`` is the number of the pair."""
    return {
        f"{lang}.{ending}": head
        + "".join(f"{before.format(n=n)}{row[side]}{after}" for n, row in enumerate(PAIRS))
        + foot
        for side, lang in enumerate(("en", "sw"))
    }


RESPONSE = record_of(
    "response",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    f"<html><body><article><p>{PAGE}</p></article></body></html>".encode(),
)
WET = record_of("warcinfo", b"software: x") + b"".join(record_of("conversion", d.encode()) for d in DOCS)
EPUB = {
    "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b/c.opf"/></rootfiles></container>',
    "b/c.opf": '<package><manifest><item id="a" href="a.xhtml"/></manifest>'
    '<spine><itemref idref="a"/></spine></package>',
    "b/a.xhtml": f"<html><body><p>{PAGE}</p></body></html>",
}
ODT = (
    '<o:document-content xmlns:o="urn:o" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    "<text:h>Habari za leo</text:h><text:p>Mji<text:s/>mkuu</text:p></o:document-content>"
)
WIKI = (
    "<mediawiki><page><title>T</title><ns>0</ns><id>1</id><revision>"
    "<text>Nairobi ni mji mkuu wa [[Kenya]].</text></revision></page></mediawiki>"
)
OF_DOCUMENTS = {
    "cc": Sample(
        DUMP,
        DOCS,
        {f"crawl-data/{DUMP}/wet.paths.gz": gzip.compress(b"wet/a.warc.wet\n"), "wet/a.warc.wet": WET},
        {"cc": "{folder}"},
    ),
    "cc-index": cc_index(),
    "cc100": Sample(
        "", DOCS, {"sw.txt.xz": lzma.compress("\n\n".join(DOCS).encode())}, {"cc100": "{folder}"}
    ),
    "csv": Sample(
        "{folder}/a.csv",
        ("Habari za leo; karibu", "Mji mkuu"),
        {"a.csv": 'id;text\n1;"Habari za leo; karibu"\n2;Mji mkuu\n'},
    ),
    "docx": Sample(
        "{folder}/a.docx",
        DOCS[:1],
        {"a.docx": docx_of("".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in TEXTS))},
    ),
    "eaf": Sample("{folder}/a.eaf", DOCS[:1], {"a.eaf": eaf_of({"sw": TEXTS})}),
    "epub": Sample("{folder}/a.epub", (PAGE,), {"a.epub": packed(EPUB)}),
    "hf": Sample(
        "{folder}", TEXTS, {"train.jsonl": "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)}
    ),
    "html": Sample(
        "{folder}",
        (PAGE,),
        {"a/b.html": f'<meta charset="utf-8"><article><p>{PAGE}</p></article>', "a/b.css": "p {}"},
    ),
    "jsonl": Sample(
        "{folder}/a.jsonl",
        TEXTS,
        {"a.jsonl": '{"text": "Habari za leo"}\n{"content": "Mji mkuu", "url": "http://a.example/"}\n'},
    ),
    "lines": Sample("{folder}/a.txt", TEXTS, {"a.txt": "Habari za leo\n\n Mji mkuu \n"}),
    "odt": Sample("{folder}/a.odt", DOCS[:1], {"a.odt": packed({"content.xml": ODT})}),
    "parquet": Sample("{folder}/a.parquet", TEXTS, {"a.parquet": parquet_of(pa.table({"text": TEXTS}))}),
    "routed": routed(),
    "text": Sample("{folder}/a.txt", DOCS, {"a.txt": "\n\n".join(DOCS)}),
    "toyworld": Sample("2", tuple(map(paragraphs, toyworld.mono("sw", 2, 0)))),
    "tsv": Sample("{folder}/a.tsv", TEXTS, {"a.tsv": "id\ttext\n1\tHabari za leo\n2\tMji mkuu\n"}),
    "warc": Sample("{folder}/a.warc", (PAGE,), {"a.warc": RESPONSE}),
    "wet": Sample("{folder}/a.wet", DOCS, {"a.wet": WET}),
    "wiki": Sample("{folder}/a.xml", ("Nairobi ni mji mkuu wa Kenya.",), {"a.xml": WIKI}),
    "xlsx": Sample(
        "{folder}/a.xlsx",
        ('Habari za "leo"; karibu\nsana', "Mji mkuu"),
        {
            "a.xlsx": xlsx_of(
                [(f"These are notes of the editor, number {n}, which no reader sees.",) for n in range(6)],
                [("id", "text"), ("1", 'Habari za "leo"; karibu\nsana'), ("2", "Mji mkuu")],
            )
        },
    ),
}
"""Scheme of a source of documents -> its sample, in Swahili."""

HEADED = (("en", "sw", ""), *PAIRS)
ROW = "<w:tr>{}{}</w:tr>"
CELL = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
JSON_PAIRS = "".join(json.dumps({"en": src, "sw": tgt}) + "\n" for src, tgt, _ in PAIRS)
PHRASES = "".join(
    '<phrase><words><word><item type="txt" lang="sw">'
    + '</item></word><word><item type="txt" lang="sw">'.join(tgt.split())
    + f'</item></word></words><item type="gls" lang="en">{src}</item></phrase>'
    for src, tgt, _ in PAIRS
)
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="sw"><body>'
    + both("<trans-unit><source>", "</source><target>", "</target></trans-unit>")
    + "</body></file></xliff>"
)
TBX = both(
    '<conceptEntry><langSec xml:lang="en"><termSec><term>',
    '</term></termSec></langSec><langSec xml:lang="sw"><termSec><term>',
    "</term></termSec></langSec></conceptEntry>",
)
TMX = both('<tu><tuv xml:lang="en"><seg>', '</seg></tuv><tuv xml:lang="sw"><seg>', "</seg></tuv></tu>")
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: sw\\n"\n\n'
OF_PAIRS = {
    "android": Sample(
        "{folder}/en.xml+{folder}/sw.xml",
        PAIRS,
        sides("xml", '<string name="s{n}">', "</string>", "<resources>", "</resources>"),
    ),
    "csv": Sample("{folder}/a.csv", PAIRS, {"a.csv": "en,sw\n" + both("", ",", "\n")}),
    "docx": Sample(
        "{folder}/a.docx",
        PAIRS,
        {
            "a.docx": docx_of(
                "<w:tbl>" + "".join(ROW.format(*map(CELL.format, r[:2])) for r in HEADED) + "</w:tbl>"
            )
        },
    ),
    "eaf": Sample(
        "{folder}/a.eaf",
        PAIRS,
        {
            "a.eaf": eaf_of(
                {lang: tuple(row[side] for row in PAIRS) for side, lang in enumerate(("en", "sw"))}
            )
        },
    ),
    "flextext": Sample(
        "{folder}/a.flextext",
        PAIRS,
        {
            "a.flextext": "<document><interlinear-text><paragraphs><paragraph><phrases>"
            f"{PHRASES}</phrases></paragraph></paragraphs></interlinear-text></document>"
        },
    ),
    "hf": Sample("{folder}", PAIRS, {"train.jsonl": JSON_PAIRS}),
    "i18n": Sample(
        "{folder}/en.json+{folder}/sw.json",
        PAIRS,
        {
            f"{lang}.json": json.dumps({"a": {f"{n}": row[side] for n, row in enumerate(PAIRS)}})
            for side, lang in enumerate(("en", "sw"))
        },
    ),
    "jsonl": Sample("{folder}/a.jsonl", PAIRS, {"a.jsonl": JSON_PAIRS}),
    "moses": Sample("{folder}/a", PAIRS, {"a.en": "A house\nTwo dogs\n", "a.sw": "Nyumba\nMbwa wawili\n"}),
    "opus": Sample(
        "A",
        PAIRS,
        {
            "api": '{"corpora": [{"corpus": "A", "version": "v1", "alignment_pairs": 2, '
            '"url": "http://store.example/a.zip"}]}',
            "a.zip": packed({"A.en-sw.en": "A house\nTwo dogs\n", "A.en-sw.sw": "Nyumba\nMbwa wawili\n"}),
        },
        {"opus": "{server}/api", "opus_store": "{server}"},
    ),
    "parquet": Sample(
        "{folder}/a.parquet",
        PAIRS,
        {"a.parquet": parquet_of(pa.table({"en": [p[0] for p in PAIRS], "sw": [p[1] for p in PAIRS]}))},
    ),
    "po": Sample("{folder}/a.po", PAIRS, {"a.po": PO + both('msgid "', '"\nmsgstr "', '"\n\n')}),
    "tbx": Sample("{folder}/a.tbx", PAIRS, {"a.tbx": f"<tbx><text><body>{TBX}</body></text></tbx>"}),
    "tmx": Sample("{folder}/a.tmx", PAIRS, {"a.tmx": f"<tmx><body>{TMX}</body></tmx>"}),
    "toyworld": Sample("2", tuple((src, tgt, "") for src, tgt in toyworld.para("en", "sw", 2, seed=1))),
    "tsv": Sample("{folder}/a.tsv", PAIRS, {"a.tsv": "en\tsw\n" + both("", "\t", "\n")}),
    "verses": Sample(
        "{folder}/en.tsv+{folder}/sw.tsv",
        tuple((src, tgt, "GEN") for src, tgt, _ in PAIRS),
        sides("tsv", "GEN.1.{n}\t", "\n"),
    ),
    "xliff": Sample("{folder}/a.xlf", PAIRS, {"a.xlf": XLIFF}),
    "xlsx": Sample(
        "{folder}/a.xlsx",
        PAIRS,
        {"a.xlsx": xlsx_of([row[:2] for row in HEADED])},
    ),
}
"""Scheme of a source of pairs -> its sample, in English and Swahili."""
