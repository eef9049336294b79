"""Every number that SECURITY.md states is the limit in the code, and the reader holds it."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zstandard

from tests.conftest import ROOT
from tests.corpora.examples import EPUB, OF_PAIRS, PAGE, cc_index, packed
from tests.corpora.reading import TEXTS, read
from tests.corpora.test_sources import page, record, wet
from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import digests
from xling.core.settings import config
from xling.corpora.bitext import documents
from xling.corpora.common import archive, download, packed_xml, ranges, spreadsheets
from xling.corpora.crawl_index import part
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext, i18n, po
from xling.corpora.sources import cc, records, text, warc, webpage, wiki
from xling.corpora.sources.source import Context
from xling.corpora.stages import contamination
from xling.hub import source
from xling.models.files import model_folder
from xling.text.document import Ledger
from xling.text.files import compressed, corpus_reader, delimited, dictionary, parquet_pages, thrift

GIVEN_UP = "tests/corpora/test_sources.py::test_a_page_that_hides_its_depth_is_given_up"
UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "s": 1,
    "times": 1,
    "levels": 1,
    "lines": 1,
    "characters": 1,
    "messages": 1,
    "values": 1,
    "members": 1,
}
_ROW = re.compile(r"^\| [^|]+ \| ([\d,.]+) (\w+)[^|]* \| `(xling[\w.]+)` \|", re.MULTILINE)


def stated() -> dict[str, float]:
    """Constant -> the number of its row."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    return {name: float(number.replace(",", "")) * UNITS[unit] for number, unit, name in _ROW.findall(table)}


def one_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    reader = ranges.RangeReader(ranges.Limits(tmp_path / "spent.json"))
    assert reader.read(str(tmp_path / "a"), 0, 50)[0] == b"x" * 50
    monkeypatch.setattr(ranges, "MAX_RANGE_BYTES", 49)
    with pytest.raises(ranges.MissingError, match="50 bytes are no range"):
        reader.read(str(tmp_path / "a"), 0, 50)


def parquet_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, content = next(item for item in cc_index().contents().items() if item[0].endswith(".parquet"))
    (tmp_path / "a").write_bytes(content)
    reader = ranges.RangeReader(ranges.Limits(tmp_path / "spent.json"))
    parts = [part.PartReader(reader, tmp_path / folder, part.Wanted(("swa",))) for folder in "bc"]
    assert len(parts[0].find("p", str(tmp_path / "a")).rows) == 1
    monkeypatch.setattr(part, "MAX_FOOTER_BYTES", 10)
    assert not parts[1].find("p", str(tmp_path / "a")).footer_bytes, name


def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = wet(*TEXTS)
    parts[2] = record(TEXTS[1].encode(), More="x" * 5000)
    (tmp_path / "a.wet").write_bytes(b"".join(parts))
    assert len(read(f"wet:{tmp_path}/*")[0]) == 4
    monkeypatch.setattr(records, "_MAX_HEADER_BYTES", 1000)
    assert [doc.text for doc in read(f"wet:{tmp_path}/*")[0]] == [TEXTS[0], *TEXTS[2:]]


def body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.wet").write_bytes(b"".join(wet("a" * 900, *TEXTS)))
    monkeypatch.setattr(records, "_MAX_BODY_BYTES", 500)
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert any("record over 64 MiB" in str(key) for key in ledger.num_bytes)


def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive_of_a:
        archive_of_a.writestr("word/document.xml", f"<p><t>{TEXTS[0]}</t></p>")
    assert len(read(f"docx:{tmp_path}/*")[0]) == 1
    monkeypatch.setattr(packed_xml, "MAX_TOTAL_BYTES", 20)
    assert read(f"docx:{tmp_path}/*")[1].dropped == {("read", "damaged file"): 1}


def refused(uri: str, message: str, tmp_path: Path) -> None:
    scheme, _, names = uri.partition(":")
    rest = "+".join(f"{tmp_path}/{name}" for name in names.split("+"))
    context = SourceContext(languages.get("en"), languages.get("sw"), tmp_path, {})
    (source,) = PAIR_SOURCES[scheme].open(rest, context)
    with pytest.raises(UserError, match=message):
        list(source.batches(Ledger(), number=0))


def pairs_of(name: str, tmp_path: Path) -> str:
    """Write the example of a source of pairs, and return its URI without the folder."""
    example = OF_PAIRS[name]
    for path, content in example.contents().items():
        (tmp_path / path).write_bytes(content)
    return f"{name}:{example.rest.replace('{folder}/', '')}"


