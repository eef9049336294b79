"""Odd pages and lists of a crawl: how deep they are, in which characters, and what is left of an empty list."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.corpora.reading import read
from xling.core.errors import UserError
from xling.corpora.sources import warc, webpage
from xling.text.document import Ledger


@pytest.mark.parametrize(
    ("html", "depth"),
    [
        ("<div><br><img><p>a<b>x</b></p></div>", 2),  # a line break, a picture and a paragraph need no end
        ("<ul><li>a<li>b</ul><i>c</i>", 1),
        ("</div></div><b>x</b>", 1),
        ("<div><span><div>", 3),
    ],
)
def test_the_depth_of_a_page_is_that_of_elements_that_need_an_end(html: str, depth: int) -> None:
    assert webpage._nesting_depth(html) == depth


def test_an_empty_list_of_a_local_crawl_is_told_and_left_where_it_is(tmp_path: Path) -> None:
    listed = tmp_path / "crawl-data/CC-MAIN-2024-22/wet.paths.gz"
    listed.parent.mkdir(parents=True)
    listed.write_bytes(gzip.compress(b""))
    with pytest.raises(UserError, match="is empty or damaged"):
        read("cc:CC-MAIN-2024-22", base_urls={"cc": str(tmp_path)})
    assert listed.is_file(), "it is the user's"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        # Browsers read ISO 8859-1 as Windows-1252.
        (b'<meta charset="iso-8859-1"><p>\x93caf\xe9\x94</p>', "\u201ccaf\u00e9\u201d"),
        ('<meta charset="windows-1251"><p>\u0434\u0430</p>'.encode("cp1251"), "\u0434\u0430"),
    ],
)
def test_a_page_that_no_server_describes_is_read_as_browsers_do(page: bytes, text: str) -> None:
    assert f"<p>{text}</p>" in warc.html_text(page, "text/html", Ledger())


def test_raised_digits_are_no_other_number(tmp_path: Path) -> None:
    page = "<p>Mji una watu 3×10<sup>6</sup> na km<sup class='u'>2</sup> 500, H<sub>2</sub>O, 5<sup>th</sup>.</p>"
    (tmp_path / "a.html").write_text(f"<html><body>{page}</body></html>", encoding="utf-8")
    assert [doc.text for doc in read(f"html:{tmp_path}/a.html")[0]] == [
        "Mji una watu 3×10⁶ na km² 500, H2O, 5th."
    ]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("他是<a href=x>美国</a>的<a href=y>总统</a>。", "他是美国的总统。"),
        ("今日は<ruby>晴<rt>は</rt></ruby>れです", "今日は晴れです"),
        ("मैं <b>ह</b>ूँ", "मैं हूँ"),
        ("<a href=x>1979</a>&ndash;<a href=y>1983</a>", "1979–1983"),
        ("<a href=x>1979</a> — <a href=y>1983</a>", "1979 — 1983"),
        ("<i>\ue123</i> Mail <i>•</i>", "Mail"),  # signs of a font for icons, and of a list
    ],
)
def test_a_character_by_itself_between_tags_is_no_icon(html: str, text: str) -> None:
    page = f"<html><body><article><p>{html}</p><p>{'More text of the page. ' * 9}</p></article></body></html>"
    assert webpage.text_of(page, main=True)[0].split("\n")[0] == text
    assert "\ufdd0" not in webpage.text_of(page * 400, main=True)[0]


def test_a_date_inside_of_a_sentence_is_no_byline() -> None:
    html = "<div><time>1 May</time></div><p>They met on <time datetime=x>5 May</time>, in Dodoma.</p>"
    page = f"<article>{html}<p>{'More text of the page. ' * 9}</p></article>"
    assert webpage.text_of(page, main=True)[0].split("\n")[0] == "They met on 5 May, in Dodoma."
