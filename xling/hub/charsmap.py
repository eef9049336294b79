"""SentencePiece's normalisation rules: read, written, and rebuilt from the normalisers of ``tokenizers``.

SentencePiece replaces the longest matching rule at each position. ``tokenizers.normalizers.Precompiled``
reads the same table, but looks at one grapheme at a time, takes the *shortest* matching rule and composes
nothing in graphemes of six bytes and more. So text in NFD or with marks in an unusual order gets other ids
(docs/results.d/hub.md). `build_normaliser` restores the longest match with four exact steps:

- insert U+0001 before every character that a rule or NFKC could join to the one before it;
- remove that U+0001 again where a rule does join them;
- apply NFKC, which now joins nothing else, since U+0001 separates marks;
- apply the rules of single characters, which delete U+0001.

Rules of our vocabularies keep the zero-width non-joiner beside some letters and delete it elsewhere. There it is a
character without any rule during these steps.
"""

import functools
import struct
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tokenizers import Regex, normalizers

SEPARATOR = "\x01"
NODES_PER_BATCH = 4096  # number of nodes of the trie processed together
FIRST_STAND_IN = (
    0x10F000  # private use, plane 16: stand-ins for characters that NFKC would change but the rules would not
)

LAST_STAND_IN, NON_JOINER = "\U0010fffd", "\u200c"
_FILLER = "\U000e01ef"
"""A mark of four bytes behind what is stood in for: a shorter grapheme becomes its stand-in alone, without marks."""


def read_charsmap(table: bytes) -> dict[str, str]:
    """Read the rules of a ``precompiled_charsmap``: text -> its replacement; empty for an empty table.

    Source: darts-clone's double array, as in sentencepiece/src/normalizer.cc, ``DecodePrecompiledCharsMap``.
    """
    if not table:
        return {}
    (size,) = struct.unpack_from("<I", table)
    units = np.frombuffer(table, "<u4", size // 4, 4).astype(np.int64)
    texts_blob = table[4 + size :]
    rules: dict[str, str] = {}
    byte_values = np.arange(1, 256)
    open_nodes = [(int(_child_offset(units[0])), b"")]
    while open_nodes:
        batch, open_nodes = open_nodes[-NODES_PER_BATCH:], open_nodes[:-NODES_PER_BATCH]
        child_places = np.array([base for base, _ in batch])[:, None] ^ byte_values
        is_inside = child_places < len(units)
        matches = is_inside & (units[np.where(is_inside, child_places, 0)] & 0x800000FF == byte_values)
        for row, column in zip(*(x.tolist() for x in matches.nonzero()), strict=True):
            key = batch[row][1] + bytes([column + 1])
            unit = int(units[child_places[row, column]])
            child = int(child_places[row, column]) ^ int(_child_offset(unit))
            if unit >> 8 & 1:
                start = int(units[child]) & 0x7FFFFFFF
                rules[key.decode()] = texts_blob[start : texts_blob.index(b"\0", start)].decode()
            open_nodes.append((child, key))
    return rules


def _child_offset(unit: Any) -> Any:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def build_charsmap(rules: Mapping[str, str]) -> bytes:
    """Build a ``precompiled_charsmap`` with these rules; `read_charsmap` returns them again."""
    rules = dict(sorted(rules.items()))  # equal rules give equal bytes, whatever their order
    texts_blob, text_offsets = bytearray(), {}
    for text in dict.fromkeys(rules.values()):
        text_offsets[text] = len(texts_blob)
        texts_blob += text.encode() + b"\0"
    trie: dict[int, Any] = {}
    for key, text in rules.items():
        node = trie
        for label in key.encode():
            node = node.setdefault(label, {})
        node[0] = text_offsets[text]
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()
    open_nodes: list[tuple[int, dict[int, Any]]] = [(0, trie)]
    first_free = 1
    while open_nodes:
        position, node = open_nodes.pop()
        while first_free in units:
            first_free += 1
        base = next(
            b
            for b in (free ^ min(node) for free in range(first_free, sys.maxsize) if free not in units)
            if b not in bases and all((b ^ label) not in units for label in node)
        )
        bases.add(base)
        units[position] |= (position ^ base) << 10 | (0 in node) << 8
        assert position ^ base < 1 << 21, "more rules than a small table can hold"
        for label, child in node.items():
            units[base ^ label] = child | 1 << 31 if label == 0 else label
            if label:
                open_nodes.append((base ^ label, child))
    array = [units.get(i, 0) for i in range((max(units) | 0xFF) + 257)]
    return struct.pack("<I", 4 * len(array)) + struct.pack(f"<{len(array)}I", *array) + bytes(texts_blob)


def build_normaliser(table: bytes, remove_extra_whitespaces: bool = True) -> Any:
    """Build a `tokenizers.normalizers.Normalizer` equivalent to SentencePiece's normaliser with the table ``table``.

    A space before the text is added by the pre-tokeniser Metaspace.
    """
    steps = list(_normaliser_steps(table)) if table else []
    if remove_extra_whitespaces:
        steps += [
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex("^ | $"), ""),
        ]
    return normalizers.Sequence(steps)


