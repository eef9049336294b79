"""Sources: whatever state a file is in, what can be read is read and the rest is counted."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.crawl import SilentHandler
from tests.corpora.reading import TEXTS, read
from xling.core.errors import UserError
from xling.corpora.sources import webpage
from xling.corpora.sources.records import records
from xling.corpora.sources.source import (
    CUT_NOTE,
    LOST_CHARS_NOTE,
    MAX_DOC_CHARS,
    Context,
    Shard,
    open_source,
    unique_names,
)
from xling.text.document import Ledger

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": partial(gzip.compress, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def record(body: bytes, kind: str = "conversion", url: str = "http://a.example/", **changes: str) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-05-18T01:58:10Z",
        "Content-Length": str(len(body)),
    } | changes
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + body + b"\r\n\r\n"


def wet(*bodies: str) -> list[bytes]:
    return [record(b"software: x", "warcinfo"), *(record(body.encode()) for body in bodies)]


@pytest.mark.parametrize("ending", PACK)
def test_wet_in_every_compression(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"a.warc.wet{ending}").write_bytes(PACK[ending](b"".join(wet(*TEXTS))))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert [doc.id for doc in docs] == ["a/1", "a/2", "a/3", "a/4"]
    assert docs[0].url == "http://a.example/"
    assert docs[0].date == "2024-05-18T01:58:10Z"
    assert ledger.notes == {"WARC record of type warcinfo, no text": 1}


def test_wet_with_a_gzip_member_per_record(tmp_path: Path) -> None:
    (tmp_path / "a.warc.wet.gz").write_bytes(b"".join(map(gzip.compress, wet(*TEXTS))))
    assert [doc.text for doc in read(f"wet:{tmp_path}/*")[0]] == TEXTS


def test_the_name_may_lie_about_the_compression(tmp_path: Path) -> None:
    (tmp_path / "a.wet").write_bytes(gzip.compress(b"".join(wet(*TEXTS))))
    (tmp_path / "b.wet.gz").write_bytes(b"".join(wet(*TEXTS)))
    assert [doc.text for doc in read(f"wet:{tmp_path}/*")[0]] == TEXTS * 2


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".zst"])
def test_a_truncated_file_gives_its_beginning_and_a_note(tmp_path: Path, ending: str) -> None:
    numbers = "\n".join(str(i * 7919 % 100_003) for i in range(40_000))
    packed = PACK[ending](b"".join([*wet(*TEXTS), record(numbers.encode())]))
    (tmp_path / f"a.wet{ending}").write_bytes(packed[: len(packed) * 2 // 3])
    docs, ledger = read(f"wet:{tmp_path}/*")
    kind = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zst": "zstd"}[ending]
    assert ledger.notes[f"truncated {kind} file"] == 1
    if ending in (".gz", ".zst"):  # the others yield whole blocks only
        assert [doc.text for doc in docs] == TEXTS
        assert ledger.dropped == {("read", "truncated record"): 1}


def test_a_damaged_gzip_is_noted(tmp_path: Path) -> None:
    members = [gzip.compress(part) for part in wet(*TEXTS)]
    members[3] = b"\x1f\x8b\x08\x00rubbish" + members[3][18:]
    (tmp_path / "a.wet.gz").write_bytes(b"".join(members))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == [*TEXTS[:2], TEXTS[3]]
    assert ledger.dropped == {("read", "damaged gzip member"): 1}
    assert ledger.dropped_chars["read", "damaged gzip member"] == len(members[3])


def test_a_damaged_head_of_a_file_costs_its_first_member(tmp_path: Path) -> None:
    members = [gzip.compress(part) for part in wet(*TEXTS)]
    (tmp_path / "a.wet.gz").write_bytes(b"XX" + b"".join(members)[2:])
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert ledger.num_bytes["stored", "lost: damaged gzip member"] == len(members[0])


def test_a_text_in_one_damaged_member_gives_its_whole_lines(tmp_path: Path) -> None:
    rows = [f"mstari wa {i * 7919 % 100_003}" for i in range(100_000)]
    packed = bytearray(gzip.compress("\n".join(rows).encode()))
    packed[len(packed) // 2 : len(packed) // 2 + 4] = b"\xff" * 4
    (tmp_path / "a.txt.gz").write_bytes(packed)
    docs, ledger = read(f"lines:{tmp_path}/*")
    found = [doc.text for doc in docs]
    assert 40_000 < len(found) < 70_000
    assert found[:40_000] == rows[:40_000]
    assert ledger.dropped["read", "damaged gzip member"] == 1


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1"])
def test_every_version_of_the_format_is_read(tmp_path: Path, version: str) -> None:
    data = b"".join(wet(*TEXTS)).replace(b"WARC/1.0", b"WARC/" + version.encode())
    (tmp_path / "a.wet").write_bytes(data)
    assert [doc.text for doc in read(f"wet:{tmp_path}/*")[0]] == TEXTS


@pytest.mark.parametrize("length", ["9" * 5000, str(1 << 40), str((1 << 26) + 1)])
def test_a_length_beyond_every_page_costs_no_other_record(tmp_path: Path, length: str) -> None:
    parts = wet(*TEXTS)
    parts[2] = record(TEXTS[1].encode(), **{"Content-Length": length})
    (tmp_path / "a.wet").write_bytes(b"".join(parts))
    docs, _ = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs if doc.text != TEXTS[1]] == [TEXTS[0], *TEXTS[2:]]


def test_a_damaged_record_leaves_the_text_before_it_as_it_is(tmp_path: Path) -> None:
    parts = wet(*TEXTS)
    parts[3] = b"XARC" + parts[3][4:]
    (tmp_path / "a.wet").write_bytes(b"".join(parts))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == [TEXTS[0], TEXTS[1], TEXTS[3]]
    assert ledger.dropped_chars["read", "bytes outside any record"] == len(parts[3])


def test_a_page_of_nested_elements_costs_no_time(tmp_path: Path) -> None:
    deep = "<html><body>" + "<div>" * 100_000 + "text" + "</div>" * 100_000
    flat = "<html><body>" + "<p>Habari za leo, dunia nzima.</p>" * 2000
    (tmp_path / "a.warc").write_bytes(page(deep) + page(flat))
    start = time.process_time()
    docs, ledger = read(f"warc:{tmp_path}/*")
    assert time.process_time() - start < 5
    assert len(docs) == 1
    assert ledger.dropped == {("read", "page nested too deep"): 1}


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [
        ("<div></x>" * 100_000, "page nested too deep"),
        ("<div><!--</div>-->" * 100_000, "page nested too deep"),
        ("<!--><div>" * 100_000, "page nested too deep"),
        ("<div a='</div>'>" * 20_000, "page takes too long to read"),
        ("<select>" + "<option>x" * 1_000_000, "page takes too long to read"),
    ],
)
def test_a_page_that_hides_its_depth_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str, reason: str
) -> None:
    monkeypatch.setattr(webpage, "MAX_SECONDS", 1)
    webpage._stop_own_worker()  # a helper process of an earlier test has the longer limit
    flat = "<p>Habari za leo, dunia nzima.</p>" * 2000
    (tmp_path / "a.warc").write_bytes(page(hidden) + page(flat))
    docs, ledger = read(f"warc:{tmp_path}/*")
    assert docs[-1].text.count("Habari") == 2000
    assert ledger.dropped == {("read", reason): 1}
    webpage._stop_own_worker()


MEMORY = """
import resource, sys
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger
source = open_source(sys.argv[1], Context(lang="sw"))
(shard,) = source.shards()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ledger = Ledger()
docs = sum(1 for _ in source.read(shard, ledger))
assert not ledger.unaccounted_bytes()
print(docs, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("scheme", ["wet", "wiki"])
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_bytes_that_are_no_crawl_take_little_memory(tmp_path: Path, scheme: str, ending: str) -> None:
    html = b"<html><body><p>Habari za leo, dunia nzima.</p></body></html>\n" * (1 << 12)
    path = tmp_path / f"a{ending}"
    opener = gzip.open if ending == ".gz" else zstandard.open
    with opener(path, "wb") as handle:
        for _ in range(500):
            handle.write(html)
            handle.write(bytes(1 << 19))
    command = [sys.executable, "-c", MEMORY, f"{scheme}:{path}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    num_docs, num_mb = map(int, found.stdout.split())
    assert num_docs == 0
    assert num_mb < 100


def test_line_feeds_alone_end_header_lines_too(tmp_path: Path) -> None:
    (tmp_path / "a.wet").write_bytes(b"".join(wet(*TEXTS)).replace(b"\r\n", b"\n"))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert ledger.notes["WARC record with LF-only header lines"] == 5


@pytest.mark.parametrize(
    ("length", "note"),
    [
        ("5", "WARC record longer than its Content-Length"),
        ("999", "WARC record inside another record's block"),
        ("", "WARC record without a valid Content-Length"),
        ("many", "WARC record without a valid Content-Length"),
    ],
)
def test_a_lying_content_length_costs_nothing(tmp_path: Path, length: str, note: str) -> None:
    parts = wet(*TEXTS)
    parts[2] = record(TEXTS[1].encode(), **{"Content-Length": length})
    (tmp_path / "a.wet").write_bytes(b"".join(parts))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert ledger.notes[note] == 1


def test_rubbish_between_records_is_skipped_and_counted(tmp_path: Path) -> None:
    parts = wet(*TEXTS)
    (tmp_path / "a.wet").write_bytes(b"not a record\n" + b"".join(parts))
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    assert ledger.dropped_chars["read", "bytes outside any record"] == len(b"not a record\n")


def test_empty_bodies_and_wrong_charsets_are_dropped_with_a_reason(tmp_path: Path) -> None:
    latin1 = "Ça été déjà vu à l'été, où né".encode("latin-1")
    body = b"".join([record(b""), record(b" \r\n \n"), record(latin1), record(b"abc " * 40 + b"\xff")])
    (tmp_path / "a.wet").write_bytes(body)
    docs, ledger = read(f"wet:{tmp_path}/*")
    assert ledger.dropped == {("read", "empty"): 2, ("read", "wrong charset"): 1}
    assert ledger.notes == {"text with bytes that are not UTF-8": 2, LOST_CHARS_NOTE: 1}
    assert [doc.text for doc in docs] == ["abc " * 40 + "\ufffd"]


def test_the_declared_language_becomes_our_code(tmp_path: Path) -> None:
    body = record(TEXTS[0].encode(), **{"WARC-Identified-Content-Language": "swa,eng"})
    (tmp_path / "a.wet").write_bytes(body)
    assert read(f"wet:{tmp_path}/*")[0][0].meta == {"declared_lang": "sw"}


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=20),
)
def test_records_do_not_depend_on_the_chunks(bodies: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(record(body) for body in bodies)
    pieces, at = [], 0
    for i in range(len(whole)):
        if at >= len(whole):
            break
        size = cuts[i % len(cuts)]
        pieces.append(whole[at : at + size])
        at += size
    found = list(records(iter(pieces), Ledger()))
    once = list(records(iter([whole]), Ledger()))
    assert [(r.number, r.headers, r.body) for r in found] == [(r.number, r.headers, r.body) for r in once]


@given(st.binary(max_size=2000))
def test_records_never_fail_on_rubbish(rubbish: bytes) -> None:
    ledger = Ledger()
    good = record(b"good text")
    list(records(iter([rubbish + b"\n", good]), ledger))


def page(html: str, charset: str = "utf-8", header: str = "", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html{header}\r\n\r\n"
    return record(head.encode() + html.encode(charset), "response")


def test_warc_pages_become_text_in_the_right_charset(tmp_path: Path) -> None:
    arabic = "<html><head><title>x</title></head><body><nav><a href='/'>القائمة</a></nav>"
    arabic += "<main><p>{}</p></main></body></html>"
    body = "برلين هي العاصمة الفيدرالية لجمهورية ألمانيا الاتحادية وأكبر مدنها من حيث عدد السكان."
    meta = arabic.replace("<head>", "<head><meta charset='windows-1256'>")
    pages = [
        page(arabic.format(body)),
        page(arabic.format(body), "cp1256", "; charset=windows-1256"),
        page(meta.format(body), "cp1256"),
        page(meta.format(body), "cp1256", "; charset=utf-8"),
        page("x", status="404 Not Found"),
        page("", status="200 OK"),
        record(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nxx", "response"),
        record(b"x", "request"),
    ]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, pages)))
    docs, ledger = read(f"warc:{tmp_path}/*", "ar")
    assert [doc.text for doc in docs] == [body] * 4
    assert ledger.notes == {
        "page not in the charset its server states": 1,
        "WARC record of type request, no page": 1,
    }
    assert ledger.dropped == {("read", "HTTP status 404"): 1, ("read", "empty"): 1, ("read", "not HTML"): 1}


