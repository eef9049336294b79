"""Lines of a fixed width, as of books and mail: told from verses and lists, and joined to paragraphs again."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from xling.text.long_texts import CLOSING, SENTENCE_ENDS, is_ended
from xling.text.words.units import unspaced_share

_MIN_LINES, _MIN_WIDTH, _MAX_WIDTH = 20, 20, 130
_NEARLY_FULL = 0.9
_MIN_SHARE_FULL = 0.6
_MIN_SHARE_FULL_UNCASED = 0.75
_MAX_SHARE_ENDED = 0.25
_MAX_SHARE_PAUSES = 0.35
_MIN_SHARE_SMALL = 0.5
_LONG_PARAGRAPH = 4000
_WIDE_MARKS = "，。、！？；：．｡「」『』（）《》〈〉【】"
_HYPHENS = "-\u2010\u00ad\u00ac"  # the last two are never part of a word
_DIVIDED = re.compile(rf"([^\W\d_]+)[{_HYPHENS}]\n(?!(?:und|oder|and) )([^\W\d_]+)")
_COMPOUND = re.compile(r"[^\W\d_]+[-\u2010][^\W\d_]+")
_MIN_DIVIDED, _MIN_SHARE_DIVIDED = 3, 0.04
_PAGE = re.compile(
    r"(?:[^\W\d_]{1,8}\.? |[-\u2013\u2014\[(|~* ]*)(\d{1,4})[-\u2013\u2014\])|~* ]*|"
    r"(\d{1,4})(?:\s{2,}|\s+\|\s+)\S.{,60}|\S.{,60}(?:\s{2,}|\s+\|\s+)(\d{1,4})"  # with the head of the page
)
_MAX_PAGES_WITHOUT = 3  # in a row: pictures, and first pages of chapters
_AND = ("und ", "oder ", "and ")  # behind a part of a compound that goes on later: ``Haupt- und Nebensatz``
# A verse ends with one of these more often than a line that is full.
_PAUSES = (*SENTENCE_ENDS, *",;:،؛，、；：|")


def wrapped_width(lines: Sequence[str]) -> int:
    """Return the characters of a full line if a program has broken the lines of running text, else 0.

    A program breaks a line where the next word does not fit, in the middle of a sentence.

    Args:
        lines: the first of a text; empty ones are between paragraphs.
    """
    texts = [line.strip() for line in lines if line.strip()]
    if len(texts) < _MIN_LINES:
        return 0
    width = sorted(map(len, texts))[int(0.95 * len(texts))]
    pairs = [(a.strip(), b.strip()) for a, b in itertools.pairwise(lines) if a.strip() and b.strip()]
    if not _MIN_WIDTH <= width <= _MAX_WIDTH or not pairs:
        return 0
    full = [(a, b) for a, b in pairs if _is_full(a, b, width)]
    going_on = [(a, b) for a, b in full if not is_ended(a)]
    if len(full) < _MIN_SHARE_FULL * len(pairs) or len(going_on) < (1 - _MAX_SHARE_ENDED) * len(full):
        return 0
    if sum(a.rstrip(CLOSING).endswith(_PAUSES) for a, _ in full) > _MAX_SHARE_PAUSES * len(full):
        return 0
    cased = [b for _, b in going_on if b[0].lower() != b[0].upper()]
    if len(cased) > len(going_on) / 2:
        return width if sum(b[0].islower() for b in cased) >= _MIN_SHARE_SMALL * len(cased) else 0
    return width if len(full) >= _MIN_SHARE_FULL_UNCASED * len(pairs) else 0


def compounds_of_divided(lines: Sequence[str]) -> frozenset[str] | None:
    """Return the words with a hyphen inside of a line if a program has divided words at line ends, else None.

    Without such a program hardly a line in a hundred ends in the hyphen of a compound.

    Args:
        lines: the first of a text whose lines have a fixed width.
    """
    texts = list(filter(None, map(str.strip, lines)))
    num = sum(_divided(a, b) is not None for a, b in itertools.pairwise(texts))
    if num < max(_MIN_DIVIDED, _MIN_SHARE_DIVIDED * len(texts)):
        return None
    return frozenset(
        match[0].lower().replace("\u2010", "-") for line in texts for match in _COMPOUND.finditer(line)
    )


def without_pages(head: Sequence[str], lines: Iterable[str], tell: Callable[[], object]) -> Iterator[str]:
    """Yield lines without page numbers, if ``head``, the first lines, shows some; ``tell`` is called for each.

    The empty lines around those inside of a sentence go too.
    """
    expected, last = _first_page(list(filter(None, map(str.strip, head)))), ""
    is_numbered, is_empty, is_page = expected >= 0, False, False
    for line in lines:
        page = _page(text := line.strip())
        if is_numbered and expected <= page <= expected + _MAX_PAGES_WITHOUT:
            expected, is_page = page + 1, True
            tell()
        elif not text:
            is_empty = True
        else:
            if is_empty and (not is_page or is_ended(last)):
                yield ""
            yield line
            last, is_empty, is_page = text, False, False


def _first_page(texts: Sequence[str]) -> int:
    """Return the first of the page numbers that count up, more than half of them inside of sentences, or -1."""
    pages = [(number, place) for place, text in enumerate(texts) if (number := _page(text)) >= 0]
    in_turn = {each for pair in itertools.pairwise(pages) if pair[1][0] == pair[0][0] + 1 for each in pair}
    num_inside = sum(place > 0 and not is_ended(texts[place - 1]) for _, place in in_turn)
    return min(in_turn)[0] if num_inside > len(in_turn) / 2 else -1


def _page(line: str) -> int:
    """Return the number of a page in the line that has it, alone or beside the head of the page; else -1."""
    page = _PAGE.fullmatch(line)
    return int(next(filter(None, page.groups()))) if page else -1


def join_wrapped(lines: Iterable[str], width: int, compounds: Collection[str] | None = None) -> Iterator[str]:
    """Yield the paragraphs of lines that `wrapped_width` has found to be ``width`` characters wide.

    A paragraph ends at an empty line, at a line to which the next word would have been added, and at a sentence before
    a line that is indented further. A word that ends in a hyphen is followed by no blank. Where no paragraph ends, one
    of thousands of characters ends with a sentence, which bounds memory.

    Args:
        compounds: of `compounds_of_divided`; the hyphen of another word that is divided goes. None keeps all.
    """
    parts: list[str] = []
    size = indent = 0
    for line in lines:
        text, last_indent, indent = line.strip(), indent, len(line) - len(line.lstrip())
        is_new = parts and indent > last_indent and is_ended(parts[-1])
        if parts and (is_new or not text or not _is_full(parts[-1], text, width) or _is_long(parts, size)):
            yield _joined(parts, compounds)
            parts, size = [], 0
        if text:
            parts.append(text)
            size += len(text)
    if parts:
        yield _joined(parts, compounds)


def join_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that end with a sentence, of those of subtitles, which break anywhere; empty lines are left out."""
    parts: list[str] = []
    size = 0
    for line in filter(None, map(str.strip, lines)):
        parts.append(line)
        size += len(line)
        if is_ended(line) or size > _LONG_PARAGRAPH:
            yield _joined(parts)
            parts, size = [], 0
    if parts:
        yield _joined(parts)


