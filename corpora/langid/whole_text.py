"""The code pages of a whole text: the ones that put every strange character of it in its place.

One line has too few letters beyond ASCII to tell. The words of a text that have one tell together: in right text they
hold the language's own letters, and marks where marks stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from xling.array_types import Float32
from xling.corpora.langid.identify import built_in_ngrams
from xling.text.repair import code_points

Pages = tuple[str, str]
"""The mistaken and the right code page."""
Table = Mapping[int, str]
Gains = NDArray[np.float64]
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
_MAX_CHARS = 2000  # of the words with such characters; more tell nothing new
_TEXTS_AT_ONCE = 256
_MIN_MISFITS, _MAX_LEFT = 3, 0.1  # the share of misfits that a right reading may leave
_MIN_GAIN = 0.2  # by which the mean gain of n-grams of the changed words must rise
_MIN_GAIN_OF_FEW = 0.7  # where fewer than `_MIN_MISFITS` tell: names of other languages have strange letters
# What a reading loses whose code pages are neither the usual one of the language nor Windows-1252.
_RARE = 0.5
_FEW_LETTERS = 0.5  # of the changed characters
_MAX_BEHIND = 0.8  # the mean gain of another language, of words that had signs inside
_MIN_RIGHT = 0.5  # of the changed characters become letters of the language or apostrophes
# Blanks and marks of direction, which no code page has.
_UNSEEN = frozenset(map(chr, (*range(0x2000, 0x200E), *range(0x2028, 0x2030), *range(0x205F, 0x2070))))
_ANYWHERE = _UNSEEN | frozenset("▁￭→←↔⇒⇐↑↓°’‘ʼʻ\u00a0\u00b7…–—−\u00ad\ufeff\ufffd")
_QUOTES, _LOW_QUOTES = frozenset("“”«»‹›\u200e\u200f"), frozenset("„‚")
_BEFORE_WORDS = frozenset("¿¡•§€£¥№►▶■●○◦▪✓★")
_BEHIND_WORDS = frozenset("†‡ªº™®©²³¹‰ⁿ")


def misfits(text: str, letters: Collection[str] | None = None) -> int:
    """Return how many characters beyond ASCII are not in their place.

    Args:
        text: words with blanks between them.
        letters: those of the language; without them any letter is right.
    """
    places = [match.start() for match in _BEYOND_ASCII.finditer(text)]
    return sum(
        _is_misfit(text[i], text[i - 1 : i], text[i + 1 : i + 2], letters)
        and not (unicodedata.category(text[i]) == "Sm" and _is_formula(text, i))
        for i in places
    )


def _is_formula(text: str, place: int) -> bool:
    """Return whether a mathematical sign stands between names of one letter, as in formulas, which are not Cyrillic."""
    sides = text[max(0, place - 2) : place], text[place + 1 : place + 3]
    return not any((len(side) > 1 and side.isalpha()) or "Ѐ" <= side.strip()[:1] <= "ӿ" for side in sides)


def _is_misfit(char: str, before: str, after: str, letters: Collection[str] | None) -> bool:
    if char in _ANYWHERE or unicodedata.category(char) == "Pd":
        return False
    if unicodedata.category(char)[0] in "LM" and char not in _BEHIND_WORDS:
        if letters is None and "\u036f" < char < "\u0600" and before.isascii() and before.isalpha():
            return True  # another script behind a Latin letter
        if letters is not None and char not in letters:
            return True
        return char.isupper() and before.islower()
    if char in _QUOTES:
        return before.isalpha() and after.isalpha()
    if char in _LOW_QUOTES:
        return before.isalpha()
    if char in _BEHIND_WORDS:
        return after.isalpha()
    if char in _BEFORE_WORDS:
        return before.isalpha()
    return before.isalpha() or after.isalpha() or "\x80" <= char < "\xa0"


def words_beyond_ascii(lines: Iterable[str]) -> str:
    """Return the words of some lines that have characters beyond ASCII, as many as tell something."""
    return " ".join(word for line in lines for word in line.split(" ") if not word.isascii())[:_MAX_CHARS]


class Readings:
    """The code pages in which a text may have been read and written, and the letters of its language.

    ``tables`` map the mistaken and the right page to what characters as read were as written; the likeliest first.
    """

    def __init__(self, tables: Mapping[Pages, Table], letters: Collection[str]) -> None:
        self.tables, self.letters = tables, letters
        self._facts = lru_cache(4096)(self._facts_of)

    def _facts_of(self, point: int) -> Float32[np.ndarray, " facts"]:
        """Return by table whether a code point is then a foreign letter, is another one, and is so in its place."""
        old = chr(point)
        news = [table.get(point, old) for table in self.tables.values()]
        is_right = [new in self.letters or new == "’" or (new in "¿¡" and not old.isalpha()) for new in news]
        is_changed = [new != old for new in news]
        is_foreign = [not _may_be(new, self.letters) for new in news]
        return np.concatenate(
            [is_foreign, is_changed, np.logical_and(is_changed, is_right)], dtype=np.float32
        )

    def possible(self, texts: Sequence[str]) -> Iterator[dict[Pages, int]]:
        """Yield for each text the readings that may be right -> how many foreign letters they leave.

        Most texts in another language have none, which is told of many texts at once.
        """
        if len(texts) > _TEXTS_AT_ONCE:
            for first in range(0, len(texts), _TEXTS_AT_ONCE):
                yield from self.possible(texts[first : first + _TEXTS_AT_ONCE])
            return
        codes = code_points("".join(texts))
        owners = np.repeat(np.arange(len(texts)), [len(text) for text in texts])[codes > 0x7F]
        points, numbers = np.unique(codes[codes > 0x7F], return_inverse=True)
        ends = np.searchsorted(owners, np.arange(len(texts) + 1))
        shape = len(texts), len(points)
        counted = scipy.sparse.csr_array((np.ones(len(owners), np.float32), numbers, ends), shape)
        facts = np.zeros((len(points), 3 * len(self.tables)), np.float32)
        for row, point in enumerate(points.tolist()):
            facts[row] = self._facts(point)
        foreign, changed, right = np.split(counted @ facts, 3, axis=1)
        # There are no more misfits than characters, which are sooner counted.
        may_be = foreign <= _MAX_LEFT * counted.sum(axis=1)[:, None]
        may_be &= (changed > 0) & (right >= _MIN_RIGHT * changed)
        pages = list(self.tables)
        for text, may_be_in in enumerate(may_be):
            yield {pages[table]: int(foreign[text, table]) for table in np.flatnonzero(may_be_in)}


def right_pages(text: str, possible: Mapping[Pages, int], known: Readings, column: int) -> Pages | None:
    """Return the mistaken and the right code page of a text, or None where it is right or cannot be told.

    Args:
        text: the words with characters beyond ASCII.
        possible: of `Readings.possible`.
        known: pages and letters of the language.
        column: of the language in the built-in n-grams.
    """
    tables, letters = known.tables, known.letters
    if not possible or not (before := misfits(text, letters)):
        return None
    readings = dict[str, Pages]()
    for pages, left_foreign in possible.items():
        if left_foreign <= _MAX_LEFT * before:
            readings.setdefault(text.translate(tables[pages]), pages)
    left = {new: misfits(new, letters) for new in readings}
    is_few, usual = before < _MIN_MISFITS, next(iter(tables))[1]
    doubts = {
        new: is_few * (1 if usual in pages or "cp1252" in pages else 2)
        for new, pages in readings.items()
        if left[new] <= _MAX_LEFT * before
        # Of few signs of damage, marks in their place may not change as often.
        and not (is_few and _num_changed_marks(text, new) - misfits(text) >= before)
    }
    if not doubts:
        return None
    bodies = [body for new in doubts for body in _changed_words(text, new)]
    scores = built_in_ngrams().scores(bodies)[0].reshape(len(doubts), 2, -1)
    gains = {
        new: _gain(text, new, as_is, reread, column, doubt)
        for (new, doubt), (as_is, reread) in zip(doubts.items(), scores, strict=True)
    }
    # A character that the mistaken page lacks was not read in it.
    points = {ord(char) for char in set(text) if char > "\x7f"}
    lacks = {new: len(points - tables[pages].keys()) for new, pages in readings.items()}
    best = max(
        gains,
        key=lambda new: (
            gains[new] > 0,
            -left[new],
            -lacks[new],
            -_num_mixed(new),
            round(gains[new], 9 if is_few else 1),
        ),
    )
    return readings[best] if gains[best] > 0 else None


def _num_changed_marks(text: str, new: str) -> int:
    return sum(old != now and not old.isalpha() for old, now in zip(text, new, strict=True))


def _num_mixed(text: str) -> int:
    """Return how many words have a capital behind their first letter, without those in capitals."""
    return sum(not (word.isupper() or word[1:].islower()) for word in text.split(" "))


def _may_be(char: str, letters: Collection[str]) -> bool:
    """Whether a character may be one of right text."""
    return char in letters or not char.isalpha()


def _changed_words(text: str, new: str) -> list[str]:
    """Return the words that a reading changes, as they are and as it has them."""
    words = [(old, now) for old, now in zip(text.split(" "), new.split(" "), strict=True) if old != now]
    return [unicodedata.normalize("NFC", " ".join(side).lower()) for side in zip(*words, strict=True)]


def _gain(text: str, new: str, as_is: Gains, reread: Gains, column: int, doubt: int) -> float:
    """Return how likely the changed words of a reading are in the language, 0 if no likelier than as they are.

    ``as_is`` and ``reread`` are mean gains of the n-grams of these words by language, ``(num_langs,)``. ``doubt`` is 0
    where many characters tell, 1 where few do, and 2 where the code pages are rare ones too.
    """
    changed = [old for old, now in zip(text, new, strict=True) if old != now]
    # Signs inside a word leave pieces of it, which are likely in some language.
    were_letters = sum(map(str.isalpha, changed)) - misfits(text) * bool(doubt)
    if were_letters > _FEW_LETTERS * len(changed):
        needed = as_is.max() + (_MIN_GAIN_OF_FEW if doubt else _MIN_GAIN)
    else:
        needed = reread.max() - _MAX_BEHIND
    gain = reread[column] - _RARE * max(0, doubt - 1)
    return float(gain) if gain > needed else 0.0
