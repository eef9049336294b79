"""The rule by which a vocabulary normalises text: that of XLM-R (``nmt_nfkc``) where it keeps what was written.

NFKC is meant for searching. It writes other letters, numbers and words than an author did in these cases, which our
rule leaves as they are:

- a digit comes only from a digit: 10⁶ is not 106, 1½ not 11/2, m² not m2, 5① not 51;
- letters above and below the line (saⁿ, 1ᵉʳ, kʷ, ™) stay apart from those on it;
- letters with a key and a spelling of their own are not taken apart: Thai and Lao am, Lao ho no and ho mo, Armenian ew,
  the letters of Korean chat, the numero sign;
- an accent that stands alone is not a space with an accent on it, which cuts ``don´t`` in two;
- the zero-width non-joiner is kept beside a letter of a script that writes it, and is nothing in others. ``nmt_nfkc``
  makes a space of it, so that a Persian word becomes two. The joiner is kept by both.

A zero-width space still becomes a space: it says that a word ends.

Source: sentencepiece's ``nmt_nfkc``; Unicode Standard Annex 15 (NFKC) and the Core Specification, sections 9.2 and 12.1
(joiners).
"""

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as proto

NON_JOINER, JOINER = "\u200c", "\u200d"
JOINER_SCRIPTS = frozenset((
    "ADLAM", "ARABIC", "BALINESE", "BENGALI", "CHAKMA", "CHAM", "DEVANAGARI", "GRANTHA", "GUJARATI",
    "GURMUKHI", "HANIFI", "JAVANESE", "KAITHI", "KANNADA", "KHMER", "LAO", "MALAYALAM", "MANDAIC", "MEETEI",
    "MODI", "MONGOLIAN", "MYANMAR", "NEWA", "NKO", "ORIYA", "PHAGS-PA", "SINHALA", "SUNDANESE", "SYLOTI",
    "SYRIAC", "TAI", "TAMIL", "TELUGU", "THAANA", "THAI", "TIBETAN", "TIRHUTA",
))  # fmt: skip
"""First words of the Unicode names of letters beside which a zero-width non-joiner is spelling."""

_STAND_IN = "\ue00c"
_FIRST_BLOCK, _LAST_BLOCK = 0x0600, 0x1EFFF
_ORDINARY_LETTERS = frozenset(
    "№և\u0675\u0676\u0677\u0678ำຳໜໝ" + "".join(chr(p) for p in range(0x3131, 0x318F) if p != 0x3164)
)


@functools.cache
def normalizer() -> Any:
    """Return the rule for sentencepiece's trainer (`sentencepiece.SentencePieceNormalizer`)."""
    spm.set_min_log_level(2)
    # Its compiler refuses rules that change nothing, so they are compiled with a stand-in that has as many bytes.
    compiled = spm.SentencePieceNormalizer(
        norm_map=[
            (text, replacement.replace(NON_JOINER, _STAND_IN)) for text, replacement in _rules().items()
        ]
    )
    spec = proto.NormalizerSpec.FromString(compiled.serialized_normalizer_spec())
    spec.name = "nmt_nfkc_kept"
    table = spec.precompiled_charsmap
    start_of_texts = 4 + int.from_bytes(table[:4], "little")
    texts = table[start_of_texts:].replace(_STAND_IN.encode(), NON_JOINER.encode())
    spec.precompiled_charsmap = table[:start_of_texts] + texts
    return spm.SentencePieceNormalizer(normalizer_spec=spec)


@functools.cache
def _rules() -> dict[str, str]:
    """Return text -> its replacement; the longest that matches is replaced."""
    nfkc = _nfkc_rules()
    kept = kept_characters()
    rules = {text: replacement for text, replacement in nfkc.items() if kept.isdisjoint(text)}
    letters = _letters_beside_non_joiner()
    # The longest match counts, so whatever is replaced needs its own rule with the non-joiner before or behind.
    for text, replacement in ({letter: letter for letter in letters} | rules).items():
        before, behind = text[0] in letters, text[-1] in letters
        if before:
            rules[NON_JOINER + text] = NON_JOINER + replacement
        if behind:
            rules[text + NON_JOINER] = replacement + NON_JOINER
        if before and behind:
            rules[NON_JOINER + text + NON_JOINER] = NON_JOINER + replacement + NON_JOINER
    return rules | {NON_JOINER: ""}


@functools.cache
def _nfkc_rules() -> Mapping[str, str]:
    return dict(spm.SentencePieceNormalizer(rule_name="nmt_nfkc").decompile())


@functools.cache
def kept_characters() -> frozenset[str]:
    """Return the characters that NFKC would change and that stay as they are."""
    return frozenset(
        char for char, replacement in _nfkc_rules().items() if len(char) == 1 and _is_kept(char, replacement)
    )


@functools.cache
def kept_pattern() -> re.Pattern[str]:
    """Return a pattern that finds each character of a text that NFKC would change and that stays, and joiners."""
    letters = f"[{''.join(map(re.escape, sorted(_letters_beside_non_joiner())))}]"
    joiner = f"[{NON_JOINER}{JOINER}]"
    return re.compile(
        f"[{''.join(map(re.escape, sorted(kept_characters())))}]|(?<={letters}){joiner}|{joiner}(?={letters})"
    )


def _is_kept(char: str, replacement: str) -> bool:
    if unicodedata.category(char) == "Cn":
        return False
    makes_digits = any(map(str.isdecimal, replacement)) and not char.isdecimal()
    is_raised = unicodedata.decomposition(char).startswith(("<super>", "<sub>"))
    makes_space = (
        len(replacement) > 1
        and replacement[0] == " "
        and all(unicodedata.combining(c) for c in replacement[1:])
    )
    return makes_digits or is_raised or makes_space or char in _ORDINARY_LETTERS


@functools.cache
def _letters_beside_non_joiner() -> frozenset[str]:
    """Return letters and marks of `JOINER_SCRIPTS`."""
    return frozenset(
        char
        for char in map(chr, range(_FIRST_BLOCK, _LAST_BLOCK + 1))
        if unicodedata.category(char)[0] in "LM" and unicodedata.name(char, "?").split()[0] in JOINER_SCRIPTS
    )
