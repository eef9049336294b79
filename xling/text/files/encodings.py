"""Encodings of text files: UTF-8, UTF-16 and UTF-32 with a mark are read; others are named and refused.

A file in a legacy encoding is refused even where few of its bytes are not UTF-8: read as UTF-8 it would lose every
letter with an accent. A UTF-8 file with damage is read, and its bad bytes are counted.
"""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.text.files.alphabets import page_of

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Line feeds turned into CR LF twice give CR CR LF, which is one line end.
_CR_BEFORE_END = re.compile(rb"\r+(?=\r\n)")
_SINGLE_CR = re.compile(rb"\r(?!\n)")
# Python's codec -> its name here, and iconv's.
_NAMES = {
    "cp1252": ("Windows-1252 (Latin-1)", "CP1252"),
    "cp1250": ("Windows-1250", "CP1250"),
    "cp1254": ("Windows-1254", "CP1254"),
    "cp1257": ("Windows-1257", "CP1257"),
    "cp1258": ("Windows-1258", "CP1258"),
    "iso8859_2": ("ISO 8859-2 (Latin-2)", "ISO-8859-2"),
    "cp852": ("DOS code page 852", "CP852"),
    "cp857": ("DOS code page 857", "CP857"),
    "cp850": ("DOS code page 850", "CP850"),
    "mac_roman": ("Mac OS Roman", "MACINTOSH"),
    "cp1251": ("Windows-1251", "CP1251"),
    "koi8_u": ("KOI8", "KOI8-U"),
    "cp866": ("DOS code page 866", "CP866"),
    "mac_cyrillic": ("Mac OS Cyrillic", "MAC-CYRILLIC"),
    "iso8859_5": ("ISO 8859-5", "ISO-8859-5"),
    "cp737": ("DOS code page 737", "CP737"),
    "cp862": ("DOS code page 862", "CP862"),
    "iso8859_6": ("ISO 8859-6", "ISO-8859-6"),
    "cp1253": ("Windows-1253", "CP1253"),
    "cp1255": ("Windows-1255", "CP1255"),
    "cp1256": ("Windows-1256", "CP1256"),
    "cp874": ("Windows-874 (TIS-620)", "CP874"),
    "cp437": ("DOS code page 437", "CP437"),
    "mac_latin2": ("Mac OS Central European", "MAC-CENTRALEUROPE"),
    "iso8859_3": ("ISO 8859-3 (Latin-3)", "ISO-8859-3"),
    "iso8859_4": ("ISO 8859-4 (Latin-4)", "ISO-8859-4"),
    "iso8859_7": ("ISO 8859-7", "ISO-8859-7"),
    "iso8859_10": ("ISO 8859-10 (Latin-6)", "ISO-8859-10"),
    "iso8859_14": ("ISO 8859-14 (Latin-8)", "ISO-8859-14"),
    "iso8859_16": ("ISO 8859-16 (Latin-10)", "ISO-8859-16"),
    "cp775": ("DOS code page 775", "CP775"),
    "cp855": ("DOS code page 855", "CP855"),
    "cp869": ("DOS code page 869", "CP869"),
    "ptcp154": ("PT154", "PT154"),
    "kz1048": ("KZ-1048", "RK1048"),
    "gb18030": ("GBK or GB 18030", "GB18030"),
    "big5hkscs": ("Big5", "BIG5-HKSCS"),
    "cp932": ("Shift JIS", "CP932"),
    "euc_jp": ("EUC-JP", "EUC-JP"),
    "cp949": ("EUC-KR", "CP949"),
    "iso2022_jp_2": ("ISO-2022-JP", "ISO-2022-JP-2"),
    "iso2022_kr": ("ISO-2022-KR", "ISO-2022-KR"),
    "hz": ("HZ (GB 2312 in 7 bits)", "HZ"),
    "utf-7": ("UTF-7", "UTF-7"),
    "utf-16-le": ("UTF-16 little-endian without a byte order mark", "UTF-16LE"),
    "utf-16-be": ("UTF-16 big-endian without a byte order mark", "UTF-16BE"),
    "utf-32-le": ("UTF-32 little-endian without a byte order mark", "UTF-32LE"),
    "utf-32-be": ("UTF-32 big-endian without a byte order mark", "UTF-32BE"),
}
_OF_SCRIPTS = {
    "Latn": ("cp1252", "mac_roman", "cp850"),
    "Cyrl": ("cp1251", "koi8_u", "mac_cyrillic", "cp866", "iso8859_5"),
    "Grek": ("cp1253", "cp737"),
    "Hebr": ("cp1255", "cp862"),
    "Arab": ("cp1256", "iso8859_6"),
    "Thai": ("cp874",),
    "Hans": ("gb18030",),
    "Hant": ("big5hkscs",),
    "Jpan": ("cp932", "euc_jp"),
    "Kore": ("cp949",),
}
_CENTRAL = frozenset(["bs", "cs", "hr", "hsb", "hu", "pl", "ro", "sk", "sl", "sq", "sr_Latn"])
_TURKIC = frozenset(["az", "tr"])
_OF_LANGS = {
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp852": _CENTRAL,
    "cp1254": _TURKIC,
    "cp857": _TURKIC,
    "cp1257": frozenset(["et", "lt", "lv"]),
    "cp1258": frozenset({"vi"}),
}
_SCRIPT_NAMES = {
    "Latn": ("LATIN",),
    "Cyrl": ("CYRILLIC",),
    "Grek": ("GREEK",),
    "Hebr": ("HEBREW",),
    "Arab": ("ARABIC",),
    "Thai": ("THAI",),
    "Hans": ("CJK",),
    "Hant": ("CJK",),
    "Jpan": ("HIRAGANA", "KATAKANA", "CJK"),
    "Kore": ("HANGUL", "CJK"),
}
_MARKS_OF_PRINT = frozenset("‘’“”„‚…–—•«»‹›°§€£©®™·¡¿ªº½¼¾²³´¨¸¯±×÷\u00a0、。，！？：；（）「」『』《》・")
_MARKS_IN_WORDS = frozenset("’‘´–—\u00a0")
_ALONE = frozenset("àáèéêìíòóôùúåöÀÁÈÉÊÌÍÒÓÔÙÚÅÖ")
# A text file holds none of these; damage makes them.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f\x7f]")
# Text of 7 bits: an escape, or marks around letters, says what follows.
_SEVEN_BITS = (
    ("iso2022_jp_2", re.compile(rb"\x1b\$[@AB]|\x1b\([BJI]|\x1b\$\([CD]")),
    ("iso2022_kr", re.compile(rb"\x1b\$\)C|\x0e[!-~ ]+\x0f")),
    ("hz", re.compile(rb"~\{(?:[!-w][!-~])+~\}")),
)
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]*)")
_SHIFTED = re.compile(rb"\+([A-Za-z0-9+/]*)-?")
_MIN_SHIFTED = 0.8  # of the plus signs of a text in UTF-7
_SCRIPTS_OF_MANY_LETTERS = frozenset(("CJK", "HANGUL", "YI", "CANADIAN", "ETHIOPIC", "VAI"))
_ASCII_LETTER = re.compile("[A-Za-z]")
_UNPACK = {".gz": "gzip -dc", ".xz": "xz -dc", ".zst": "zstd -dc", ".bz2": "bzip2 -dc"}
_KINDS = {
    b"PK\x03\x04": "a ZIP archive, such as docx, xlsx or epub",
    b"PK\x05\x06": "an empty ZIP archive",
    b"%PDF": "PDF",
    b"PAR1": "Parquet",
    b"version https://git-lfs.github.com/spec/": "a pointer of Git LFS, for which `git lfs pull` fetches the file",
    b"ARROW1": "Arrow",
    b"Obj\x01": "Avro",
    b"\x89HDF": "HDF5",
    b"SQLite format 3": "an SQLite database",
    b"\xd0\xcf\x11\xe0": "an old Office document, such as doc or xls",
    b"{\\rtf": "RTF",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\x1f\x8b": "compressed by gzip twice",
    b"\x1f\x9d": "compressed by compress (.Z)",
    b"\x04\x22\x4d\x18": "compressed by lz4",
    b"\x5d\x00\x00": "compressed by lzma",
    b"LZIP": "compressed by lzip",
    b"\xff\x06\x00\x00sNaPpY": "compressed by snappy",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF87a": "a picture",
    b"GIF89a": "a picture",
    b"\x93NUMPY": "an array of numpy",
}
_TAR_MAGIC, _TAR_PLACE = b"ustar", 257
_SAMPLE_BYTES = 1 << 16
_MIN_BAD_BYTES = 20
_MIN_BAD_LETTERS = 4
_BAD_BYTES_PER = 1_000_000
_MIN_SCORE, _MARGIN, _SCRIPT_MARGIN = 0.8, 0.004, 0.15
_MIN_NUL_SHARE = 0.005
_MIN_OF_PAGE, _MIN_ALPHABET, _MAX_ODD = 0.9, 0.3, 0.02  # of the characters of UTF-16 without a mark
_ODD = ("Cn", "Co", "Cs")  # categories: of no character of a text
_SYMBOLS = 0x20  # the upper byte of dashes and quotes, after those of alphabets
_COMMON_HAN, _MIN_HAN = "的一是不了在人有這这のをはにがとた、。，", 0.08


