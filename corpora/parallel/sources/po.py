"""``po:FILE``: translations of a program's messages (gettext), read by polib."""

import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import missing_package_error
from xling.core.errors import UserError
from xling.core.language_tags import fit, language_of
from xling.core.languages import Language
from xling.corpora.langid.code_pages import better_page
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    drop_row,
    existing_path,
)
from xling.corpora.parallel.sources.units import UNFINISHED, read_small
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES, detect_compression
from xling.text.files.encodings import is_utf8, refuse_other_files, refuse_seven_bits

MAX_MESSAGES = 1 << 20
"""Of a catalogue, which is held in memory with about a kilobyte for each."""
_PLURAL, _MANY = re.compile(r"plural\s*=\s*([^;]+)"), 100
_DAMAGE = (OSError, ValueError, IndexError, KeyError)
_NEXT_MESSAGE = re.compile(r'(?<=")\n(?=#|msgid |msgctxt )')
# polib takes these for line ends: characters of private use stand for them meanwhile.
_HIDDEN = {ord(char): f"{chr(0xF0000 + ord(char))}" for char in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"}
_SHOWN = {ord(hidden): chr(code) for code, hidden in _HIDDEN.items()}
_MSGID = re.compile(rb"^msgid .*$", re.MULTILINE)
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_LANGUAGE = re.compile(rb"\"Language:\s*([\w@.-]+)")
_CONFLICT = "#-#-#-#-#"  # between the translations of two catalogues that msgcat has joined
# Messages in whose place the names of the translators stand, by their text (GNOME) or context (KDE).
_CREDITS = frozenset(
    {"translator-credits", "translator_credits", "NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"}
)
_KEY = re.compile(r"[A-Za-z]\w*(?:[._]\w+)+")
KEYS_NOTE = "messages whose source is a name, such as menu.file.open"
_NO_TEXT = re.compile(rb"^(?:#.*|msgid .*)$", re.MULTILINE)


@PAIR_SOURCES.register("po")
class Po(PairReader):
    """The messages of one file; the language of the header is the target, or the source where the pair is turned."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        path = existing_path(rest)
        return [PairSource(f"po:{rest}", (path,), lambda ledger: _rows(path, context, ledger))]


def _rows(path: Path, context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    """Yield the messages that are translated; doubtful and obsolete ones, and those without a text, are dropped.

    Of a message with plural forms, the singular goes with the form of 1, and the plural with that of 100.

    Raises:
        UserError: the file is not a catalogue, in another charset than it says, or in none of the languages.
    """
    catalogue = read_catalogue(path, ledger, context.tgt)
    lang = catalogue.metadata.get("Language", "").strip()
    is_turned = bool(lang) and not fit(lang, context.tgt) and bool(fit(lang, context.src))
    if lang and not is_turned and not fit(lang, context.tgt):
        raise UserError(
            f"{path} is in {lang}, says its header",
            f"{context.tgt.code} or {context.src.code}",
            "change pair=",
        )
    one, many = _forms(catalogue.metadata.get("Plural-Forms", ""))
    for number, entry in enumerate(catalogue):
        plural = [text for _, text in sorted(entry.msgstr_plural.items())] if entry.msgid_plural else []
        pairs = [(entry.msgid, entry.msgstr)]
        if plural:
            singular, others = (
                plural[form if form < len(plural) else default] for form, default in ((one, 0), (many, -1))
            )
            pairs = list(dict.fromkeys([(entry.msgid, singular), (entry.msgid_plural, others)]))
        for source, target in ((text.translate(_SHOWN) for text in pair) for pair in pairs):
            reason = ""
            if entry.obsolete or entry.fuzzy or _CONFLICT in target or {source, entry.msgctxt} & _CREDITS:
                reason = UNFINISHED
            elif not target.strip() or not source.strip():
                reason = "missing_side"
            elif max(len(source), len(target)) > MAX_CELL_BYTES:
                reason = "malformed"
            if not reason and _KEY.fullmatch(source):
                ledger.count_event(KEYS_NOTE)
            if reason:
                drop_row(ledger, reason, f"{path}/{number}", source[:1000])
            else:
                yield (target, source, "") if is_turned else (source, target, "")


def _forms(rule: str) -> tuple[int, int]:
    """Return the numbers of the forms for 1 and for 100 things, the first and the last without a rule.

    The first form is that of 0 in Arabic and of 5 in Slovene, and the last is that of 0 in Latvian.
    """
    stated = _PLURAL.search(rule)
    try:
        form_of = gettext.c2py(stated[1]) if stated else None
        return (form_of(1), form_of(_MANY)) if form_of else (0, MAX_MESSAGES)
    except (ValueError, ArithmeticError, RecursionError):
        return 0, MAX_MESSAGES


def read_catalogue(path: Path, ledger: Ledger, language: Language) -> Any:
    """Return the messages of a file; those that are damaged are dropped. It is in ``language`` if it says no other.

    Raises:
        UserError: no catalogue of messages, damaged, or polib is not installed.
    """
    try:
        import polib
    except ModuleNotFoundError:
        raise missing_package_error("polib", "source=po:", "office") from None
    data = read_small(path).removeprefix(b"\xef\xbb\xbf")
    if kind := detect_compression(data):
        raise UserError(f"{path} is compressed by {kind}", "a .po file", "unpack it")
    refuse_other_files(data, path)
    if (num_messages := data.count(b"msgid ")) > MAX_MESSAGES:
        raise UserError(
            f"{path} holds {num_messages:,} messages", f"at most {MAX_MESSAGES:,}", "cut the file in two"
        )
    stated = _CHARSET.search(data)
    charset = stated[1].decode("ascii") if stated and stated[1] != b"CHARSET" else "utf-8"
    if charset.lower() in ("utf-8", "utf8", "us-ascii", "ascii"):
        refuse_seven_bits(_MSGID.sub(b"", data), path)
    elif not data.isascii() and is_utf8(data):
        ledger.count_event(f"catalogues that say {charset}, read as UTF-8, which they are")
        charset = "utf-8"
    try:
        text = data.decode(charset, "replace")
    except LookupError:
        text = "\ufffd"
    # Damage costs the messages that it is in; a catalogue in another charset is refused.
    num_bad = text.count("\ufffd") - data.count("\ufffd".encode())
    is_one_byte = len(text) == len(data)  # what has no letter there was written in another one
    if num_bad > 0 and (is_one_byte or 2 * num_bad >= sum(char > "\x7f" for char in text)):
        raise UserError(
            f"{path} is not in {charset}, as it says or should be",
            "a catalogue in the charset of its header, or UTF-8",
            f"convert it: msgconv -t UTF-8 {path}",
        )
    code = _LANGUAGE.search(data)
    language = (code and language_of(code[1].decode("ascii"))) or language
    if charset != "utf-8" and (page := better_page(_NO_TEXT.sub(b"", data), charset, language)):
        ledger.count_event(
            f"catalogues that say {charset}, read as {page}, in which they are {language.name}"
        )
        text, num_bad = data.decode(page, "replace"), data.decode(page, "replace").count("\ufffd")
    text = text.translate(_HIDDEN)
    try:
        if num_bad > 0:
            raise ValueError("bytes that cannot be decoded")
        catalogue = polib.pofile(text if text.strip() else "\n", check_for_duplicates=False)
    except _DAMAGE as error:
        catalogue = _whole_messages(polib, text, path, ledger)
        if not catalogue:
            said = str(error).replace(text, "")[:200]
            raise UserError(
                f"{path} is not a catalogue of gettext: {said}", "a .po file", "check it: msgfmt -c"
            ) from None
    if not catalogue:
        raise UserError(f"{path} holds no message", "a .po file with msgid and msgstr", "check the file")
    return catalogue


def _whole_messages(polib: Any, text: str, path: Path, ledger: Ledger) -> Any:
    """Return the messages of a damaged catalogue that can be read by themselves; the others are dropped."""
    catalogue = polib.POFile()
    blocks = [block for block in re.split(r"\n[ \t\r]*\n", text) if "msgid" in block]
    # A message without a blank line before it begins at its msgid or its comments.
    messages = [message for block in blocks for message in _NEXT_MESSAGE.split(block)]
    for number, message in enumerate(messages):
        try:
            if "\ufffd" in message:
                raise ValueError(message)
            read = polib.pofile(f"{message}\n", check_for_duplicates=False)
        except _DAMAGE:
            drop_row(ledger, "malformed", f"{path}/{number}", message[:1000])
            continue
        catalogue.metadata.update(read.metadata)
        catalogue.extend(read)
    return catalogue
