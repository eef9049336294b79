"""Translation memories as editors write them: inline codes, damage, encodings, comments."""

import gzip

import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.text.document import Ledger


@pytest.fixture
def context(tmp_path):
    return SourceContext(languages.get("en"), languages.get("sw"), tmp_path / "cache")


def rows(uri, context, ledger=None):
    ledger = ledger if ledger is not None else Ledger()
    return [row for source in open_sources([uri], context) for row in source.rows(ledger)]


def tmx(*segments, head=""):
    """A translation memory of English with the given text, and Swahili."""
    units = "\n".join(
        f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="sw"><seg>Nyumba {i}</seg></tuv></tu>'
        for i, text in enumerate(segments)
    )
    return f"{head}<tmx><header/><body>\n{units}\n</body></tmx>\n"


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        (r"brothers<ph>\n</ph>and", "brothers and"),
        ("brothers<ph>\n</ph>and", "brothers and"),
        (r"me<ut>\par </ut>at", "me at"),
        ("one<ph>&lt;br/&gt;</ph>two", "one two"),
        ("one<bpt i='1'>&lt;p&gt;</bpt>two", "one two"),
        ("has<ph x='1'>{0}</ph>brothers", "has brothers"),
        ("has <ph x='1'>{0}</ph> two", "has two"),
        ("press <bpt i='1'>&lt;b&gt;</bpt>Start<ept i='1'>&lt;/b&gt;</ept>.", "press Start."),
        ("un<bpt i='1'>&lt;b&gt;</bpt>believ<ept i='1'>&lt;/b&gt;</ept>able", "unbelievable"),
        ("un<it pos='begin'>&lt;i&gt;</it>real", "unreal"),
        ("A <hi type='x'>house</hi><ph>{1}</ph>.", "A house."),
        ("We saw <sub>a footnote</sub> the sea", "We saw the sea"),
        ("the<ph><sub>alt text</sub></ph>sea", "the sea"),
        ("家<ph>{0}</ph>是", "家是"),
        ("ไทย<ph>{0}</ph>ไทย", "ไทยไทย"),
        ("집<ph>{0}</ph>은", "집 은"),
        ("Дом<ph>{0}</ph>и", "Дом и"),
        ("a<ph>{0}</ph><ph>{1}</ph>b", "a b"),
        ("10<ph>%</ph>, so", "10, so"),
        ("<ph>{0}</ph>start", "start"),
        ("brothers<ph/>and<x id='1'/>sisters", "brothers and sisters"),
        ("big<ph type='lb'/>house", "big house"),
    ],
)
def test_inline_codes_separate_words_where_they_stood_for_something(tmp_path, context, segment, text):
    (tmp_path / "a.tmx").write_text(tmx(segment), encoding="utf-8")
    assert rows(f"tmx:{tmp_path}/a.tmx", context) == [(text, "Nyumba 0", "")]


@pytest.mark.parametrize(
    "damage",
    [
        "A bad \x0b char",
        "Salt & pepper",
        "a < b",
        "& nbsp;",
        "<b>open",
        "</seg>",
        "<tuv>",
        "<!-- x",
        "\x00",
        "]]> <x/",
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_units_before_and_after_damage_are_read(tmp_path, context, damage, pack):
    path, ledger = tmp_path / "a.tmx", Ledger()
    path.write_bytes(pack(tmx(*"AB", damage, *"CD").encode()))
    assert [row[0] for row in rows(f"tmx:{path}", context, ledger)] == list("ABCD")
    assert ledger.dropped == {("read", "malformed"): 1}
    assert ledger.seen["read"] == 1
    assert not ledger.unaccounted_bytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [("</tu>\n<tu>", "\n<tu>"), ("</tu>\n<tu>", "</tu>\n"), ("<tu><tuv", "<t><tuv"), ("</seg>", "")],
)
def test_a_lost_tag_costs_its_unit(tmp_path, context, old, new):
    path, ledger = tmp_path / "a.tmx", Ledger()
    text = tmx(*"ABCDE")
    place = text.index("B") - 60 if old.startswith("<tu") else text.index("B")
    path.write_text(text[:place] + text[place:].replace(old, new, 1))
    assert len(rows(f"tmx:{path}", context, ledger)) == 4
    assert ledger.dropped == {("read", "malformed"): 1}


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252"]
)
def test_encodings_of_a_translation_memory(tmp_path, context, encoding):
    path = tmp_path / "a.tmx"
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>\n'
    path.write_bytes(tmx("Café", "Ñandú", head=head).encode(encoding))
    assert [row[0] for row in rows(f"tmx:{path}", context)] == ["Café", "Ñandú"]
    # A program that copied the declaration, and wrote UTF-8.
    if encoding.startswith("utf-16"):
        path.write_bytes(tmx("Café", "Ñandú", head=head).encode())
        assert [row[0] for row in rows(f"tmx:{path}", context)] == ["Café", "Ñandú"]


def test_text_that_is_no_translation_memory_is_refused(tmp_path, context):
    path = tmp_path / "a.tmx"
    for text in ("", "<html><body>x</body></html>", tmx(), "\x00" * 100):
        path.write_text(text)
        with pytest.raises(UserError, match="holds no translation unit"):
            rows(f"tmx:{path}", context)


def test_a_huge_tag_is_refused(tmp_path, context):
    (tmp_path / "a.xml").write_text(f'<c><seg id="{"x" * (1 << 24)}">A</seg></c>')
    (tmp_path / "b").write_text("G.1\tB\n")
    with pytest.raises(UserError, match="a tag of more than"):
        rows(f"verses:{tmp_path}/a.xml+{tmp_path}/b", context)


def test_commented_units_are_none(tmp_path, context):
    path = tmp_path / "a.tmx"
    path.write_text(tmx("A", "B").replace("<tu>", "<!-- <tu><tuv/></tu> --><tu>", 1))
    assert [row[0] for row in rows(f"tmx:{path}", context)] == ["A", "B"]
    path.write_text(tmx("<![CDATA[a </tu> <tu> & b]]>", "B"))
    assert [row[0] for row in rows(f"tmx:{path}", context)] == ["a </tu> <tu> & b", "B"]


def test_a_memory_that_says_another_encoding_than_its_own_is_refused_by_name(tmp_path, context):
    text = tmx(*["The café was rénové à grands frais."] * 4, head='<?xml version="1.0" encoding="UTF-8"?>')
    (tmp_path / "a.tmx").write_bytes(text.encode("cp1252"))
    with pytest.raises(UserError, match=r"probably Windows-1252.*iconv -f CP1252"):
        rows(f"tmx:{tmp_path}/a.tmx", context)
    # A few bad bytes cost their units.
    (tmp_path / "a.tmx").write_bytes(text.encode().replace("é".encode(), b"\xe9", 1))
    assert len(rows(f"tmx:{tmp_path}/a.tmx", context)) == 3
