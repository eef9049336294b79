"""Long texts: pieces of a bounded size, cut where a reader would pause, and lists of sentences told from paragraphs."""

import itertools
import re
from collections.abc import Iterator, Sequence

SENTENCE_ENDS = ".!?…。！？．｡؟۔।॥՜՞։܀܁܂።፡፧፨᙮၊။។៕᠃᠉⁇⁈⁉᪨᪩᰻᰼᱾᱿꓿꘎꘏꛳꛷꡶꡷꣎꣏"
"""Of the world's scripts: Unicode's property Sentence_Terminal, and the ellipsis."""
CLOSING = "\"'”’»›)]）］」』】〉》“‘\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that may follow the end of a sentence."""
_ENDS, _BEHIND_END = tuple(SENTENCE_ENDS), CLOSING + " "
LIST_LINES = 50
"""Lines from which a text without blank lines may be a list of sentences."""

_WIDE = "。！？．｡"  # no blank follows them
_END = re.compile(f"[{re.escape(SENTENCE_ENDS)}]+[{re.escape(CLOSING)}]*(?:\\s+|(?<=[{_WIDE}])|$)")
# An end inside a line: after a word of three letters, so that few abbreviations count, and no small letter follows.
_END_INSIDE = re.compile(
    f"(?:[^\\s.]{{3}}[.!?…؟۔।॥։።።။៕]+[{re.escape(CLOSING)}]*\\s+|[{_WIDE}]+[{re.escape(CLOSING)}]*)(?P<next>\\S)"
)
_MAX_SHARE_OF_PARAGRAPHS = 0.2
_MAX_SHARE_CONTINUED = 0.3
_MAX_LONG_LINE = 600
_FULL_LINE = 0.8
_MAX_SHARE_LONG = 0.02


# A line of these alone is blank: spaces of all widths, fillers, joiners and marks that are not seen.
_BLANK = re.compile("[\\s\u034f\u115f\u1160\u180e\u200b-\u200f\u2060\u2800\u3164\ufeff\uffa0\u00ad]*")
_BREAKS = str.maketrans({"\f": "\n\n", "\u2028": "\n", "\u2029": "\n"})


def is_ended(line: str) -> bool:
    """Return whether a line ends with a sentence, in any script."""
    return line.rstrip(_BEHIND_END).endswith(_ENDS)


def split_line(line: str) -> list[str]:
    """Return the lines that a line of a file holds: Unicode has separators of its own, and a form feed ends a page.

    Lines that look blank are empty, and so is one between two pages.
    """
    line = line.replace("<|endoftext|>", "\f")  # what ends a document in the files of language models
    return ["" if _BLANK.fullmatch(part) else part for part in line.translate(_BREAKS).split("\n")]


def cut_text(text: str, max_chars: int) -> list[str]:
    """Return ``text`` in pieces of about one size, at most ``max_chars`` characters each.

    It is cut at line ends. A line that is too long is cut at the end of a sentence, else at a blank, else anywhere. The
    line end or the blank at a cut belongs to no piece.
    """
    if len(text) <= max_chars:
        return [text]
    lines = [piece for line in text.split("\n") for piece in _cut_line(line, max_chars)]
    pieces: list[str] = []
    block: list[str] = []
    size, num_left = 0, sum(map(len, lines)) + len(lines) - 1
    target = -(-num_left // -(-num_left // max_chars))
    for line in lines:
        if block and (size + len(line) > max_chars or size + len(line) // 2 > target):
            pieces.append("\n".join(block))
            num_left -= size
            target = -(-num_left // -(-num_left // max_chars))
            block, size = [], 0
        block.append(line)
        size += len(line) + 1
    return [*pieces, "\n".join(block)]


def _cut_line(line: str, max_chars: int) -> Iterator[str]:
    """Yield a line in pieces of at most ``max_chars`` characters, the last of which may be short."""
    start = 0
    while len(line) - start > max_chars:
        window = line[start : start + max_chars]
        end = max((match.end() for match in _END.finditer(window) if match.end() < len(window)), default=0)
        if end < max_chars // 2:
            end = max(window.rfind(" ") + 1, end)
        end = end or max_chars
        if piece := window[:end].strip():
            yield piece
        start += end
    if piece := line[start:].strip():
        yield piece


def is_list_of_sentences(lines: Sequence[str]) -> bool:
    """Return whether each of many lines is one sentence, and not a paragraph or a part of a wrapped one.

    Args:
        lines: without blank ones, the first of a text.
    """
    if len(lines) < LIST_LINES:
        return False
    starts = ((match["next"] for match in _END_INSIDE.finditer(line)) for line in lines)
    num_paragraphs = sum(any(not start.islower() for start in of_line) for of_line in starts)
    num_long = sum(len(line) > _MAX_LONG_LINE for line in lines)
    return (
        num_paragraphs <= _MAX_SHARE_OF_PARAGRAPHS * len(lines)
        and num_long <= _MAX_SHARE_LONG * len(lines)
        and not _is_wrapped(lines)
    )


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Return whether sentences go on in the next line, in small letters, where a line is full."""
    continued = sorted(
        len(line)
        for line, following in itertools.pairwise(lines)
        if following[0].islower() and not is_ended(line)
    )
    if len(continued) <= _MAX_SHARE_CONTINUED * len(lines):
        return False
    width = sorted(map(len, lines))[int(0.95 * len(lines))]
    return continued[len(continued) // 2] > _FULL_LINE * width
