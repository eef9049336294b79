"""Damage that other programs leave in a line of text, undone: entities, wrong decoding, invisible characters, quotes.

Every step changes a text only where the damage shows by itself. Mojibake is undone where ftfy is sure of it, then where
the characters are the bytes of valid UTF-8 and give letters of an expected script.

Source: ftfy (Speer 2019); the tables of the WHATWG Encoding Standard (as Python's codecs have them) and of HTML 5
(`html.unescape`).
"""

from __future__ import annotations

import html
import re
import unicodedata
from ast import literal_eval
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from warnings import catch_warnings

import ftfy
import numpy as np
from numpy.typing import NDArray

from xling.array_types import UInt32
from xling.core import languages

_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,8}|#[0-9]{2,7}|#[xX][0-9a-fA-F]{2,6});")
_MAX_ROUNDS = 2  # text that was escaped or decoded wrongly twice
# Bytes or a list of texts, as Python writes them.
_PYTHON = re.compile(r"(?:b|\[)['\"].*['\"]\]?\Z", re.DOTALL)
# Letters in the shapes of print, as text of a PDF has them; no signs such as ﷺ and brackets of the Koran.
_ARABIC_SHAPES = re.compile("[\ufb50-\ufbb1\ufbd3-\ufbff\ufe70-\ufefc]+")
# Chinese, half-width Japanese or Thai characters inside words of Latin letters: ``caf茅`` was UTF-8 read as GBK.
_FOREIGN = "[\u0e01-\u0e5b\u4e00-\u9fff\uff61-\uff9f]"
_IN_WORD = re.compile(f"(?<=[A-Za-z]){_FOREIGN}+|{_FOREIGN}+(?=[A-Za-z])")
_FOREIGN_RUN, _NOT_LATIN = re.compile(f"{_FOREIGN}+"), re.compile("[^\0-\u024f\u1e00-\u1eff\u2000-\u20ff]")
# Letters of Cyrillic, Greek, Hebrew, Arabic and Armenian, whose two bytes in UTF-8 are one character in GBK.
_OF_GBK = frozenset(
    bytes([first, rest]).decode("gbk") for first in range(0xCE, 0xDC) for rest in range(0x80, 0xC0)
)
_RUN_OF_GBK = f"[{''.join(sorted(_OF_GBK))}]{{4}}"
_MAY_BE_GBK, _RUN = re.compile(_RUN_OF_GBK), re.compile("[^\0-\x7f]+")
_MIN_OF_GBK, _MIN_SHARE_OF_GBK, _MIN_OF_A_LOST = 8, 0.8, 10  # Chinese has one in ten
_CODE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
# Bytes as mail programs write them (quoted-printable): a letter in UTF-8, then in such a text all else and cut lines.
_MAIL_LETTER = re.compile(r"=[C-F][0-9A-F]=[89AB][0-9A-F]")
_MAIL_BYTES = re.compile(r"=\r?\n|(?:=[0-9A-F]{2})+")
# A line end that a program wrote as two letters: behind a sentence, and in such a text elsewhere. No \nu of LaTeX.
_LINE_END = re.compile(r"(?:\\r)?\\n(?![a-z])")
_LINE_END_BEHIND = re.compile(r"(?<=[.!?…。！？؟۔।:\"'”’»)\s])" + _LINE_END.pattern)

_WHOLE_TEXT_CODECS = ("cp1252", "cp1251", "cp1250", "mac_roman", "koi8_r", "cp1253", "cp1254", "cp1257", "cp1255",
                      "cp1256", "cp437", "cp850", "iso8859_2", "iso8859_15", "cp866", "cp852")  # fmt: skip
_CYRILLIC_REST = frozenset({"cp866"})
"""Code pages in which the bytes of longer letters look like words in Cyrillic, so only pairs are looked for."""
_MIN_SEQUENCES = 3
# First bytes of letters in Mac OS Roman that stand before letters in right text: ``l’è``, ``—à``.
_MARKS_BEFORE_LETTERS = frozenset("’‘“”«»…–—\u00a0")


