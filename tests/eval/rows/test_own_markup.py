"""Own translations as TMX, XLIFF and the XML of WMT's test sets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.eval.rows.own import define
from xling.eval.rows.own_files import OwnFiles

PAIRS = [("One red boat.", "Ein rotes Boot."), ("Two < 3 books.", "Zwei & drei Bücher.")]
TMX = """<?xml version="1.0"?><tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en-GB"><seg>One red boat.</seg></tuv><tuv xml:lang="de"><seg>Ein rotes Boot.</seg></tuv></tu>
<tu><tuv xml:lang="en-GB"><seg>Nothing else.</seg></tuv><tuv xml:lang="fr"><seg>Rien.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Zwei &amp; drei Bücher.</seg></tuv><tuv xml:lang="en-GB"><seg>Two &lt; 3 books.</seg></tuv>
</tu></body></tmx>"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>One red boat.</source><target>Ein rotes Boot.</target></trans-unit>
<trans-unit id="2"><source>Two &lt; 3 books.</source><target>Zwei &amp; drei Bücher.</target></trans-unit>
</body></file></xliff>"""
WMT = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="t"><collection id="general"><doc origlang="en" id="a">
<src lang="en"><p><seg id="1">One red boat.</seg></p><p><seg id="2">Nothing else.</seg></p></src>
<ref lang="de" translator="B"><p><seg id="1">Ein rotes Boot.</seg></p></ref>
<ref lang="de" translator="A"><p><seg id="1">Rotes Boot!</seg></p></ref>
<hyp system="x" lang="de"><p><seg id="1">Boot</seg><seg id="2">Nichts.</seg></p></hyp></doc>
<doc origlang="de" id="b"><src lang="en"><p><seg id="1">Two &lt; 3
books.</seg></p></src><ref lang="de" translator="B"><p><seg id="1"> Zwei &amp; drei Bücher.</seg></p></ref></doc>
</collection></dataset>"""
SGML = '<refset setid="t" srclang="en" trglang="de"><doc><seg id="1">Ein Boot.</seg></doc></refset>\n'


def rows_of(path: Path, pair: str, kind: str = "mt") -> list[tuple[str, ...]]:
    suite = define(OwnFiles(**{kind: (str(path),)}, test={pair: (str(path),)} if pair else ()), "en", "test")
    ((key, paths),) = suite.own.items()
    assert key == (pair or "en-de", "test")
    return [(*example.fields.values(), example.label) for _, _, example in suite.reader(paths)]


@pytest.mark.parametrize("kind", ["mt", "retrieval"])
@pytest.mark.parametrize(("name", "text"), [("t.TMX", TMX), ("t.xlf", XLIFF), ("t.xml", WMT)])
def test_the_rows_are_those_of_line_aligned_files(tmp_path: Path, name: str, text: str, kind: str) -> None:
    for lang, side in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"test.{lang}").write_text("".join(f"{line}\n" for line in side))
    suite = define(OwnFiles(**{kind: (str(tmp_path / "test.en"), str(tmp_path / "test.de"))}), "en", "test")
    wanted = [(*e.fields.values(), e.label) for _, _, e in suite.reader(suite.own["en-de", "test"])]
    assert {*PAIRS[0]} <= {*wanted[0]}
    (tmp_path / name).write_text(text)
    assert rows_of(tmp_path / name, "en-de", kind) == wanted


def test_either_side_is_the_source(tmp_path: Path) -> None:
    (tmp_path / "t.tmx").write_text(TMX)
    assert [row[:1] for row in rows_of(tmp_path / "t.tmx", "de-en")] == [(pair[1],) for pair in PAIRS]
    shutil.copy(tmp_path / "t.tmx", tmp_path / "news.en-de.tmx")
    assert [row[:1] for row in rows_of(tmp_path / "news.en-de.tmx", "")] == [(pair[0],) for pair in PAIRS]


def test_what_is_left_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.tmx").write_text(TMX)
    rows_of(tmp_path / "t.tmx", "en-de")
    assert "TMX, 1 units without the two texts" in capsys.readouterr().err
    (tmp_path / "t.xml").write_text(WMT)
    assert [row[0] for row in rows_of(tmp_path / "t.xml", "de-en")] == [pair[1] for pair in PAIRS]
    told = capsys.readouterr().err
    assert "a test set of WMT, 1 units without the two texts or unfinished left out" in told
    assert "1 references by another translator than B" in told


def test_a_damaged_test_set_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.xml").write_text(WMT.replace("Ein rotes Boot.</seg>", "Ein rotes Boot."))
    assert [row[0] for row in rows_of(tmp_path / "t.xml", "en-de")] == [PAIRS[1][0]]
    assert "a test set of WMT, 1 units" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.tmx", TMX, "has no unit in both sw and fr"),
        ("t.xlf", XLIFF, "has no unit in both sw and fr"),
        ("t.xml", WMT, "has no unit in both sw and fr"),
        ("t.xml", SGML, "is XML or SGML of other kinds; .* sacrebleu -t wmt22 -l en-de --echo src"),
        ("t.sgm", SGML, "is XML or SGML of other kinds"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said):
        rows_of(tmp_path / name, "sw-fr")


@pytest.mark.parametrize("name", ["memory.tmx", "memory.xml"])
def test_languages_that_nobody_names_are_asked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TMX)
    with pytest.raises(UserError, match="the languages of its two columns"):
        rows_of(tmp_path / name, "")
