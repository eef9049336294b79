"""Text whose line ends and blank lines say nothing about its documents: wrapped lines, verses, subtitles."""

from __future__ import annotations

import gzip
import json
import textwrap
from pathlib import Path

import pytest

from tests.conftest import sentences
from tests.corpora.reading import read
from xling.core.errors import UserError
from xling.corpora.sources.source import PAGES_NOTE, WRAPPED_NOTE, Context, open_source
from xling.corpora.sources.text import LIST_NOTE, SHORT_NOTE, TABLE_NOTE, TIMES_NOTE
from xling.text.document import LONE, Document, Ledger
from xling.text.long_texts import is_ended
from xling.text.wrapped_lines import join_wrapped, wrapped_width

PROSE = sentences("en") * 3
ZH = (
    "这座城市的图书馆经过长时间的修缮之后重新开放许多市民前来参观。他们说新的阅览室很明亮，孩子们也有自己的房间。"
    * 30
)
HI = " ".join(
    f"कल शाम को {'बहुत ' * (i % 5)}बच्चे नदी के किनारे खेल रहे थे और उनकी माँ घर पर {'गरम ' * (i % 3)}खाना बना रही थी।"
    for i in range(40)
)


def read_file(scheme: str, folder: Path, content: bytes) -> tuple[list[Document], Ledger]:
    (folder / "a.txt").write_bytes(content)
    return read(f"{scheme}:{folder / 'a.txt'}")


@pytest.mark.parametrize("text", [" ".join(PROSE), HI])
@pytest.mark.parametrize("width", [45, 72])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_broken_by_a_program_are_joined(tmp_path: Path, text: str, width: int, line_end: str) -> None:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    docs, ledger = read_file("text", tmp_path, line_end.join(lines).encode())
    assert " ".join(docs[0].text.split()) == " ".join(text.split())
    assert ledger.notes[WRAPPED_NOTE] == 1


def test_lines_of_a_script_without_spaces_are_joined_without_blanks(tmp_path: Path) -> None:
    docs, _ = read_file("text", tmp_path, "\n".join(ZH[i : i + 35] for i in range(0, len(ZH), 35)).encode())
    assert docs[0].text == ZH


def test_a_blank_line_in_wrapped_text_ends_a_paragraph(tmp_path: Path) -> None:
    parts = [" ".join(PROSE[i : i + 4]) for i in range(0, 60, 4)]
    text = "\n\n".join("\n".join(textwrap.wrap(part, 60, break_on_hyphens=False)) for part in parts)
    docs, _ = read_file("text", tmp_path, text.encode())
    assert docs[0].text.split("\n") == parts
    row = json.dumps({"text": text})
    docs, ledger = read_file("jsonl", tmp_path, row.encode())
    assert len(docs) == ledger.notes[WRAPPED_NOTE] == 1
    assert " ".join(docs[0].text.split()) == " ".join(parts)


@pytest.mark.parametrize(
    "lines",
    [
        ["Rosen sind rot", "Veilchen sind blau", "Der Mond scheint hell", "Auf die grüne Au"] * 10,
        PROSE,
        [
            "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。春眠不覺曉，",
            "處處聞啼鳥。夜來風雨聲，花落知多少。白日依山盡，",
        ]
        * 20,
        ["one two three four five six seven"] * 5,
    ],
)
def test_verses_and_sentences_are_not_wrapped(lines: list[str]) -> None:
    assert wrapped_width(lines) == 0


def test_no_character_is_lost_and_memory_is_bounded() -> None:
    lines = textwrap.wrap(" ".join(PROSE * 20), 70, break_on_hyphens=False)
    paragraphs = list(join_wrapped(lines, 70))
    assert " ".join(paragraphs).split() == " ".join(lines).split()
    assert max(map(len, paragraphs)) < 10_000


def test_sentences_with_a_blank_line_after_each_are_documents(tmp_path: Path) -> None:
    docs, ledger = read_file("text", tmp_path, "\n\n".join(PROSE).encode())
    assert [doc.text for doc in docs] == PROSE
    assert {doc.form for doc in docs} == {LONE}
    assert ledger.notes[LIST_NOTE] == 1


