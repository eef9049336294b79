"""Conversion of wikitext to running text in one pass over brackets, without expanding templates.

Non-prose is removed: templates, tables, references, files, categories, galleries, formulas, markup. What a
reader would see in the sentence is kept: link labels, headings of sections that hold prose, list items, and
the text of the templates of `xling.corpora.sources.wikitemplates`; an unknown one within a sentence is counted. Of the
variants of a language one is read. Reference for the syntax: mediawiki.org, Help:Formatting, Help:Links,
Help:Templates, Help:Tables, Writing systems/Syntax.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from xling.corpora.common.raised import keep_raised_digits, raised
from xling.corpora.sources.wikitemplates import (
    BAR,
    NO_PAGE,
    SIGN,
    Arguments,
    Page,
    country_names,
    function_of,
    text_of,
)

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_REMOVED_TAGS = (
    "ref|references|gallery|math|chem|ce|timeline|score|syntaxhighlight|source|imagemap|hiero|graph|mapframe"
    "|maplink|templatedata|templatestyles|indicator|categorytree|inputbox|section|includeonly|noinclude|table"
    "|style|pre|rt|rp"
)
_FORMULAS = {name: f"{{{{<{name}>}}}}" for name in ("math", "chem", "ce", "hiero")}
_EMPTY_TAG = re.compile(rf"<(?:{_REMOVED_TAGS})\b[^<>]*/>", re.I)
_REMOVED_START = re.compile(rf"<({_REMOVED_TAGS})\b(?:[^<>/]|/(?!>))*>", re.I)
_REMOVED_END = re.compile(rf"</({_REMOVED_TAGS})\s*>", re.I)
_NOWIKI = re.compile(r"<nowiki>(.*?)</nowiki>|<nowiki\s*/>", re.I | re.S)
_EMPTY_NOWIKI = re.compile(r"<nowiki\s*/>", re.I)
_BREAK = re.compile(r"<(?:br|hr|p|/p|div|/div|li|/li|/tr|/td|blockquote|/blockquote)\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*\b[^<>]*>")
_BRACKET = re.compile(r"-\{(?!\{)|\{\{|\}\}|\}-|\[\[|\]\]|^[ \t:*#]*\{\||^[ \t:*#]*\|\}(?!\})", re.M)
_CLOSES = {"}}": "{{", "]]": "[[", "|}": "{|", "}-": "-{"}
_TABLE_END = re.compile(r"\n[ \t]*(?=\n)|\n(?==)")  # where an unclosed table may end
# Possessive and bounded: a start without an end costs no more than these lengths.
_EXTERNAL_LINK = re.compile(
    r"\[(?:https?:|ftp:|mailto:)?//[^\s\]<>]{0,2000}+[ \t]*+([^\]\n]{0,1000}+)\]"
    r"|\[mailto:[^\s\]]{0,300}+[ \t]*+([^\]\n]{0,1000}+)\]"
)
# Letters of scripts without spaces are the text that goes on.
_NOT_IN_URL = r"\s\]<>|}()\u0e00-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef"
_BARE_URL = re.compile(rf"(?:https?|ftp)://(?:[^{_NOT_IN_URL}]|\([^{_NOT_IN_URL}]*\))+(?<![.,;:!?])")
_VARIANT_RULE = re.compile(r"(?:^|;)\s*(?:[^;|:]*=>)?\s*([a-zA-Z]{2,3}(?:-[a-zA-Z]{2,12}){0,2})\s*:")
_VARIANT_FLAG = r"\s*(?:[A-Z-]|[a-z]{2,3}(?:-[a-z]{2,12})*)\s*"
_VARIANT_FLAGS = re.compile(rf"{_VARIANT_FLAG}(?:;{_VARIANT_FLAG})*")
_HIDING_FLAGS = frozenset("HT-")  # a rule for other places, a rule for the title, a rule that ends
_QUOTES = re.compile(r"('{2,})")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,}__")
_HEADING = re.compile(r"^(={1,6})\s*(.+?)\s*\1\s*$")
_MARKER = re.compile(r"^[*#;:]+\s*")
_EMPTY_PARENTHESES = re.compile(r"[(\[（［][\s,;:،؛、，；：/–—-]*[)\]）］]")
_HOLE = "\x04{}\x05"  # marks a removed template by its number; punctuation around it belonged to its content
_HOLES = "(?:\x04[0-9]*\x05)"
_ONE_HOLE = re.compile("\x04([0-9]*)\x05")
_PUNCTUATION_AT_HOLE = re.compile(
    f"[,;،؛、；] *{_HOLES}+ *(?=[,;،؛、；)）])|(?<=[(（]) *{_HOLES}+ *[,;،؛、；]? *"
)
# A removed template is within a sentence where the text before it has not ended, or that behind it begins small.
_SENTENCE_GOES_ON = re.compile(r"[^\W_][\s,;،؛、，；'’\"”»)）」』》%]*$")
# Particles that no sentence begins with, in scripts without capitals: of Japanese, Korean, Hindi, Urdu and Nepali.
_PARTICLE = re.compile(
    r" *(?:は(?!じ)|が|を|の(?!ち)|に(?!も)"
    r"|(?:은|는|이|가|을|를|의|에|에서|와|과|로|으로)(?=\s)"
    r"|(?:में|का|के|की|को|से|ने|पर|है|हैं|था|थे|थी|मा|ले|लाई|छ|میں|کا|کے|کی|کو|سے|نے|پر|ہے|ہیں|تھا)(?=[\s।۔]))"
)
_LEADING_PUNCTUATION = re.compile(r"([(（])(?:\s*[,;:،؛、，；：])+\s*")
_SPACE = re.compile(r"[ \t\u00a0\u3000]+")
_SPACE_BEFORE_PUNCTUATION = re.compile(r" +(?=[,.)\]،。、，）](?:\s|$)|\)[.,;:]|[。、，！？])")
_FILE_NAME = re.compile(
    r"\.(?:jpe?g|png|svg|gif|tiff?|webp|xcf|og[gva]|opus|web[mp]|wav|mp3|midi?|pdf|djvu)$", re.I
)
# Categories and links to other wikis are alone on their lines; a title has a space after its colon.
_PREFIXED_LINK = re.compile(r"^[ \t]*\[\[[^\W\d_][\w .-]{1,29}:(?! )[^\[\]\n]*\]\][ \t]*$", re.M)
_LANG_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,12}){0,2}|simple")

_OPENERS = frozenset(_CLOSES.values())
_VARIANTS_OF_LANGS = {
    "zh": ("zh-hans", "zh-cn", "zh-sg", "zh-my"), "zh_Hant": ("zh-hant", "zh-tw", "zh-hk", "zh-mo"),
    "sr": ("sr-ec", "sr-cyrl"), "sr_Latn": ("sr-el", "sr-latn"), "kk": ("kk-cyrl", "kk-kz"), "ku": ("ku-latn",),
    "uz": ("uz-latn",), "tg": ("tg-cyrl", "tg"), "crh": ("crh-latn",), "iu": ("ike-cans",),
}  # fmt: skip


@dataclass(frozen=True)
class NamespaceNames:
    """Lower-cased namespaces whose links show nothing: files, categories, media."""

    dropped: frozenset[str] = frozenset({"file", "image", "category", "media"})

    @staticmethod
    def from_names(names: Iterable[str]) -> NamespaceNames:
        """Return the wiki's own names besides the English ones, which work everywhere."""
        return NamespaceNames(NamespaceNames().dropped | {name.lower() for name in names})


