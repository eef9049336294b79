"""Sub-tokens of words that were split before, as the running text has them.

Byte-level tokenizers and Gemma's write the space before a word into its first piece. A word alone lacks that space, and
is cut into other pieces. So the words are put together again, and the pieces of the text are given back to the words.
"""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from xling.text.words.units import UNSPACED_CLASS

MAX_MEAN_WORD_CHARS = 10
"""Mean characters of words in scripts without spaces. What is longer is a phrase, and spaces stand between phrases."""
_UNSPACED = re.compile(f"[{UNSPACED_CLASS}]")
_CHINESE_OR_JAPANESE = re.compile(
    "[\u3001-\u30ff\u3105-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f"
    "\U00020000-\U0003ffff]"
)
"""Letters and punctuation beside which no space is written, but for Korean words."""
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]")
_PUNCTUATION = re.compile(r"\W")


def encode_words(processor: Any, words: Sequence[str]) -> list[list[int]]:
    """Return the ids of the pieces of each word, in SentencePiece's numbering; [] for a word without any.

    Together they are the pieces of the text that has a space between any two words. A tokenizer that marks the start of
    a word by itself cuts a word alone in the same way. For the others, words of scripts without spaces are joined.
    There a word that begins inside of a piece of the text is cut off, and starts a text of its own.

    Args:
        processor: a tokenizer of `xling.text.vocab.load_processor`.
        words: words of a sentence, in order.
    """
    if not words:
        return []
    alone: list[list[int]] = processor.encode(list(words))
    if list(itertools.chain(*alone)) == list(processor.encode(" ".join(words))):
        return alone
    # Whether a word alone has the pieces that it has after a space.
    marks_words = [*processor.encode("x"), *processor.encode("y")] == [*processor.encode("x y")]
    text, spans = join_words(words, spaced=marks_words)
    pieces: list[list[int]] = [[] for _ in words]
    for piece, word in _assign(processor, text, spans, 0, len(text), marks_words):
        pieces[word].append(piece)
    return pieces


def join_words(words: Sequence[str], spaced: bool) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of words, and the (start, end) of each in it.

    Args:
        words: without white space at their ends.
        spaced: put a space between any two; otherwise words of scripts without spaces are joined.
    """
    unspaced = [word for word in words if _UNSPACED.match(word)]
    is_phrases = sum(map(len, unspaced)) > MAX_MEAN_WORD_CHARS * len(unspaced)
    text, spans = "", []
    for word in map(str.strip, words):
        if text and word and (spaced or is_phrases or not _is_joined(text, word)):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _is_joined(text: str, word: str) -> bool:
    letters = (letter for letter in reversed(text) if unicodedata.category(letter)[0] != "M")
    sides = next(letters, ""), word[0]
    if all(map(_PUNCTUATION.match, sides)):  # two marks belong to the letters before them
        sides = next(filter(str.isalnum, reversed(text)), ""), word[0]
    if any(map(_CHINESE_OR_JAPANESE.match, sides)):
        return not any(map(_HANGUL.match, sides))
    # Thai and its neighbours write spaces beside Latin letters and numbers.
    return any(map(_UNSPACED.match, sides)) and all(
        _UNSPACED.match(side) or _PUNCTUATION.match(side) for side in sides
    )


def _assign(
    processor: Any, text: str, spans: Sequence[tuple[int, int]], begin: int, end: int, marks_words: bool
) -> list[tuple[int, int]]:
    """Return the pieces of ``text[begin:end]``, each with the number of its word.

    A piece of a space alone, or of no character, belongs to the next word.
    """
    inside = [n for n, (first, last) in enumerate(spans) if first < last and begin <= first and last <= end]
    if not inside:
        return []
    encoded = processor.encode(text[begin:end], return_type="offset_mapping")
    assigned: list[tuple[int, int]] = []
    cuts: set[int] = set()
    place = 0  # in ``inside``: the word of the last piece
    for piece, (first, last) in zip(encoded["ids"], encoded["offsets"], strict=True):
        while place < len(inside) - 1 and spans[inside[place]][1] <= begin + first:
            place += 1
        assigned.append((piece, inside[place]))
        while place < len(inside) - 1 and spans[inside[place + 1]][0] < begin + last:
            # The piece has characters of both words.
            cuts.add(spans[inside[place + 1]][0] if marks_words else spans[inside[place]][1])
            place += 1
    if not cuts:
        return assigned
    borders = [begin, *sorted(cuts), end]
    parts = itertools.pairwise(borders)
    return [each for a, b in parts for each in _assign(processor, text, spans, a, b, marks_words)]
