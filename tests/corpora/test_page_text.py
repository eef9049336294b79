"""Pages whose main content is too short to keep: their running text elsewhere is read, their menus are not."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.crawl import BOILERPLATE, SENTENCES, sentences
from tests.corpora.reading import read
from tests.corpora.test_sources import page
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.sources.page_text import RESCUED_NOTE
from xling.corpora.sources.warc import html_text
from xling.text.document import Ledger

MENU = "".join(
    f"<li><a href='/{word}'>{word}</a></li>" for word in ("Home", "News", "Contact", "Shop", "Help", "Jobs")
)
MORE = {
    "ru": "Столица страны стоит на берегу большой реки. Каждое утро дети идут в школу вместе с друзьями. "
    "Вчера вечером в северных горах прошёл сильный дождь.",
    "am": "ከተማዋ የምትገኘው በትልቅ ወንዝ ዳርቻ ነው። ልጆች በየማለዳው ከጓደኞቻቸው ጋር ወደ ትምህርት ቤት ይሄዳሉ። ትናንት ማታ በሰሜን ተራሮች ከባድ ዝናብ ጣለ።",
    "hi": "यह पुराना शहर एक बड़ी नदी के किनारे बसा है। बच्चे हर सुबह अपने दोस्तों के साथ स्कूल जाते हैं। "
    "कल रात उत्तर के पहाड़ों में बहुत बारिश हुई।",
}


def paragraphs_of(lang: str) -> list[str]:
    """Six paragraphs of several sentences, no two of them the same."""
    if lang in MORE:
        return [f"{MORE[lang]} {MORE[lang]} ({i})." for i in range(6)]
    pool, joint = sentences(lang), "" if lang == "zh" else " "
    return [joint.join((pool[i:] + pool[:i])[:9]) for i in range(6)]


def html_of(paragraphs: list[str], main: str = "<h1>4711-R</h1><p>Data sheet</p>") -> str:
    """A page with its text outside of what its elements call the main content."""
    lines = "".join(f"<p>{line}</p>" for line in paragraphs)
    return (
        f"<html><body><nav><ul>{MENU}</ul></nav><main>{main}</main><div id='footer' class='footer'>{lines}</div>"
        f"<footer><ul>{MENU}</ul><p>{BOILERPLATE}</p></footer></body></html>"
    )


@pytest.mark.parametrize("lang", [*SENTENCES, *MORE])
@pytest.mark.parametrize("scheme", ["warc", "html"])
def test_paragraphs_outside_of_a_short_main_content_are_read(tmp_path: Path, scheme: str, lang: str) -> None:
    lines = paragraphs_of(lang)
    html = html_of([*lines, lines[0]])
    path = tmp_path / {"warc": "a.warc.gz", "html": "a.html"}[scheme]
    path.write_bytes(gzip.compress(page(html)) if scheme == "warc" else html.encode())
    docs, ledger = read(f"{scheme}:{path}", lang, extract="auto", min_main=300)
    assert [doc.text.split("\n") for doc in docs] == [lines]
    assert ledger.notes[RESCUED_NOTE] == 1


@pytest.mark.parametrize(
    "body",
    [
        [],
        [
            "Shop » Cars » Antennas and cables » Indoor antennas for cars, boats and mobile homes » GSM, DECT, UMTS"
        ]
        * 4,
        [
            f"1 High Street, {i} Town, Phone 0123 456{i}, Fax 0123 457, open from nine to five"
            for i in range(9)
        ],
        [
            "A single sentence is no text, however long it may be, since a page of three hundred needs more than it."
        ],
    ],
)
def test_a_page_of_menus_stays_as_short_as_it_is(tmp_path: Path, body: list[str]) -> None:
    (tmp_path / "a.html").write_text(html_of(body), encoding="utf-8")
    docs, ledger = read(f"html:{tmp_path}/a.html", "en", extract="auto", min_main=300)
    assert [doc.text for doc in docs] == ["4711-R\nData sheet"]
    assert not ledger.notes


def test_enough_main_content_is_all_that_is_read(tmp_path: Path) -> None:
    lines = paragraphs_of("sw")
    html = html_of(lines[1:], f"<p>{lines[0]}</p>")
    (tmp_path / "a.html").write_text(html, encoding="utf-8")
    docs, ledger = read(f"html:{tmp_path}/a.html", "sw", extract="auto", min_main=len(lines[0]))
    assert [doc.text for doc in docs] == [lines[0]]
    assert not ledger.notes


def build(folder: Path, name: str = "a", **settings: Any) -> list[str]:
    """The texts of a corpus of one page."""
    stages = {"dedup": "false", "near_dedup": "false", "lm": {"model": "none"}, "after_dedup": ["langid"]}
    words = {"lang": "sw", "source": f"html:{folder}/a.html", "out": str(folder / name)}
    run_local("corpus mono", config.from_dict(MonoConfig, words | stages | settings))
    return [doc.text for doc in read_corpus(folder / name)]


def test_what_is_too_short_is_what_the_build_would_drop(tmp_path: Path) -> None:
    lines = paragraphs_of("sw")
    short = " ".join(sentences("sw")[:2])
    (tmp_path / "a.html").write_text(html_of(lines, f"<p>{short}</p>"), encoding="utf-8")
    with pytest.raises(UserError, match="short"):
        build(tmp_path, "main", extract="main")
    assert build(tmp_path) == ["\n".join(lines)]
    assert build(tmp_path, "shorter", settings={"length": {"min_chars": 50}}) == [short]
    assert build(tmp_path, "any", before_dedup=["repair"]) == [short]


def test_extract_is_for_sources_of_html_alone(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(html_of(paragraphs_of("sw")), encoding="utf-8")
    (tmp_path / "a.txt").write_text("Habari za leo.\n", encoding="utf-8")
    assert "Contact" in build(tmp_path, extract="all")[0]
    with pytest.raises(UserError, match="extract"):
        build(tmp_path, "text", extract="all", source=f"text:{tmp_path}/a.txt")


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\xe4", b"\x80"])
def test_a_bad_byte_leaves_a_page_in_utf8(bad: bytes) -> None:
    text = "比利时球星在第二十五分钟打进一球，上半场球队领先，观众都很高兴。"
    page = f"<html><body><p>{text}</p>".encode() + bad + f"<p>{text}</p></body></html>".encode()
    assert html_text(page, "", Ledger()).count(text) == 2


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_page_in_utf16_without_a_mark_is_read(encoding: str) -> None:
    page = "<html><body><p>Село стоит на берегу реки.</p></body></html>"
    assert html_text(page.encode(encoding), "", Ledger()) == page