def kind_of(head: bytes) -> str:
    """Return what a file is by its first bytes, "" for what may be text."""
    if head[_TAR_PLACE:].startswith(_TAR_MAGIC):
        return "a tar archive"
    return next((name for magic, name in _KINDS.items() if head.startswith(magic)), "")


def utf8_chunks(
    chunks: Iterable[bytes], path: Path, lang: str = "", legacy: bool = True, every_cr: bool = True
) -> Iterator[bytes]:
    r"""Yield the bytes of a text file as UTF-8 with ``\n`` or ``\r\n`` at line ends; `bytes` subclasses stay.

    Args:
        chunks: the unpacked bytes of the file.
        path: the file, for errors.
        lang: its language, which tells encodings of one script apart; "" if it is not known.
        legacy: whether a file in a legacy encoding is refused here; else the caller decodes strictly.
        every_cr: whether each single ``\r`` ends a line; else only in a file without ``\n``.

    Raises:
        UserError: the file is in another encoding, or no text.
    """
    decoder: codecs.IncrementalDecoder | None = None
    watch = _Watch(path, lang)
    is_first, held = True, b""
    for raw in chunks:
        chunk = raw
        if is_first and chunk:
            # At least one character follows a mark.
            marks = [(mark, name) for mark, name in _MARKS if len(chunk) >= 2 * len(mark)]
            encoding = next((name for mark, name in marks if chunk.startswith(mark)), "")
            if encoding:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
            else:
                refuse_other_files(chunk, path)
        if decoder is not None:
            chunk = decoder.decode(chunk).encode("utf-8", "replace")
        elif legacy:
            watch.see(chunk)
        if is_first and chunk:
            is_first, every_cr = False, every_cr or b"\n" not in chunk
        if every_cr and (held or b"\r" in chunk):
            chunk = held + chunk
            held = chunk[len(chunk.rstrip(b"\r")) :]
            chunk = _CR_BEFORE_END.sub(b"", chunk[: len(chunk) - len(held)])
            chunk = _SINGLE_CR.sub(b"\n", chunk)
        yield chunk if type(raw) is bytes else type(raw)(chunk)
    if decoder is not None and (rest := decoder.decode(b"", True)):  # half a character
        yield held.replace(b"\r", b"\n") + rest.encode("utf-8", "replace")
    elif held:
        yield b"\n" * len(held)
    if decoder is None and legacy:
        watch.judge(at_end=True)


