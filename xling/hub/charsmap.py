"""SentencePiece's normalisation rules: read, written, and rebuilt from the normalisers of ``tokenizers``.

SentencePiece replaces the longest matching rule at each position. ``tokenizers.normalizers.Precompiled``
reads the same table, but looks at one grapheme at a time, takes the *shortest* matching rule and composes
nothing in graphemes of six bytes and more. So text in NFD or with marks in an unusual order gets other ids
(docs/results.d/hub.md). `normaliser` restores the longest match with four exact steps:

- insert U+0001 before every character that a rule or NFKC could join to the one before it;
- remove that U+0001 again where a rule does join them;
- apply NFKC, which now joins nothing else, since U+0001 separates marks;
- apply the rules of single characters, which delete U+0001.
"""

from __future__ import annotations

import functools
import struct
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tokenizers import Regex, normalizers

WALL = "\x01"
BATCH = 4096  # number of nodes of the trie processed together
STAND_INS = (
    0x10F000  # private use, plane 16: stand-ins for characters that NFKC would change but the rules would not
)


def read(blob: bytes) -> dict[str, str]:
    """Read the rules of a ``precompiled_charsmap``: text -> its replacement; empty for an empty table.

    Source: darts-clone's double array, as in sentencepiece/src/normalizer.cc, ``DecodePrecompiledCharsMap``.
    """
    if not blob:
        return {}
    (size,) = struct.unpack_from("<I", blob)
    units = np.frombuffer(blob, "<u4", size // 4, 4).astype(np.int64)
    texts = blob[4 + size :]
    rules: dict[str, str] = {}
    labels = np.arange(1, 256)
    waiting = [(int(_offset(units[0])), b"")]
    while waiting:
        batch, waiting = waiting[-BATCH:], waiting[:-BATCH]
        places = np.array([base for base, _ in batch])[:, None] ^ labels
        inside = places < len(units)
        matches = inside & (units[np.where(inside, places, 0)] & 0x800000FF == labels)
        for row, column in zip(*(x.tolist() for x in matches.nonzero()), strict=True):
            key = batch[row][1] + bytes([column + 1])
            unit = int(units[places[row, column]])
            child = int(places[row, column]) ^ int(_offset(unit))
            if unit >> 8 & 1:
                start = int(units[child]) & 0x7FFFFFFF
                rules[key.decode()] = texts[start : texts.index(b"\0", start)].decode()
            waiting.append((child, key))
    return rules


def _offset(unit: Any) -> Any:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def write(rules: Mapping[str, str]) -> bytes:
    """Build a ``precompiled_charsmap`` with these rules; `read` returns them again."""
    texts, starts = bytearray(), {}
    for text in dict.fromkeys(rules.values()):
        starts[text] = len(texts)
        texts += text.encode() + b"\0"
    tree: dict[int, Any] = {}
    for key, text in rules.items():
        node = tree
        for label in key.encode():
            node = node.setdefault(label, {})
        node[0] = starts[text]
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()
    waiting: list[tuple[int, dict[int, Any]]] = [(0, tree)]
    first = 1
    while waiting:
        place, node = waiting.pop()
        while first in units:
            first += 1
        base = next(
            b
            for b in (free ^ min(node) for free in range(first, sys.maxsize) if free not in units)
            if b not in bases and all((b ^ label) not in units for label in node)
        )
        bases.add(base)
        units[place] |= (place ^ base) << 10 | (0 in node) << 8
        assert place ^ base < 1 << 21, "more rules than a small table can hold"
        for label, child in node.items():
            units[base ^ label] = child | 1 << 31 if label == 0 else label
            if label:
                waiting.append((base ^ label, child))
    array = [units.get(i, 0) for i in range((max(units) | 0xFF) + 257)]
    return struct.pack("<I", 4 * len(array)) + struct.pack(f"<{len(array)}I", *array) + bytes(texts)


def normaliser(blob: bytes, remove_extra_whitespaces: bool = True) -> Any:
    """Build a `tokenizers.normalizers.Normalizer` equivalent to SentencePiece's normaliser with the table ``blob``.

    A space before the text is added by the pre-tokeniser Metaspace.
    """
    steps = list(_steps(blob)) if blob else []
    if remove_extra_whitespaces:
        steps += [
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex("^ | $"), ""),
        ]
    return normalizers.Sequence(steps)


