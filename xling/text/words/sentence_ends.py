"""Ends of sentences: the marks of each script, and where a line is cut behind them.

Sources: the properties Sentence_Terminal and Terminal_Punctuation of Unicode; The Unicode Standard, chapters 12 to 19
(scripts that borrow marks of ASCII). Kiss and Strunk 2006: a word with a full stop before small letters is an
abbreviation.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

BORROWED_ENDS = ".!?…‼⁇⁈⁉"
"""Marks that most scripts have taken over; they end a sentence before a space."""
_EAST_ASIAN, _DANDAS, _INDIC_LETTERS = "。！？｡．", "।॥", "\u0900-\u0dff\ua8e0-\ua8ff"
SENTENCE_ENDS = {
    "Adlm": "؟", "Arab": "؟۔", "Armn": "։", "Bali": "᭚᭛᭞᭟", "Bamu": "꛳꛷", "Beng": f"{_DANDAS}৷", "Cakm": "𑅁𑅂",
    "Cans": "᙮", "Cham": "꩝꩞꩟", "Cher": "", "Copt": "⳹⳾",
    "Cyrl": "", "Deva": _DANDAS, "Ethi": "።፧፨", "Geor": "჻", "Goth": "",
    "Grek": "\u037e", "Gujr": _DANDAS, "Guru": _DANDAS, "Hans": _EAST_ASIAN, "Hant": _EAST_ASIAN, "Hebr": "׃",
    "Java": "꧈꧉", "Jpan": _EAST_ASIAN, "Khmr": "។៕", "Knda": _DANDAS, "Kore": _EAST_ASIAN, "Lana": "᪨᪩᪪᪫",
    "Laoo": "", "Latn": "", "Lepc": "᰻᰼", "Limb": "᥄᥅", "Mlym": _DANDAS, "Mong": "᠃᠉", "Mtei": "꯫", "Mymr": "။",
    "Nkoo": "؟", "Olck": "᱾᱿", "Orya": _DANDAS, "Saur": "꣎꣏", "Sinh": "෴", "Syrc": "؟܀܁܂", "Tale": _EAST_ASIAN,
    "Taml": _DANDAS, "Telu": _DANDAS, "Tfng": "", "Thaa": "؟", "Thai": "๚๛", "Tibt": "།༎༏༐༑", "Vaii": "꘎꘏",
    "Yiii": _EAST_ASIAN,
}  # fmt: skip
"""ISO 15924 script -> its own marks beside `BORROWED_ENDS`; they end a sentence wherever they stand.

