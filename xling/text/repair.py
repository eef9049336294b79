"""Damage that other programs leave in a line of text, undone: entities, wrong decoding, invisible characters, quotes.

Every step changes a text only where the damage shows by itself. Mojibake is undone where the characters are the bytes
of valid UTF-8 and give letters of an expected script.

Source: the tables of the WHATWG Encoding Standard (as Python's codecs have them) and of HTML 5 (`html.unescape`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection

from xling.core import languages

_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,8}|#[0-9]{2,7}|#[xX][0-9a-fA-F]{2,6});")
_ROUNDS = 2  # text that was escaped or decoded wrongly twice

_CP1252 = {bytes([byte]).decode("cp1252", "replace"): byte for byte in range(0x80, 0x100)}
_BYTES = {chr(byte): byte for byte in range(0x80, 0x100)} | {
    c: b for c, b in _CP1252.items() if c != "\ufffd"
}


def _chars(first: int, last: int) -> str:
    return "".join(re.escape(char) for char, byte in _BYTES.items() if first <= byte <= last)


_NEXT = f"[{_chars(0x80, 0xBF)}]"
_SEQUENCE = re.compile(
    f"[{_chars(0xC2, 0xDF)}]{_NEXT}|[{_chars(0xE0, 0xEF)}]{_NEXT}{{2}}|[{_chars(0xF0, 0xF4)}]{_NEXT}{{3}}"
)
# Letters that are the first bytes of the commonest sequences, and marks that follow any letter in right text.
_TELLING, _CLOSING = frozenset("ÃÂâÐÑØÙÄÅàïð"), frozenset("»”’…“›–—®™°ªº²³´·‘")
_EAST_ASIAN = frozenset({"Jpan", "Kore", "Hani", "Hans", "Hant"})
_LOST_SPACE = re.compile("Ã(?= )")  # à, whose second byte is a no-break space that became a space
_CODECS = ("cp1251", "cp1250")
_MIN_SEQUENCES = 3

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\u2060-\u2064\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_BREAKS = re.compile(r"[\x0b\x0c\x1c-\x1f\u2028\u2029]")
_C1 = re.compile(r"[\x80-\x9f]")
_SPACE, _JOINERS = re.compile("\u200b"), re.compile("[\u200b-\u200d]")
JOINING = frozenset({"Arab", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Sinh", "Mong", "Beng", "Deva", "Gujr", "Guru",
                     "Knda", "Mlym", "Orya", "Taml", "Telu", "Syrc", "Adlm", "Thaa"})  # fmt: skip
"""Scripts in which characters that join or part letters without width are spelling."""
PARTING = frozenset({"Thai", "Laoo", "Khmr", "Mymr", "Tibt"})
"""Scripts without spaces, in which a space without width parts words."""

_QUOTED = (
    (re.compile(r"``(.+?)''"), r'"\1"'),
    (re.compile(r",,(.+?)(?:''|``)"), r'"\1"'),
    (re.compile(r'(?<!")""(?!")'), '"'),
)
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[`´](?=[^\W\d_])")
_MARKS = '"“”„«»‟'

FIRST_LOOK = (
    r"&[a-zA-Z#][a-zA-Z0-9]{1,8};|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u{ad}\u{feff}\u{200b}-\u{200f}\u{2028}-\u{202e}"
    r"\u{2060}-\u{2069}]|``|,,|\"\"|\p{L}[`´]\p{L}"
    r"|[\u{c2}-\u{f4}][^\x00-\x7f\p{Cyrillic}\p{Latin}\s]|[\u{c2}-\u{f4}][ŠšŒœŽžŸƒˆªº]|[ÃÂÐÑ]\u{a0}"
    r"|[РС][\u{400}-\u{40f}\u{451}-\u{45f}€‚„…†‡‰‹‘’“”•–—™›\u{a0}¤¦§©«¬®°±µ¶·№»]|[ĂÄĹâ][^\x00-\x7f]"
)
"""What a text holds in which a step of `mend` finds something; in the syntax of polars."""


def entities(text: str) -> str:
    """Replace character references with their characters; a no-break space becomes a space."""
    for _ in range(_ROUNDS):
        new = _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\xa0", " "), text)
        if new == text:
            break
        text = new
    return text


def mojibake(text: str, scripts: Collection[str]) -> str:
    """Decode UTF-8 that was read as Windows-1252, Latin-1, Windows-1250 or Windows-1251.

    Args:
        text: a line.
        scripts: ISO 15924 codes that the letters may be in; Latin is always allowed.
    """
    for _ in range(_ROUNDS):
        new = text
        for codec in _CODECS:
            new = _whole(new, codec, scripts)
        new = _western(new, scripts)
        if new == text:
            break
        text = new
    return text


def _western(text: str, scripts: Collection[str]) -> str:
    sequences = [match[0] for match in _SEQUENCE.finditer(text)]
    if not any(_tells(sequence) for sequence in sequences):
        return text

    def decoded(match: re.Match[str]) -> str:
        try:
            new = bytes(_BYTES[char] for char in match[0]).decode("utf-8")
        except UnicodeDecodeError:
            return match[0]
        return new if _expected(new, scripts) else match[0]

    return _LOST_SPACE.sub("à", _SEQUENCE.sub(decoded, text))


def _tells(sequence: str) -> bool:
    """Whether a sequence is hardly ever right text, as ``É»`` is at the end of a quotation."""
    first, rest = sequence[0], set(sequence[1:])
    return not rest <= _CLOSING or (first in _TELLING and not rest & {"»", "”", "’", "…"})


def _whole(text: str, codec: str, scripts: Collection[str]) -> str:
    """Return a text decoded as UTF-8 from the bytes that a codec gives, or as it is."""
    try:
        new = text.encode(codec).decode("utf-8")
    except UnicodeError:
        return text
    sequences = sum(not char.isascii() for char in new)
    return new if sequences >= _MIN_SEQUENCES and _expected(new, scripts) else text


def _expected(text: str, scripts: Collection[str]) -> bool:
    letters = {languages.script_of(char) for char in text if char.isalpha() and char not in _BYTES}
    east = _EAST_ASIAN if _EAST_ASIAN & {*scripts} else ()
    return letters <= {"Latn", languages.NO_SCRIPT, *scripts, *east}


def invisible(text: str, script: str) -> str:
    """Delete control characters and marks without width; C1 codes that Windows-1252 has become its characters.

    Joiners stay in `JOINING` scripts, spaces without width in `PARTING` ones.
    """
    text = _BREAKS.sub(" ", _ESCAPES.sub("", text))
    text = _C1.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "ignore"), text)
    text = _INVISIBLE.sub("", text)
    if script in PARTING:
        return text
    return (_SPACE if script in JOINING else _JOINERS).sub("", text)


def quotes(text: str, other: str = "") -> str:
    """Rewrite quotes and apostrophes that formats double or replace, and take off a pair or one that stands alone.

    Args:
        text: a side of a pair.
        other: its other side; quotes around the whole of ``text`` go if that has no quotes.
    """
    text = _APOSTROPHE.sub("'", text)
    for pattern, new in _QUOTED:
        text = pattern.sub(new, text)
    if any(mark in other for mark in (*_MARKS, "'", "‘", "`", "「", "『", "《")):
        return text
    count = sum(map(text.count, _MARKS))
    if count == 2 and len(text) > 2 and text[0] in _MARKS and text[-1] in _MARKS:
        return text[1:-1].strip()
    if count == 1 and text[:1] in _MARKS:
        return text[1:].strip()
    if count == 1 and text[-1] in _MARKS and not text[-2:-1].isdigit():
        return text[:-1].strip()
    return text


STEPS: dict[str, Callable[[str, str, str, Collection[str]], str]] = {
    "entities": lambda text, other, script, scripts: entities(text),
    "mojibake": lambda text, other, script, scripts: mojibake(text, scripts),
    "invisible": lambda text, other, script, scripts: invisible(text, script),
    "quotes": lambda text, other, script, scripts: quotes(text, other),
}
"""Name -> text, other side, main script and all scripts of its language -> text put right; in this order."""
