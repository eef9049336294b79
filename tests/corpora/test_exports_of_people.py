"""Files that programs export: a sentence a row, words divided at line ends, PDF named as a page, transcripts."""

import json
from pathlib import Path

import polars as pl
import pytest

from xling import cli
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.jsonl import LISTED_NOTE
from xling.corpora.sources.source import DIVIDED_NOTE, ROWS_NOTE, Context, open_source
from xling.corpora.sources.text import LIST_NOTE, TABLE_NOTE
from xling.text.document import Ledger
from xling.text.tokenised import undo

NAMES = [a + b for a in ("Juma", "Amina", "Musa", "Zuhura", "Baraka") for b in "abcdefghijkl"]
SENTENCES = [
    f"Mwalimu wa {name} alifika shuleni mapema na mtoto wa {other}."
    for name, other in zip(NAMES, reversed(NAMES), strict=True)
]


def read(path: Path, scheme: str, data: str | bytes = b"") -> tuple[list[str], Ledger]:
    """The texts of a file and what was counted."""
    if data:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    ledger = Ledger()
    source = open_source(f"{scheme}:{path}", Context("sw"))
    return [doc.text for shard in source.shards() for doc in source.read(shard, ledger)], ledger


@pytest.mark.parametrize("form", ["tsv", "jsonl", "parquet", "text"])
def test_rows_of_one_sentence_are_not_dropped_as_short(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pl.DataFrame({"text": SENTENCES}).write_parquet(path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"text": one}) + "\n" for one in SENTENCES), encoding="utf-8")
    elif form == "text":  # a few blocks of two lines among those of one
        path.write_text("\n\n".join(SENTENCES[:-2]) + "\n" + "\n".join(SENTENCES[-2:]), encoding="utf-8")
    else:  # of Common Voice
        rows = [f"{i}\tcommon_voice_{i}.mp3\t{one}\t2" for i, one in enumerate(SENTENCES)]
        path.write_text("client_id\tpath\tsentence\tup_votes\n" + "\n".join(rows), encoding="utf-8")
    words = ["corpus", "mono", "lang=sw", f"source={form}:{path}", f"out={tmp_path}/out"]
    assert cli.main([*words, "near_dedup=false"]) == 0
    ledger = json.loads((tmp_path / "out/stats.json").read_text(encoding="utf-8"))["ledger"]
    assert (ledger["seen"]["read"], ledger["seen"]["corpus"], ledger["dropped"]) == (60, 60, {})
    assert ledger["notes"][LIST_NOTE if form == "text" else ROWS_NOTE] == 1


def test_rows_of_paragraphs_are_judged_by_their_length(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = [f"{a} {b}" for a, b in zip(SENTENCES, reversed(SENTENCES), strict=True)]
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts), encoding="utf-8")
    assert cli.main(["corpus", "mono", "lang=sw", f"source=jsonl:{path}", f"out={tmp_path}/out"]) == 2


def divided(hyphen: str) -> str:
    """A text of 24 lines of which each third ends in a part of a word, and one in a part of a compound."""
    lines = [
        f"Die Mitglieder des Rates haben die Ver{hyphen}",
        "waltung der Stadt am Montag gebeten und so",
        "die Brücke über den Fluss bald zu öffnen wie",
    ] * 8
    lines[8] = "die E-Mail der Bürger an den Rat zu lesen so"
    lines[9] = "Die Mitglieder des Rates lesen eine große E-"
    lines[10] = "mail der Stadt und die Haupt- und Nebensätze"
    return "\n".join(lines)


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u00ad", "\u00ac"])
@pytest.mark.parametrize("scheme", ["text", "jsonl"])
def test_words_that_a_program_has_divided_are_whole(tmp_path: Path, hyphen: str, scheme: str) -> None:
    text = divided(hyphen)
    data = text if scheme == "text" else json.dumps({"text": text})
    (found,), ledger = read(tmp_path / "a", scheme, data)
    assert found.count("Verwaltung der Stadt") == 7
    assert "eine große E-mail der Stadt und die Haupt- und Nebensätze" in found
    assert ledger.notes[DIVIDED_NOTE] == 1


def test_a_compound_at_a_line_end_keeps_its_hyphen(tmp_path: Path) -> None:
    lines = ["The members of the council have asked the", "office of the mayor to open the old bridge"] * 20
    lines[4] = "The members of the council met the well-"
    lines[5] = "known mayor of the town at the old bridge"
    (found,), ledger = read(tmp_path / "a", "text", "\n".join(lines))
    assert "the well-known mayor" in found
    assert DIVIDED_NOTE not in ledger.notes


