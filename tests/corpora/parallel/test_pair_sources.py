import contextlib
import gzip
import hashlib
import http.server
import io
import json
import stat
import threading
import zipfile
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.text.document import Ledger

EN, SW = ["A house", "Two dogs", "Good"], ["Nyumba", "Mbwa wawili", "Nzuri"]
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="EN-us"><seg>A <hi>house</hi><ph>{1}</ph> &amp; more</seg></tuv>
<tuv xml:lang="sw"><seg>Nyumba</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Alone</seg></tuv><tuv xml:lang="fr"><seg>Seul</seg></tuv></tu>
<tu><tuv lang="sw"><seg>Mbwa
 wawili</seg></tuv><tuv lang="en"><seg>Two dogs</seg></tuv></tu>
</body></tmx>
"""


@pytest.fixture
def context(tmp_path):
    return SourceContext(languages.get("en"), languages.get("sw"), tmp_path / "cache")


def rows(uri, context, ledger=None):
    ledger = ledger if ledger is not None else Ledger()
    return [row for source in open_sources([uri], context) for row in source.rows(ledger)]


def moses(folder, en=EN, sw=SW, gz=False):
    for name, lines in (("c.en", en), ("c.sw", sw)):
        data = "".join(line + "\n" for line in lines).encode()
        (folder / (name + ".gz" * gz)).write_bytes(gzip.compress(data) if gz else data)
    return folder / "c"


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("gz", [False, True])
def test_moses_by_stem_and_by_files(tmp_path, context, gz):
    stem = moses(tmp_path, gz=gz)
    wanted = [(a, b, "") for a, b in zip(EN, SW, strict=True)]
    ending = ".gz" * gz
    assert rows(f"moses:{stem}", context) == wanted
    assert rows(f"moses:{stem}.en{ending}+{stem}.sw{ending}", context) == wanted


def test_moses_with_unequal_lines_says_how_many(tmp_path, context):
    stem = moses(tmp_path, en=[*EN, "one", "two"])
    with pytest.raises(UserError, match=r"c\.en has 5 lines but .*c\.sw has 3 lines"):
        rows(f"moses:{stem}", context)


def test_moses_in_a_zip_as_opus_ships_it(tmp_path, context):
    members = {"README": "x", "C.en-sw.en": "\n".join(EN) + "\n", "C.en-sw.sw": "\n".join(SW) + "\n"}
    path = zipped(tmp_path / "a.zip", members)
    assert [row[:2] for row in rows(f"moses:{path}", context)] == list(zip(EN, SW, strict=True))


def test_members_of_an_archive_are_paired_by_their_stems(tmp_path, context):
    names = {"b.en": "b1\nb2", "a.en": "a1", "a.sw": "A1", "b.sw": "B1\nB2", "c.en": "alone", "README": "x"}
    names |= {"__MACOSX/._a.en": "\x00\x05", "__MACOSX/._a.sw": "\x00"}
    path, ledger = zipped(tmp_path / "a.zip", names), Ledger()
    assert rows(f"moses:{path}", context, ledger) == [("b1", "B1", ""), ("b2", "B2", ""), ("a1", "A1", "")]
    assert ledger.dropped == {("read", "unpaired_member"): 1}
    assert ledger.samples["read", "unpaired_member"] == [(f"{path}:c.en", "c.en")]


def test_an_archive_without_a_pair_is_refused(tmp_path, context):
    path = zipped(tmp_path / "a.zip", {"a.en": "1", "b.en": "2", "c.sw": "3"})
    with pytest.raises(UserError, match=r"no two members of one name for en-sw: a\.en, b\.en, c\.sw"):
        rows(f"moses:{path}", context)


def evil_zip(tmp_path, kind):
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("c.en", "a\n")
        archive.writestr("c.sw", "b\n")
        if kind == "parent":
            archive.writestr("../../etc/c.en", "a\n")
        elif kind == "absolute":
            archive.writestr("/etc/c.en", "a\n")
        elif kind == "backslash":
            archive.writestr("..\\c.en", "a\n")
        elif kind == "link":
            info = zipfile.ZipInfo("c2.en")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
        elif kind == "bomb":
            archive.writestr("big.en", b"\0" * (1 << 25))
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    if kind == "damaged":
        data = bytearray(path.read_bytes())
        data[data.index(b"c.en") + 5] ^= 0xFF
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("parent", "has a path outside the archive"),
        ("absolute", "has a path outside the archive"),
        ("backslash", "has a path outside the archive"),
        ("link", "is a link"),
        ("bomb", "expands"),
        ("cut", "not a complete zip"),
        ("damaged", "not a complete zip"),
    ],
)
def test_bad_archives_are_refused(tmp_path, context, kind, message):
    before = sorted(tmp_path.rglob("*"))
    path = evil_zip(tmp_path, kind)
    with pytest.raises(UserError, match=message):
        rows(f"moses:{path}", context)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, path])


def test_tmx_is_read_in_either_order_with_inline_codes_left_out(tmp_path, context):
    path = tmp_path / "a.tmx"
    path.write_text(TMX, encoding="utf-8")
    ledger = Ledger()
    wanted = [("A house & more", "Nyumba", ""), ("Two dogs", "Mbwa wawili", "")]
    assert rows(f"tmx:{path}", context, ledger) == wanted
    assert ledger.dropped == {("read", "missing_side"): 1}
    packed = tmp_path / "b.tmx.gz"
    packed.write_bytes(gzip.compress(TMX.encode()))
    assert rows(f"tmx:{packed}", context) == wanted
    assert rows(f"tmx:{zipped(tmp_path / 'c.zip', {'x.tmx': TMX})}", context) == wanted


@pytest.mark.parametrize(("cut", "num_rows", "dropped"), [(0.4, 0, 1), (0.7, 1, 1), (0.97, 2, 2)])
def test_a_cut_tmx_keeps_its_whole_units_and_counts_the_rest(tmp_path, context, cut, num_rows, dropped):
    path, ledger = tmp_path / "a.tmx", Ledger()
    path.write_text(TMX[: int(len(TMX) * cut)], encoding="utf-8")
    assert len(rows(f"tmx:{path}", context, ledger)) == num_rows
    assert sum(ledger.dropped.values()) == dropped
    assert ledger.dropped["read", "malformed"] == 1


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE tmx [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd"> %p;]>',
    ],
)
def test_entities_are_refused(tmp_path, context, doctype):
    path = tmp_path / "a.tmx"
    path.write_text(TMX.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', doctype).replace("more", "&x;&b;"))
    with pytest.raises(UserError, match="entity"):
        rows(f"tmx:{path}", context)


def test_tables(tmp_path, context):
    (tmp_path / "plain.tsv").write_text("A house\tNyumba\nbroken\nTwo\tMbili\textra\n")
    ledger = Ledger()
    assert rows(f"tsv:{tmp_path}/plain.tsv", context, ledger) == [("A house", "Nyumba", "")]
    assert ledger.dropped == {("read", "malformed"): 2}
    (tmp_path / "head.tsv").write_text("id\tswh_Latn\teng\tdoc\n1\tNyumba\tA house\td1\n")
    assert rows(f"tsv:{tmp_path}/head.tsv", context) == [("A house", "Nyumba", "d1")]
    assert rows(f"tsv:{tmp_path}/plain.tsv#2+1", context)[0][:2] == ("Nyumba", "A house")
    (tmp_path / "a.csv").write_text('source,target\n"A ""big"" house, yes","Nyumba\nkubwa"\n')
    assert rows(f"csv:{tmp_path}/a.csv", context) == [('A "big" house, yes', "Nyumba\nkubwa", "")]
    lines = [{"translation": {"en": "A", "sw": "B"}}, {"src": "C", "tgt": "D"}, {"src": 1, "tgt": "D"}, []]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{not json\n")
    ledger = Ledger()
    assert [r[:2] for r in rows(f"jsonl:{tmp_path}/a.jsonl", context, ledger)] == [("A", "B"), ("C", "D")]
    assert ledger.dropped == {("read", "malformed"): 3}
    pq.write_table(pa.table({"x": ["A", None], "y": ["B", "C"], "d": ["1", "2"]}), tmp_path / "a.parquet")
    ledger = Ledger()
    assert rows(f"parquet:{tmp_path}/a.parquet#x+y+d", context, ledger) == [("A", "B", "1")]
    assert ledger.dropped == {("read", "malformed"): 1}
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(UserError, match="not a complete Parquet"):
        rows(f"parquet:{tmp_path}/cut.parquet", context)
    with pytest.raises(UserError, match="has no column"):
        rows(f"tsv:{tmp_path}/head.tsv#english+swahili", context)


def test_verses_are_joined_by_number(tmp_path, context):
    ces = (
        '<cesDoc><text><seg id="b.GEN.1.1" type="verse">In the beginning</seg>'
        '<seg id="b.GEN.1.2" type="verse">And</seg></text></cesDoc>'
    )
    osis = (
        '<osis><verse osisID="Gen.1.2">Na</verse><verse sID="Gen.1.1" osisID="Gen.1.1"/>Hapo mwanzo'
        '<verse eID="Gen.1.1"/><verse osisID="Gen.1.9">x</verse></osis>'
    )
    (tmp_path / "en.xml").write_text(ces)
    (tmp_path / "sw.xml").write_text(osis)
    ledger = Ledger()
    wanted = [("In the beginning", "Hapo mwanzo", "GEN"), ("And", "Na", "GEN")]
    assert rows(f"verses:{tmp_path}/en.xml+{tmp_path}/sw.xml", context, ledger) == wanted
    assert ledger.dropped == {("read", "missing_side"): 1}
    (tmp_path / "sw.tsv").write_text("GEN.1.1\tHapo mwanzo\n")
    assert rows(f"verses:{tmp_path}/en.xml+{tmp_path}/sw.tsv", context) == wanted[:1]
    (tmp_path / "no.tsv").write_text("EXO.1.1\tHapo\n")
    with pytest.raises(UserError, match="share no verse"):
        rows(f"verses:{tmp_path}/en.xml+{tmp_path}/no.tsv", context)


class Opus(http.server.BaseHTTPRequestHandler):
    """An OPUS in small: the API and the object store; the first answer to a download breaks off half-way."""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        server = self.server
        url = urlsplit(self.path)
        if url.path == "/api/":
            server.asked.append(parse_qs(url.query))
            data = json.dumps({"corpora": server.corpora}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)
            return
        if url.path not in server.files:
            self.send_error(404)
            return
        data = server.files[url.path]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{server.etag or hashlib.md5(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if body:
            server.starts.append(start)
            end = len(data) // 2 if len(server.starts) == 1 else len(data)
            self.wfile.write(data[start:end])


@pytest.fixture
def opus():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Opus)
    server.asked, server.starts, server.etag = [], [], ""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("T.en-sw.en", "\n".join(EN) + "\n")
        archive.writestr("T.en-sw.sw", "\n".join(SW) + "\n")
    server.files = {"/OPUS-T/v1/moses/en-sw.txt.zip": packed.getvalue()}
    entry = {
        "corpus": "T",
        "version": "v1",
        "alignment_pairs": 3,
        "url": "https://store.invalid/OPUS-T/v1/moses/en-sw.txt.zip",
    }
    server.corpora = [{**entry, "corpus": "Huge", "alignment_pairs": 10**8}, entry]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def opus_context(tmp_path, server, size=1000):
    base = f"http://127.0.0.1:{server.server_port}"
    urls = {"opus": f"{base}/api/", "opus_store": base}
    return SourceContext(languages.get("en"), languages.get("sw"), tmp_path / "cache", urls, size)


def test_opus_is_listed_fetched_resumed_and_checked(tmp_path, opus):
    context = opus_context(tmp_path, opus)
    [source] = open_sources(["opus:"], context)
    assert [row[:2] for row in source.rows(Ledger())] == list(zip(EN, SW, strict=True))
    assert source.uri == "opus:T:v1"
    assert len(opus.starts) == 2
    assert opus.starts[1] > 0  # the second request went on where the first broke off
    assert opus.asked[0]["source"] == ["en"]
    open_sources(["opus:t:v1"], context)
    assert opus.asked[1]["version"] == ["v1"]
    assert len(opus.starts) == 2  # cached


def test_opus_names_what_there_is(tmp_path, opus):
    with pytest.raises(UserError, match="Huge, T"):
        open_sources(["opus:TT"], opus_context(tmp_path, opus))


def test_opus_with_a_wrong_checksum_is_refused(tmp_path, opus, monkeypatch):
    opus.etag = "0" * 32
    monkeypatch.setattr("time.sleep", lambda s: None)
    with pytest.raises(UserError, match="md5"):
        open_sources(["opus:T"], opus_context(tmp_path, opus))
    assert not list((tmp_path / "cache").rglob("*.zip"))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("corpus", "../../../x", "letters, digits"),
        ("corpus", "a/b", "letters, digits"),
        ("corpus", "..", "letters, digits"),
        ("version", "v1/../../../y", "letters, digits"),
        ("version", "v\x1b[2J", "letters, digits"),
        ("url", "file:///etc/passwd", "http://"),
        ("url", "ftp://store.invalid/a.zip", "http://"),
        ("url", "/etc/passwd", "http://"),
        ("alignment_pairs", "many", "cannot list OPUS"),
    ],
)
def test_a_hostile_listing_of_opus_reaches_nothing(tmp_path, opus, key, value, expected):
    opus.corpora[-1][key] = value
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=expected):
        open_sources(["opus:"], opus_context(tmp_path, opus))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_out_of_the_cache_is_not_followed(tmp_path, opus):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "opus").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="leads outside of"):
        open_sources(["opus:T"], opus_context(tmp_path, opus))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_opus_off_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda s: None)
    context = SourceContext(
        languages.get("en"), languages.get("sw"), tmp_path, {"opus": "http://127.0.0.1:9/"}
    )
    with pytest.raises(UserError, match="cannot list OPUS"):
        open_sources(["opus:"], context)


def test_hf_reads_a_local_folder_of_pairs(tmp_path, context, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    records = [{"translation": {"en": a, "sw": b}} for a, b in zip(EN, SW, strict=True)]
    pq.write_table(pa.Table.from_pylist(records), folder / "train.parquet")
    ledger = Ledger()
    assert [r[:2] for r in rows(f"hf:{folder}", context, ledger)] == list(zip(EN, SW, strict=True))
    with pytest.raises(UserError, match="hf:"):
        rows(f"hf:{tmp_path}/none", context)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("opsu:x", "did you mean 'opus'"),
        ("file.txt", "source of pairs"),
        ("moses:a+b+c", "moses:SRC"),
        ("tmx:/none.tmx", "no file"),
        ("verses:a", "verses:SRC"),
        ("tsv:x#1", "tsv:FILE#SRC"),
        ("toyworld:many", "toyworld:NUMBER"),
        ("hf:", "hf:NAME"),
    ],
)
def test_mistaken_uris(uri, message, context):
    with pytest.raises(UserError, match=message):
        open_sources([uri], context)


def test_line_separators_inside_a_text_become_spaces(tmp_path, context):
    (tmp_path / "a.csv").write_text('src,tgt\n"a\nb\u2028c",d\n', encoding="utf-8")
    [source] = open_sources([f"csv:{tmp_path}/a.csv"], context)
    [batch] = list(source.batches(Ledger()))
    assert batch["src"].to_list() == ["a b c"]
    assert batch["id"].to_list() == ["0/0"]


def test_a_translation_memory_in_an_unknown_encoding_is_refused(tmp_path, context):
    for name in ("x-klingon", "utf-7"):
        (tmp_path / "a.tmx").write_bytes(TMX.replace("UTF-8", name).encode())
        with pytest.raises(UserError, match=r"a\.tmx"):
            rows(f"tmx:{tmp_path}/a.tmx", context)


def test_a_unit_inside_a_unit_counts_once(tmp_path, context):
    inner = '<tu><tuv xml:lang="en"><seg>In</seg></tuv><tuv xml:lang="sw"><seg>Ndani</seg></tuv></tu>'
    outer = f'<tu><tuv xml:lang="en"><seg>Out</seg></tuv>{inner}<tuv xml:lang="sw"><seg>Nje</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(f"<tmx><body>{outer}</body></tmx>", encoding="utf-8")
    assert rows(f"tmx:{tmp_path}/a.tmx", context) == [("In", "Ndani", ""), ("Out", "Nje", "")]


def test_a_tab_inside_a_cell_is_counted_not_cut(tmp_path, context):
    (tmp_path / "a.tsv").write_text("en\tsw\nA\tB\nOne\ttwo\tthree\n", encoding="utf-8")
    ledger = Ledger()
    assert rows(f"tsv:{tmp_path}/a.tsv", context, ledger) == [("A", "B", "")]
    assert ledger.dropped == {("read", "malformed"): 1}


def test_most_rows_say_how_many_cells_a_row_has(tmp_path, context):
    """A tab in the first cell of a file without a header made a pair of its two halves."""
    rest = "".join(f"House {i}\tNyumba {i}\n" for i in range(200))
    (tmp_path / "a.tsv").write_text("A tab\tis here\tKichupo hapa\n" + rest, encoding="utf-8")
    ledger = Ledger()
    read = rows(f"tsv:{tmp_path}/a.tsv", context, ledger)
    assert (len(read), read[0], read[-1]) == (
        200,
        ("House 0", "Nyumba 0", ""),
        ("House 199", "Nyumba 199", ""),
    )
    assert ledger.dropped == {("read", "malformed"): 1}


def test_a_tab_in_one_of_two_rows_is_counted_not_cut(tmp_path, context):
    """Two rows of different widths in a file without a header: the one with the tab was cut there in silence."""
    for text in (
        "A tab\tis here\tKichupo hapa\nA house\tNyumba\n",
        "A house\tNyumba\nA tab\tis here\tKichupo\n",
    ):
        (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
        ledger = Ledger()
        assert rows(f"tsv:{tmp_path}/a.tsv", context, ledger) == [("A house", "Nyumba", "")]
        assert ledger.dropped == {("read", "malformed"): 1}


def test_a_damaged_parquet_file_gives_one_line(tmp_path, context):
    table = pa.table({"en": [f"A house {i}" for i in range(200)], "sw": [f"Nyumba {i}" for i in range(200)]})
    pq.write_table(table, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    random = rng(1, "fuzz")
    for _ in range(200):
        data = bytearray(whole)
        for place in random.integers(0, len(data), 8):
            data[place] = random.integers(256)
        (tmp_path / "b.parquet").write_bytes(data)
        with contextlib.suppress(UserError):  # what is read whole is right, or another value
            rows(f"parquet:{tmp_path}/b.parquet", context)


def test_bytes_in_a_mapping_that_are_not_utf8_are_a_malformed_row(tmp_path, context):
    cells = [{"en": b"A\xe9 one", "sw": b"B"}, {"en": b"Two \xc3\xa9", "sw": b"C"}]
    pq.write_table(pa.table({"translation": cells}), tmp_path / "a.parquet")
    ledger = Ledger()
    assert rows(f"parquet:{tmp_path}/a.parquet", context, ledger) == [("Two é", "C", "")]
    assert ledger.dropped[("read", "malformed")] == 1


def test_two_columns_of_one_name_are_refused(tmp_path, context):
    table = pa.table([pa.array(["A"]), pa.array(["B"]), pa.array(["C"])], names=["en", "en", "sw"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match="several columns en"):
        rows(f"parquet:{tmp_path}/a.parquet#en+sw", context)
