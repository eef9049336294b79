"""Tables as R, spreadsheets, fast_align and Tatoeba write them: cells without names, lines above the names."""

import json
import re

import pytest

from tests.corpora.examples import xlsx_of
from xling import cli
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.parallel.sources.grids import OTHER_TABLES
from xling.corpora.sources.source import Context, open_source
from xling.corpora.stages.contamination import texts_of
from xling.text.document import Ledger

PAIRS = [(f"The library {i} opened in spring.", f"Maktaba {i} ilifunguliwa masika.") for i in range(30)]


def pairs(path, text, columns="", scheme="csv"):
    """The pairs of a file, and the reasons why rows were dropped."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ledger = Ledger()
    sources = open_sources([f"{scheme}:{path}{columns}"], SourceContext(*languages.get_pair("en-sw")))
    found = [row[:2] for source in sources for row in source.rows(ledger)]
    return found, {reason: num for (_, reason), num in ledger.dropped.items()}, ledger


def texts(path, text, columns=""):
    """The documents of a table."""
    path.write_text(text, encoding="utf-8")
    ledger = Ledger()
    source = open_source(f"csv:{path}{columns}", Context("sw"))
    return [doc.text for shard in source.shards() for doc in source.read(shard, ledger)]


@pytest.mark.parametrize(("mark", "scheme"), [("\t", "tsv"), ("\t", "csv"), (",", "csv"), (";", "csv")])
@pytest.mark.parametrize("extra", ["", "id"])
def test_numbers_of_rows_without_a_name_as_r_writes_them(tmp_path, mark, scheme, extra):
    names = mark.join(filter(None, [extra, "en", "sw"]))
    rows = "".join(
        mark.join([str(i), *([f"{i + 7}"] if extra else []), *pair]) + "\n" for i, pair in enumerate(PAIRS)
    )
    assert pairs(tmp_path / "a", f"{names}\n{rows}", scheme=scheme)[:2] == (PAIRS, {})
    quoted = "".join(f'"{i}","{sw}"\n' for i, (_, sw) in enumerate(PAIRS))
    assert texts(tmp_path / "b", f'"text"\n{quoted}') == [sw for _, sw in PAIRS]


def test_a_mark_at_the_end_of_each_row_is_no_column(tmp_path):
    rows = "".join(f"{i},{en},{sw},\n" for i, (en, sw) in enumerate(PAIRS))
    assert pairs(tmp_path / "a", f"id,en,sw\n{rows}")[:2] == (PAIRS, {})
    assert texts(tmp_path / "b", f"id,note,text\n{rows}") == [sw for _, sw in PAIRS]


def test_commas_inside_unquoted_texts_are_still_malformed(tmp_path):
    rows = "".join(f"{i},Maktaba {i}, ilifunguliwa.\n" for i in range(30))
    assert texts(tmp_path / "a", f"id,text\n{rows}") == []


@pytest.mark.parametrize(
    "above", ["Export of the survey\n\n", "# made by a tool\n# licence: CC0\n", '# made by "a tool\n']
)
@pytest.mark.parametrize("scheme", ["csv", "tsv"])
def test_lines_above_the_names_of_the_columns_are_no_pairs(tmp_path, above, scheme):
    mark = "," if scheme == "csv" else "\t"
    rows = "".join(f"{en}{mark}{sw}\n" for en, sw in PAIRS)
    found, dropped, _ = pairs(tmp_path / "a", f"{above}en{mark}sw\n{rows}", scheme=scheme)
    assert (found, dropped) == (PAIRS, {"malformed": above.strip().count("\n") + 1})


def test_the_format_of_fast_align(tmp_path):
    quoted = [(f'"{en}', sw) for en, sw in PAIRS]
    text = "".join(f"{en} ||| {sw}\n" for en, sw in quoted)
    assert pairs(tmp_path / "a", text)[:2] == (quoted, {})
    assert pairs(tmp_path / "a", text, scheme="tsv")[:2] == (quoted, {})


def test_test_rows_in_the_format_of_fast_align_are_found(tmp_path):
    (tmp_path / "a.txt").write_text("The sea is wide. ||| Bahari ni pana.\n", encoding="utf-8")
    assert list(texts_of(tmp_path / "a.txt")) == ["The sea is wide.", "Bahari ni pana."]


def test_numbers_before_the_texts_are_asked_about_with_a_remedy_that_works(tmp_path):
    text = "".join(f"{i}\t{en}\t{i + 9}\t{sw}\n" for i, (en, sw) in enumerate(PAIRS))
    with pytest.raises(UserError, match="numbers stand below it") as refused:
        pairs(tmp_path / "a.tsv", text, scheme="tsv")
    assert refused.value.fix.endswith(f"as in tsv:{tmp_path}/a.tsv#2+4")
    assert pairs(tmp_path / "a.tsv", text, "#2+4", "tsv")[0] == PAIRS
    with pytest.raises(UserError, match="any may be the text") as refused:
        texts(tmp_path / "b", "".join(f"{i}\tswh\t{sw}\n" for i, (_, sw) in enumerate(PAIRS)))
    assert refused.value.fix.endswith(f"as in csv:{tmp_path}/b#3")


def test_what_a_failed_formula_shows_is_no_text(tmp_path):
    text = "en,sw\nThe end.,#VALUE!\nThe sea.,Bahari.\n#N/A,Mto.\n"
    assert pairs(tmp_path / "a", text)[0] == [("The end.", ""), ("The sea.", "Bahari."), ("", "Mto.")]
    assert texts(tmp_path / "b", "text,n\n#NAME?,1\nBahari.,2\nNambari #1.,3\n") == ["Bahari.", "Nambari #1."]


def test_sheets_of_something_else_titles_and_cells_that_are_no_text(tmp_path):
    notes = [("Term", "Note"), ("sea", "checked twice")]
    rows = [
        ("Glossary", ""),
        ("English", "Kiswahili"),
        ("The sea.", "Bahari."),
        ("Truth.", '<c t="b"><v>1</v></c>'),
    ]
    found, dropped, ledger = pairs(tmp_path / "a.xlsx", xlsx_of(notes, rows), scheme="xlsx")
    assert found == [("The sea.", "Bahari."), ("Truth.", "")]
    assert dropped == {"malformed": 1}
    assert ledger.notes[OTHER_TABLES] == 1
    numbered = [(f"{i}", en, sw) for i, (en, sw) in enumerate(PAIRS)]
    with pytest.raises(UserError, match="numbers stand below it") as refused:
        pairs(tmp_path / "b.xlsx", xlsx_of(numbered), scheme="xlsx")
    assert refused.value.fix.endswith(f"as in xlsx:{tmp_path}/b.xlsx#2+3")
    assert pairs(tmp_path / "b.xlsx", xlsx_of(numbered), "#2+3", "xlsx")[0] == PAIRS


@pytest.mark.parametrize(
    ("row", "places"),
    [
        ("1.0{i}\t{en}\t{sw}", "2+3"),  # CCMatrix
        (
            "example.org\thttps://example.org/en/{i}\t{en}\thttps://example.org/sw/{i}\t{sw}",
            "3+5",
        ),  # CCAligned
        ("https://a.org/{i}\thttps://b.org/{i}\t{en}\t{sw}\t0.9", "3+4"),  # Bitextor
        ("app.title.{i}\t{en}\t{sw}", "2+3"),
        ("en\tsw\t{en}\t{sw}", "3+4"),
    ],
)
def test_columns_that_are_no_text_are_never_taken_for_a_side(tmp_path, row, places):
    text = "".join(row.format(i=i, en=en, sw=sw) + "\n" for i, (en, sw) in enumerate(PAIRS))
    with pytest.raises(UserError, match="codes, identifiers, addresses or numbers") as refused:
        pairs(tmp_path / "a.tsv", text, scheme="tsv")
    assert refused.value.fix.endswith(f"#{places}")
    assert pairs(tmp_path / "a.tsv", text, f"#{places}", "tsv")[:2] == (PAIRS, {})


def test_a_table_of_numbers_and_one_text_holds_no_pairs(tmp_path):
    with pytest.raises(UserError, match="2 columns, and not 2 of texts"):
        pairs(tmp_path / "a.tsv", "".join(f"{i}\t{en}\n" for i, (en, _) in enumerate(PAIRS)), scheme="tsv")


def test_a_code_of_a_language_above_other_codes_names_no_column(tmp_path):
    """Tatoeba's list of sentences in all languages, whose first one is in the language."""
    text = "".join(f"{i}\tswh\t{sw}\n{i}\teng\t{en}\n" for i, (en, sw) in enumerate(PAIRS))
    with pytest.raises(UserError, match="3 columns, and any may be the text") as refused:
        texts(tmp_path / "a.csv", text)
    assert refused.value.fix.endswith("#3")
    assert texts(tmp_path / "b.csv", f"id\tlang\ttext\n{text}") == [
        each for en, sw in PAIRS for each in (sw, en)
    ]