@cache
def _byte_of_character(codec: str) -> Mapping[str, int]:
    """Character -> byte of a code page from 0x80; where it has none, or for Windows-1252, that of Latin-1 too."""
    own = {bytes([byte]).decode(codec, "ignore") or chr(byte): byte for byte in range(0x80, 0x100)}
    return {chr(byte): byte for byte in range(0x80, 0x100)} | own if codec == "cp1252" else own


def _sequence_pattern(codec: str) -> str:
    """Characters that are the bytes of a letter in UTF-8, as a regular expression."""
    table = _byte_of_character(codec)

    def chars(first_byte: int, last_byte: int) -> str:
        return "".join(re.escape(char) for char, byte in table.items() if first_byte <= byte <= last_byte)

    rest = f"[{chars(0x80, 0xBF)}]"
    if codec in _CYRILLIC_REST:
        return f"[{chars(0xC2, 0xDF)}]{rest}"
    return f"[{chars(0xC2, 0xDF)}]{rest}|[{chars(0xE0, 0xEF)}]{rest}{{2}}|[{chars(0xF0, 0xF4)}]{rest}{{3}}"


_BYTE_OF_CHARACTER = _byte_of_character("cp1252")
_UTF8_SEQUENCE = re.compile(_sequence_pattern("cp1252"))
# Letters that are the first bytes of the commonest sequences, and marks that follow any letter in right text.
_COMMON_FIRST_BYTES, _CLOSING_MARKS = frozenset("ÃÂâÐÑØÙÄÅàïð"), frozenset("»”’…“›–—®™°ªº²³´·‘")
_EAST_ASIAN = frozenset({"Jpan", "Kore", "Hani", "Hans", "Hant"})
# Capitals inside words in Windows-1252 are small letters in Latin-9: ``Ã€`` is À or ä. Windows-1252 has characters in
# the place of most C1 codes, so these beside letters that it has elsewhere are of Latin-9.
_LATIN_9 = re.compile(
    "[a-z]Ã[€ŠšŽžŒœ]|\\A(?=.*[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f])(?=.*[€ŠšŽžŒœŸ])", re.DOTALL
)
_WESTERN = re.compile("[À-ÖØ-öø-ÿ]")
_A_GRAVE = re.compile("Ã(?= )")  # à, whose second byte is a no-break space that became a space

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\u2060-\u2064\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_LINE_BREAKS = re.compile(r"[\x0b\x0c\x1c-\x1f\u2028\u2029]")
_C1 = re.compile(r"[\x80-\x9f]")
_ZERO_WIDTH_SPACE, _ZERO_WIDTH_MARKS = re.compile("\u200b"), re.compile("[\u200b-\u200d]")
JOINER_SCRIPTS = frozenset({"Arab", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Sinh", "Mong", "Beng", "Deva", "Gujr",
                            "Guru", "Knda", "Mlym", "Orya", "Taml", "Telu", "Syrc", "Adlm", "Thaa", "Nkoo",
                            "Mand", "Rohg", "Java", "Bali", "Sund", "Cakm", "Cham", "Mtei", "Newa", "Lana",
                            "Talu"})  # fmt: skip
"""Scripts in which characters that join or part letters without width are spelling."""
ZERO_WIDTH_SPACE_SCRIPTS = frozenset({"Thai", "Laoo", "Khmr", "Mymr", "Tibt"})
"""Scripts without spaces, in which a space without width parts words."""

_QUOTE_PATTERNS = (
    (re.compile(r"``(.+?)''"), r'"\1"'),
    (re.compile(r",,(.+?)(?:''|``)"), r'"\1"'),
    (re.compile(r'(?<!")""(?!")'), '"'),
)
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[`´](?=[^\W\d_])")
_QUOTE_MARKS = '"“”„«»‟'

DAMAGE_PATTERN = (
    r"[A-Za-z][\u{e01}-\u{e5b}\u{4e00}-\u{9fff}\u{ff61}-\u{ff9f}]|"
    r"[\u{fb50}-\u{fbff}\u{fe70}-\u{fefc}]|^(?:b|\[)['\"]|=[C-F][0-9A-F]=[89AB]|&[a-zA-Z#][a-zA-Z0-9]{1,8};|\\[unr]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u{ad}\u{feff}\u{200b}-\u{200f}\u{2028}-\u{202e}"
    r"\u{2060}-\u{2069}]|``|,,|\"\"|\p{L}[`´]\p{L}|Ã "
    + "".join(f"|{_sequence_pattern(codec)}" for codec in _WHOLE_TEXT_CODECS)
    + f"|[ÃÂÐÑ]\u00a0|{_RUN_OF_GBK}"
)
"""What a text holds in which a step of `mend` finds something; in the syntax of polars."""