@pytest.mark.parametrize(
    "head",
    [b"%PDF-1.7\n1 0 obj <<>>", b"{\\rtf1\\ansi Mvua.}", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0JFIF"],
)
def test_files_that_are_called_pages_and_are_none(tmp_path: Path, head: bytes) -> None:
    _, ledger = read(tmp_path / "a.html", "html", head + b" <p>Mvua ilinyesha.</p>")
    assert ledger.dropped == {("read", "not HTML"): 1}
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + head
    record = f"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {len(http)}\r\n\r\n".encode() + http
    _, ledger = read(tmp_path / "a.warc", "warc", record + b"\r\n\r\n")
    assert ledger.dropped == {("read", "not HTML"): 1}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"0:0{i}\n{one}\n" for i, one in enumerate(SENTENCES[:6])),  # YouTube's transcript
        "".join(f"Mwanzo 1:{i} {one}\n" for i, one in enumerate(SENTENCES)),
        "".join(f"1 Kor 13.{i} {one}\n" for i, one in enumerate(SENTENCES)),
        "".join(f"[00:00:0{i}] {one}\n" for i, one in enumerate(SENTENCES[:6])),
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\n',
        "".join(f"{i}. {one}\n" for i, one in enumerate(SENTENCES[:6])),
        "".join(f"1:{i} {one}\n" for i, one in enumerate(SENTENCES[:6])),  # verses
    ],
)
def test_times_and_numbers_before_texts_are_announced(tmp_path: Path, text: str) -> None:
    assert read(tmp_path / "a.txt", "text", text)[1].notes[TABLE_NOTE] == 1


def test_sentences_that_begin_with_a_number_now_and_then_are_text(tmp_path: Path) -> None:
    text = "\n".join([*SENTENCES[:9], "3 Desemba ilikuwa siku ya mvua.", "12:30 saa ya chakula."])
    assert TABLE_NOTE not in read(tmp_path / "a.txt", "text", text)[1].notes


@pytest.mark.parametrize("names", [("a.EN", "a.SW"), ("a.en.txt", "a.sw.txt"), ("a.en-US", "a.sw-KE")])
def test_files_that_begin_as_a_stem_are_named(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        (tmp_path / name).write_text("Mvua.\n", encoding="utf-8")
    with pytest.raises(UserError, match="no file at") as refused:
        open_sources([f"moses:{tmp_path}/a"], SourceContext(*languages.get_pair("en-sw")))
    assert refused.value.fix.endswith(f"{tmp_path / names[0]}, {tmp_path / names[1]}")


def test_numbered_lines_of_pairs_are_cut_by_their_column(tmp_path: Path) -> None:
    for lang in ("en", "sw"):
        rows = "".join(f"{i}\t{one}\n" for i, one in enumerate(SENTENCES))
        (tmp_path / f"a.{lang}").write_text(rows, encoding="utf-8")
    (source,) = open_sources([f"moses:{tmp_path}/a"], SourceContext(*languages.get_pair("en-sw")))
    with pytest.raises(UserError, match="holds a table") as refused:
        list(source.rows(Ledger()))
    assert "cut -f2" in refused.value.fix


def test_marks_of_aligned_hansards_are_undone() -> None:
    assert undo("<s snum=0001> Mvua ilinyesha. </s>") == "Mvua ilinyesha."


def test_lists_that_are_no_text_are_not_said_to_be_joined(tmp_path: Path) -> None:
    rows = [["a", None], [["a"], ["b"]], ["a", "b"]]
    texts, ledger = read(tmp_path / "a", "jsonl", "".join(json.dumps({"text": row}) + "\n" for row in rows))
    assert (texts, ledger.notes[LISTED_NOTE], ledger.dropped) == (["a\nb"], 1, {("read", "not text"): 2})


def test_the_columns_of_a_parquet_file_without_text_are_named(tmp_path: Path) -> None:
    pl.DataFrame({"url": ["u"], "question": ["Nani?"], "answer": ["Juma."]}).write_parquet(tmp_path / "a")
    texts, ledger = read(tmp_path / "a", "parquet")
    assert (texts, ledger.dropped) == ([], {("read", "no text field"): 1})
    assert "no text field: the first such row has url, question, answer" in ledger.notes


def test_json_of_pandas_says_how_rows_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text(json.dumps({"text": {"0": SENTENCES[0]}}), encoding="utf-8")
    words = ["corpus", "mono", "lang=sw", f"source=jsonl:{tmp_path}/a", f"out={tmp_path}/out"]
    assert cli.main(words) == 2
    assert "to_json(orient='records', lines=True)" in capsys.readouterr().err


def test_pairs_in_fields_of_other_names_say_how_they_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"src_text": "A house.", "tgt_text": one}) for one in SENTENCES]
    (tmp_path / "a").write_text("\n".join(rows), encoding="utf-8")
    words = ["corpus", "parallel", "pair=en-sw", f"source=jsonl:{tmp_path}/a", f"out={tmp_path}/out"]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "the first such row has src_text, tgt_text" in said
    assert "name the two columns behind the file: FILE#SRC+TGT" in said
