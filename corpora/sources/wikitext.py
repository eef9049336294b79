"""Conversion of wikitext to running text in one pass over brackets, without expanding templates.

Non-prose is removed: templates, tables, references, files, categories, galleries, formulas, markup. What a
reader would see in the sentence is kept: link labels, headings of sections that hold prose, list items, and
the argument of the few templates that only wrap text (``lang``, ``nowrap``, ``convert``). Reference for the
syntax: mediawiki.org, Help:Formatting, Help:Links, Help:Templates, Help:Tables.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_REMOVED_TAGS = (
    "ref|references|gallery|math|chem|ce|timeline|score|syntaxhighlight|source|imagemap|hiero|graph|mapframe"
    "|maplink|templatedata|templatestyles|indicator|categorytree|inputbox|section|includeonly|noinclude|table"
    "|style|code|pre"
)
_EMPTY_TAG = re.compile(rf"<(?:{_REMOVED_TAGS})\b[^<>]*/>", re.I)
_REMOVED_START = re.compile(rf"<({_REMOVED_TAGS})\b(?:[^<>/]|/(?!>))*>", re.I)
_REMOVED_END = re.compile(rf"</({_REMOVED_TAGS})\s*>", re.I)
_NOWIKI = re.compile(r"<nowiki>(.*?)</nowiki>|<nowiki\s*/>", re.I | re.S)
_EMPTY_NOWIKI = re.compile(r"<nowiki\s*/>", re.I)
_BREAK = re.compile(r"<(?:br|hr|p|/p|div|/div|li|/li|/tr|/td|blockquote|/blockquote)\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*\b[^<>]*>")
_BRACKET = re.compile(r"\{\{|\}\}|\[\[|\]\]|^[ \t:*#]*\{\||^[ \t]*\|\}(?!\})", re.M)
# Possessive and bounded: a start without an end costs no more than these lengths.
_EXTERNAL_LINK = re.compile(
    r"\[(?:https?:|ftp:|mailto:)?//[^\s\]<>]{0,2000}+[ \t]*+([^\]\n]{0,1000}+)\]"
    r"|\[mailto:[^\s\]]{0,300}+[ \t]*+([^\]\n]{0,1000}+)\]"
)
_BARE_URL = re.compile(r"(?:https?|ftp)://[^\s\]<>|}]+")
_VARIANT = re.compile(r"-\{([^{}]*)\}-")
_QUOTES = re.compile(r"'{2,5}")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,}__")
_HEADING = re.compile(r"^(={1,6})\s*(.+?)\s*\1\s*$")
_MARKER = re.compile(r"^[*#;:]+\s*")
_EMPTY_PARENTHESES = re.compile(r"[(\[（［][\s,;:،؛、，；：/–—-]*[)\]）］]")
_HOLE = "\x04"  # marks a removed template; punctuation around it belonged to its content
_PUNCTUATION_AT_HOLE = re.compile("[,;،؛、；] *\x04+ *(?=[,;،؛、；)）])|(?<=[(（]) *\x04+ *[,;،؛、；]? *")
_LEADING_PUNCTUATION = re.compile(r"([(（])(?:\s*[,;:،؛、，；：])+\s*")
_SPACE = re.compile(r"[ \t\u00a0\u3000]+")
_SPACE_BEFORE_PUNCTUATION = re.compile(r" +(?=[,.)\]،。、，）](?:\s|$))")
_FILE_NAME = re.compile(
    r"\.(?:jpe?g|png|svg|gif|tiff?|webp|xcf|og[gva]|opus|web[mp]|wav|mp3|midi?|pdf|djvu)$", re.I
)
# Categories and links to other wikis are alone on their lines; a title has a space after its colon.
_PREFIXED_LINK = re.compile(r"^[ \t]*\[\[[^\W\d_][\w .-]{1,29}:(?! )[^\[\]\n]*\]\][ \t]*$", re.M)
_LANG_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,12}){0,2}|simple")

# Templates that show their argument; the number is which one. Names are shared by most Wikipedias.
_SHOWN_TEMPLATES = {
    "lang": 2, "nowrap": 1, "nobr": 1, "nobreak": 1, "formatnum": 1, "small": 1, "abbr": 1, "abbrlink": 1,
    "transl": -1, "transliteration": -1, "script": -1, "bidi": 1, "unicode": 1, "mvar": 1, "sc": 1, "smallcaps": 1,
    "nihongo": 1, "ruby": 1, "ill": 1, "interlanguage link": 1, "le": 1, "仮リンク": 1, "tsl": 3, "وإو": 1,
    "em": 1, "visible anchor": 1, "lc": 1, "uc": 1,
}  # fmt: skip
_UNIT_TEMPLATES = frozenset({"convert", "cvt", "unit", "unità", "einheit"})


@dataclass(frozen=True)
class NamespaceNames:
    """Lower-cased namespaces whose links show nothing: files, categories, media."""

    dropped: frozenset[str] = frozenset({"file", "image", "category", "media"})

    @staticmethod
    def from_names(names: Iterable[str]) -> NamespaceNames:
        """Return the wiki's own names besides the English ones, which work everywhere."""
        return NamespaceNames(NamespaceNames().dropped | {name.lower() for name in names})