def test_short_documents_of_whole_sentences_stay_apart(tmp_path: Path) -> None:
    texts = [f"Der Ort {n} liegt am Fluss.\nEr hat eine Brücke.\nDort wohnen {n} Leute." for n in range(60)]
    docs, ledger = read_file("text", tmp_path, "\n\n".join(texts).encode())
    assert [doc.text for doc in docs] == texts
    assert SHORT_NOTE not in ledger.notes


def test_stanzas_are_one_text(tmp_path: Path) -> None:
    stanzas = ["Rosen sind rot,\nVeilchen sind blau,\nder Mond scheint hell\nauf die grüne Au."] * 60
    docs, ledger = read_file("text", tmp_path, "\n\n".join(stanzas).encode())
    assert [doc.text for doc in docs] == ["\n".join(stanzas)]
    assert ledger.notes[SHORT_NOTE] == 1


@pytest.mark.parametrize(("head", "comma", "hours"), [("", ",", "00:"), ("WEBVTT\n\n", ".", "")])
def test_times_of_subtitles_are_left_out(tmp_path: Path, head: str, comma: str, hours: str) -> None:
    lines = textwrap.wrap(" ".join(PROSE), 40, break_on_hyphens=False)
    cues = [
        f"{i + 1}\n{hours}00:{i % 60:02d}{comma}000 --> {hours}00:{i % 60:02d}{comma}900\n{line}\n"
        for i, line in enumerate(lines)
    ]
    docs, ledger = read_file("text", tmp_path, (head + "\n".join(cues)).encode())
    assert "\n".join(doc.text for doc in docs).replace("\n", " ") == " ".join(PROSE)
    assert ledger.notes[TIMES_NOTE] == 2 * len(lines) + bool(head)


def test_notes_names_and_tags_of_webvtt_are_no_text(tmp_path: Path) -> None:
    head = "WEBVTT\nKind: captions\nLanguage: en\n\nSTYLE\n::cue { color: red }\n\nNOTE by a program\n\n"
    cues = [
        f"a3f-{i}/1-0\n00:{i:02d}.000 --> 00:{i:02d}.900 align:start\n<v Juma Ali>{text}</v>\n"
        for i, text in enumerate(PROSE[:6])
    ]
    docs, ledger = read_file("text", tmp_path, (head + "\n".join(cues)).encode())
    assert [doc.text.replace("\n", " ") for doc in docs] == [" ".join(PROSE[:6])]
    assert ledger.notes[TIMES_NOTE] == 6 + 2 * 6


def test_captions_that_roll_are_read_once(tmp_path: Path) -> None:
    cues = [
        f"00:{i:02d}.000 --> 00:{i:02d}.500\n \n{text[:4]}<00:{i:02d}.100><c>{text[4:]}</c>\n\n"
        f"00:{i:02d}.500 --> 00:{i:02d}.900\n{text}\n \n"
        for i, text in enumerate(PROSE[:6])
    ]
    docs, _ = read_file("text", tmp_path, ("WEBVTT\n\n" + "\n".join(cues)).encode())
    assert [doc.text.replace("\n", " ") for doc in docs] == [" ".join(PROSE[:6])]


def test_tags_of_subrip_are_no_text(tmp_path: Path) -> None:
    cues = [
        f"{i}\n00:00:{i:02d},000 --> 00:00:{i:02d},900\n{{\\an8}}<i>{text}</i>\n"
        for i, text in enumerate(PROSE[:6])
    ]
    docs, _ = read_file("text", tmp_path, "\n".join(cues).encode())
    assert [doc.text.replace("\n", " ") for doc in docs] == [" ".join(PROSE[:6])]