def test_the_names_of_the_columns_between_joined_files_are_no_rows(tmp_path):
    text = "en\tsw\n" + "".join(f"{en}\t{sw}\n" for en, sw in PAIRS)
    assert pairs(tmp_path / "a.tsv", text * 3, scheme="tsv")[:2] == (PAIRS * 3, {"malformed": 2})
    assert texts(tmp_path / "b.csv", ("text\n" + PAIRS[0][1] + "\n") * 2) == [PAIRS[0][1]] * 2


@pytest.mark.parametrize("scheme", ["tsv", "jsonl", "xlsx"])
def test_rows_that_state_their_languages_are_turned_or_dropped(tmp_path, scheme):
    names = ["src_lang", "tgt_lang", "source", "target"]
    rows = [
        ["en", "swh", *PAIRS[0]],
        ["sw", "en-GB", *reversed(PAIRS[1])],
        ["en", "fr", *PAIRS[2]],
        ["", "sw", *PAIRS[3]],
    ]
    if scheme == "jsonl":
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    else:
        text = "".join("\t".join(row) + "\n" for row in [names, *rows])
    data = xlsx_of([names, *rows]) if scheme == "xlsx" else text
    assert pairs(tmp_path / "a", data, scheme=scheme)[:2] == (
        [PAIRS[0], PAIRS[1], PAIRS[3]],
        {"malformed": 1},
    )
    plain = text.replace("source", "en").replace("target", "sw")  # named by languages, so no row is otherwise
    if scheme != "xlsx":
        assert len(pairs(tmp_path / "b", plain, scheme=scheme)[0]) == 4