def test_a_page_of_a_book_is_read_once_under_however_many_names(tmp_path: Path) -> None:
    forms = ("a.xhtml", "./a.xhtml#1", "../b/a.xhtml", "%61.xhtml")
    items = "".join(f'<item id="{n}" href="{forms[n % 4]}"/>' for n in range(999))
    spine = "".join(f'<itemref idref="{n}"/>' for n in range(999))
    example = {**EPUB, "b/c.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"}
    (tmp_path / "a.epub").write_bytes(packed(example))
    docs, _ = read(f"epub:{tmp_path}/*")
    assert len(docs) == 1 and docs[0].text.count(PAGE[:30]) == 1


def office_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = pairs_of("docx", tmp_path)
    monkeypatch.setattr(packed_xml, "MAX_MEMBER_BYTES", 50)
    refused(uri, "document.xml has over 50 bytes", tmp_path)


def sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = pairs_of("xlsx", tmp_path)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/media/empty", b" " * 100_000)
    num_bytes = (tmp_path / "a.xlsx").stat().st_size
    for limit, said in ((num_bytes, "unpacks to"), (num_bytes - 1, "has over")):
        monkeypatch.setattr(spreadsheets, "MAX_BYTES", limit)
        refused(uri, said, tmp_path)


def far_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = pairs_of("xlsx", tmp_path)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as book:
        members = {name: book.read(name).decode() for name in book.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>x</t></is></c></row></sheetData>'
    members[sheet] = members[sheet].replace("</sheetData>", far)
    (tmp_path / "a.xlsx").write_bytes(packed(members))
    refused(uri, "its cells need more than 2,048 MiB", tmp_path)


def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = pairs_of("po", tmp_path)
    monkeypatch.setattr(po, "MAX_MESSAGES", 2)
    refused(uri, "holds 3 messages", tmp_path)


def texts_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = pairs_of("i18n", tmp_path)
    monkeypatch.setattr(i18n, "MAX_BYTES", 9)
    refused(uri, "has over 9 bytes", tmp_path)


def nested_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"k" * 4_000_000: {str(i): "x" for i in range(100)}}))
    refused("i18n:a.json+a.json", "nested keys of more than 268,435,456 characters", tmp_path)


def small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a.po").open("wb") as file:
        file.truncate((256 << 20) + 1)
    refused("po:a.po", "has over 268,435,456 bytes", tmp_path)


def transcription(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a.eaf").open("wb") as file:
        file.truncate((256 << 20) + 1)
    refused("eaf:a.eaf", "has over 268,435,456 bytes", tmp_path)


def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = thrift.written({1: (thrift.LIST, (thrift.STRUCT, [{}] * 100))})
    assert len(thrift.get(thrift.read_struct(data)[0], 1)) == 100
    monkeypatch.setattr(thrift, "MAX_VALUES", 99)
    with pytest.raises(ValueError, match="more than 99 values"):
        thrift.read_struct(data)[0]


def html_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.warc").write_bytes(
        page("<p>Habari za leo, dunia nzima.</p>" * 99) + page("<p>Habari.</p>")
    )
    monkeypatch.setattr(warc, "MAX_PAGE_BYTES", 500)
    docs, ledger = read(f"warc:{tmp_path}/*")
    assert len(docs) == 1 and ledger.dropped == {("read", "page over 16 MiB"): 1}


def depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for levels, reason in ((900, ""), (1100, webpage.TOO_DEEP)):
        html = "<body>" + "<div>" * levels + "text" + "</div>" * levels
        assert webpage.text_of(html, main=False)[1] == reason


def article(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        f"<page><title>T{i}</title><ns>0</ns><id>{i}</id><revision><text>{words}</text></revision></page>"
        for i, words in enumerate(("neno " * 900_000, "neno moja tu"))
    ]
    (tmp_path / "a.xml").write_text("<mediawiki>" + "\n".join(pages) + "</mediawiki>")
    assert len(read(f"wiki:{tmp_path}/a.xml")[0]) == 2
    monkeypatch.setattr(wiki, "_MAX_PAGE_BYTES", 1000)
    assert [doc.text.strip() for doc in read(f"wiki:{tmp_path}/a.xml")[0]] == ["neno moja tu"]