@functools.lru_cache(maxsize=4)  # takes two seconds for the usual table of 240 kB
def _normaliser_steps(table: bytes) -> tuple[Any, ...]:
    """Return the four steps of a table, and a fifth if stand-ins have to be restored."""
    rules = read_charsmap(table)
    sequences = {key for key in rules if len(key) > 1 and NON_JOINER not in key}
    kept_after = {key[0] for key in rules if len(key) == 2 and key[1] == NON_JOINER}
    marks = {c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c)[0] == "M"}
    with_separator = {c: SEPARATOR + c for c in marks | {key[-1] for key in sequences}}
    stand_in_of = _find_stand_ins(table, rules, with_separator)
    restored = {stand_in: rules.get(char, char) for char, stand_in in stand_in_of.items()}
    first_steps = []
    if kept_after:
        letters, restored = _character_class(kept_after), restored | {LAST_STAND_IN: NON_JOINER}
        beside_letter = f"(?<={letters})\\x{{200c}}|\\x{{200c}}(?={letters})"
        first_steps.append(normalizers.Replace(Regex(beside_letter), LAST_STAND_IN))
    if stand_in_of:
        behind = f"(?<={_character_class(stand_in_of)})"
        first_steps.append(normalizers.Replace(Regex(behind), _FILLER))
    return (
        *first_steps,
        normalizers.Precompiled(build_charsmap(with_separator | stand_in_of | {_FILLER: ""})),
        *([normalizers.Replace(Regex(_join_pattern(sequences)), "")] if sequences else []),
        normalizers.NFKC(),
        normalizers.Precompiled(table),
        *([normalizers.Precompiled(build_charsmap(restored))] if restored else []),
    )


def _find_stand_ins(
    table: bytes, rules: Mapping[str, str], with_separator: Mapping[str, str]
) -> dict[str, str]:
    """Map characters to stand-ins if NFKC followed by the rules would give another result than the rules alone.

    Tables of older SentencePiece versions lack the characters of later versions of Unicode.
    """
    chars = [c for c in map(chr, range(1, sys.maxunicode + 1)) if not "\ud800" <= c <= "\udfff"]
    delimiter = "\ufdd0"  # a noncharacter, which no Unicode rule produces
    chars = [c for c in chars if c not in with_separator and c != delimiter]
    nfkc_chars = normalizers.NFKC().normalize_str(delimiter.join(chars)).split(delimiter)
    rules_alone = normalizers.Precompiled(table)
    changed_chars = [
        char
        for char, text in zip(chars, nfkc_chars, strict=True)
        if (char != text or char in rules) and rules_alone.normalize_str(text) != rules.get(char, char)
    ]
    return {char: chr(FIRST_STAND_IN + number) for number, char in enumerate(changed_chars)}


def _join_pattern(sequences: Iterable[str]) -> str:
    """Return a pattern for U+0001 before a character that a rule joins to the preceding ones."""
    prefixes_of: dict[str, set[str]] = defaultdict(set)
    for key in sorted(sequences):
        prefixes_of[key[-1]].add(key[:-1])
    chars_of: dict[frozenset[str], set[str]] = defaultdict(set)
    for char, prefixes in prefixes_of.items():
        chars_of[frozenset(prefixes)].add(char)
    alternatives = [
        f"(?={_character_class(chars)})(?<={'|'.join(_look_behinds(prefixes))})"
        for prefixes, chars in chars_of.items()
    ]
    return f"{_character_class(SEPARATOR)}(?:{'|'.join(alternatives)})"


def _look_behinds(prefixes: Iterable[str]) -> list[str]:
    """Return look-behind alternatives, as few as possible, for prefixes of characters with a wall after each."""
    firsts_of_tail: dict[str, set[str]] = defaultdict(set)
    for prefix in sorted(prefixes):
        firsts_of_tail[prefix[1:]].add(prefix[0])
    separator = _character_class(SEPARATOR)
    tails_of_heads: dict[tuple[int, frozenset[str]], set[str]] = defaultdict(set)
    for tail, firsts in firsts_of_tail.items():
        tails_of_heads[len(tail), frozenset(firsts)].add(tail)
    alternatives = []
    for (length, heads), last_tails in tails_of_heads.items():
        if length < 2:
            alternatives.append(
                _character_class(heads)
                + separator
                + (_character_class(last_tails) + separator if length else "")
            )
        else:
            alternatives += [
                separator.join(map(_character_class, (heads, *tail))) + separator
                for tail in sorted(last_tails)
            ]
    return alternatives


def _character_class(chars: Iterable[str]) -> str:
    ranges: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    class_ranges = "".join(f"\\x{{{a:x}}}" + (f"-\\x{{{b:x}}}" if b > a else "") for a, b in ranges)
    return f"[{class_ranges}]"
