"""What programs of translators and databases export: codes written as text, segments, states, names of columns."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.parallel.sources.units import NO_LANGUAGE_NOTE
from xling.text.document import Ledger

CONTEXT = SourceContext(languages.get("en"), languages.get("sw"))
ENGLISH = [
    "Rain fell on the hills.",
    "The river rose,\nand it was fast.",
    "Schools were closed.",
    "The sun came back.",
]
SWAHILI = ["Mvua ilinyesha milimani.", "Mto ulipanda,\nna haraka.", "Shule zilifungwa.", "Jua lilirudi."]
TEXTS = list(zip(ENGLISH, SWAHILI, strict=True))


def read(path: Path, scheme: str, data: str | bytes) -> tuple[list[tuple[str, str]], dict[str, int], Ledger]:
    """The pairs of a file, what was dropped for which reason, and the ledger."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    ledger = Ledger()
    rows = [row[:2] for source in open_sources([f"{scheme}:{path}"], CONTEXT) for row in source.rows(ledger)]
    return rows, {reason: num for (_, reason), num in ledger.dropped.items()}, ledger


def xliff(units: str, spaces: str = "", target: str = 'target-language="sw"') -> str:
    head = f'<xliff version="1.2" {spaces}><file original="a" source-language="en" {target}>'
    return f"{head}<body>{units}</body></file></xliff>"


def unit(source: str, target: str, attributes: str = "", segments: str = "") -> str:
    return (
        f"<trans-unit {attributes}><source>{source}</source>{segments}<target>{target}</target></trans-unit>"
    )


def memory(*pairs: tuple[str, str]) -> str:
    sides = [[("en", source), ("sw", target)] for source, target in pairs]
    units = (
        "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in each) for each in sides
    )
    return f'<tmx version="1.4"><header/><body>{"".join(f"<tu>{each}</tu>" for each in units)}</body></tmx>'


CODES = [
    (
        "{b>Bold<b} rain{i_> fell<i_}",
        "{b>Nzito<b} mvua{1> ilinyesha<1}",
        "Bold rain fell",
        "Nzito mvua ilinyesha",
    ),
    (
        "<f0>Bold</f0> rain<br1/>fell",
        "<f0>Nzito</f0> mvua<x2/>ilinyesha",
        "Bold rain fell",
        "Nzito mvua ilinyesha",
    ),
    ("<1>Bold</1> <2/>rain", "<1>Nzito</1> mvua", "Bold rain", "Nzito mvua"),
    ("<h1>Rain</h1> 1 < 2 and {0}", "{name} mvua 3 > 2", "<h1>Rain</h1> 1 < 2 and {0}", "{name} mvua 3 > 2"),
]


@pytest.mark.parametrize(("source", "target", "english", "swahili"), CODES)
def test_codes_that_programs_write_as_text_are_none(
    tmp_path: Path, source: str, target: str, english: str, swahili: str
) -> None:
    source, target = escape(source), escape(target)
    assert read(tmp_path / "a.tmx", "tmx", memory((source, target)))[0] == [(english, swahili)]
    assert read(tmp_path / "a.xlf", "xliff", xliff(unit(source, target)))[0] == [(english, swahili)]


def test_numbers_in_brackets_are_codes_in_files_of_phrase_alone(tmp_path: Path) -> None:
    units = unit("Press {1}rain {{2}} {n}", "Bonyeza mvua{1}")
    phrase = xliff(units, 'xmlns:m="http://www.memsource.com/mxlf/2.0"')
    assert read(tmp_path / "a.mxliff", "xliff", phrase)[0] == [("Press rain {{2}} {n}", "Bonyeza mvua")]
    assert read(tmp_path / "b.xlf", "xliff", xliff(units))[0] == [
        ("Press {1}rain {{2}} {n}", "Bonyeza mvua{1}")
    ]


def segment(number: int, text: str) -> str:
    return f'<mrk mtype="seg" mid="{number}">{text}</mrk>'


def test_a_unit_of_which_some_segments_are_translated(tmp_path: Path) -> None:
    sources = f"<seg-source>{segment(1, 'Rain fell.')} {segment(2, 'Sun came.')}</seg-source>"
    for rest in (segment(2, ""), ""):
        file = xliff(
            unit("Rain fell. Sun came.", f"{segment(1, 'Mvua ilinyesha.')} {rest}", segments=sources)
        )
        rows, dropped, _ = read(tmp_path / "a.sdlxliff", "xliff", file)
        assert (rows, dropped) == ([("Rain fell.", "Mvua ilinyesha.")], {"missing_side": 1})
    whole = xliff(unit("Rain fell. Sun came.", "Mvua ilinyesha. Jua lilirudi.", segments=sources))
    assert read(tmp_path / "a.xlf", "xliff", whole)[0] == [
        ("Rain fell. Sun came.", "Mvua ilinyesha. Jua lilirudi.")
    ]


def test_deleted_text_and_rejected_units(tmp_path: Path) -> None:
    deleted = '<mrk mtype="x-sdl-deleted">old </mrk><mrk mtype="x-sdl-added">new </mrk>rain'
    segments = f"<seg-source>{segment(1, deleted)}</seg-source>"
    units = unit(deleted, segment(1, "mvua mpya"), segments=segments) + unit(
        "No.", "Hapana.", 'mq:status="Rejected"'
    )
    rows, dropped, _ = read(tmp_path / "a.xlf", "xliff", xliff(units, 'xmlns:mq="MQXliff"'))
    assert (rows, dropped) == ([("new rain", "mvua mpya")], {"unfinished": 1})