def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("neno moja tu\n" * 100)
    monkeypatch.setattr(text, "MAX_DOC_CHARS", 130)
    docs, _ = read(f"text:{tmp_path}/a.txt")
    assert len(docs) > 1 and max(len(doc.text) for doc in docs) <= 130


def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("a", b"x" * 2000)
    with archive.open_zip(tmp_path / "a.zip"):
        pass
    monkeypatch.setattr(archive, "MAX_BYTES", 1999)
    with pytest.raises(UserError, match="expands from"), archive.open_zip(tmp_path / "a.zip"):
        pass


def ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a", b"x" * (17 << 20))
    with pytest.raises(UserError, match="at most 300 times"), archive.open_zip(tmp_path / "a.zip"):
        pass


def hub_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"a": "x" * 99}))
    assert source.read_json(tmp_path / "config.json")
    monkeypatch.setattr(source, "MAX_JSON_BYTES", 50)
    with pytest.raises(UserError, match="at most 50"):
        source.read_json(tmp_path / "config.json")


def model_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"format": "x", "more": ["text"] * 99}, tmp_path / "model.pt")
    assert model_folder.facts(tmp_path / "model.pt")
    monkeypatch.setattr(model_folder, "LARGEST", 50)
    assert model_folder.facts(tmp_path / "model.pt") == {}


def decompressor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * (64 << 20)))  # a bomb of 64 kB
    sizes = [len(chunk) for chunk in compressed.read_chunks(tmp_path / "a.gz", Ledger())]
    assert sum(sizes) == 64 << 20 and max(sizes) <= 1 << 21
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"text" * 9, preset=6))  # it asks for 9 MB
    assert b"".join(compressed.read_chunks(tmp_path / "a.xz", Ledger())) == b"text" * 9
    monkeypatch.setattr(compressed, "_MEMORY_BYTES", 1 << 20)
    assert b"".join(compressed.read_chunks(tmp_path / "a.xz", Ledger())) == b""


def memory_of_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "MAX_LINES", 4)
    place = tmp_path / "digests" / "00"
    monkeypatch.setattr(digests, "_buckets", {})
    for number in range(99):
        digests._remember(place, str(number).encode(), "0" * 64)
        assert len(place.read_bytes().splitlines()) <= 4


def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("neno moja tu\n" + "x" * (64 << 20) + "x\nneno mbili\n")
    lines = list(
        compressed.split_lines(compressed.read_whole_chunks(tmp_path / "a.txt"), compressed.MAX_LINE_BYTES)
    )
    assert [bytes(each) for each in lines[::2]] == [b"neno moja tu", b"neno mbili"]
    assert isinstance(lines[1], compressed.CutLine) and len(lines[1]) < 1000


def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (4 << 20, (4 << 20) + 1):
        (tmp_path / "a.tsv").write_text("habari\thello\n" + "x" * (size - 6) + "\thello\n")
        if size == 4 << 20:
            assert len(dictionary.read_dictionary(tmp_path / "a.tsv")) == 2
        else:
            with pytest.raises(UserError, match="line 2 has more than 4,194,304 bytes"):
                dictionary.read_dictionary(tmp_path / "a.tsv")


def columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["text\tb", "habari\tx", "habari" + "\t" * ((1 << 20) - 1), "habari" + "\t" * (1 << 20)]
    sizes = [len(row.cells or ()) for row in delimited.Rows(iter(lines), "\t")]
    assert sizes == [2, 2, 1 << 20, 0]


def window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(1, window_log=20, enable_ldm=True)
    ).compressobj()
    (tmp_path / "a.zst").write_bytes(packer.compress(bytes(range(256)) * 999) + packer.flush())
    assert b"".join(compressed.read_chunks(tmp_path / "a.zst", Ledger())) == bytes(range(256)) * 999
    monkeypatch.setattr(compressed, "_MAX_WINDOW_BYTES", 1 << 19)
    assert b"".join(compressed.read_chunks(tmp_path / "a.zst", Ledger())) == b""