@pytest.mark.parametrize("scheme", ["text", "lines"])
@pytest.mark.parametrize(
    "line",
    [
        "\\v {i} {text}",  # USFM
        "{i}\t{text}",  # the Leipzig corpora
        "1089-134686-{i:04d} {text}",  # LibriSpeech, Kaldi
        "{{{i}0}}{{{i}9}}{text}",  # MicroDVD
        "[00:{i:02d}.10]{text}",  # lyrics
        "Dialogue: 0,0:00:{i:02d}.00,0:00:09.00,Default,,0,0,0,,{text}",
        "# text = {text}\n1\tThe\tthe\tDET\n2\tsea\tsea\tNOUN\n",  # CoNLL-U
    ],
)
def test_lines_of_other_formats_are_announced(tmp_path: Path, scheme: str, line: str) -> None:
    rows = "\n".join(line.format(i=i, text=text) for i, text in enumerate(PROSE[:9]))
    assert read_file(scheme, tmp_path, rows.encode())[1].notes[TABLE_NOTE] == 1
    assert TABLE_NOTE not in read_file(scheme, tmp_path, "\n".join(PROSE[:9]).encode())[1].notes


@pytest.mark.parametrize("separator", ["\t", ";"])
def test_a_table_read_as_text_is_announced(tmp_path: Path, separator: str) -> None:
    path = tmp_path / ("a.txt" if separator == "\t" else "a.CSV.gz")
    rows = "".join(f"{number}{separator}{text}\n" for number, text in enumerate(["heading", *PROSE[:9]]))
    path.write_bytes(rows.encode() if separator == "\t" else gzip.compress(rows.encode()))
    _, ledger = read(f"text:{path}")
    assert ledger.notes[TABLE_NOTE] == 1
    path = tmp_path / "b.txt"
    path.write_text("".join(f"{text}\n" for text in PROSE[:9]), encoding="utf-8")
    assert TABLE_NOTE not in read(f"text:{path}")[1].notes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("my/a.csv", "for example csv:my/a.csv#COLUMN"),
        ("my/a.docx", "for example docx:my/a.docx$"),
        (".", r"for example text:\./\*"),
        ("my/a.xlsx", "for example xlsx:my/a.xlsx#COLUMN"),
    ],
)
def test_the_fix_fits_the_file(given: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_source(given, Context(lang="sw"))


@pytest.mark.parametrize(
    "form", ["{}", "- {} -", "[{}]", "Page {}", "{}    THE HOUSE", "The House   {}", "{} | Nyumba"]
)
@pytest.mark.parametrize("around", [("\n\n", "\n\f"), ("\n", "\n"), ("\n\n\n", "\n\n\n"), ("\n\f", "\n\n")])
def test_numbers_of_pages_between_wrapped_lines_are_no_text(
    tmp_path: Path, form: str, around: tuple[str, str]
) -> None:
    lines = textwrap.wrap(" ".join(PROSE * 4), 60, break_on_hyphens=False)
    pages = ["\n".join(lines[start : start + 23]) for start in range(0, len(lines), 23)]
    numbers = [n for n in range(7, 7 + len(pages) + 1) if n != 10]  # a page with a picture
    text = "".join(
        f"{page}{around[0]}{form.format(n)}{around[1]}" for n, page in zip(numbers, pages, strict=True)
    )
    docs, ledger = read_file("text", tmp_path, text.encode())
    assert " ".join(" ".join(doc.text for doc in docs).split()) == " ".join(" ".join(PROSE * 4).split())
    assert ledger.notes[PAGES_NOTE] == len(pages) > 5
    if around[0] == "\n":
        assert all(is_ended(line) for line in docs[0].text.split("\n"))
    docs, ledger = read_file("jsonl", tmp_path, json.dumps({"text": text}).encode())
    assert ledger.notes[PAGES_NOTE] == len(pages)


def test_numbers_between_wrapped_lines_that_are_no_pages_stay(tmp_path: Path) -> None:
    """Chapters begin behind the end of a sentence, and years do not count up."""
    parts = [
        "\n".join(textwrap.wrap(" ".join(PROSE[i : i + 9]), 60, break_on_hyphens=False))
        for i in range(0, 60, 9)
    ]
    for numbers in (range(1, 9), (1984, 12, 7, 1985, 3, 2001, 44)):
        text = "".join(f"{part}\n\n{n}\n\n" for n, part in zip(numbers, parts, strict=False))
        docs, ledger = read_file("text", tmp_path, text.encode())
        found = [line for doc in docs for line in doc.text.split("\n") if line.isdigit()]
        assert found == [str(n) for n in numbers][: len(parts)]
        assert not ledger.notes[PAGES_NOTE]