class _Watch:
    """Counts of the bytes of a file that are UTF-8 and of those that are not."""

    def __init__(self, path: Path, lang: str) -> None:
        self._path, self._lang = path, lang
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_good = self._num_bad = self._num_bytes = 0
        self._sample, self._has_control = b"", False

    def see(self, chunk: bytes) -> None:
        """Count one chunk; its sample is around the first byte that is not UTF-8."""
        self._num_bytes += len(chunk)
        text = self._decoder.decode(chunk)
        if chunk.isascii() and text.isascii():
            return
        num_bad = max(0, text.count("\ufffd") - chunk.count(b"\xef\xbf\xbd"))
        self._num_good += len(text.encode("utf-8")) - len(text) - 2 * text.count("\ufffd")
        if not num_bad:
            return
        self._num_bad += num_bad
        self._has_control = self._has_control or bool(_CONTROL.search(chunk))
        if len(self._sample) < _SAMPLE_BYTES:
            first = next((i for i, byte in enumerate(chunk) if byte >= 0x80), 0)
            start = max(0, chunk.rfind(b"\n", 0, first) + 1) if len(chunk) - first < _SAMPLE_BYTES else first
            self._sample += chunk[start : start + _SAMPLE_BYTES]
        if self._num_bad >= _MIN_BAD_BYTES:
            self.judge(at_end=False)

    def judge(self, at_end: bool) -> None:
        """Refuse a file of which more is not UTF-8 than is, if it reads well in another encoding.

        Raises:
            UserError: it does.
        """
        is_few = not at_end or self._num_bad * _BAD_BYTES_PER < self._num_bytes
        if not self._num_bad or self._num_bad <= self._num_good or self._has_control:
            return
        if is_few and self._num_bad < _MIN_BAD_BYTES:
            return
        if encoding := guess_encoding(self._sample, self._lang):
            raise refusal(self._path, encoding)