def test_warc_extracts_all_of_a_page_on_request(tmp_path: Path) -> None:
    html = (
        "<html><body><nav><a href='/'>Menu</a></nav><main><p>Habari za leo, dunia.</p></main></body></html>"
    )
    (tmp_path / "a.warc").write_bytes(page(html))
    assert read(f"warc:{tmp_path}/*", extract="all")[0][0].text == "Menu\nHabari za leo, dunia."


@pytest.mark.parametrize("coding", ["gzip", "chunked", "deflate", "br", "damaged"])
def test_warc_bodies_are_unpacked(tmp_path: Path, coding: str) -> None:
    import zlib

    import brotli

    html = b"<html><body><main><p>Habari za leo, dunia nzima.</p></main></body></html>"
    packed = {
        "gzip": gzip.compress(html),
        "chunked": b"%x\r\n%s\r\n0\r\n\r\n" % (len(html), html),
        "deflate": zlib.compress(html),
        "br": brotli.compress(html),
        "damaged": gzip.compress(html)[:20],
    }[coding]
    field = "Transfer-Encoding" if coding == "chunked" else "Content-Encoding"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{field}: {coding}\r\n\r\n".encode()
    (tmp_path / "a.warc").write_bytes(record(head + packed, "response"))
    docs, ledger = read(f"warc:{tmp_path}/*")
    if coding == "damaged":
        assert ledger.dropped == {("read", "damaged HTTP body"): 1}
    else:
        assert [doc.text for doc in docs] == ["Habari za leo, dunia nzima."]


