"""Reads damaged copies of small files in every format: no traceback, and counts that add up.

Run:  python -m benchmarks.readers [COPIES]

It makes a file of each format, damages a copy (cut, bit flips, another encoding, mixed line ends, stray quotes), and
reads it: COPIES times, by default 500. A reader may refuse a copy with a `UserError`. Otherwise what it read and what
it dropped has to be all that it saw, and all bytes have to be accounted for. Of a table, at least the rows before the
damage have to be read or counted. It prints a line a format: copies that were read, copies that were refused, and rows
that were dropped.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.eval.rows import readers
from xling.text.document import Ledger
from xling.text.files.dictionary import read_dictionary

COPIES = 500
NUM_ROWS = 30
_ENCODINGS = ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "gbk", "utf-8-sig", "shift_jis", "koi8-r")
PAIRS = [
    (
        f'The house {i}, it is "old"; we said: häuser & trees.',
        f"Nyumba {i} ni ya zamani; tulisema, karibu sana. Дом 家 {i}",
    )
    for i in range(NUM_ROWS)
]


SRC, TGT = ([pair[side] for pair in PAIRS] for side in (0, 1))
XML = [text.replace("&", "&amp;") for text in SRC]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        files: name -> content.
        uri: of a source; ``{}`` is the folder.
        holds: documents or pairs.
        is_table: whether a row is a line, which damage after it does not touch.
        read: for a format without a source class; it takes the path of the file.
    """

    files: dict[str, bytes]
    uri: str = ""
    holds: str = "documents"
    is_table: bool = False
    read: Callable[[Path], object] | None = None


def _csv(delimiter: str, rows: list[tuple[str, ...]], header: tuple[str, ...]) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return file.getvalue().encode()