def refuse_other_files(head: bytes, path: Path) -> None:
    """Refuse a file that begins as no text does, or as UTF-16 or UTF-32 without a mark.

    Raises:
        UserError: it does; the message names the encoding and the command that converts it.
    """
    if kind := kind_of(head):
        is_packed = "archive" in kind or "compressed" in kind
        raise UserError(
            f"{path} is {kind}, not text",
            "a text file in UTF-8, plain or packed by gzip, xz, zstd or bzip2",
            "unpack it, or save it as text or, of a spreadsheet, CSV"
            if is_packed
            else "save it as text or CSV",
        )
    if encoding := unmarked_utf(head[:_SAMPLE_BYTES]) or seven_bits(head[:_SAMPLE_BYTES]):
        raise refusal(path, encoding)


def refuse_seven_bits(head: bytes, path: Path, letters: bool = False) -> None:
    """Refuse a file of XML, JSON or messages that says UTF-8 and begins in an encoding of 7 bits, such as UTF-7.

    Args:
        letters: also refuse one in which most letters beyond ASCII are those of another encoding of 8 bits.

    Raises:
        UserError: it does.
    """
    declared = _DECLARED.match(head[:_SAMPLE_BYTES].lstrip(b"\xef\xbb\xbf \r\n\t"))
    if declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"utf-7"):
        return
    encoding = seven_bits(head[:_SAMPLE_BYTES])
    if letters and not encoding and b"\0" not in head[:4]:
        text = head.decode("utf-8", "replace")
        num_bad = text.count("\ufffd")
        num_good = sum(char > "\x7f" for char in text) - num_bad
        encoding = guess_encoding(head) if num_bad >= _MIN_BAD_LETTERS and num_bad > num_good else ""
    if encoding:
        raise refusal(path, encoding)


def seven_bits(head: bytes) -> str:
    """Return the encoding of 7 bits that most lines of a text in ASCII show, else ""."""
    if not head.isascii():
        return ""
    lines = [line for line in head.splitlines() if line.strip()]
    if _is_utf7(head):
        return "utf-7"
    for encoding, pattern in _SEVEN_BITS:
        places = [line for line in lines if pattern.search(line)]
        if 2 * len(places) > len(lines) and _is_read_as(b"\n".join(places), encoding):
            return encoding
    return ""