def test_a_file_that_says_one_language(tmp_path: Path) -> None:
    units = unit("Rain", "Mvua") + "<trans-unit><source>Sun</source></trans-unit>"
    rows, dropped, ledger = read(tmp_path / "messages.xlf", "xliff", xliff(units, target=""))
    assert (rows, dropped, ledger.notes[NO_LANGUAGE_NOTE]) == ([("Rain", "Mvua")], {"missing_side": 1}, 1)
    other = xliff(units, target="").replace('"en"', '"fr"')
    with pytest.raises(UserError, match="no unit in both en and sw"):
        read(tmp_path / "messages.xlf", "xliff", other)


def test_names_of_translators_in_catalogues(tmp_path: Path) -> None:
    messages = [
        'msgid "translator-credits"\nmsgstr "Juma"\n',
        'msgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr "Juma"\n',
        'msgctxt "EMAIL OF TRANSLATORS"\nmsgid "Your emails"\nmsgstr "j@x.org"\n',
        'msgid "Rain"\nmsgstr "Mvua"\n',
    ]
    rows, dropped, _ = read(tmp_path / "sw.po", "po", "\n".join(messages))
    assert (rows, dropped) == ([("Rain", "Mvua")], {"unfinished": 3})


def table(header: list[str], rows: list[list[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    return text.getvalue()


@pytest.mark.parametrize(
    ("header", "before", "after"),
    [
        (["Identifier", "Source String", "Translation", "Context", "Labels"], ["k"], ["", ""]),
        (["key", "source_string", "translation", "context", "character_limit"], ["k"], ["", ""]),
        (["location", "source", "target", "id", "fuzzy"], ["a.c:1"], ["", "False"]),
        (["Source text", "Target text"], [], []),
        (["Question (English)", "Jibu (Kiswahili)"], [], []),
        (["N", "Maneno [en]", "Maneno [sw-KE]"], ["1"], []),
    ],
)
def test_names_of_columns_of_translators(
    tmp_path: Path, header: list[str], before: list[str], after: list[str]
) -> None:
    rows = [[*before, english, swahili, *after] for english, swahili in TEXTS]
    assert read(tmp_path / "a.csv", "csv", table(header, rows))[:2] == (TEXTS, {})


def test_unknown_names_above_cells_of_several_lines_are_asked_about(tmp_path: Path) -> None:
    rows = [[f"k{i}", english, swahili, ""] for i, (english, swahili) in enumerate(TEXTS)]
    with pytest.raises(UserError, match="may be names of columns or text"):
        read(tmp_path / "a.csv", "csv", table(["Ufunguo", "Asili", "Tafsiri", "Muktadha"], rows * 2))


def test_a_first_row_that_is_wider_than_the_others_is_no_traceback(tmp_path: Path) -> None:
    rows = "".join(f"{english}.\t{swahili}.\n" for english, swahili in TEXTS[2:] * 4)
    with pytest.raises(UserError, match="may be names of columns or text"):
        read(tmp_path / "a.tsv", "tsv", f"Asili\tTafsiri\tMuktadha\n{rows}")


def test_a_zero_byte_costs_its_row(tmp_path: Path) -> None:
    text = table(["en", "sw"], [list(pair) for pair in TEXTS])
    kept = [TEXTS[0], *TEXTS[2:]]
    for word in ("river", "fast", "haraka"):  # in the first line of a row, in the middle and in the last one
        data = text.replace(word, f"{word[:2]}\0{word[2:]}")
        assert read(tmp_path / "a.csv", "csv", data)[:2] == (kept, {"malformed": 1})
    marked = text.encode() + "é,é\n".encode() * 4
    data = marked.replace(b"fast", b"fa\xffst")
    assert read(tmp_path / "b.csv", "csv", data)[:2] == ([*kept, *[("é", "é")] * 4], {"malformed": 1})
    lines = "Rain\nSu\0n\nRiver\n"
    (tmp_path / "c.sw").write_text("Mvua\nJua\nMto\n", encoding="utf-8")
    (tmp_path / "c.en").write_text(lines, encoding="utf-8")
    ledger = Ledger()
    rows = [
        row[:2] for source in open_sources([f"moses:{tmp_path}/c"], CONTEXT) for row in source.rows(ledger)
    ]
    assert rows == [("Rain", "Mvua"), ("River", "Mto")]
    assert ledger.dropped["read", "malformed"] == 1


def test_an_array_of_rows_on_one_line_is_told_and_lines_of_properties_are_refused(tmp_path: Path) -> None:
    rows = json.dumps([{"en": "Rain", "sw": "Mvua"}, {"en": "Sun", "sw": "Jua"}])
    pairs, dropped, ledger = read(tmp_path / "a.json", "jsonl", rows)
    assert (pairs, dropped) == ([], {"malformed": 1})
    assert ledger.notes["malformed: the first such row is an array: jq -c '.[]' makes rows of it"] == 1
    for lang in ("en", "sw"):
        (tmp_path / f"b.{lang}").write_text("".join(f"menu.{i}=Mvua\n" for i in range(6)), encoding="utf-8")
    (source,) = open_sources([f"moses:{tmp_path}/b"], CONTEXT)
    with pytest.raises(UserError, match="holds a table, markup"):
        list(source.rows(Ledger()))


def test_names_of_files_with_the_sign_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a#b.tsv"
    path.write_text("en\tsw\nRain\tMvua\n", encoding="utf-8")
    for uri in (f"tsv:{path}", f"tsv:{path}#en+sw"):
        assert [row[:2] for source in open_sources([uri], CONTEXT) for row in source.rows(Ledger())] == [
            ("Rain", "Mvua")
        ]
