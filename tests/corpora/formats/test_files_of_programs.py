"""Files that the formats' own libraries have written, named after them, and what is damaged: counted or refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.corpora.examples import docx_of
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger

GOLDEN = Path(__file__).parent / "golden"
CONTEXT = SourceContext(languages.get("en"), languages.get("sw"))
PAIRS = [("A house", "Nyumba"), ("Two dogs", "Mbwa wawili")]
PLURAL = [PAIRS[0], ("One dog", "Mbwa mmoja"), PAIRS[1]]


def rows(uri: str, ledger: Ledger) -> list[tuple[str, str]]:
    return [(src, tgt) for source in open_sources([uri], CONTEXT) for src, tgt, _ in source.rows(ledger)]


@pytest.mark.parametrize(
    ("scheme", "name", "expected", "dropped"),
    [
        ("xlsx", "openpyxl.xlsx", [*PAIRS, ("Only this", "")], {}),
        ("docx", "python-docx.docx", PAIRS, {}),
        ("eaf", "pympi.eaf#eng@A+swa@A", PAIRS, {}),
        ("eaf", "pympi.eaf", PAIRS, {}),
        ("po", "polib.po", PLURAL, {"unfinished": 2, "missing_side": 1}),
        ("xliff", "translate-toolkit.xlf", PAIRS, {"missing_side": 1}),
        ("tbx", "translate-toolkit.tbx", PAIRS, {}),
    ],
)
def test_pairs(scheme: str, name: str, expected: list[tuple[str, str]], dropped: dict[str, int]) -> None:
    ledger = Ledger()
    assert rows(f"{scheme}:{GOLDEN / name}", ledger) == expected
    assert {reason: n for (_, reason), n in ledger.dropped.items()} == dropped


@pytest.mark.parametrize(
    ("scheme", "name", "texts"),
    [
        (
            "docx",
            "python-docx.docx",
            ["Habari\nMji mkuu\nen sw\nA house Nyumba\nTwo dogs Mbwa wawili\nMwisho"],
        ),
        ("odt", "odfpy.odt", ["Habari\nMji  mkuu"]),
        (
            "epub",
            "ebooklib.epub",
            [
                "Sura 0\nMji mkuu wa nchi yetu uko karibu na bahari kubwa.",
                "Sura 1\nMvua ilinyesha sana usiku wa jana.",
            ],
        ),
        ("eaf", "pympi.eaf#swa@A", ["Nyumba\nMbwa wawili"]),
    ],
)
def test_documents_and_a_cut_file_is_counted(
    tmp_path: Path, scheme: str, name: str, texts: list[str]
) -> None:
    file, sign, tier = name.partition("#")
    (tmp_path / file).write_bytes((GOLDEN / file).read_bytes())
    (tmp_path / f"cut{Path(file).suffix}").write_bytes((GOLDEN / file).read_bytes()[:300])
    source, ledger = open_source(f"{scheme}:{tmp_path}/*{sign}{tier}", Context(lang="sw")), Ledger()
    assert [doc.text for shard in source.shards() for doc in source.read(shard, ledger)] == texts
    assert ledger.dropped == {("read", "damaged file"): 1}
    assert ledger.seen["read"] == len(texts) + 1


@pytest.mark.parametrize("scheme", ["xlsx", "docx", "eaf", "po", "xliff", "tbx", "flextext"])
@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe", b"<a><b>", b"PK\x03\x04 cut", b'msgid "a\nmsgstr'])
def test_what_is_no_such_file_is_refused(tmp_path: Path, scheme: str, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(UserError):
        rows(f"{scheme}:{tmp_path}/a", Ledger())


@pytest.mark.parametrize("scheme", ["android", "i18n"])
@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b"{}", b"<resources><string", b"<resources/>"])
def test_two_files_that_are_none_are_refused(tmp_path: Path, scheme: str, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(UserError):
        rows(f"{scheme}:{tmp_path}/a+{tmp_path}/a", Ledger())


def test_a_member_that_swells_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (1 << 25))
    for scheme in ("docx", "xlsx"):
        with pytest.raises(UserError, match="expands from"):
            rows(f"{scheme}:{tmp_path}/a.docx", Ledger())


def test_inserted_text_is_read_and_deleted_text_is_not(tmp_path: Path) -> None:
    body = (
        "<p><ins><r><t>mpya </t></r></ins><del><r><t>zamani</t></r></del><link><r><t>leo</t></r></link></p>"
    )
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", f"<document><body>{body}</body></document>")
    source = open_source(f"docx:{tmp_path}/a.docx", Context(lang="sw"))
    assert [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())] == ["mpya leo"]


def test_raised_digits_and_hidden_text_of_word(tmp_path: Path) -> None:
    def run(properties: str, text: str) -> str:
        return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"

    up, old = '<w:vertAlign w:val="superscript"/>', "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>"
    runs = (("", "10"), (up, "6"), ("", " watu, 5"), (up, "th"), ("<w:vanish/>", " siri"), (old, " leo"))
    shown = (*runs, ('<w:vanish w:val="0"/>', " na kesho"))
    body = f"<w:p>{''.join(run(*each) for each in shown)}</w:p>"
    (tmp_path / "a.docx").write_bytes(docx_of(body))
    source = open_source(f"docx:{tmp_path}/a.docx", Context(lang="sw"))
    texts = [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())]
    assert texts == ["10⁶ watu, 5th leo na kesho"]


def test_escapes_of_android_and_one_string_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "en.xml").write_text(
        '<resources xmlns:xliff="x"><string name="a">It\\\'s <b>new</b>\\u0021 <xliff:g id="n">%d</xliff:g></string>'
        '<string name="b" translatable="false">xling</string><string name="c">@string/a</string>'
        '<plurals name="p"><item quantity="one">1 dog</item></plurals><string name="only">x</string></resources>',
        encoding="utf-8",
    )
    (tmp_path / "sw.xml").write_text(
        '<resources><string name="a">Ni mpya</string><string name="b">xling</string>'
        '<plurals name="p"><item quantity="one">Mbwa 1</item></plurals></resources>',
        encoding="utf-8",
    )
    ledger = Ledger()
    assert rows(f"android:{tmp_path}/en.xml+{tmp_path}/sw.xml", ledger) == [
        ("It's new! %d", "Ni mpya"),
        ("1 dog", "Mbwa 1"),
    ]
    assert ledger.dropped == {("read", "missing_side"): 2}


def test_segments_of_xliff_and_what_is_not_translated(tmp_path: Path) -> None:
    (tmp_path / "a.xlf").write_text(
        '<xliff version="2.0" srcLang="en" trgLang="sw"><file id="f"><unit id="1">'
        '<segment state="final"><source>A <pc id="1">house</pc></source><target>Nyumba</target></segment>'
        '<segment state="initial"><source>New</source><target>New</target></segment>'
        "<segment><target>bila chanzo</target></segment></unit></file></xliff>",
        encoding="utf-8",
    )
    ledger = Ledger()
    assert rows(f"xliff:{tmp_path}/a.xlf", ledger) == [("A house", "Nyumba")]
    assert ledger.dropped == {("read", "unfinished"): 1, ("read", "malformed"): 1}


FRENCH = [(f"The library {i} opened.", f"La bibliothèque {i} a été ouverte à l'été.") for i in range(30)]
HEADS = {
    "po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\n',
    "tmx": '<?xml version="1.0"{}?><tmx version="1.4"><header srclang="en"/><body>',
    "xliff": '<?xml version="1.0"{}?><xliff version="1.2"><file source-language="en" target-language="fr"><body>',
    "tbx": '<?xml version="1.0"{}?><martif type="TBX" xml:lang="en"><text><body>',
}
UNITS = {
    "po": 'msgid "{}"\nmsgstr "{}"\n\n',
    "tmx": '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="fr"><seg>{}</seg></tuv></tu>',
    "xliff": "<trans-unit><source>{}</source><target>{}</target></trans-unit>",
    "tbx": '<termEntry><langSet xml:lang="en"><tig><term>{}</term></tig></langSet>'
    '<langSet xml:lang="fr"><tig><term>{}</term></tig></langSet></termEntry>',
}
TAILS = {
    "po": "",
    "tmx": "</body></tmx>",
    "xliff": "</body></file></xliff>",
    "tbx": "</body></text></martif>",
}


def written(scheme: str, said: str) -> str:
    units = "".join(UNITS[scheme].format(*pair) for pair in FRENCH)
    return HEADS[scheme].format(said) + units + TAILS[scheme]


def french(uri: str, ledger: Ledger) -> list[tuple[str, str]]:
    context = SourceContext(languages.get("en"), languages.get("fr"))
    return [(src, tgt) for source in open_sources([uri], context) for src, tgt, _ in source.rows(ledger)]


@pytest.mark.parametrize("scheme", HEADS)
@pytest.mark.parametrize("said", [' encoding="UTF-8"', ""])
def test_seven_bit_text_that_says_utf8_is_named(tmp_path: Path, scheme: str, said: str) -> None:
    text = written(scheme, "UTF-8" if scheme == "po" else said)
    shifted = "".join(char if char.isascii() else char.encode("utf-7").decode() for char in text)
    (tmp_path / "a").write_text(shifted, encoding="ascii")
    with pytest.raises(UserError, match="probably UTF-7"):
        french(f"{scheme}:{tmp_path}/a", Ledger())
    (tmp_path / "a").write_text(text, encoding="utf-8")
    assert french(f"{scheme}:{tmp_path}/a", Ledger()) == FRENCH


@pytest.mark.parametrize("said", ["windows-1253", "ISO-8859-1", "KOI8-R", "Shift_JIS", "EUC-KR"])
def test_catalogues_in_utf8_that_say_another_charset_are_read(tmp_path: Path, said: str) -> None:
    (tmp_path / "a").write_text(written("po", said), encoding="utf-8")
    ledger = Ledger()
    assert french(f"po:{tmp_path}/a", ledger) == FRENCH
    assert ledger.notes == {f"catalogues that say {said}, read as UTF-8, which they are": 1}


def test_catalogues_in_none_of_the_letters_of_their_charset_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(written("po", "windows-1253").replace("à", "Ò"), encoding="cp1252")
    with pytest.raises(UserError, match=r"not in windows-1253, as it says.*"):
        french(f"po:{tmp_path}/a", Ledger())


def test_japanese_of_seven_bits_in_a_catalogue_is_named(tmp_path: Path) -> None:
    units = "".join(f'msgid "House {i}"\nmsgstr "図書館は春に開館しました"\n\n' for i in range(20))
    text = (HEADS["po"].format("UTF-8") + units).encode("iso2022_jp")
    (tmp_path / "a").write_bytes(text)
    with pytest.raises(UserError, match="probably ISO-2022-JP"):
        french(f"po:{tmp_path}/a", Ledger())
