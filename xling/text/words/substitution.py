"""Substitution of words that records the origin of every new word, so that labels can be transferred."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xling.text.words.units import UNSPACED
from xling.text.words.word_forms import whole

OUTSIDE = "O"


@dataclass(frozen=True)
class Replacement:
    """The replacement of words ``start`` to ``end`` (half-open) by ``words`` of language ``lang``."""

    start: int
    end: int
    words: tuple[str, ...]
    lang: str


@dataclass(frozen=True)
class Switched:
    """A sentence after substitution.

    Attributes:
        words: the new words.
        origins: for each new word the half-open range of old words that it replaces.
        langs: language of each new word.
    """

    words: tuple[str, ...]
    origins: tuple[tuple[int, int], ...]
    langs: tuple[str, ...]

    def num_replaced(self, base: str) -> int:
        """Count the old words that were replaced by words of another language than ``base``."""
        spans = {origin for origin, lang in zip(self.origins, self.langs, strict=True) if lang != base}
        return sum(end - start for start, end in spans)


def substitute(words: Sequence[str], replacements: Iterable[Replacement], base: str) -> Switched:
    """Apply ``replacements`` to ``words`` of language ``base``; they must not overlap or be empty."""
    out: list[tuple[str, tuple[int, int], str]] = []
    position = 0
    for item in sorted(replacements, key=lambda r: r.start):
        assert position <= item.start < item.end <= len(words), f"{item} overlaps or leaves the sentence"
        assert item.words, f"{item} deletes words"
        out += [(words[i], (i, i + 1), base) for i in range(position, item.start)]
        out += [(word, (item.start, item.end), item.lang) for word in item.words]
        position = item.end
    out += [(words[i], (i, i + 1), base) for i in range(position, len(words))]
    return Switched(tuple(o[0] for o in out), tuple(o[1] for o in out), tuple(o[2] for o in out))


def unelided(switched: Switched, base: str) -> Switched:
    """The sentence with elided words in full where a new word that begins with no vowel follows: ``de water``."""
    words = list(switched.words)
    for i, follower in enumerate(words[1:]):
        if switched.langs[i] == base != switched.langs[i + 1]:
            words[i] = whole(words[i], follower, base)
    return replace(switched, words=tuple(words))


def render(switched: Switched, text: str, spans: Sequence[tuple[int, int]], spaced: Collection[str]) -> str:
    """Format the sentence as text, keeping the old spaces around and between unchanged words.

    Args:
        switched: made from the words at ``spans``.
        text: the old sentence.
        spans: (start, end) of its words in code points.
        spaced: languages that put spaces between words.
    """
    out: list[str] = []
    before: tuple[int, int] | None = None
    left_is_new = False
    for word, origin, lang in zip(switched.words, switched.origins, switched.langs, strict=True):
        if origin == before:
            gap = " " if lang in spaced and word[0].isalnum() and out[-1][-1] not in "'’" else ""
        else:
            gap = text[spans[before[1] - 1][1] : spans[origin[0]][0]] if before else ""
            was = text[spans[origin[0]][0] : spans[origin[1] - 1][1]]
            if not gap and (word != was or left_is_new) and _run_together(out, word):
                gap = " "
            left_is_new = word != was
        out += [gap, word]
        before = origin
    return "".join(out)


def _run_together(out: Sequence[str], word: str) -> bool:
    """Whether ``word`` behind ``out`` would read as one word with it: letters of scripts with spaces on both sides."""
    return bool(out) and all(
        char.isalnum() and not re.match(f"[{UNSPACED}]", char) for char in (out[-1][-1], word[0])
    )


def token_langs(text: str, switched: Switched) -> list[str]:
    """Return the language of each space-separated token of ``text`` as `render` made it: that of its first word."""
    langs: list[str] = []
    position = 0
    starts = {
        start for start, char in enumerate(text) if char != " " and (start == 0 or text[start - 1] == " ")
    }
    for word, lang in zip(switched.words, switched.langs, strict=True):
        position = text.index(word, position)
        langs += [lang for place in range(position, position + len(word)) if place in starts]
        position += len(word)
    assert len(langs) == len(text.split()), f"{text!r} is not made of {switched.words}"
    return langs


def keeps_entities(tags: Sequence[str], start: int, end: int) -> bool:
    """Return whether replacing words ``start`` to ``end`` leaves every IOB2 entity in one piece.

    True when all words are outside of entities, or lie within one entity, or cover exactly one whole entity.
    """
    inside = tags[start:end]
    if all(tag == OUTSIDE for tag in inside):
        return True
    if any(tag == OUTSIDE for tag in inside):
        return False
    return all(tag.startswith("I-") and tag[2:] == inside[0][2:] for tag in inside[1:])


def project_tags(tags: Sequence[str], switched: Switched) -> list[str]:
    """Transfer IOB2 tags to the new words: a replaced stretch takes the entity of the words that it replaces."""
    projected: list[str] = []
    before: tuple[int, int] | None = None
    for origin in switched.origins:
        first = tags[origin[0]]
        again = origin == before and first.startswith("B-")
        projected.append(f"I-{first[2:]}" if again else first)
        before = origin
    return projected


def entities(tags: Sequence[str]) -> list[str]:
    """List the types of the entities of IOB2 tags in order, which substitution must preserve."""
    return [tag[2:] for tag in tags if tag.startswith("B-")]