def test_the_fields_of_a_row_without_two_texts_are_named(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"src_text": "Rain", "tgt_text": "Mvua"}\n', encoding="utf-8")
    words = ["corpus", "parallel", "pair=en-sw", f"source=jsonl:{tmp_path}/a.jsonl", f"out={tmp_path}/out"]
    assert cli.main(words) == 2
    assert "the first such row has src_text, tgt_text" in capsys.readouterr().err


@pytest.mark.parametrize("mark", ["\t", ","])
def test_a_backslash_before_a_line_end_or_a_delimiter_is_in_the_cell(tmp_path, mark):
    """Rows of MySQL's INTO OUTFILE: line ends, delimiters and backslashes inside of cells, in any column."""
    stories = [
        "Habari ya asubuhi na karibu.", f"Leo ni{mark} siku njema.", "Mstari wa kwanza.\nMstari wa pili.\nWa tatu.",
        "Njia ni hii \\", "Mwisho ni huu hapa.",
    ] * 4  # fmt: skip
    rows = [
        (str(n), text, f"maelezo {n}\nna zaidi" if n % 5 == 2 else "maelezo\\")
        for n, text in enumerate(stories)
    ]
    lines = [mark.join(re.sub(rf"([\\\n{mark}])", r"\\\1", cell) for cell in row) + "\n" for row in rows]
    assert texts(tmp_path / "a", "".join(lines), "#2") == [text.replace("\\", "\\\\") for text in stories]
    as_pairs, lost, _ = pairs(tmp_path / "a", "".join(lines), "#2+3")
    assert (len(as_pairs), lost) == (20, {})
    assert as_pairs[2] == (stories[2], "maelezo 2\nna zaidi")


def test_a_row_that_ends_in_a_backslash_is_not_joined_to_the_next(tmp_path):
    lines = [f"{n}\tFaili iko kwenye C:\\nyumba{n}\\\n" for n in range(8)]
    assert len(texts(tmp_path / "a", "".join(lines), "#2")) == 8