def _decode_mail_bytes(match: re.Match[str]) -> str:
    """Return the characters of bytes such as ``=C3=A9``, "" for a soft line end; what is not UTF-8 stays."""
    with suppress(UnicodeDecodeError):
        return bytes.fromhex(match[0].replace("=", "")).decode() if match[0][1] not in "\r\n" else ""
    return match[0]


def _decode_gbk(line: str) -> str:
    """Return a line of UTF-8 in an alphabet of two bytes a letter that was read as GBK; lost bytes become U+FFFD."""
    wide = [char for char in line if "\u3400" <= char <= "\u9fff"]
    if sum(map(_OF_GBK.__contains__, wide)) < max(_MIN_OF_GBK, _MIN_SHARE_OF_GBK * len(wide)):
        return line
    decoded = _RUN.sub(lambda match: match[0].encode("gbk", "ignore").decode("utf-8", "replace"), line)
    return decoded if decoded.count("\ufffd") * _MIN_OF_A_LOST <= len(decoded) else line


def _decode_foreign(line: str) -> str:
    """Return a line of UTF-8 in Latin letters that was read in a code page of Chinese, Japanese or Thai."""
    num_runs = len(_FOREIGN_RUN.findall(line))
    if num_runs > 1 and 2 * len(_IN_WORD.findall(line)) >= num_runs:
        for codec in ("gbk", "cp932", "cp874"):
            with suppress(UnicodeError):
                decoded = line.encode(codec).decode("utf-8")
                if not _NOT_LATIN.search(decoded):
                    return decoded
    return line


def decode_entities(text: str) -> str:
    r"""Replace character references, ``\u00e9``, ``\n`` and shapes of Arabic letters with their characters.

    A no-break space becomes a space.
    """
    if not text.isascii():
        text = _ARABIC_SHAPES.sub(
            lambda match: unicodedata.normalize("NFKC", match[0]).replace(" ", ""), text
        )
        if _IN_WORD.search(text):
            text = "\n".join(map(_decode_foreign, text.split("\n")))
        if _MAY_BE_GBK.search(text):
            text = "\n".join(map(_decode_gbk, text.split("\n")))
    if _PYTHON.match(text):
        with catch_warnings(action="error"), suppress(Exception):
            if repr(value := literal_eval(text)) == text:
                text = value.decode() if isinstance(value, bytes) else "\n".join(value)
    if "\\" in text:
        plain = _CODE.sub(
            lambda match: bytes.fromhex(match[0].replace("\\u", "")).decode("utf-16-be", "replace"), text
        )
        plain = _LINE_END.sub("\n", plain) if _LINE_END_BEHIND.search(plain) else plain
        text = plain.replace('\\"', '"') if plain != text else text
    if _MAIL_LETTER.search(text):
        text = _MAIL_BYTES.sub(_decode_mail_bytes, text)
    for _ in range(_MAX_ROUNDS):
        decoded_text = _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\xa0", " "), text)
        if decoded_text == text:
            break
        text = decoded_text
    return text


def decode_mojibake(text: str, scripts: Collection[str] = ()) -> str:
    """Decode UTF-8 that was read as Windows-1252, Latin-1 or one of the other code pages that programs take by mistake.

    Args:
        text: a line.
        scripts: ISO 15924 codes that the letters may be in, with which parts of a line are decoded too; Latin is always
            allowed. Without any, letters may be in any script.
    """
    for _ in range(_MAX_ROUNDS):
        pages = 0 if text.isascii() else traces(code_points(text))
        if not pages:
            break
        decoded_text = _decode_whole(text, "iso8859_15", scripts, 1) if _LATIN_9.search(text) else text
        decoded_text = ftfy.fix_encoding(decoded_text)
        if scripts and decoded_text != text and not _has_expected_scripts(decoded_text, scripts):
            decoded_text = text
        for codec in (codec for bit, codec in enumerate(_WHOLE_TEXT_CODECS) if pages >> bit & 1):
            decoded_text = _decode_whole(decoded_text, codec, scripts)
        if scripts:
            decoded_text = _decode_sequences(decoded_text, scripts)
        if decoded_text == text or _is_of_western_letters(decoded_text):
            break
        text = decoded_text
    return text