def test_a_page_that_swells_is_dropped(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    (tmp_path / "a.warc").write_bytes(record(head + gzip.compress(bytes(1 << 28)), "response"))
    _, ledger = read(f"warc:{tmp_path}/*")
    assert ledger.dropped == {("read", "page over 16 MiB"): 1}


def test_a_mirror_that_lacks_a_file_is_told(tmp_path: Path) -> None:
    crawl(tmp_path, 2)
    (tmp_path / "crawl-data/CC-MAIN-2024-22/wet/x-00001.warc.wet.gz").unlink()
    with pytest.raises(UserError, match=r"x-00001\.warc\.wet\.gz is gone"):
        read("cc:CC-MAIN-2024-22", base_urls={"cc": str(tmp_path)})


@pytest.mark.parametrize("ending", PACK)
def test_text_and_lines(tmp_path: Path, ending: str) -> None:
    raw = "\ufeff" + "\n\n".join(TEXTS).replace("\n", "\r\n") + "\n\n\n"
    (tmp_path / f"sw.txt{ending}").write_bytes(PACK[ending](raw.encode()))
    docs, _ = read(f"text:{tmp_path}/*")
    assert [doc.text for doc in docs] == TEXTS
    docs, _ = read(f"lines:{tmp_path}/*")
    assert [doc.text for doc in docs] == [line for text in TEXTS for line in text.split("\n")]
    assert docs[0].id == "sw/0"


def test_endless_text_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("neno moja tu\n" * 200_000, encoding="utf-8")
    docs, ledger = read(f"text:{tmp_path}/a.txt")
    assert 190_000 < max(len(doc.text) for doc in docs) <= MAX_DOC_CHARS  # or too_many_words drops all of it
    assert min(len(doc.text) for doc in docs) > 100_000  # and no rest is too short
    assert sum(doc.text.count("neno") for doc in docs) == 200_000
    assert ledger.notes == {CUT_NOTE: len(docs)}
    docs, _ = read(f"text:{tmp_path}/a.txt", max_chars=100)
    assert {len(doc.text) for doc in docs} <= {num_lines * 13 - 1 for num_lines in range(3, 8)}


def test_jsonl_takes_the_usual_fields_and_counts_the_rest(tmp_path: Path) -> None:
    rows = [
        {"text": TEXTS[0], "url": "u", "timestamp": "2020-01-02", "lang": "swh_Latn"},
        {"raw_content": TEXTS[1]},
        {"title": "x"},
        {"text": ""},
        [1],
        {"text": TEXTS[2] + "\ud800", "url": "\udfff"},
    ]
    lines = [json.dumps(row) for row in rows] + ["{cut", "[" * 100_000, ""]
    (tmp_path / "a.jsonl.zst").write_bytes(PACK[".zst"]("\n".join(lines).encode()))
    docs, ledger = read(f"jsonl:{tmp_path}/a.jsonl.zst")
    assert [doc.text for doc in docs] == [*TEXTS[:2], TEXTS[2] + "\ufffd"]
    assert docs[2].url == "\ufffd"
    assert (docs[0].url, docs[0].date, docs[0].meta) == ("u", "2020-01-02", {"declared_lang": "sw"})
    assert ledger.dropped == {
        ("read", "no text field"): 1,
        ("read", "empty"): 1,
        ("read", "not a JSON object"): 3,
    }


def test_parquet_and_hub_data_sets(tmp_path: Path) -> None:
    for i in range(2):
        pl.DataFrame({"text": TEXTS, "url": [f"u{i}"] * 4}).write_parquet(tmp_path / f"train-{i}.parquet")
    docs, _ = read(f"parquet:{tmp_path}/*.parquet")
    assert [doc.text for doc in docs] == TEXTS * 2
    docs, _ = read(f"hf:{tmp_path}")
    assert [doc.text for doc in docs] == TEXTS * 2
    assert docs[4].id == f"hf.{tmp_path.name}.train/1/0"
    docs, _ = read(f"hf:{tmp_path}", size=1)
    assert len(docs) == 4


@pytest.mark.parametrize("body", [b"ab", b"\r\nab", b"\nab", b"a\r\n\r\nb", b"a\n\nb"])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\n\r\n", b"\r\n\n"])
def test_the_block_begins_behind_the_first_empty_line(end: bytes, body: bytes) -> None:
    head = b"WARC/1.0\nWARC-Type: conversion\nContent-Length: %d" % len(body)
    (found,) = records(iter([head + end + body]), Ledger())
    assert (found.headers, found.body) == (
        {"warc-type": "conversion", "content-length": str(len(body))},
        body,
    )


def crawl(root: Path, num_files: int = 6) -> list[str]:
    """A dump of Common Crawl's layout under ``root``; the texts of each file in order."""
    folder = root / "crawl-data" / "CC-MAIN-2024-22"
    (folder / "wet").mkdir(parents=True)
    paths = [f"crawl-data/CC-MAIN-2024-22/wet/x-{i:05d}.warc.wet.gz" for i in range(num_files)]
    for i, path in enumerate(paths):
        (root / path).write_bytes(b"".join(map(gzip.compress, wet(f"Faili {i}", *TEXTS))))
    (folder / "wet.paths.gz").write_bytes(gzip.compress("\n".join(paths).encode()))
    return [f"Faili {i}" for i in range(num_files)]


@pytest.mark.parametrize("over", ["folder", "http"])
def test_common_crawl_from_a_folder_and_over_http(tmp_path: Path, over: str) -> None:
    titles = crawl(tmp_path / "mirror")
    handler = partial(SilentHandler, directory=str(tmp_path / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        base = {"http": f"http://127.0.0.1:{server.server_port}", "folder": str(tmp_path / "mirror")}[over]
        settings = {"base_urls": {"cc": base}, "cache": tmp_path / "cache"}
        docs, _ = read("cc:CC-MAIN-2024-22", **settings)
        few = [read("cc:CC-MAIN-2024-22", size=n, **settings)[0] for n in (1, 3)]
        server.shutdown()
        thread.join()
    assert [doc.text for doc in docs if doc.text.startswith("Faili")] == titles
    assert docs[0].id == "CC-MAIN-2024-22/x-00000/1"
    one, three = ({doc.text for doc in some if doc.text.startswith("Faili")} for some in few)
    assert len(one) == 1
    assert len(three) == 3
    assert one < three


def test_cc100_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "zh-Hans.txt.xz").write_bytes(PACK[".xz"]("\n\n".join(TEXTS).encode()))
    docs, _ = read("cc100:", "zh", base_urls={"cc100": str(tmp_path)})
    assert [doc.text for doc in docs] == TEXTS


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("crawl.wet", "has no scheme.*wet:"),
        ("wett:crawl.wet", "unknown source 'wett'.*did you mean 'wet'"),
        ("wet:/nowhere/*.gz", "no file matches"),
        ("wet:", "an empty path"),
        ("text:/", "names a folder"),
        ("cc:2024", "names no dump.*CC-MAIN"),
        ("hf:", "names no data set.*fineweb-2"),
        ("toyworld:x", "toyworld:NUMBER"),
        ("cc100:", "no file at nowhere/sw.txt.xz; fix: give the folder"),
        ("cc:CC-MAIN-2024-22", "no file at nowhere/crawl-data"),
        ("wiki:", "no file matches 'nowhere"),
    ],
)
def test_a_wrong_uri_is_told(uri: str, message: str) -> None:
    context = Context(lang="sw", base_urls=dict.fromkeys(("cc", "cc100", "wiki"), "nowhere"))
    with pytest.raises(UserError, match=message):
        open_source(uri, context).shards()


def test_shards_of_one_name_are_told_apart() -> None:
    shards = [Shard(name, name, "x") for name in ("a", "b", "a", "a")]
    assert [shard.name for shard in unique_names(shards)] == ["a", "b", "a~2", "a~3"]
