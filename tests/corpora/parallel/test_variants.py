"""Of the variants of a language in a file that is read which the pair asks for, by any usual code."""

import zipfile
from pathlib import Path

import pytest

from xling.cli import main
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.text.document import Ledger

HANS, HANT, CYRILLIC, LATIN = (
    "图书馆九点开门。",
    "圖書館九點開門。",
    "Библиотека се отвара.",
    "Biblioteka se otvara.",
)


def rows(uri: str, pair: str, ledger: Ledger | None = None) -> list[str]:
    src, tgt = pair.split("-", 1)
    context = SourceContext(languages.get(src), languages.get(tgt))
    return [row[1] for source in open_sources([uri], context) for row in source.rows(ledger or Ledger())]


def tmx(path: Path, *units: dict[str, str]) -> str:
    body = "".join(
        "<tu>"
        + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items())
        + "</tu>"
        for unit in units
    )
    path.write_text(f"<tmx><body>{body}</body></tmx>", encoding="utf-8")
    return f"tmx:{path}"


@pytest.mark.parametrize(("pair", "text"), [
    ("en-zh", HANS), ("en-zh_Hant", HANT), ("en-sr", CYRILLIC), ("en-sr_Latn", LATIN),
])  # fmt: skip
def test_a_unit_gives_the_variant_of_the_pair_in_any_order(tmp_path: Path, pair: str, text: str) -> None:
    unit = {
        "en": "The library opens.",
        "zh-CN": HANS,
        "zh-TW": HANT,
        "sr-Cyrl-RS": CYRILLIC,
        "sr-Latn-RS": LATIN,
    }
    uri = tmx(tmp_path / "a.tmx", unit, dict(reversed(unit.items())))
    assert rows(uri, pair) == [text, text]


def test_a_code_without_a_script_is_told_by_the_text(tmp_path: Path) -> None:
    units = [
        {"en": "a", "sr": CYRILLIC},
        {"en": "b", "sr": LATIN},
        {"en": "c", "zh": HANS},
        {"en": "d", "zh": HANT},
    ]
    uri = tmx(tmp_path / "a.tmx", *units)
    for pair, text in (("en-sr_Latn", LATIN), ("en-zh_Hant", HANT)):
        ledger = Ledger()
        assert rows(uri, pair, ledger) == [text]
        assert ledger.dropped["read", "missing_side"] == 3


@pytest.mark.parametrize(("code", "lang"), [
    ("IW-IL", "he"), ("IN-ID", "id"), ("ger", "de"), ("fre", "fr"), ("chi", "zh"), ("dut", "nl"), ("nor", "nb"),
    ("cze", "cs"), ("de-AT", "de"), ("German", "de"), ("pt_BR", "pt"), ("JI", "yi"),
])  # fmt: skip
def test_usual_codes_are_read(tmp_path: Path, code: str, lang: str) -> None:
    uri = tmx(tmp_path / "a.tmx", {"EN-US": "a", code: "text"}, {"en": "b", lang: "more"})
    assert rows(uri, f"en-{lang}") == ["text", "more"]


def test_a_file_without_the_language_names_those_that_it_has(tmp_path: Path) -> None:
    uri = tmx(tmp_path / "a.tmx", {"EN-US": "a", "IW-IL": "b"}, {"en": "c", "xx": "d"})
    with pytest.raises(
        UserError, match=r"no unit in both en and fr.*en-us \(English\), iw-il \(Hebrew\), xx"
    ):
        rows(uri, "en-fr")


def test_members_of_an_archive_are_read_by_their_codes(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for code, text in (
            ("en-US", "a"),
            ("zh_CN", HANS),
            ("zh_TW", HANT),
            ("ger", "Brot"),
            ("README", "x"),
        ):
            archive.writestr(f"f.{code}", f"{text}\n")
    for pair, text in (("en-zh", HANS), ("en-zh_Hant", HANT), ("en-de", "Brot")):
        assert rows(f"moses:{path}", pair) == [text]


@pytest.mark.parametrize("is_latin_first", [False, True])
@pytest.mark.parametrize(("pair", "text"), [("en-sr", CYRILLIC), ("en-sr_Latn", LATIN)])
def test_of_two_texts_under_one_code_the_script_of_the_pair_counts(
    tmp_path: Path, pair: str, text: str, is_latin_first: bool
) -> None:
    texts = [LATIN, CYRILLIC] if is_latin_first else [CYRILLIC, LATIN]
    segments = "".join(f'<tuv xml:lang="sr-RS"><seg>{each}</seg></tuv>' for each in texts)
    path = tmp_path / "a.tmx"
    path.write_text(
        f'<tmx><body><tu><tuv xml:lang="en"><seg>a</seg></tuv>{segments}</tu></body></tmx>', encoding="utf-8"
    )
    assert rows(f"tmx:{path}", pair) == [text]


@pytest.mark.parametrize("codes", [("pt-BR", "pt-PT"), ("pt-PT", "pt-BR")])
def test_texts_of_two_countries_are_counted(tmp_path: Path, codes: tuple[str, str]) -> None:
    """Countries have no code of ours: which text was read is said, and equal texts are one."""
    units = [
        {"en": "The bus.", codes[0]: "O primeiro.", codes[1]: "O segundo."},
        {"en": "The train.", codes[0]: "O trem.", codes[1]: "O trem."},
        {"en": "A boat.", codes[1]: "Um barco."},
    ]
    ledger = Ledger()
    assert rows(tmx(tmp_path / "a.tmx", *units), "en-pt_PT", ledger) == [
        "O primeiro.",
        "O trem.",
        "Um barco.",
    ]
    assert ledger.notes == {"units with several texts in Portuguese, of which the first was read": 1}


def test_a_build_says_that_it_read_the_first_of_several_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmx(
        tmp_path / "a.tmx",
        {"en": "The bus is late today.", "pt-PT": "O autocarro atrasou-se.", "pt-BR": "O ônibus atrasou."},
    )
    words = [
        f"source={path}",
        f"out={tmp_path}/out",
        "filters=repair",
        "audit=false",
        "dev_pairs=0",
        "test_pairs=0",
    ]
    assert main(["corpus", "parallel", "pair=en-pt_BR", *words]) == 0
    assert "units with several texts in Portuguese, of which the first was read: 1" in capsys.readouterr().out
