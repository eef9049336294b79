"""Raised digits of markup: ``10<sup>6</sup>`` is 10⁶, not 106; marks of footnotes are no text."""

import re

_RAISED = re.compile(r"(?<=[\w)\]°])\s?<sup\b[^<>]{0,200}>\s*([+\-−–]?\d{1,4})\s*</sup\s*>", re.IGNORECASE)
_DIGITS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")

_TAG, _TO = "[^<>]{0,300}", "[^<>#]{0,300}"
_AROUND = r"(?:\s|[\[\]()]|&#9[13];|</?span\b[^<>]{0,100}>){0,9}"
_MARK = rf"{_AROUND}(?:\d{{1,4}}|[a-z]|[*†‡§]{{1,3}}){_AROUND}"
_NOTE_MARK = re.compile(
    rf"<sup\b{_TAG}>\s*<a\b{_TO}#{_TAG}>{_MARK}</a\s*>\s*</sup\s*>"
    rf"|<a\b{_TO}#{_TAG}>\s*<sup\b{_TAG}>{_MARK}</sup\s*>\s*</a\s*>"
    rf"|<a\b{_TAG}\b(?:noteref|footnote-ref)\b{_TAG}>{_MARK}</a\s*>"
    # The way back from a note.
    rf"|<a\b{_TAG}\b(?:footnote-back(?:ref)?|doc-backlink|reversefootnote)\b{_TAG}>[^<>]{{0,20}}</a\s*>"
    # The number of a page of print.
    rf"|<span\b{_TAG}(?:\bpagenum\b|pagebreak\b){_TAG}>{_AROUND}(?:p\.\s?|page\s)?[\divxlc]{{1,6}}{_AROUND}</span\s*>",
    re.IGNORECASE,
)
_READING = re.compile(
    r"<(rt|rp)\b[^<>]{0,100}+>(?:[^<]|<(?!/?r[bpt]\b|/ruby\b)){0,200}+(?:</\1\s*>|(?=</?r))", re.IGNORECASE
)
# The source of a formula, which browsers do not show.
_FORMULA_SOURCE = re.compile(
    r"<(?:m:|mml:)?annotation\b[^<>]*>[^<]*(?:<(?!/?(?:m:|mml:)?annotation\b)[^<]*)*</(?:m:|mml:)?annotation\s*>",
    re.IGNORECASE,
)
_NOTE_WORDS = ("<sup", "noteref", "footnote", "doc-backlink", "pagenum", "pagebreak")


def without_note_marks(html: str) -> str:
    """Return HTML without readings above characters, sources of formulas, numbers of pages, and links of footnotes."""
    lowered = html.lower()
    html = _FORMULA_SOURCE.sub("", html) if "annotation" in lowered else html
    html = _READING.sub("", html) if "<rt" in lowered else html
    is_marked = any(word in lowered for word in _NOTE_WORDS)
    return _NOTE_MARK.sub("", html) if is_marked else html


def raised(text: str) -> str:
    """Return digits and signs as the characters that stand above the line; other text as it is."""
    return text.translate(_DIGITS) if text.lstrip("+-−–").isdecimal() else text


def keep_raised_digits(markup: str) -> str:
    """Return HTML or wikitext with numbers in ``sup`` as raised characters."""
    return (
        _RAISED.sub(lambda match: raised(match[1]), markup) if "sup" in markup or "SUP" in markup else markup
    )