def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Endless(io.BytesIO):
        status, headers = 200, dict[str, str]()

        def read1(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return b"x" * (size or 0)

    monkeypatch.setattr(download, "open_url", lambda url, timeout_s: Endless())
    with pytest.raises(UserError, match="at most 67,108,864 bytes"):
        download.read_answer("http://localhost/list")
    assert sum(asked) <= (64 << 20) + (2 << 20)


def endless_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unannounced = download._Announced(download.Download("http://localhost/a", tmp_path / "a"), None)
    assert unannounced.limit(None) == 256 << 30
    with pytest.raises(UserError, match="at most 274,877,906,944 bytes"):
        unannounced.limit((256 << 30) + 1)


def page_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of another row group is read."""
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 500_000)
    schema = pa.schema([("text", pa.large_string())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, use_dictionary=False, compression="zstd") as file:
        for row in ("habari ya leo", "x" * 600_000):
            file.write_table(pa.table({"text": [row]}, schema))
    docs, ledger = read(f"parquet:{tmp_path}/*")
    assert [doc.text for doc in docs] == ["habari ya leo"]
    assert ledger.dropped == {("read", "damaged row group"): 1}
    with pytest.raises(UserError, match="row 1 is damaged, no text, or has more than 67,108,864 bytes"):
        list(corpus_reader.read_documents([str(tmp_path / "a.parquet")]))
    with pytest.raises(UserError, match="row 1 is damaged, no text, or has more than 67,108,864 bytes"):
        documents.read([str(tmp_path / "a.parquet")], split=False)


def lists_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"text": [["habari"] * 50, ["leo"]]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    assert len(read(f"parquet:{tmp_path}/*")[0]) == 2
    monkeypatch.setattr(parquet_pages, "MAX_LISTS_BYTES", 400)
    assert read(f"parquet:{tmp_path}/*")[1].dropped == {("read", "damaged row group"): 2}


def evaluation_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a value count together."""
    (tmp_path / "a.json").write_text('{\n"a": "xxxx",\n"b": "yyyy"\n}\n')
    assert list(contamination.texts_of(tmp_path / "a.json")) == ["xxxx", "yyyy"]
    monkeypatch.setattr(corpus_reader, "MAX_JSON_CHARS", 25)
    for read_it in (corpus_reader.json_text, lambda path: list(contamination.texts_of(path))):
        with pytest.raises(UserError, match="has over 25 characters"):
            read_it(tmp_path / "a.json")


def values_of_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (99_997, 99_999):
        (tmp_path / "a.yaml").write_text(f"a: [{'x,' * number}]\n")
        if number < 99_998:
            assert len(config.read_yaml(tmp_path / "a.yaml")["a"]) == number
        else:
            with pytest.raises(UserError, match="more than 100,000 values"):
                config.read_yaml(tmp_path / "a.yaml")


def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.epub").write_bytes(packed(EPUB))
    assert len(read(f"epub:{tmp_path}/*")[0]) == 1
    monkeypatch.setattr(packed_xml, "MAX_MEMBERS", 2)
    assert read(f"epub:{tmp_path}/*")[1].dropped == {("read", "damaged file"): 1}


def listed_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(lang="sw", base_urls={"cc": str(tmp_path)}, cache=tmp_path / "cache")
    folder = tmp_path / "crawl-data" / "CC-MAIN-2024-22"
    folder.mkdir(parents=True)
    (folder / "wet.paths.gz").write_bytes(gzip.compress(b"crawl-data/a.gz\n" * 5))
    assert len(cc.listed_paths(context, "CC-MAIN-2024-22", "wet.paths.gz")) == 5
    monkeypatch.setattr(cc, "_MAX_PATHS", 4)
    with pytest.raises(UserError, match="lists more than 4 files"):
        cc.listed_paths(context, "CC-MAIN-2024-22", "wet.paths.gz")


def lines_of_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, is_whole in ((9_999, True), (10_001, False)):
        lines = ["text,b", "habari,x", '"leo', *["neno"] * number, 'kesho",y']
        texts = [row.cells[0] for row in delimited.Rows(iter(lines), ",") if row.cells]
        assert (max(map(len, texts)) > 9_999) == is_whole


HELD: dict[str, Callable[[Path, pytest.MonkeyPatch], None] | str] = {
    "xling.corpora.sources.records._MAX_HEADER_BYTES": header,
    "xling.corpora.sources.records._MAX_BODY_BYTES": body,
    "xling.corpora.sources.warc.MAX_PAGE_BYTES": html_page,
    "xling.corpora.sources.webpage._MAX_DEPTH": depth,
    "xling.corpora.sources.webpage.MAX_SECONDS": GIVEN_UP,
    "xling.corpora.sources.webpage._MAX_MEMORY": GIVEN_UP,
    "xling.corpora.sources.wiki._MAX_PAGE_BYTES": article,
    "xling.corpora.sources.text.MAX_DOC_CHARS": block,
    "xling.corpora.common.archive.MAX_BYTES": member,
    "xling.corpora.common.archive.MAX_RATIO": ratio,
    "xling.corpora.common.packed_xml.MAX_TOTAL_BYTES": office,
    "xling.corpora.common.packed_xml.MAX_MEMBER_BYTES": office_text,
    "xling.corpora.common.spreadsheets.MAX_BYTES": sheets,
    "xling.corpora.common.spreadsheets.MAX_MEMORY": far_cells,
    "xling.corpora.parallel.sources.po.MAX_MESSAGES": messages,
    "xling.corpora.parallel.sources.i18n.MAX_BYTES": texts_of_programs,
    "xling.corpora.parallel.sources.i18n.MAX_KEY_CHARS": nested_keys,
    "xling.corpora.parallel.sources.units.MAX_BYTES": small_files,
    "xling.corpora.common.eaf.MAX_BYTES": transcription,
    "xling.text.files.thrift.MAX_VALUES": metadata,
    "xling.text.files.compressed.MAX_LINE_BYTES": line,
    "xling.text.files.compressed.MAX_CELL_BYTES": cell,
    "xling.text.files.corpus_reader.MAX_JSON_CHARS": evaluation_json,
    "xling.core.settings.config._MAX_VALUES": values_of_recipe,
    "xling.corpora.common.packed_xml.MAX_MEMBERS": members,
    "xling.corpora.sources.cc._MAX_PATHS": listed_paths,
    "xling.text.files.delimited._MAX_LINES": lines_of_row,
    "xling.text.files.delimited.MAX_COLUMNS": columns,
    "xling.text.files.parquet_pages.MAX_PAGE_BYTES": page_of_parquet,
    "xling.text.files.parquet_pages.MAX_LISTS_BYTES": lists_of_parquet,
    "xling.text.files.compressed._MEMORY_BYTES": decompressor,
    "xling.text.files.compressed._MAX_WINDOW_BYTES": window,
    "xling.corpora.common.download.MAX_LIST_BYTES": answer,
    "xling.corpora.common.ranges.MAX_RANGE_BYTES": one_range,
    "xling.corpora.crawl_index.parquet_pages.MAX_FOOTER_BYTES": parquet_footer,
    "xling.corpora.common.download._MAX_FILE_BYTES": endless_file,
    "xling.hub.source.MAX_JSON_BYTES": hub_json,
    "xling.models.files.model_folder.LARGEST": model_contents,
    "xling.core.output.digests.MAX_LINES": memory_of_digests,
}


def test_every_stated_number_is_that_of_the_code_and_has_a_test() -> None:
    numbers = stated()
    assert numbers.keys() == HELD.keys()
    for name, number in numbers.items():
        module, _, constant = name.rpartition(".")
        assert getattr(importlib.import_module(module), constant) == number, name
    for path, _, function in [test.partition("::") for test in HELD.values() if isinstance(test, str)]:
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name, held in HELD.items() if callable(held)])
def test_the_reader_holds_the_limit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HELD[name]
    assert callable(held)
    held(tmp_path, monkeypatch)