def clean(wikitext: str, names: NamespaceNames = NamespaceNames()) -> str:
    """Return the running text of an article, one paragraph per line.

    Args:
        wikitext: source of a page.
        names: how the wiki calls files and categories.
    """
    text = _COMMENT.sub("", wikitext)
    nowiki_texts: list[str] = []

    def keep_nowiki(match: re.Match[str]) -> str:
        nowiki_texts.append((match.re.groups and match[1]) or "")
        return f"\x02{len(nowiki_texts) - 1}\x03"

    last = text.lower().rfind("</nowiki>")
    closed = (
        last + len("</nowiki>") if last >= 0 else 0
    )  # otherwise every start would search for an end in vain
    text = _NOWIKI.sub(keep_nowiki, text[:closed]) + _EMPTY_NOWIKI.sub(keep_nowiki, text[closed:])
    text = _without_removed_tags(_EMPTY_TAG.sub("", text))
    text = _VARIANT.sub(lambda m: _render_variant(m[1]), text)
    text = _render_brackets(_PREFIXED_LINK.sub("", text), names)
    text = _EXTERNAL_LINK.sub(lambda m: "\x01" + (m[1] or m[2] or ""), text)
    text = _BARE_URL.sub("\x01", text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = _MAGIC_WORD.sub("", _QUOTES.sub("", text))
    text = re.sub("\x02(\\d+)\x03", lambda m: nowiki_texts[int(m[1])], text)
    return "\n".join(_prose_lines(html.unescape(text).splitlines()))


def _without_removed_tags(text: str) -> str:
    """Remove the non-prose elements, each up to its end tag, in linear time; unclosed ones stay."""
    ends: dict[str, list[tuple[int, int]]] = {}
    for tag in _REMOVED_END.finditer(text):
        ends.setdefault(tag[1].lower(), []).append(tag.span())
    kept_parts, position = [], 0
    for tag in _REMOVED_START.finditer(text):
        of_name = ends.get(tag[1].lower(), [])
        following = bisect_left(of_name, (tag.end(), 0))
        if tag.start() >= position and following < len(of_name):
            kept_parts.append(text[position : tag.start()])
            position = of_name[following][1]
    return "".join([*kept_parts, text[position:]])


@dataclass(slots=True)
class _OpenBracket:
    opener: str
    pieces: deque[str]


def _render_brackets(text: str, names: NamespaceNames) -> str:
    """Resolve links, templates and tables from the inside out; what an unclosed one holds stays, but a table's."""
    stack = [_OpenBracket("", deque())]
    num_open: Counter[str] = Counter()
    position = 0
    for token in _BRACKET.finditer(text):
        stack[-1].pieces.append(text[position : token.start()])
        position = token.end()
        mark = token[0].strip(" \t:*#")
        if mark in ("{{", "[[", "{|"):
            stack.append(_OpenBracket(mark, deque()))
            num_open[mark] += 1
            continue
        closing_of = {"}}": "{{", "]]": "[[", "|}": "{|"}[mark]
        depth = len(stack) - 1 if num_open[closing_of] else 0  # the search only visits frames that it closes
        while depth and stack[depth].opener != closing_of:
            depth -= 1
        # A link never spans a table or a template's end; a stray "]]" in one is text.
        if not depth or (closing_of == "[[" and depth != len(stack) - 1):
            stack[-1].pieces.append("" if closing_of != "[[" else mark)
            continue
        while len(stack) - 1 > depth:
            num_open[stack[-1].opener] -= 1
            _close_unmatched(stack)
        num_open[closing_of] -= 1
        content = "".join(stack.pop().pieces)
        stack[-1].pieces.append(_RENDER[closing_of](content, names) or (_HOLE if closing_of == "{{" else ""))
    stack[-1].pieces.append(text[position:])
    while len(stack) > 1:
        _close_unmatched(stack)
    return "".join(stack[0].pieces)


def _close_unmatched(stack: list[_OpenBracket]) -> None:
    """Close the innermost frame without its closing bracket: its text belongs to the frame around it."""
    frame = stack.pop()
    if frame.opener != "{|":  # append the shorter to the longer, so that nesting is not quadratic
        if len(stack[-1].pieces) < len(frame.pieces):
            frame.pieces.extendleft(reversed(stack[-1].pieces))
            stack[-1].pieces = frame.pieces
        else:
            stack[-1].pieces.extend(frame.pieces)


def _render_link(content: str, names: NamespaceNames) -> str:
    target, has_bar, label = content.partition("|")
    target = target.strip()
    prefix, has_colon, after_colon = target.partition(":")
    prefix = prefix.strip().lower()
    if target.startswith(":"):
        return (label if has_bar else target[1:]).rpartition("|")[2]
    if has_colon and (prefix in names.dropped or _FILE_NAME.search(target)):
        return ""
    if has_colon and after_colon and not has_bar and _LANG_PREFIX.fullmatch(prefix):
        return ""
    return label.rpartition("|")[2] if has_bar and label.strip() else target.partition("#")[0] or target[1:]


def _render_template(content: str, names: NamespaceNames) -> str:
    name, _, rest = content.partition("|")
    name = name.strip().lower().replace("_", " ")
    if name.startswith("formatnum:"):
        return name.partition(":")[2]
    if name.startswith("lang-"):
        name, position = "lang-", 1
    elif name.startswith(("link-", "internal link helper/")):
        position = 1
    elif name in _UNIT_TEMPLATES:
        values = _split_arguments(rest)
        return " ".join(values[:2]) if len(values) > 1 else "".join(values)
    else:
        position = _SHOWN_TEMPLATES.get(name, 0)
    if not position:
        return ""
    values = _split_arguments(rest)
    if position < 0:
        return values[-1] if values else ""
    return values[position - 1] if len(values) >= position else ""


def _split_arguments(rest: str) -> list[str]:
    """Return unnamed arguments of a template; ``1=``-style numbers count as unnamed."""
    values = []
    for part in rest.split("|"):
        key, sign, value = part.partition("=")
        if not sign:
            values.append(part.strip())
        elif key.strip().isdecimal():
            values.append(value.strip())
    return values


def _render_table(content: str, names: NamespaceNames) -> str:
    return ""


_RENDER: dict[str, Callable[[str, NamespaceNames], str]] = {
    "[[": _render_link,
    "{{": _render_template,
    "{|": _render_table,
}


def _render_variant(content: str) -> str:
    """Return the text of a converter's ``-{zh-hans:A; zh-hant:B}-``: the first variant, or the plain text."""
    content = content.rpartition("|")[2]
    first = content.partition(";")[0]
    prefix, colon, value = first.partition(":")
    return value.strip() if colon and _LANG_PREFIX.fullmatch(prefix.strip().lower()) else content


def _prose_lines(lines: list[str]) -> list[str]:
    """Return paragraphs of cleaned lines; a heading stays only when prose follows before the next heading."""
    kept_lines: list[str] = []
    pending: list[tuple[int, str]] = []
    for raw in lines:
        line = raw.strip()
        if heading := _HEADING.match(line):
            level = len(heading[1])
            pending = [(above, text) for above, text in pending if above < level]
            pending.append((level, _tidy_line(heading[2])))
            continue
        if line.startswith(("|", "!")):  # the row of a table that is opened by a template or never closed
            continue
        marked = _MARKER.match(line)
        if marked and "\x01" in line:  # a list item around an address is a reference, not prose
            continue
        paragraph = _tidy_line(line[marked.end() :] if marked else line)
        if any(map(str.isalnum, paragraph)):
            kept_lines.extend(text for _, text in pending if text)
            pending = []
            kept_lines.append(paragraph)
    return kept_lines


def _tidy_line(line: str) -> str:
    """Return one paragraph without the gaps that removed markup left."""
    line = _SPACE.sub(" ", line.replace("\x01", ""))
    if _HOLE in line:
        line = _PUNCTUATION_AT_HOLE.sub("", line).replace(_HOLE, "")
    if "(" in line or "（" in line or "[" in line:
        line = _LEADING_PUNCTUATION.sub(r"\1", _EMPTY_PARENTHESES.sub("", line))
    return _SPACE_BEFORE_PUNCTUATION.sub("", _SPACE.sub(" ", line)).strip()