``Thai`` and ``Laoo`` have a space alone between sentences, and between clauses.
"""
OWN_ENDS = "".join(sorted(set("".join(SENTENCE_ENDS.values()))))
ALL_ENDS = frozenset(BORROWED_ENDS + OWN_ENDS)
NO_SPACE_ENDS = frozenset(_EAST_ASIAN + SENTENCE_ENDS["Khmr"] + SENTENCE_ENDS["Mymr"] + SENTENCE_ENDS["Tibt"])
"""Ends of scripts without spaces between words."""

_SPACE = r"\s\u200b"
_CLOSING = r"\"'”’“‘»«›‹」』）)\]】》\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Letters of scripts without spaces: behind them a question mark needs none either.
_UNSPACED_LETTER = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
_BEFORE_SPACE = rf"(?=[{_CLOSING}]*[{_SPACE}])"
_END = re.compile(
    rf"(?P<mark>(?:(?<!\d)．|[{OWN_ENDS.replace('．', '')}]|[!?](?<={_UNSPACED_LETTER}.))[{OWN_ENDS}!?]*(?:\s+[།༎]+)*"
    rf"|(?<![{BORROWED_ENDS}])[{BORROWED_ENDS}]++{_BEFORE_SPACE}"
    # Marks of ASCII that stand for those of a script: bars for dandas, colons in Armenian and Ethiopic, the
    # question mark of Greek.
    rf"|(?<=[{_INDIC_LETTERS}])[ ]?\|{{1,2}}{_BEFORE_SPACE}|(?<=[\u0531-\u0588]):{_BEFORE_SPACE}"
    rf"|(?<=[\u1200-\u139f])\s?(?:፡\s?፡|::)|(?<=[\u0370-\u03ff\u1f00-\u1fff]);{_BEFORE_SPACE})"
    rf"(?P<close>(?:[{_CLOSING}]|[\s\u202f]»(?=\s|$))*)[{_SPACE}]*"
)
_MAX_ORDINAL_DIGITS = 3
# Titles and words before names and numbers that are no words of another language which may end a sentence.
_TITLES = frozenset({
    "dr", "dra", "drs", "mr", "mrs", "ms", "prof", "st", "gen", "col", "sgt", "capt", "gov", "lt", "vs", "mme", "mlle",
    "mgr", "dott", "hr", "nr", "dkt", "mhe", "bw", "проф", "акад", "ул", "стр", "рис", "डॉ", "प्रो", "नं", "स्व", "ডা",
})  # fmt: skip
_FULL_STOP = re.compile(r"\.\s+(?=\w)")
# Tibetan: after "and" and the particles of clauses a shad is a comma.
_TIBETAN_COMMA = re.compile("(?:དང|ནི|སྟེ|ཏེ)[་༌]?$")
_THAI = re.compile(
    r"(?<=[\u0e01-\u0e5b\u0e81-\u0eff])(?<!ว่า)(?<!และ)(?<!หรือ)(?<!คือ)(?<!เช่น)(?<!ๆ)[ \u00a0]+"
    r"(?=[\u0e01-\u0e5b\u0e81-\u0eff])(?!ๆ|ฯ|และ|หรือ|ที่|ซึ่ง|เช่น|ແລະ|ຫຼື|ທີ່|ເຊິ່ງ)"
)
_MIN_THAI_CHARS, _MAX_THAI_CHARS = 25, 200


def split_sentences(line: str, abbreviations: frozenset[str] = frozenset()) -> list[str]:
    """The sentences of a line, cut behind the marks that end one.

    Args:
        line: a paragraph in any script.
        abbreviations: words in lower case behind which a full stop ends nothing.
    """
    parts, start = list[str](), 0
    for match in _END.finditer(line):
        if match.end() < len(line) and _ends_sentence(line, match, abbreviations):
            parts += _split_at_spaces(line[start : match.end()])
            start = match.end()
    parts += _split_at_spaces(line[start:])
    return [text for text in parts if text]


def find_abbreviations(lines: Iterable[str]) -> frozenset[str]:
    """Words that have a full stop before a small letter at least as often as before another."""
    lower_case_next: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for line in lines:
        for match in _FULL_STOP.finditer(line):
            if word := _word_before(line, match.start()):
                (lower_case_next if is_small(line[match.end()]) else other)[word.lower()] += 1
    return frozenset(word for word, count in lower_case_next.items() if count >= other[word])


def is_small(char: str) -> bool:
    """Whether a letter is small in a script whose sentences begin with capitals: not so in Georgian and Coptic."""
    return char.islower() and char.title() != char and not "\u2c80" <= char <= "\u2cff"


def _ends_sentence(line: str, match: re.Match[str], abbreviations: frozenset[str]) -> bool:
    """Whether a mark ends a sentence.

    Before a small letter no borrowed mark does, and a full stop neither after an initial, a number or an abbreviation.
    """
    mark = match["mark"]
    if mark[0] == "།" and len(mark) == 1:
        return not _TIBETAN_COMMA.search(line[max(0, match.start() - 8) : match.start()])
    if not set(mark) <= {*BORROWED_ENDS, ":", ";", "|", " "} or "|" in mark:
        return True
    if is_small(line[match.end()]):
        return False
    if mark == ":":  # Armenian
        return not line[match.end()].isdigit()
    return mark != "." or not _is_abbreviated(_word_before(line, match.start()), abbreviations)


def _is_abbreviated(word: str, abbreviations: frozenset[str]) -> bool:
    """Whether a full stop belongs to the word before it: to an initial, an ordinal number or an abbreviation."""
    is_initial = len(word) == 1 and word.isalpha() and not is_small(word) and not "가" <= word <= "힣"
    return (
        is_initial
        or (word.isdecimal() and len(word) <= _MAX_ORDINAL_DIGITS)
        or word.lower() in abbreviations
        or word.lower() in _TITLES
    )


def _word_before(line: str, end: int) -> str:
    """The word that ends at a place; vowel signs and other marks belong to it."""
    start = end
    while start and (line[start - 1].isalnum() or unicodedata.category(line[start - 1])[0] == "M"):
        start -= 1
    return line[start:end]


def _split_at_spaces(text: str) -> list[str]:
    """Cut Thai and Lao of more than `_MAX_THAI_CHARS` at spaces, no part shorter than `_MIN_THAI_CHARS`."""
    parts, start = list[str](), 0
    for space in _THAI.finditer(text) if len(text) > _MAX_THAI_CHARS else ():
        if space.start() - start >= _MIN_THAI_CHARS <= len(text) - space.end():
            parts.append(text[start : space.start()].strip())
            start = space.end()
    return [*parts, text[start:].strip()]