def _is_utf7(head: bytes) -> bool:
    """Return whether what follows the plus signs of ASCII is text in UTF-7, such as a letter in a word.

    Words such as the "+Fem" of a grammar are base64 by chance, mostly of scripts that have many letters. Those are no
    text behind a letter of ASCII, unless they stand elsewhere.
    """
    sequences = list(_SHIFTED.finditer(head))
    texts = [_of_base64(match[1]) for match in sequences]
    scripts = [{unicodedata.name(char, "").split()[0] for char in text if char.isalpha()} for text in texts]
    follow_letter = [head[match.start() - 1 : match.start()].isalpha() for match in sequences]
    others = (
        scripts_of_text for scripts_of_text, behind in zip(scripts, follow_letter, strict=True) if not behind
    )
    by_chance = _SCRIPTS_OF_MANY_LETTERS.difference(*others)
    texts = [
        "" if behind and scripts_of_text and scripts_of_text <= by_chance else text
        for text, scripts_of_text, behind in zip(texts, scripts, follow_letter, strict=True)
    ]
    in_words = sum(
        (text.isalpha() and behind) or (match[0].endswith(b"-") and text in _MARKS_OF_PRINT)
        for match, text, behind in zip(sequences, texts, follow_letter, strict=True)
    )
    num_letters = sum(any(map(str.isalpha, text)) for text in texts)
    is_enough = bool(in_words) or num_letters > 1 or (num_letters and _is_read_as(head, "utf-7"))
    return bool(is_enough) and sum(map(bool, texts)) >= _MIN_SHIFTED * len(texts)


def _of_base64(data: bytes) -> str:
    """Return the text beyond ASCII that a sequence of UTF-7 is, "+" for an empty one, "" if it is none."""
    if not data:
        return "+"
    try:
        text = (b"+" + data + b"-").decode("utf-7")
    except UnicodeError:
        return ""
    categories = {unicodedata.category(char) for char in text}
    return text if not text.isascii() and categories.isdisjoint((*_ODD, "Cc")) else ""


def _is_read_as(data: bytes, encoding: str) -> bool:
    """Return whether bytes give letters beyond ASCII in an encoding."""
    text = data.decode(encoding, "ignore")
    return sum(char > "\x7f" and char.isalpha() for char in text) > len(text) // 4