def clean(
    wikitext: str,
    names: NamespaceNames = NamespaceNames(),
    page: Page = NO_PAGE,
    dropped: Counter[str] | None = None,
) -> str:
    """Return the running text of an article, one paragraph per line.

    Args:
        names: how the wiki calls files and categories.
        page: language of the wiki and date of the page; text in variants is read in that language's script.
        dropped: counts by name the templates that were removed from within a sentence.
    """
    text = _COMMENT.sub("", wikitext)
    nowiki_texts: list[str] = []

    def keep_nowiki(match: re.Match[str]) -> str:
        nowiki_texts.append((match.re.groups and match[1]) or "")
        return f"\x02{len(nowiki_texts) - 1}\x03"

    last = text.lower().rfind("</nowiki>")
    # Otherwise every start would search for an end in vain.
    closed = last + len("</nowiki>") if last >= 0 else 0
    text = _NOWIKI.sub(keep_nowiki, text[:closed]) + _EMPTY_NOWIKI.sub(keep_nowiki, text[closed:])
    text = _without_removed_tags(_EMPTY_TAG.sub("", keep_raised_digits(text)))
    renderer = _Renderer(names, page)
    text = _render_brackets(_PREFIXED_LINK.sub("", text), renderer)
    text = text.replace(BAR, "|").replace(SIGN, "=")
    text = _EXTERNAL_LINK.sub(lambda m: "\x01" + (m[1] or m[2] or ""), text)
    text = _BARE_URL.sub("\x01", text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = _MAGIC_WORD.sub("", "\n".join(map(_without_quotes, text.split("\n"))))
    text = re.sub("\x02(\\d+)\x03", lambda m: nowiki_texts[int(m[1])], text)
    lines = _prose_lines([*map(renderer.with_countries, html.unescape(text).splitlines())])
    if dropped is not None:
        dropped.update(renderer.dropped[number] for line in lines for number in _holes_in_sentence(line))
    return "\n".join(filter(None, map(_tidy_line, lines)))


def _holes_in_sentence(line: str) -> Iterator[int]:
    """Yield the numbers of the unknown templates that were removed from within a sentence."""
    for hole in _ONE_HOLE.finditer(line):
        before = _ONE_HOLE.sub("", line[max(0, hole.start() - 200) : hole.start()])
        # An expression does not take vowel signs, as in Hindi, Thai or Burmese, for letters.
        before = "".join(char for char in before if unicodedata.category(char)[0] != "M")
        after = _ONE_HOLE.sub("", line[hole.end() : hole.end() + 50]).lstrip()[:1]
        begins = after.islower() and not "\u10d0" <= after <= "\u10ff"  # Georgian has no capitals
        if hole[1] and (begins or _PARTICLE.match(line, hole.end()) or _SENTENCE_GOES_ON.search(before)):
            yield int(hole[1])


def _without_quotes(line: str) -> str:
    """Remove the marks of bold and italics as MediaWiki reads them: in ``L'''Iliade''`` one is an apostrophe."""
    parts = _QUOTES.split(line)
    sizes = dict[int, int]()
    for place in range(1, len(parts), 2):
        size = len(parts[place])
        sizes[place] = 3 if size == 4 else min(size, 5)
        parts[place] = "'" * (size - sizes[place])
    bold = [place for place, size in sizes.items() if size == 3]
    if bold and all(sum(size != other for size in sizes.values()) % 2 for other in (2, 3)):
        # Behind a word of one letter, else behind another word, italics follow an apostrophe.
        ends = {place: f"  {parts[place - 1]}"[-2:] for place in bold}
        parts[min(bold, key=lambda place: 2 if ends[place][1] == " " else ends[place][0] != " ")] += "'"
    return "".join(parts)


def _without_removed_tags(text: str) -> str:
    """Remove the non-prose elements, each up to its end tag, in linear time; unclosed ones stay.

    A formula becomes a template, which is counted where it is missing from a sentence.
    """
    ends: dict[str, list[tuple[int, int]]] = {}
    for tag in _REMOVED_END.finditer(text):
        ends.setdefault(tag[1].lower(), []).append(tag.span())
    kept_parts, position = [], 0
    for tag in _REMOVED_START.finditer(text):
        of_name = ends.get(tag[1].lower(), [])
        following = bisect_left(of_name, (tag.end(), 0))
        if tag.start() >= position and following < len(of_name):
            kept_parts.append(text[position : tag.start()] + _FORMULAS.get(tag[1].lower(), ""))
            position = of_name[following][1]
    return "".join([*kept_parts, text[position:]])


@dataclass(slots=True)
class _OpenBracket:
    opener: str
    pieces: deque[str]


def _render_brackets(text: str, renderer: _Renderer) -> str:
    """Resolve links, templates, tables and variants from the inside out; of an unclosed table its first part goes."""
    stack = [_OpenBracket("", deque())]
    num_open: Counter[str] = Counter()
    position = 0
    for token in _BRACKET.finditer(text):
        stack[-1].pieces.append(text[position : token.start()])
        position = token.end()
        mark = token[0].strip(" \t:*#")
        if mark in _OPENERS:
            stack.append(_OpenBracket(mark, deque()))
            num_open[mark] += 1
            continue
        closing_of = _CLOSES[mark]
        depth = len(stack) - 1 if num_open[closing_of] else 0  # the search only visits frames that it closes
        while depth and stack[depth].opener != closing_of:
            depth -= 1
        # A link or a variant never spans a table or a template's end; a stray "]]" or "}-" in one is text.
        is_within = closing_of in ("[[", "-{")
        if not depth or (is_within and depth != len(stack) - 1):
            stack[-1].pieces.append(mark if is_within else "")
            continue
        while len(stack) - 1 > depth:
            num_open[stack[-1].opener] -= 1
            _close_unmatched(stack)
        num_open[closing_of] -= 1
        content = "".join(stack.pop().pieces)
        stack[-1].pieces.append(renderer.render(closing_of, content))
    stack[-1].pieces.append(text[position:])
    while len(stack) > 1:
        _close_unmatched(stack)
    return "".join(stack[0].pieces)


def _close_unmatched(stack: list[_OpenBracket]) -> None:
    """Close the innermost frame without its closing bracket: its text belongs to the frame around it.

    An unclosed table ends at a blank line or a heading.
    """
    frame = stack.pop()
    while frame.opener == "{|" and frame.pieces:
        if end := _TABLE_END.search(frame.pieces[0]):
            frame.pieces[0] = frame.pieces[0][end.start() :]
            break
        frame.pieces.popleft()
    if frame.opener == "-{":
        frame.pieces.appendleft(frame.opener)
    # Append the shorter to the longer, so that nesting is not quadratic.
    if len(stack[-1].pieces) < len(frame.pieces):
        frame.pieces.extendleft(reversed(stack[-1].pieces))
        stack[-1].pieces = frame.pieces
    else:
        stack[-1].pieces.extend(frame.pieces)


class _Renderer:
    """Renders what brackets hold."""

    def __init__(self, names: NamespaceNames, page: Page) -> None:
        self.names, self.page = names, page
        self.dropped: list[str] = []
        """Names of the templates without text, by the numbers of their holes."""
        self._countries: dict[str, str] = {}
        """What those of countries show behind a flag, by the same numbers."""

    def render(self, opener: str, content: str) -> str:
        """Return the text of a link, a template, a table or a variant."""
        if opener == "[[":
            return _render_link(content, self.names)
        if opener == "-{":
            return _render_variant(content, self.page.lang)
        return self._render_template(content) if opener == "{{" else ""

    def _render_template(self, content: str) -> str:
        text = function_of(content)
        name, has_any, rest = content.partition("|")
        written = " ".join(_ONE_HOLE.sub("", name).replace("_", " ").split())
        name = written.lower()
        names = country_names(self.page.lang) if not has_any else {}
        if country := names.get(written) or names.get(name):
            self._countries[str(len(self.dropped))] = country
        elif text is None:
            arguments = Arguments(rest, bool(has_any))
            local = local_text(name, arguments, self.page.lang)
            text = text_of(name, arguments, self.page) if local is None else local
        if text is None:
            self.dropped.append(name[:60])
            return _HOLE.format(len(self.dropped) - 1)
        return text or _HOLE.format("")

    def with_countries(self, line: str) -> str:
        """Return a line with the names of its countries; alone on a line they are boxes, which show more."""
        if not self._countries or not any(map(str.isalnum, _ONE_HOLE.sub("", line))):
            return line
        return _ONE_HOLE.sub(lambda hole: self._countries.get(hole[1], hole[0]), line)


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


def _render_variant(content: str, lang: str = "") -> str:
    """Return the text of a converter's ``-{zh-hans:A; zh-hant:B}-`` in the script of a language.

    Args:
        content: of the braces.
        lang: code of the language; without a variant for it the first one is read.
    """
    flags, has_flags, text = content.partition("|")
    if not has_flags or not _VARIANT_FLAGS.fullmatch(flags):
        flags, text = "", content
    if _HIDING_FLAGS & {*map(str.strip, flags.split(";"))}:
        return ""
    rules = list(_VARIANT_RULE.finditer(text))
    if not rules or text[: rules[0].start()].strip():
        return text
    ends = [*(rule.start() for rule in rules[1:]), len(text)]
    variants = [
        (rule[1].lower(), text[rule.end() : end].rstrip("; \n"))
        for rule, end in zip(rules, ends, strict=True)
    ]
    wanted = _VARIANTS_OF_LANGS.get(lang, ())
    return next(
        (value for code in wanted for name, value in variants if name == code), variants[0][1]
    ).strip()


def _prose_lines(lines: list[str]) -> list[str]:
    """Return paragraphs of cleaned lines; a heading stays only when prose follows before the next heading."""
    kept_lines: list[str] = []
    pending: list[tuple[int, str]] = []
    for raw in lines:
        line = raw.strip()
        if heading := _HEADING.match(line):
            level = len(heading[1])
            pending = [(above, text) for above, text in pending if above < level]
            pending.append((level, heading[2]))
            continue
        if line.startswith(("|", "!")):  # the row of a table that is opened by a template or never closed
            continue
        marked = _MARKER.match(line)
        if marked and "\x01" in line:  # a list item around an address is a reference, not prose
            continue
        paragraph = line[marked.end() :] if marked else line
        if any(map(str.isalnum, _ONE_HOLE.sub("", paragraph))):
            kept_lines.extend(text for _, text in pending if text)
            pending = []
            kept_lines.append(paragraph)
    return kept_lines


def _tidy_line(line: str) -> str:
    """Return one paragraph without the gaps that removed markup left."""
    line = _SPACE.sub(" ", line.replace("\x01", ""))
    if "\x04" in line:
        line = _ONE_HOLE.sub("", _PUNCTUATION_AT_HOLE.sub("", line))
    if "(" in line or "（" in line or "[" in line:
        line = _LEADING_PUNCTUATION.sub(r"\1", _EMPTY_PARENTHESES.sub("", line))
    return _SPACE_BEFORE_PUNCTUATION.sub("", _SPACE.sub(" ", line)).strip()


# Templates that one Wikipedia has, and what they show; those of all are in `wikitemplates`.

_LANG_OF_DE = re.compile(
    r"(?:en|fr|it|es|la|grc|el|ru|ar|ja|zh|ko|pl|cs|hu|tr|he|fa|nl|pt|sv|da|no|fi|ro|uk|sr|hr|bs|sl|sk|bg|mk|sq|ka|hy|"
    r"sa|hi|ur|bn|ta|th|vi|id|ms|bo|mn|kk|uz|az|eu|ca|gl|oc|ga|gd|cy|br|is|lt|lv|et|be|af|sw|eo|yi|ku|syr|akk|egy)s"
)
_SPANISH_MONTHS = ("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
                   "noviembre", "diciembre")  # fmt: skip
_Shown = Callable[[Arguments], str]


def _first(arguments: Arguments) -> str:
    return arguments.at(1)


def _behind(word: str) -> _Shown:
    return lambda arguments: f"{word} {arguments.at(1)}".strip()


def _fecha(arguments: Arguments) -> str:
    parts = [part for part in arguments[:3] if part]
    if len(parts) > 1 and parts[1].isdecimal() and 1 <= int(parts[1][:3]) <= len(_SPANISH_MONTHS):
        parts[1] = _SPANISH_MONTHS[int(parts[1]) - 1]
    return " de ".join(parts)


def _siglo(arguments: Arguments) -> str:
    before = "siglo " if arguments.at(3).lower() == "s" else "Siglo " if arguments.at(3) == "S" else ""
    return f"{before}{arguments.at(1)}{' a. C.' if arguments.at(2).lower() == 'a' else ''}"


def _marked(arguments: Arguments) -> str:
    return arguments.first_of("範囲")


_OF_ALL: Mapping[str, _Shown] = {
    **dict.fromkeys(("sup", "exp", "superscript"), lambda arguments: raised(arguments.at(1)))
}
_OF_LANGS: Mapping[str, Mapping[str, _Shown]] = {
    "de": {
        **dict.fromkeys(("formatzahllokal", "formatnum", "nobr", "versal", "kapitälchen"), _first),
        "betrag": lambda arguments: " ".join(filter(None, arguments[:2])),
    },
    "fr": {
        **dict.fromkeys(("numéro", "n°", "numero", "no"), _behind("n°")), "p.": _behind("p."),
        "unité/2": lambda arguments: f"{' '.join(arguments[:2])}{raised(arguments.at(3))}",
        **dict.fromkeys(("abréviation", "abrév", "sc", "pc"), _first),
    },
    "es": {
        "fecha": _fecha, "siglo": _siglo, **dict.fromkeys(("versalitas", "versalita", "nowrap"), _first),
        "ac": lambda arguments: "a. C.", "dc": lambda arguments: "d. C.",
    },
    "ru": {
        **dict.fromkeys(("год", "сс3", "сс", "нп-", "s"), _first),
        "до н. э.": lambda arguments: "до н. э.", "н. э.": lambda arguments: "н. э.",
    },
    "ja": dict.fromkeys(("要出典", "要検証", "独自研究範囲", "いつ範囲"), _marked),
}  # fmt: skip


def local_text(name: str, arguments: Arguments, lang: str) -> str | None:
    """Return what a template of the Wikipedia in a language shows, None for one that is not of these.

    Args:
        name: in lower case with spaces.
    """
    if show := _OF_LANGS.get(lang, {}).get(name) or _OF_ALL.get(name):
        return show(arguments)
    return arguments.at(1) if lang == "de" and _LANG_OF_DE.fullmatch(name) else None