def _is_of_western_letters(text: str) -> bool:
    """Return whether over three in four letters have accents, as in a text that was no UTF-8: ``Â äâóõ``.

    Right words have fewer (``été``, ``déjà``).
    """
    num = len(_WESTERN.findall(text))
    return num > 1 and num * 4 > 3 * sum(map(str.isalpha, text))


@cache
def _byte_kinds() -> NDArray[np.uint16]:
    """Bytes of a letter in UTF-8 that each character may be, in each code page a bit: (3, 0x10000) uint16.

    The rows are: first byte of two, first of more, another byte.
    """
    kinds = np.zeros((3, 0x10000), np.uint16)
    for bit, codec in enumerate(_WHOLE_TEXT_CODECS):
        for char, byte in _byte_of_character(codec).items():
            row = 2 if byte < 0xC0 else 0 if 0xC2 <= byte < 0xE0 else 1 if 0xE0 <= byte < 0xF5 else -1
            if row == 1 and codec in _CYRILLIC_REST:
                row = -1
            if row == 1 and codec == "cp1252":  # whose last byte is lost most often
                row = 0
            if row >= 0:
                kinds[row, ord(char)] |= 1 << bit
    return kinds


def traces(codes: UInt32[np.ndarray, " chars"]) -> int:
    """Return the code pages in which UTF-8 may have been read, a bit each; 0 where no trace of it stands.

    Args:
        codes: code points of a text, uint32.
    """
    two, more, rest = _byte_kinds()[:, np.minimum(codes, 0xFFFF)]
    if not rest.any():
        return 0
    return int(
        np.bitwise_or.reduce(two[:-1] & rest[1:], initial=0)
        | np.bitwise_or.reduce(more[:-2] & rest[1:-1] & rest[2:], initial=0)
    )


def has_mojibake(codes: UInt32[np.ndarray, " chars"]) -> bool:
    """Return whether UTF-8 that was read in another code page may stand in a text, given as its code points."""
    return bool(traces(codes))


