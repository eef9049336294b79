"""Substitution of words that records the origin of every new word, so that labels can be transferred."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xling.text.words.units import UNSPACED_CLASS
from xling.text.words.word_forms import expand_elided

OUTSIDE = "O"


@dataclass(frozen=True)
class Replacement:
    """The replacement of words ``start`` to ``end`` (half-open) by ``words`` of language ``lang``."""

    start: int
    end: int
    words: tuple[str, ...]
    lang: str


@dataclass(frozen=True)
class SwitchedSentence:
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


def substitute(words: Sequence[str], replacements: Iterable[Replacement], base: str) -> SwitchedSentence:
    """Apply ``replacements`` to ``words`` of language ``base``; they must not overlap or be empty."""
    new_words: list[tuple[str, tuple[int, int], str]] = []
    next_word = 0
    for item in sorted(replacements, key=lambda r: r.start):
        assert next_word <= item.start < item.end <= len(words), f"{item} overlaps or leaves the sentence"
        assert item.words, f"{item} deletes words"
        new_words += [(words[i], (i, i + 1), base) for i in range(next_word, item.start)]
        new_words += [(word, (item.start, item.end), item.lang) for word in item.words]
        next_word = item.end
    new_words += [(words[i], (i, i + 1), base) for i in range(next_word, len(words))]
    return SwitchedSentence(
        tuple(o[0] for o in new_words), tuple(o[1] for o in new_words), tuple(o[2] for o in new_words)
    )


def expand_elided_words(switched: SwitchedSentence, base: str) -> SwitchedSentence:
    """The sentence with elided words in full where a new word that begins with no vowel follows: ``de water``."""
    words = list(switched.words)
    for i, follower in enumerate(words[1:]):
        if switched.langs[i] == base != switched.langs[i + 1]:
            words[i] = expand_elided(words[i], follower, base)
    return replace(switched, words=tuple(words))


def render_text(
    switched: SwitchedSentence,
    text: str,
    word_spans: Sequence[tuple[int, int]],
    spaced_langs: Collection[str],
) -> str:
    """Format the sentence as text, keeping the old spaces around and between unchanged words.

    Args:
        word_spans: (start, end) of its words in code points.
    """
    pieces: list[str] = []
    previous_origin: tuple[int, int] | None = None
    left_is_new = False
    for word, origin, lang in zip(switched.words, switched.origins, switched.langs, strict=True):
        if origin == previous_origin:
            gap = " " if lang in spaced_langs and word[0].isalnum() and pieces[-1][-1] not in "'’" else ""
        else:
            gap = (
                text[word_spans[previous_origin[1] - 1][1] : word_spans[origin[0]][0]]
                if previous_origin
                else ""
            )
            old_text = text[word_spans[origin[0]][0] : word_spans[origin[1] - 1][1]]
            if not gap and (word != old_text or left_is_new) and _would_join(pieces, word):
                gap = " "
            left_is_new = word != old_text
        pieces += [gap, word]
        previous_origin = origin
    return "".join(pieces)


def _would_join(pieces: Sequence[str], word: str) -> bool:
    """Whether ``word`` behind ``pieces`` would read as one word with it: both sides have letters of spaced scripts."""
    return bool(pieces) and all(
        char.isalnum() and not re.match(f"[{UNSPACED_CLASS}]", char) for char in (pieces[-1][-1], word[0])
    )


def token_langs(text: str, switched: SwitchedSentence) -> list[str]:
    """Return the language of each space-separated token of `render_text`'s output: that of its first word."""
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
    replaced_tags = tags[start:end]
    if all(tag == OUTSIDE for tag in replaced_tags):
        return True
    if any(tag == OUTSIDE for tag in replaced_tags):
        return False
    return all(tag.startswith("I-") and tag[2:] == replaced_tags[0][2:] for tag in replaced_tags[1:])


def project_tags(tags: Sequence[str], switched: SwitchedSentence) -> list[str]:
    """Transfer IOB2 tags to the new words: a replaced stretch takes the entity of the words that it replaces."""
    projected: list[str] = []
    previous_origin: tuple[int, int] | None = None
    for origin in switched.origins:
        first = tags[origin[0]]
        continues_entity = origin == previous_origin and first.startswith("B-")
        projected.append(f"I-{first[2:]}" if continues_entity else first)
        previous_origin = origin
    return projected