def unmarked_utf(head: bytes) -> str:
    """Return the name of UTF-16 or UTF-32 if the NUL bytes lie as in one of them, else ""."""
    num_nul = head.count(b"\0")
    if len(head) < 8 or (not num_nul and is_utf8(head)):
        return ""
    at = [head[place::4].count(b"\0") for place in range(4)]
    if min(at[2:]) > len(head) // 5 and at[0] < at[3] / 4:
        return "utf-32-le"
    if min(at[:2]) > len(head) // 5 and at[3] < at[0] / 4:
        return "utf-32-be"
    texts = {
        encoding: head[: len(head) // 2 * 2].decode(encoding, "replace")
        for encoding in ("utf-16-le", "utf-16-be")
    }
    if told := next((encoding for encoding, text in texts.items() if _is_sure(text, head)), ""):
        return told
    if num_nul < max(2, _MIN_NUL_SHARE * len(head)) or (num_nul * 10 < len(head) and is_utf8(head)):
        return ""
    encoding = "utf-16-le" if head[1::2].count(b"\0") > head[::2].count(b"\0") else "utf-16-be"
    text = texts[encoding]
    num_odd = sum(unicodedata.category(char) in (*_ODD, "Cc") for char in text)
    return encoding if (num_odd - sum(map(text.count, "\r\n\t\f"))) * 20 <= len(text) else ""


def _is_sure(text: str, head: bytes) -> bool:
    """Return whether bytes decoded as UTF-16 are of one alphabet beside ASCII, or show the commonest signs of Han.

    The upper bytes of an alphabet are control characters, of which no text in another encoding has many. ASCII and
    legacy encodings give Han and Hangul by chance, but not their commonest.
    """
    upper = Counter(ord(char) >> 8 for char in text if not char.isspace())
    total = upper.total()
    if sum(text.count(char) for char in set(text) if unicodedata.category(char) in _ODD) > _MAX_ODD * total:
        return False
    page = max((each for each in upper if 0 < each < _SYMBOLS), default=0, key=upper.__getitem__)
    if upper[page] >= _MIN_ALPHABET * total and page:
        return upper[page] + upper[page + 1] + upper[0] + upper[_SYMBOLS] >= _MIN_OF_PAGE * total
    return not is_utf8(head) and sum(map(text.count, _COMMON_HAN)) >= _MIN_HAN * len(text)


def is_utf8(head: bytes) -> bool:
    """Return whether bytes are UTF-8, but for a character that is cut off at their end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def guess_encoding(sample: bytes, lang: str = "") -> str:
    """Return the Python codec of a legacy encoding in which a sample reads well, or "".

    Args:
        lang: the language of the text, "" if it is not known.
    """
    if encoding := unmarked_utf(sample):
        return encoding
    language = languages.get(lang) if lang else None
    if language and (page := page_of(sample[:_SAMPLE_BYTES], language.code)):
        return page
    special = [name for name, langs in _OF_LANGS.items() if language and language.code in langs]
    script = language.script if language else ""
    scripts = [script] if script in _OF_SCRIPTS else []
    scripts += [name for name in _OF_SCRIPTS if name not in scripts]
    best, best_score = "", _MIN_SCORE
    for name in scripts:
        codecs_of_script = (*(special if name == script else ()), *_OF_SCRIPTS[name])
        scores = [_score(sample, codec, name) - _MARGIN * i for i, codec in enumerate(codecs_of_script)]
        if max(scores) > best_score:
            # What is usual for the language wins unless another script is clearly better.
            place = scores.index(max(scores))
            best_score = scores[place] + _MARGIN * place + (_SCRIPT_MARGIN if name == script else 0)
            best = codecs_of_script[place]
    return best


def _score(sample: bytes, codec: str, script: str) -> float:
    """Return the share of the other than ASCII characters that fit their script and their neighbours."""
    text = sample.decode(codec, "replace")
    places = [i for i, char in enumerate(text) if char >= "\x80"]
    if not places:
        return 0.0
    return sum(_fits(text, i, _SCRIPT_NAMES[script]) for i in places) / len(places)


def _fits(text: str, place: int, scripts: tuple[str, ...]) -> bool:
    char = text[place]
    if char in _MARKS_OF_PRINT:
        inside = text[place - 1 : place].isalpha() and text[place + 1 : place + 2].isalpha()
        return not inside or char in _MARKS_IN_WORDS
    if not unicodedata.name(char, "").startswith(scripts):
        return False
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if char.isupper() and (before.islower() or (after.islower() and before.isalpha())):
        return False
    if "CJK" in scripts:  # no letter of theirs stands within a word of ASCII
        return not (_ASCII_LETTER.fullmatch(before) and _ASCII_LETTER.fullmatch(after))
    neighbours = [each for each in (before, after) if each.isalpha()]
    if scripts[0] != "LATIN":
        return bool(neighbours) and not any(map(str.isascii, neighbours))
    if not neighbours:  # few letters stand alone between signs and blanks
        return after in ("'", "’") or char in _ALONE
    return bool(_ASCII_LETTER.search(text, max(0, place - 3), place + 4)) or len(neighbours) == 1


def refusal(path: Path, encoding: str) -> UserError:
    """Return the error for a file in ``encoding``, with the command that converts it."""
    name, iconv = _NAMES[encoding]
    unpack = _UNPACK.get(path.suffix, "")
    stem = path.name.removesuffix(path.suffix) if unpack else path.name
    new = f"utf8-{stem}"
    command = f"iconv -f {iconv} -t UTF-8"
    command = f"{unpack} {path} | {command}" if unpack else f"{command} {path}"
    return UserError(
        f"{path} is not UTF-8; it is probably {name}",
        "UTF-8, or UTF-16 and UTF-32 with a byte order mark",
        f"convert it: {command} > {new} (if it is damaged UTF-8: iconv -c -f UTF-8 -t UTF-8)",
    )