_FILE = '<file source-language="en" target-language="sw">'
_ITEM = '<item type="txt" lang="sw">'


@pytest.mark.parametrize(
    ("uri", "before", "after"),
    [
        ("xliff:a.xlf", f"{_FILE}<trans-unit><source>", "</source></trans-unit></file>"),
        ("tbx:a.tbx", '<m><termEntry><langSet lang="en"><term>', "</term></langSet></termEntry></m>"),
        ("flextext:a.flextext", f"<document><phrase>{_ITEM}", "</item></phrase></document>"),
        ("flextext:a.flextext", "<document><phrase><words>", "</words></phrase></document>"),
    ],
)
def test_a_text_of_xml_that_is_too_long_costs_its_unit(
    uri: str, before: str, after: str, tmp_path: Path
) -> None:
    """Its end is not kept, and it never passes for a shorter text."""
    piece = "x" * 99_998 + " "
    if "words" in before:
        piece = f"{_ITEM}{piece}</item>"
    scheme, _, name = uri.partition(":")
    (tmp_path / name).write_text(before + piece * 60 + after)
    ledger = Ledger()
    context = SourceContext(languages.get("en"), languages.get("sw"), tmp_path, {})
    (source,) = PAIR_SOURCES[scheme].open(f"{tmp_path}/{name}", context)
    assert not sum(batch.height for batch in source.batches(ledger, number=0))
    assert ledger.dropped == {("read", "malformed"): 1}
