"""Tables as programs and people write them: delimiters, quotes, names of columns, line ends, long cells."""

import csv
import io
import json
import tracemalloc
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xling.core import languages
from xling.core.errors import UserError
from xling.core.language_names import in_column_name
from xling.corpora.common.json_rows import COMMA_NOTE
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

NUM = 40
PAIRS = [
    (
        f"The library {i} opened, again in the spring; all came.",
        f"Maktaba {i} ilifunguliwa; wakati, wa masika.",
    )
    for i in range(NUM)
]
PLAIN = [(f"The library {i} opened in the spring.", f"Maktaba {i} ilifunguliwa masika.") for i in range(NUM)]


def written(rows, **how):
    file = io.StringIO()
    csv.writer(file, lineterminator=how.pop("lineterminator", "\n"), **how).writerows(rows)
    return file.getvalue()


def read(path, text, pair="en-sw", columns="", scheme="csv"):
    """The pairs of a file and the reasons why rows were dropped."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ledger = Ledger()
    context = SourceContext(*languages.get_pair(pair))
    found = [r[:2] for s in open_sources([f"{scheme}:{path}{columns}"], context) for r in s.rows(ledger)]
    dropped = {reason: num for (_, reason), num in ledger.dropped.items()}
    assert ledger.seen["read"] == sum(dropped.values())  # rows that are kept are counted when they are taken
    return found, dropped


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [[], [("en", "sw")]])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_the_delimiter_is_found(tmp_path, delimiter, header, quoting):
    text = written([*header, *PAIRS], delimiter=delimiter, quoting=quoting)
    assert read(tmp_path / "a.csv", text) == (PAIRS, {})


def test_commas_inside_sentences_do_not_delimit(tmp_path):
    rows = [(f"Hello {i}, my friend.", f"Habari {i} rafiki.") for i in range(NUM)]
    text = "".join(f"{a};{b}\n" for a, b in rows)
    assert read(tmp_path / "a.csv", text) == (rows, {})
    assert read(tmp_path / "a.csv", "en;sw\n" + text) == (rows, {})


def test_a_delimiter_that_is_not_clear_is_asked_for(tmp_path):
    with pytest.raises(UserError, match=r"commas \(2 columns\) or semicolons .*names of the columns first"):
        read(tmp_path / "a.csv", "".join(f"One,two{i};three\n" for i in range(NUM)))


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        ({10: '"{}'}, 1),
        ({10: '"{}', 30: '"Quoted" {}'}, 2),
        ({5: '"{}', 6: '"{}', 20: '"{}'}, 3),
        ({NUM - 1: '"{}'}, 1),
        ({0: '"{}', 25: '{}"'}, 1),
    ],
)
@pytest.mark.parametrize("header", ["", "en,sw\n"])
def test_a_stray_quote_costs_its_row(tmp_path, damage, lost, header):
    lines = [damage.get(i, "{}").format(",".join(row)) for i, row in enumerate(PLAIN)]
    found, dropped = read(tmp_path / "a.csv", header + "\n".join(lines) + "\n")
    assert dropped == {"malformed": lost}
    assert len(found) == NUM - lost
    assert all(a.startswith("The library") and "\n" not in a + b for a, b in found)


def test_cells_with_line_ends_and_quotes_are_whole(tmp_path):
    rows = [(f'A "big" house {i},\nmy friend,\n\nand more', f"Nyumba\nkubwa {i}") for i in range(NUM)]
    for line_end in ("\n", "\r\n"):
        found, dropped = read(tmp_path / "a.csv", written(rows, lineterminator=line_end))
        assert (found, dropped) == (rows, {})


def test_paragraphs_that_look_like_rows_stay_in_their_cell(tmp_path):
    rows = [(str(i), "\n".join(f"Paragraph {n}, with one comma" for n in range(5))) for i in range(NUM)]
    assert read(tmp_path / "a.csv", written([("en", "sw"), *rows])) == (rows, {})


CELLS = st.lists(
    st.text(st.sampled_from('ab ",;\n\t|é家\u2028'), max_size=9).map(lambda text: f"x{text}y"),
    min_size=2,
    max_size=2,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from(",;\t|"), st.booleans())
def test_what_a_program_writes_is_read(tmp_path, rows, delimiter, quote_all):
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    text = written([("en", "sw"), *rows], delimiter=delimiter, quoting=quoting)
    assert read(tmp_path / "a.csv", text) == ([tuple(row) for row in rows], {})


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("scheme", ["csv", "tsv"])
def test_line_ends_and_byte_order_marks(tmp_path, line_end, scheme):
    mark = "\ufeff"
    text = mark + written([("sw", "en"), *PLAIN], delimiter="\t", lineterminator=line_end)
    assert read(tmp_path / "a", text, scheme=scheme) == ([(b, a) for a, b in PLAIN], {})


def test_mixed_line_ends(tmp_path):
    text = "".join(",".join(row) + ("\n", "\r\n", "\r")[i % 3] for i, row in enumerate(PLAIN))
    assert read(tmp_path / "a.csv", text) == (PLAIN, {})


@pytest.mark.parametrize(
    ("header", "pair"),
    [
        ("English,Swahili", "en-sw"),
        ("en-US,sw-KE", "en-sw"),
        ("eng_Latn,swh_Latn", "en-sw"),
        ("english,KISWAHILI", "en-sw"),
        ("text_en,text_sw", "en-sw"),
        ("Sentence (English),Sentence (Swahili)", "en-sw"),
        ("source,target", "en-sw"),
        ("Deutsch,Français", "de-fr"),
        ("de-AT,fr_CA", "de-fr"),
        ("日本語,한국어", "ja-ko"),
        ("Русский,Українська", "ru-uk"),
        ("zh-CN,pt-BR", "zh-pt"),
        ("العربية,עברית", "ar-he"),
    ],
)
def test_names_of_columns_are_no_pair(tmp_path, header, pair):
    text = header + "\n" + written(PLAIN)
    assert read(tmp_path / "a.csv", text, pair) == (PLAIN, {})
    assert read(tmp_path / "a.csv", text, pair, "#1+2") == (PLAIN, {})
    first, second = header.split(",")
    assert read(tmp_path / "a.csv", text, pair, f"#{second}+{first}") == ([(b, a) for a, b in PLAIN], {})


@pytest.mark.parametrize("names", ["kichwa,maandishi", "Body,Heading", "Frage,Antwort"])
def test_names_above_numbered_rows_are_no_pair(tmp_path, names):
    """Columns by number: a first row is of names where another one of its cells stands above numbers alone."""
    rows = [(i, *row) for i, row in enumerate(PLAIN, 1)]
    assert read(tmp_path / "a.csv", f"namba,{names}\n" + written(rows), columns="#2+3") == (PLAIN, {})
    assert read(tmp_path / "a.csv", written(rows), columns="#2+3") == (PLAIN, {})


@pytest.mark.parametrize("header", ["id,title", "German,French", "Frage,Antwort", "col_a,col_b"])
def test_a_first_row_that_is_not_clear_is_asked_about(tmp_path, header):
    text = header + "\n" + written(PLAIN)
    with pytest.raises(UserError, match=rf"the first row \({header.replace(',', ', ')}\).*#1\+2"):
        read(tmp_path / "a.csv", text)
    names = header.replace(",", "+")
    assert read(tmp_path / "a.csv", text, columns=f"#{names}") == (PLAIN, {})


def test_two_columns_of_one_language_are_asked_about(tmp_path):
    text = "en-GB,en-US,sw\n" + "A colour,A color,Rangi\n" * 20
    with pytest.raises(UserError, match="columns en-GB, en-US are all English"):
        read(tmp_path / "a.csv", text)
    assert read(tmp_path / "a.csv", text, columns="#en-US+sw")[0][0] == ("A color", "Rangi")


def test_words_are_no_names_of_columns():
    assert in_column_name("The English text is long") is None
    assert in_column_name("id") is None
    assert in_column_name("source text") is None
    assert in_column_name("translation.sw-KE").code == "sw"


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "jsonl", "moses", "verses", "verses-xml", "zip", "tmx", "tmx-attribute"]
)
def test_a_long_line_is_one_malformed_row_in_little_memory(tmp_path, kind):
    num, long = 12 * MAX_CELL_BYTES, "a" * (12 * MAX_CELL_BYTES)
    path = tmp_path / "a"
    uri = f"{kind}:{path}"
    if kind in ("csv", "tsv"):
        path.write_text(f"A\tB\nC\t{long}\nE\tF\n".replace("\t", "\t" if kind == "tsv" else ","))
    elif kind == "jsonl":
        path.write_text(f'{{"en": "A", "sw": "B"}}\n{{"en": "{long}", "sw": ""}}\n{{"en": "E", "sw": "F"}}\n')
    elif kind == "verses":
        path.write_text(f"G.1\tA\nG.2\t{long}\nG.3\tE\n")
        path.with_name("b").write_text("G.1\tB\nG.3\tF\n")
        uri = f"verses:{path}+{path.with_name('b')}"
    elif kind == "verses-xml":
        verses = "".join(f'<seg id="b.G.1.{i}">{text}</seg>' for i, text in enumerate(("A", long, "E")))
        path.with_name("a.xml").write_text(f"<c>{verses}</c>")
        path.with_name("b").write_text("G.1.0\tB\nG.1.2\tF\n")
        uri = f"verses:{path}.xml+{path.with_name('b')}"
        del verses
    elif kind in ("moses", "zip"):
        files = {"a.en": f"A\n{long}\nE\n", "a.sw": "B\nD\nF\n"}
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        if kind == "zip":
            uri = f"moses:{path}.zip"
            with zipfile.ZipFile(f"{path}.zip", "w") as archive:
                for name in files:
                    archive.write(tmp_path / name, name)
    else:
        unit = "<tu{}><tuv lang='en'><seg>{}</seg></tuv><tuv lang='sw'><seg>{}</seg></tuv></tu>"
        middle = unit.format("", long, "D") if kind == "tmx" else unit.format(f" id='{long}'", "C", "D")
        path.write_text(f"<tmx>{unit.format('', 'A', 'B')}{middle}{unit.format('', 'E', 'F')}</tmx>")
        uri = f"tmx:{path}"
    del long
    ledger = Ledger()
    tracemalloc.start()
    context = SourceContext(languages.get("en"), languages.get("sw"))
    found = [row[:2] for source in open_sources([uri], context) for row in source.rows(ledger)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [("A", "B"), ("E", "F")]
    assert ledger.dropped == {("read", "malformed"): 1}
    assert peak < num


def documents(tmp_path, uri, lang="sw"):
    ledger = Ledger()
    source = open_source(uri, Context(lang=lang))
    # A build opens the source of each shard again.
    opened = [(open_source(shard.source, Context(lang=lang)), shard) for shard in source.shards()]
    texts = [doc.text for source, shard in opened for doc in source.read(shard, ledger)]
    assert ledger.seen["read"] == len(texts) + sum(ledger.dropped.values())
    return texts, {reason: num for (_, reason), num in ledger.dropped.items()}


def test_documents_of_tables(tmp_path):
    texts = [f'Maktaba {i}; "kubwa",\nilifunguliwa.' for i in range(NUM)]
    rows = [(str(i), text, "x") for i, text in enumerate(texts)]
    path = tmp_path / "a.csv"
    for header, column in (
        (("id", "content", "label"), ""),
        (("id", "Kiswahili", "y"), ""),
        (("a", "b", "c"), "#b"),
    ):
        path.write_text("\ufeff" + written([header, *rows], delimiter=";"))
        assert documents(tmp_path, f"csv:{path}{column}") == (texts, {})
        assert documents(tmp_path, f"csv:{path}#2") == (texts, {}) or header[0] == "a"
    path.write_text(written([[text] for text in texts]))
    assert documents(tmp_path, f"csv:{path}") == (texts, {})
    path.write_text("id\ttext\n0\tMaktaba\n1\n2\tMbili\ttatu\n3\tMwisho\n")
    assert documents(tmp_path, f"tsv:{path}") == (["Maktaba", "Mwisho"], {"malformed row": 2})
    path.write_text(written(rows))
    with pytest.raises(UserError, match="3 columns, and any may be the text"):
        documents(tmp_path, f"csv:{path}")
    assert documents(tmp_path, f"csv:{path}#2") == (texts, {})


@pytest.mark.parametrize("scheme", ["csv", "tsv"])
@pytest.mark.parametrize("num_rows", [3, NUM])
def test_tables_in_utf16_are_read_with_a_mark_and_refused_without(tmp_path, scheme, num_rows):
    text = written([("en", "sw"), *PLAIN[:num_rows]], delimiter="\t")
    for name in ("UTF-16LE", "UTF-16BE"):
        with pytest.raises(UserError, match=f"iconv -f {name}"):
            read(tmp_path / "a", text.encode(name), scheme=scheme)
    assert read(tmp_path / "a", text.encode("utf-16"), scheme=scheme) == (PLAIN[:num_rows], {})


def test_few_lines_that_are_not_utf8_are_malformed(tmp_path):
    rows = [(f"Das Häuschen {i} war im Frühling offen.", f"Nyumba {i} ni ya zamani.") for i in range(NUM)]
    lines = [",".join(row).encode() for row in rows]
    lines[3] = lines[3].replace("ä".encode(), b"\xe4")
    lines[9] += b"\0"
    assert read(tmp_path / "a.csv", b"\n".join([b"de,sw", *lines]), "de-sw") == (
        [*rows[:3], *rows[4:9], *rows[10:]],
        {"malformed": 2},
    )
    with pytest.raises(UserError, match=r"not UTF-8.*iconv -f CP1252"):
        read(
            tmp_path / "a.csv",
            b"\n".join(lines).decode("utf-8", "replace").encode("latin-1", "replace").replace(b"?", b"\xe4"),
            "de-sw",
        )


def test_a_table_of_commas_given_as_tabs_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"1 column between tabs.*csv:FILE"):
        read(tmp_path / "a", written(PLAIN), scheme="tsv")


def test_json_pairs_that_end_in_a_comma_are_read_and_counted(tmp_path):
    rows = [json.dumps({"en": src, "sw": tgt}) for src, tgt in PLAIN]
    ledger = Ledger()
    (tmp_path / "a.jsonl").write_text("[\n" + ",\r\n".join(rows) + " , \n]\n")
    context = SourceContext(languages.get("en"), languages.get("sw"))
    found = [row[:2] for s in open_sources([f"jsonl:{tmp_path}/a.jsonl"], context) for row in s.rows(ledger)]
    assert found == PLAIN
    assert ledger.notes[COMMA_NOTE] == NUM
    assert not ledger.dropped


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1e"])
@pytest.mark.parametrize("last", ["", "end"])
def test_line_separators_end_the_rows_of_a_file_without_line_feeds(tmp_path, end, last):
    for scheme, text in (
        ("tsv", end.join(map("\t".join, PLAIN))),
        ("csv", end.join(f'"{a}","{b}"' for a, b in PLAIN)),
        ("jsonl", end.join(json.dumps({"en": a, "sw": b}) for a, b in PLAIN)),
    ):
        assert read(tmp_path / "a", text + end * bool(last), scheme=scheme) == (PLAIN, {})


def test_line_separators_inside_one_row_of_json_stay(tmp_path):
    text = json.dumps({"en": "A\u2028b\u2028c", "sw": "D"}, ensure_ascii=False)
    assert read(tmp_path / "a", text, scheme="jsonl") == ([("A\u2028b\u2028c", "D")], {})


@pytest.mark.parametrize("pair", ["ha-en", "en-ha"])
@pytest.mark.parametrize(
    "names", ["English text;Fassara", "Hausa text;Other one", "Fassara;English", "Asali;Hausa"]
)
def test_a_question_for_columns_has_them_in_the_order_of_the_pair(tmp_path, names, pair):
    rows = "".join(f"{n};Jumla ndefu namba {n};The long sentence of {n}\n" for n in range(5))
    with pytest.raises(UserError) as caught:
        read(tmp_path / "a.csv", f"No;{names}\n{rows}", pair)
    first, second = names.split(";")
    is_english_first = "English" in first or "Hausa" in second
    wanted = f"{first}+{second}" if is_english_first == (pair == "en-ha") else f"{second}+{first}"
    assert f"a.csv#{wanted}" in caught.value.fix
    assert ("#2+3 " in caught.value.fix) == (wanted == f"{first}+{second}")