def code_points(text: str) -> UInt32[np.ndarray, " chars"]:
    """Return the code points of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _decode_sequences(text: str, scripts: Collection[str]) -> str:
    sequences = [match[0] for match in _UTF8_SEQUENCE.finditer(text)]
    if not any(_is_damage(sequence) for sequence in sequences):
        return text

    def decoded(match: re.Match[str]) -> str:
        try:
            decoded_text = bytes(_BYTE_OF_CHARACTER[char] for char in match[0]).decode("utf-8")
        except UnicodeDecodeError:
            return match[0]
        if (
            "Latn" not in scripts and "\u017f" < decoded_text < "\u0300"
        ):  # letters that other scripts stand beside
            return match[0]
        return decoded_text if _has_expected_scripts(decoded_text, scripts) else match[0]

    return _A_GRAVE.sub("à", _UTF8_SEQUENCE.sub(decoded, text))


def _is_damage(sequence: str) -> bool:
    """Whether a sequence is hardly ever right text, as ``É»`` is at the end of a quotation."""
    first, rest = sequence[0], set(sequence[1:])
    return not rest <= _CLOSING_MARKS or (first in _COMMON_FIRST_BYTES and not rest & {"»", "”", "’", "…"})


def _decode_whole(
    text: str, codec: str, scripts: Collection[str], min_sequences: int = _MIN_SEQUENCES
) -> str:
    """Return a text decoded as UTF-8 from the bytes that a codec gives, or as it is."""
    table = _byte_of_character(codec)
    try:
        data = bytes(ord(char) if char < "\x80" else table[char] for char in text)
        decoded_text = data.decode("utf-8")
    except (KeyError, UnicodeError):
        return text
    sequences = sum(not char.isascii() for char in decoded_text)
    firsts = {char for char in text if 0xC2 <= table.get(char, 0) <= 0xF4}
    if firsts <= _MARKS_BEFORE_LETTERS and sum(map(str.isascii, filter(str.isalpha, text))) > sequences:
        return text
    is_enough = sequences >= min_sequences or (sequences > 0 and _is_out_of_place(text, decoded_text))
    return decoded_text if is_enough and _has_expected_scripts(decoded_text, scripts) else text


def _is_out_of_place(text: str, decoded_text: str) -> bool:
    """Whether each letter beyond ASCII of a decoded text was a sign, capital or strange inside a word.

    ``lieĂź`` and ``pi├╣`` are, so a few letters of such a kind are enough.
    """
    places, at = list[tuple[str, str, str]](), 0
    for before, char in zip(f" {decoded_text}", decoded_text, strict=False):
        if not char.isascii():
            places.append((before, text[at], char))
        at += len(char.encode("utf-8"))
    return all(
        "\u2010" <= char <= "\u2027"  # quotes and dashes, of three bytes
        or (first in "├┬" and before.isalnum())
        or (
            before.islower()
            and before.isascii()
            and not first.islower()
            and first not in _CLOSING_MARKS
            and languages.script_of(char) == "Latn"
        )
        for before, first, char in places
    )


def _has_expected_scripts(text: str, scripts: Collection[str]) -> bool:
    if any(unicodedata.category(char) in ("Cn", "Co") for char in text if char > "\u2fff"):
        return False
    if not scripts:
        return True
    letter_scripts = {
        languages.script_of(char) for char in text if char.isalpha() and char not in _BYTE_OF_CHARACTER
    }
    east_asian = _EAST_ASIAN if _EAST_ASIAN & {*scripts} else ()
    return letter_scripts <= {"Latn", languages.NO_SCRIPT, *scripts, *east_asian}


def decode_c1(text: str) -> str:
    """Return a text with the characters that Windows-1252 has in the place of C1 control codes."""
    return _C1.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "ignore"), text)


def remove_invisible(text: str, script: str) -> str:
    """Delete control characters and marks without width; C1 codes that Windows-1252 has become its characters.

    Joiners stay in `JOINER_SCRIPTS` scripts, spaces without width in `ZERO_WIDTH_SPACE_SCRIPTS` ones.
    """
    text = _LINE_BREAKS.sub(" ", _ESCAPES.sub("", text))
    text = _INVISIBLE.sub("", decode_c1(text))
    if script in ZERO_WIDTH_SPACE_SCRIPTS:
        return text
    return (_ZERO_WIDTH_SPACE if script in JOINER_SCRIPTS else _ZERO_WIDTH_MARKS).sub("", text)


def repair_quotes(text: str, other_side: str = "") -> str:
    """Rewrite quotes and apostrophes that formats double or replace, and take off a pair or one that stands alone.

    Args:
        text: a side of a pair.
        other_side: its other side; quotes around the whole of ``text`` go if that has no quotes.
    """
    text = _APOSTROPHE.sub("'", text)
    for pattern, replacement in _QUOTE_PATTERNS:
        text = pattern.sub(replacement, text)
    if any(mark in other_side for mark in (*_QUOTE_MARKS, "'", "‘", "`", "「", "『", "《")):
        return text
    count = sum(map(text.count, _QUOTE_MARKS))
    if count == 2 and len(text) > 2 and text[0] in _QUOTE_MARKS and text[-1] in _QUOTE_MARKS:
        return text[1:-1].strip()
    if count == 1 and text[:1] in _QUOTE_MARKS:
        return text[1:].strip()
    if count == 1 and text[-1] in _QUOTE_MARKS and not text[-2:-1].isdigit():
        return text[:-1].strip()
    return text


REPAIR_STEPS: dict[str, Callable[[str, str, str, Collection[str]], str]] = {
    "entities": lambda text, other, script, scripts: decode_entities(text),
    "mojibake": lambda text, other, script, scripts: decode_mojibake(text, scripts),
    "invisible": lambda text, other, script, scripts: remove_invisible(text, script),
    "quotes": lambda text, other, script, scripts: repair_quotes(text, other),
}
"""Name -> text, other side, main script and all scripts of its language -> text put right; in this order."""