def _parquet(**columns: list[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=7, compression="zstd")
    return file.getvalue()


def _lines(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _json(rows: list[dict[str, str]]) -> bytes:
    return _lines([json.dumps(row, ensure_ascii=False) for row in rows])


def _workbook(rows: list[tuple[str, str]]) -> bytes:
    """A spreadsheet (.xlsx) of one sheet, its cells as XML."""
    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    cells = "".join(f"<row>{''.join(map(cell.format, row))}</row>\n" for row in rows)
    main = "http://schemas.openxmlformats.org/"
    office, sheets = f"{main}officeDocument/2006/relationships", f'xmlns="{main}spreadsheetml/2006/main"'
    relation = (
        f'<Relationships xmlns="{main}package/2006/relationships">'
        f'<Relationship Id="r1" Type="{office}/{{}}" Target="{{}}"/></Relationships>'
    )
    members = {
        "_rels/.rels": relation.format("officeDocument", "xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": relation.format("worksheet", "worksheets/sheet1.xml"),
        "xl/workbook.xml": f'<workbook {sheets} xmlns:r="{office}"><sheets>'
        '<sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f"<worksheet {sheets}><sheetData>{cells}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file.getvalue()


TABS = _lines([f"{src}\t{tgt}".replace('"', "") for src, tgt in PAIRS])


def formats() -> dict[str, Format]:
    """Return every format by name, with a whole file of it."""
    return _formats_of_documents() | _formats_of_pairs() | _formats_of_programs() | _formats_of_labels()


def _formats_of_documents() -> dict[str, Format]:
    pages = [
        f"<page><title>T{i}</title><ns>0</ns><id>{i}</id><revision><text>{text}</text></revision></page>\n"
        for i, text in enumerate(XML)
    ]
    records = b"".join(
        f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(text.encode())}\r\n\r\n{text}\r\n\r\n".encode()
        for text in TGT
    )
    documents = _json([{"text": text, "url": "http://a", "date": "2024-05-01"} for text in TGT])
    blocks = "\n\n".join(TGT).encode()
    table = _csv(";", [(str(i), text) for i, text in enumerate(TGT)], ("id", "text"))
    return {
        "text": Format({"a": blocks}, "text:{}/a"),
        "text.bz2": Format({"a": bz2.compress(blocks)}, "text:{}/a"),
        "lines": Format({"a": _lines(TGT)}, "lines:{}/a"),
        "jsonl": Format({"a": documents}, "jsonl:{}/a"),
        "jsonl.zst": Format({"a": zstandard.compress(documents)}, "jsonl:{}/a"),
        "csv of documents": Format({"a": table}, "csv:{}/a"),
        "parquet of documents": Format({"a": _parquet(text=TGT, date=SRC)}, "parquet:{}/a"),
        "wet.gz": Format({"a": gzip.compress(records)}, "wet:{}/a"),
        "wiki": Format({"a": f"<mediawiki>\n{''.join(pages)}</mediawiki>\n".encode()}, "wiki:{}/a"),
    }


def _formats_of_pairs() -> dict[str, Format]:
    units = [
        f'<tu><tuv xml:lang="en"><seg>{a}</seg></tuv><tuv xml:lang="sw"><seg>{b}</seg></tuv></tu>\n'
        for a, b in zip(XML, TGT, strict=True)
    ]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("a.en", _lines(SRC))
        members.writestr("a.sw", _lines(TGT))
    tables = {
        "csv": ("csv:{}/a", _csv(",", PAIRS, ("en", "sw"))),
        "csv, semicolons": ("csv:{}/a", _csv(";", PAIRS, ("English", "Kiswahili"))),
        "tsv": ("tsv:{}/a", TABS),
        "jsonl of pairs": ("jsonl:{}/a", _json([{"en": a, "sw": b} for a, b in PAIRS])),
        "tmx": ("tmx:{}/a", f"<tmx><body>\n{''.join(units)}</body></tmx>\n".encode()),
    }
    verses = {
        name: _lines([f"GEN.1.{i}\t{text}" for i, text in enumerate(texts)])
        for name, texts in (("a", SRC), ("b", TGT))
    }
    return {
        **{name: Format({"a": content}, uri, "pairs", True) for name, (uri, content) in tables.items()},
        "parquet": Format({"a": _parquet(en=SRC, sw=TGT)}, "parquet:{}/a", "pairs"),
        "moses": Format({"a.en": _lines(SRC), "a.sw": _lines(TGT)}, "moses:{}/a", "pairs"),
        "zip": Format({"a.zip": archive.getvalue()}, "moses:{}/a.zip", "pairs"),
        "tmx.gz": Format({"a": gzip.compress("".join(units).encode())}, "tmx:{}/a", "pairs"),
        "verses": Format(verses, "verses:{}/a+{}/b", "pairs"),
    }


def _formats_of_programs() -> dict[str, Format]:
    messages = "".join(
        f"msgid {json.dumps(a)}\nmsgstr {json.dumps(b, ensure_ascii=False)}\n\n" for a, b in PAIRS
    )
    xml = list(zip(XML, TGT, strict=True))
    xliff = "".join(
        f'<trans-unit id="{i}"><source>{a}</source><target>{b}</target></trans-unit>\n'
        for i, (a, b) in enumerate(xml)
    )
    term = '<langSet xml:lang="{}"><tig><term>{}</term></tig></langSet>'
    terms = "".join(f"<termEntry>{term.format('en', a)}{term.format('sw', b)}</termEntry>\n" for a, b in xml)
    item = '<item type="{}" lang="{}">{}</item>'
    phrases = "".join(
        f"<phrase>{item.format('txt', 'sw', b)}{item.format('gls', 'en', a)}</phrase>\n" for a, b in xml
    )
    strings = [
        _lines(["<resources>", *(f'<string name="s{i}">{json.dumps(t)[1:-1]}</string>' for i, t in enumerate(texts)),
                "</resources>"])
        for texts in (XML, [text.replace("&", "&amp;") for text in TGT])
    ]  # fmt: skip
    keys = [json.dumps({f"k{i}": text for i, text in enumerate(texts)}).encode() for texts in (SRC, TGT)]
    units_of_programs = {
        "po": f'msgid ""\nmsgstr "Language: sw\\nContent-Type: text/plain; charset=UTF-8\\n"\n\n{messages}',
        "xliff": '<xliff version="1.2"><file source-language="en" target-language="sw"><body>\n'
        f"{xliff}</body></file></xliff>\n",
        "tbx": f"<martif><text><body>\n{terms}</body></text></martif>\n",
        "flextext": "<document><interlinear-text><paragraphs><paragraph><phrases>\n"
        f"{phrases}</phrases></paragraph></paragraphs></interlinear-text></document>\n",
    }
    return {
        **{
            name: Format({f"a.{name}": text.encode()}, f"{name}:{{}}/a.{name}", "pairs")
            for name, text in units_of_programs.items()
        },
        "android": Format(dict(zip("ab", strings, strict=True)), "android:{}/a+{}/b", "pairs"),
        "i18n": Format(dict(zip("ab", keys, strict=True)), "i18n:{}/a+{}/b", "pairs"),
        "xlsx": Format(
            {"a.xlsx": _workbook([("en", "sw"), *zip(XML, TGT, strict=True)])}, "xlsx:{}/a.xlsx", "pairs"
        ),
    }


def _formats_of_labels() -> dict[str, Format]:
    tags = _lines([f"{word}\tO" if word else "" for text in TGT for word in [*text.split(), ""]])
    table = _csv("\t", PAIRS, ("en", "sw"))
    words = _lines([f"word{i} neno{i}" for i in range(NUM_ROWS)])
    read_table = readers.table({"text_a": "en"}, "sw", quoted=True)
    return {
        "CoNLL": Format({"a": tags}, read=lambda path: list(readers.columns()((path,)))),
        "labelled TSV": Format({"a": TABS}, read=lambda path: list(readers.labelled_lines((path,)))),
        "labelled table": Format({"a": table}, read=lambda path: list(read_table((path,)))),
        "dictionary": Format({"a": words}, read=read_dictionary),
    }


def damaged(data: bytes, rng: random.Random) -> tuple[bytes, int]:
    """Return a damaged copy, and where the damage begins."""
    how = rng.choice(("cut", "flip", "encoding", "ends", "quotes", "noise", "delete", "zero"))
    place = rng.randrange(len(data))
    if how == "cut":
        return data[:place], place
    if how == "flip":
        places = [place, *(rng.randrange(place, len(data)) for _ in range(rng.randrange(20)))]
        copy = bytearray(data)
        for each in places:
            copy[each] ^= 1 << rng.randrange(8)
        return bytes(copy), place
    if how in ("encoding", "ends", "quotes"):
        try:
            text = data.decode()
        except UnicodeDecodeError:  # a packed file
            return data[:place] + rng.randbytes(9) + data[place:], place
        if how == "encoding":
            return text.encode(rng.choice(_ENCODINGS), "replace"), 0
        if how == "ends":
            return "".join(rng.choice(("\n", "\r\n", "\r")) if c == "\n" else c for c in text).encode(), 0
        places = sorted(rng.randrange(place, len(data)) for _ in range(rng.randint(1, 6)))
        for each in reversed(places):
            data = data[:each] + b'"' + data[each:]
        return data, places[0]
    end = min(len(data), place + rng.choice((1, 3, 30, 300)))
    new = {"noise": rng.randbytes(end - place), "delete": b"", "zero": bytes(end - place)}[how]
    return data[:place] + new + data[end:], place


def read_copy(file_format: Format, seed: int, folder: Path) -> tuple[int, int] | None:
    """Read a damaged copy; return rows read and rows dropped, or None if it was refused.

    Raises:
        AssertionError: the counts do not add up.
    """
    rng = random.Random(seed)
    broken = rng.choice(sorted(file_format.files))
    place = 0
    for name, content in file_format.files.items():
        new, place = damaged(content, rng) if name == broken else (content, place)
        (folder / name).write_bytes(new)
    ledger = Ledger()
    try:
        num_read = sum(1 for _ in _rows(file_format, folder, ledger))
    except UserError:
        return None
    num_dropped = sum(n for (_, reason), n in ledger.dropped.items() if reason != "unpaired_member")
    assert not ledger.unaccounted_bytes(), ledger.num_bytes
    # Pairs that are kept are counted later, when filters see them.
    num_seen = ledger.seen["read"] + (num_read if file_format.holds == "pairs" else 0)
    if file_format.uri:
        assert num_seen == num_read + num_dropped, (num_seen, num_read, ledger.dropped)
    if file_format.is_table:
        num_before = file_format.files[broken].count(b"\n", 0, place) - 2
        assert num_read + num_dropped >= num_before, (num_read, num_dropped, num_before)
    return num_read, num_dropped


def _rows(file_format: Format, folder: Path, ledger: Ledger) -> Iterator[object]:
    uri = file_format.uri.replace("{}", str(folder))
    if file_format.read is not None:
        yield file_format.read(folder / "a")
    elif file_format.holds == "pairs":
        context = SourceContext(languages.get("en"), languages.get("sw"))
        for pairs in open_sources([uri], context):
            yield from pairs.rows(ledger)
    else:
        source = open_source(uri, Context(lang="sw"))
        for shard in source.shards():
            yield from source.read(shard, ledger)


def main(num_copies: int) -> None:
    """Read all formats and print the table."""
    print(f"{'format':<22} {'copies':>7} {'read':>6} {'refused':>8} {'rows dropped':>13}")
    for name, file_format in formats().items():
        counts: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(num_copies):
                outcome = read_copy(file_format, seed, Path(folder))
                counts["refused" if outcome is None else "read"] += 1
                counts["dropped"] += outcome[1] if outcome else 0
        print(
            f"{name:<22} {num_copies:>7} {counts['read']:>6} {counts['refused']:>8} {counts['dropped']:>13}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COPIES)
