"""The code pages of a whole text: the ones that put every strange character of it in its place.

One line has too few letters beyond ASCII to tell. The words of a text that have one tell together: in right text they
hold the language's own letters, and marks where marks stand.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from xling.corpora.langid.identify import built_in_ngrams

Table = Mapping[int, str]
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
_MAX_CHARS = 2000  # of the words with such characters; more tell nothing new
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


def right_pages(
    lines: Iterable[str], letters: Collection[str], tables: Mapping[tuple[str, str], Table], column: int
) -> tuple[str, str] | None:
    """Return the mistaken and the right code page of a text, or None where it is right or cannot be told.

    Args:
        lines: those that may be damaged.
        letters: of the language.
        tables: mistaken and right page -> character as it was read -> as it was written; the likeliest first.
        column: of the language in the built-in n-grams.
    """
    text = " ".join(word for line in lines for word in line.split(" ") if not word.isascii())[:_MAX_CHARS]
    before = misfits(text, letters)
    if not before:
        return None
    readings = dict[str, tuple[str, str]]()
    counts = {ord(char): text.count(char) for char in set(text) if char > "\x7f"}
    foreign = {point: count for point, count in counts.items() if not _may_be(chr(point), letters)}
    for pages, table in tables.items():
        changed = {point: table[point] for point in table.keys() & counts.keys()}
        left_foreign = sum(foreign.values()) + sum(
            counts[point] * (not _may_be(new, letters)) - foreign.get(point, 0)
            for point, new in changed.items()
        )
        if left_foreign <= _MAX_LEFT * before:
            readings.setdefault(text.translate(changed), pages)
    left = {new: misfits(new, letters) for new in readings}
    is_few, usual = before < _MIN_MISFITS, next(iter(tables))[1]
    gains = {
        new: _gain(text, new, letters, column, is_few * (1 if usual in pages or "cp1252" in pages else 2))
        for new, pages in readings.items()
        if left[new] <= _MAX_LEFT * before
        # Of few signs of damage, marks in their place may not change as often.
        and not (is_few and _num_changed_marks(text, new) - misfits(text) >= before)
    }
    # A character that the mistaken page lacks was not read in it.
    lacks = {new: len(counts.keys() - tables[pages].keys()) for new, pages in readings.items()}
    best = max(
        gains,
        key=lambda new: (
            gains[new] > 0,
            -left[new],
            -lacks[new],
            -_num_mixed(new),
            round(gains[new], 9 if is_few else 1),
        ),
        default="",
    )
    return readings[best] if best and gains[best] > 0 else None


def _num_changed_marks(text: str, new: str) -> int:
    return sum(old != now and not old.isalpha() for old, now in zip(text, new, strict=True))


def _num_mixed(text: str) -> int:
    """Return how many words have a capital behind their first letter, without those in capitals."""
    return sum(not (word.isupper() or word[1:].islower()) for word in text.split(" "))


def _may_be(char: str, letters: Collection[str]) -> bool:
    """Whether a character may be one of right text."""
    return char in letters or not char.isalpha()


def _gain(text: str, new: str, letters: Collection[str], column: int, doubt: int) -> float:
    """Return how likely the changed words of a reading are in the language, 0 if no likelier than as they are.

    ``doubt`` is 0 where many characters tell, 1 where few do, and 2 where the code pages are rare ones too.
    """
    words = [(old, now) for old, now in zip(text.split(" "), new.split(" "), strict=True) if old != now]
    changed = [(old, now) for old, now in zip(text, new, strict=True) if old != now]
    became_right = sum(
        now in letters or now == "’" or (now in "¿¡" and not old.isalpha()) for old, now in changed
    )
    if not changed or became_right < _MIN_RIGHT * len(changed):
        return 0.0
    bodies = [unicodedata.normalize("NFC", " ".join(side).lower()) for side in zip(*words, strict=True)]
    as_is, reread = built_in_ngrams().scores(bodies)[0]
    # Signs inside a word leave pieces of it, which are likely in some language.
    were_letters = sum(old.isalpha() for old, _ in changed) - misfits(text) * bool(doubt)
    if were_letters > _FEW_LETTERS * len(changed):
        needed = as_is.max() + (_MIN_GAIN_OF_FEW if doubt else _MIN_GAIN)
    else:
        needed = reread.max() - _MAX_BEHIND
    gain = reread[column] - _RARE * max(0, doubt - 1)
    return float(gain) if gain > needed else 0.0