@functools.lru_cache(maxsize=4)  # takes two seconds for the usual table of 240 kB
def _steps(blob: bytes) -> tuple[Any, ...]:
    """Return the four steps of a table, and a fifth if stand-ins have to be restored."""
    rules = read(blob)
    sequences = {key for key in rules if len(key) > 1}
    marks = {c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c)[0] == "M"}
    walls = {c: WALL + c for c in marks | {key[-1] for key in sequences}}
    kept = _kept(blob, rules, walls)
    back = {stand_in: rules.get(char, char) for char, stand_in in kept.items()}
    return (
        normalizers.Precompiled(write(walls | kept)),
        *([normalizers.Replace(Regex(_joints(sequences)), "")] if sequences else []),
        normalizers.NFKC(),
        normalizers.Precompiled(blob),
        *([normalizers.Precompiled(write(back))] if kept else []),
    )


def _kept(blob: bytes, rules: Mapping[str, str], walls: Mapping[str, str]) -> dict[str, str]:
    """Map characters to stand-ins if NFKC followed by the rules would give another result than the rules alone.

    Tables of older SentencePiece versions lack the characters of later versions of Unicode.
    """
    chars = [c for c in map(chr, range(1, sys.maxunicode + 1)) if not "\ud800" <= c <= "\udfff"]
    sign = "\ufdd0"  # a noncharacter, which no Unicode rule produces
    chars = [c for c in chars if c not in walls and c != sign]
    changed = normalizers.NFKC().normalize_str(sign.join(chars)).split(sign)
    after = normalizers.Precompiled(blob)
    wrong = [
        char
        for char, text in zip(chars, changed, strict=True)
        if (char != text or char in rules) and after.normalize_str(text) != rules.get(char, char)
    ]
    return {char: chr(STAND_INS + number) for number, char in enumerate(wrong)}


def _joints(sequences: Iterable[str]) -> str:
    """Return a pattern for U+0001 before a character that a rule joins to the preceding ones."""
    before: dict[str, set[str]] = defaultdict(set)
    for key in sequences:
        before[key[-1]].add(key[:-1])
    same: dict[frozenset[str], set[str]] = defaultdict(set)
    for char, prefixes in before.items():
        same[frozenset(prefixes)].add(char)
    parts = [f"(?={_class(chars)})(?<={'|'.join(_behind(prefixes))})" for prefixes, chars in same.items()]
    return f"{_class(WALL)}(?:{'|'.join(parts)})"


def _behind(prefixes: Iterable[str]) -> list[str]:
    """Return look-behind alternatives, as few as possible, for prefixes of characters with a wall after each."""
    tails: dict[str, set[str]] = defaultdict(set)
    for prefix in prefixes:
        tails[prefix[1:]].add(prefix[0])
    wall = _class(WALL)
    heads_of: dict[tuple[int, frozenset[str]], set[str]] = defaultdict(set)
    for tail, firsts in tails.items():
        heads_of[len(tail), frozenset(firsts)].add(tail)
    alternatives = []
    for (length, heads), last in heads_of.items():
        if length < 2:
            alternatives.append(_class(heads) + wall + (_class(last) + wall if length else ""))
        else:
            alternatives += [wall.join(map(_class, (heads, *tail))) + wall for tail in sorted(last)]
    return alternatives


def _class(chars: Iterable[str]) -> str:
    """Return a character class, with runs of neighbours as ranges."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    inside = "".join(f"\\x{{{a:x}}}" + (f"-\\x{{{b:x}}}" if b > a else "") for a, b in ranges)
    return f"[{inside}]"
