"""The normal forms of a line: golden file, and the fast version equal to the plain one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.text.normalize import for_dedup, for_dedup_batch, for_lm, words_for_lm

GOLDEN = Path(__file__).parent / "golden" / "normalize_for_dedup.jsonl"
LINE = (
    st.text(st.characters(codec="utf-8", exclude_characters="\n"))
    | st.text("aA \ud800\udc00，\u3000")
    | st.text("aΣςİI1１٣«…\x85\x1c\x00 .ß\u3000")
    | st.text("aB1 \t\r\x0b\x1c\x1f\x00.")
)


def golden() -> list[dict[str, str]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def test_golden_whole() -> None:
    cases = golden()
    assert [for_dedup(case["line"]) for case in cases] == [case["key_text"] for case in cases]
    assert for_dedup_batch("\n".join(case["line"] for case in cases)) == [
        case["key_text"].encode() for case in cases
    ]
    for case in cases:  # alone too: the batch takes other paths for plain ASCII and for capital sigma
        assert for_dedup_batch(case["line"]) == [case["key_text"].encode()]


@settings(max_examples=300, deadline=None)
@given(st.lists(LINE, min_size=1, max_size=8))
def test_batch_equals_plain(lines: list[str]) -> None:
    expected = [for_dedup(line).encode("utf-8", "surrogatepass") for line in lines]
    assert for_dedup_batch("\n".join(lines)) == expected


def test_batch_equals_plain_for_every_code_point() -> None:
    points = [p for p in range(sys.maxunicode + 1) if not 0xD800 <= p < 0xE000 and p != 10]
    lines = [f"a{chr(p)}b {chr(p)}" for p in points]
    assert for_dedup_batch("\n".join(lines)) == [for_dedup(line).encode() for line in lines]


def plain_words(text: str) -> list[bytes]:
    return [word.encode() for word in for_lm(text.replace("\n", " ")).replace("\u2581", " ").split()]


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="utf-8")) | st.text("aΣςİI1١１٣«…—．\n \u2581\u00a0\u3000\x85\x1c𐐀𝟙"))
def test_words_equal_those_of_the_line(text: str) -> None:
    assert words_for_lm(text) == plain_words(text)


def test_words_of_every_code_point() -> None:
    points = [chr(p) for p in range(sys.maxunicode + 1) if not 0xD800 <= p < 0xE000]
    for some in (points[:0xF800], points[0xF800:]):  # two bytes a character, then four
        text = " ".join(f"a{char}b" for char in some)
        assert words_for_lm(text) == plain_words(text)


@pytest.mark.parametrize(
    ("line", "accents", "expected"),
    [
        ("  Ça coûte 25 € !  ", True, "ça coûte 00 € !"),
        ("  Ça coûte 25 € !  ", False, "ca coute 00 € !"),
        ("“Yes”…", True, '"yes"...'),
        ("他说：你好。", True, "他说:你好."),
        ("น้ำ", True, "น้ำ"),
        ("น้ำ", False, "นำ"),
        ("a\x07b", True, "ab"),
        ("", True, ""),
    ],
)
def test_for_lm(line: str, accents: bool, expected: str) -> None:
    assert for_lm(line, accents) == expected