def _is_full(line: str, following: str, width: int) -> bool:
    """Return whether the first word of the next line did not fit; in scripts without spaces a character is a word."""
    first = following[:1] if _is_unspaced(following[0]) else following.split(maxsplit=1)[0]
    return len(line) + 1 + len(first) > _NEARLY_FULL * width


def _is_long(lines: Sequence[str], size: int) -> bool:
    return size > 10 * _LONG_PARAGRAPH or (size > _LONG_PARAGRAPH and is_ended(lines[-1]))


def _divided(line: str, following: str) -> re.Match[str] | None:
    word = _DIVIDED.search(f"{line[-_MAX_WIDTH:]}\n{following[:_MAX_WIDTH]}")
    return None if following[0].isupper() else word


def _joined(lines: Sequence[str], compounds: Collection[str] | None = None) -> str:
    text = lines[0]
    for line in lines[1:]:
        if compounds is not None and (word := _divided(text, line)):
            is_compound = text[-1] in "-\u2010" and f"{word[1]}-{word[2]}".lower() in compounds
            text = (text if is_compound else text[:-1]) + line
            continue
        glued = (
            _is_unspaced(text[-1])
            or _is_unspaced(line[0])
            or (text[-1] in _HYPHENS and text[-2:-1].isalpha() and not line.startswith(_AND))
        )
        text += line if glued else f" {line}"
    return text


def _is_unspaced(character: str) -> bool:
    return character in _WIDE_MARKS or unspaced_share(character) > 0
