"""Text in UTF-16 or UTF-7 without a mark is named and refused in every script, whatever few NUL bytes it has."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.text.document import Ledger
from xling.text.files import corpus_reader
from xling.text.files.compressed import read_lines

_TEXTS = {
    "ar": "وفي حالتي، فإن انتقادي جاء بسبب عدم اتفاقي معه.",
    "bg": "Курсът се провежда за пръв път тази година.",
    "el": "Οι βουλευτές μίλησαν χθες στη Βουλή.",
    "en": "The lake is five kilometres wide.",
    "he": "הנשיא נאם אתמול בבירה.",
    "hi": "यह गाँव नदी के किनारे बसा है।",
    "hy": "Գյուղը գտնվում է գետի ափին։",
    "it": "Perché la città è così bella?",
    "ja": "彼は2010年に引退したが、その後も活躍している。",
    "ka": "სოფელი მდინარის პირას მდებარეობს.",
    "ko": "그 마을은 강가에 있다.",
    "mk": "Мокрите лисја ми се лепат за чевлите.",
    "th": "รูปปั้นหน้ารัฐสภากลายเป็นเรื่องฮิต",
    "uk": "Вперед поскакав роз'їзд чорнолісців.",
    "ja 2": "DNAの検査とTVの番組、CDと本。",
    "zh": "这台打印机是在意大利制造的，它的价格不高。",
}


@pytest.mark.parametrize("lang", _TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-7"])
@pytest.mark.parametrize("num_lines", [1, 40])
def test_text_without_a_mark_is_refused_by_its_name(
    tmp_path: Path, lang: str, encoding: str, num_lines: int
) -> None:
    if encoding == "utf-7" and _TEXTS[lang].isascii():
        return
    path = tmp_path / "a.txt"
    path.write_bytes((f"{_TEXTS[lang]}\n" * num_lines).encode(encoding))
    name = encoding.replace("-le", "LE").replace("-be", "BE").upper()
    with pytest.raises(UserError) as refused:
        list(read_lines(path, Ledger(), lang=lang.split()[0]))
    assert f"iconv -f {name} -t UTF-8" in str(refused.value)
    with pytest.raises(UserError):
        list(corpus_reader.read_lines(path))


@pytest.mark.parametrize(
    "text",
    [
        "Call +1 234 567 or me+news@example.org, and learn C++.",
        "SGVsbG8+Abcd/xyz0123+ABCDEF and AAAAB3NzaC1yc2EAAA+ADAQABAAABAQ",
        "5+AAk=x, a+b=c, +Tag",
        "introversion\nPast+Fem+Sg\nparent",
        "kula+V+Past+Fem+Sg\nsoma+Verb+Pres",
        "The lake\0 is five\0 kilometres wide, and it is as deep as it is wide in the middle.",
        "Село\0 стоит на\0 берегу широкой реки, и в нём живут пятьсот человек.",
    ],
)
def test_other_text_with_such_signs_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"{text}\n", encoding="utf-8")
    assert list(read_lines(path, Ledger())) == text.encode().split(b"\n")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\r\r\nb\r\r\n\r\r\nc\r\r\n", [b"a", b"b", b"", b"c"]),
        (b"a\rb\r\rc\r\n", [b"a", b"b", b"", b"c"]),
        (b"a\r\r", [b"a", b""]),
    ],
)
def test_carriage_returns_before_a_line_end_are_part_of_it(
    tmp_path: Path, data: bytes, lines: list[bytes]
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert list(read_lines(path, Ledger())) == lines


@pytest.mark.data
def test_no_file_of_real_text_is_refused() -> None:
    """The head of a file decides on its encoding."""
    names = [
        path for path in Path(os.environ["XLING_DATA"]).rglob("*") if path.suffix in (".gz", ".txt", ".tsv")
    ]
    assert names
    for path in sorted(names):
        list(itertools.islice(corpus_reader.read_lines(path), 3))
