"""Text between the inline codes of a translator's program, which may separate words or not."""

import re

from xling.core.languages import script_of

_LINE_BREAK = re.compile(
    r"[\n\r\t]|\\[nrt]\b|\\(?:par|line|tab|cell|row)\b|</?(?:br|p|div|li|td|th|tr|h[1-6])\b", re.IGNORECASE
)
_FORMAT = re.compile(
    r"(?:</?(?:b|i|u|em|strong|span|font|a|sub|sup|small|cf)\b[^>]*>|\\[biu]0?|)", re.IGNORECASE
)
# Codes that a program has written as text: ``{b>bold<b}`` of Phrase, ``<f0>bold</f0><x1/>`` of OmegaT, ``<1>``.
_WRITTEN = re.compile(r"\{(?:[biu_^]{1,3}|\d+)>|<(?:[biu_^]{1,3}|\d+)\}|</?(?!h[1-6]>)[a-z]{0,3}\d{1,4}(/?)>")
_PLACEHOLDER = re.compile(r"(?<!\{)\{\d+\}(?!\})")  # of Phrase's own files
BREAK = "\ufdd0"  # a code point that no text has
_BREAKS = re.compile(f"{BREAK}+")
_UNSPACED = frozenset({"Hani", "Jpan", "Bopo", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"})


def mark_of_code(tag: str, content: str) -> str:
    """Return what stands for inline code while a segment is put together: it may separate words, or not."""
    if tag in ("ph", "x", "ut") and not content:
        return BREAK  # a placeholder of which nothing is known: a line break, a field or a picture
    if tag == "sub" or _LINE_BREAK.search(content):
        return BREAK
    return "" if tag in ("bpt", "ept") or _FORMAT.fullmatch(content.strip()) else BREAK


def joined(parts: list[str], has_placeholders: bool = False) -> str:
    """Return the text of a segment; where a code separates two words there is a space, in scripts with spaces.

    With placeholders, numbers in curly brackets are codes too.
    """
    text = "".join(parts)
    if ">" in text or "}" in text:
        text = _WRITTEN.sub(lambda code: BREAK if code[1] else "", text)
        text = _PLACEHOLDER.sub(BREAK, text) if has_placeholders else text
    text = _BREAKS.sub(_separator, text)
    return " ".join(text.split())


def _separator(gap: re.Match[str]) -> str:
    before, after = gap.string[: gap.start()][-1:], gap.string[gap.end() :][:1]
    is_between_words = before.isalnum() and after.isalnum()
    return " " if is_between_words and not {script_of(before), script_of(after)} <= _UNSPACED else ""
