"""Forms of a word: its key in a dictionary, capitals by language, elided articles, inflected forms of known words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

APOSTROPHES = "'’ʼ`´"
_DOTTED = frozenset({"tr", "az", "crh", "tt_Latn", "gag", "kk_Latn"})
"""Languages in which the capital of i has a dot and that of ı has none."""
_NO_CAPITALS = re.compile("[\u10d0-\u10ff]")
"""Georgian: its capitals are for whole lines, no word begins with one."""
_VOWELS = "aeiouyàáâãäåæèéêëìíîïòóôõöøœùúûüh"

ELIDED: Mapping[str, Mapping[str, str]] = {
    "fr": {
        "l": "le", "d": "de", "j": "je", "m": "me", "t": "te", "s": "se", "n": "ne", "c": "ce", "qu": "que",
        "jusqu": "jusque", "lorsqu": "lorsque", "puisqu": "puisque", "quoiqu": "quoique",
    },
    "it": {
        "l": "il", "d": "di", "c": "ci", "m": "mi", "t": "ti", "s": "si", "v": "vi", "un": "una", "dell": "del",
        "all": "al", "dall": "dal", "nell": "nel", "sull": "sul", "coll": "col", "quell": "quel", "quest": "questo",
        "bell": "bel", "dov": "dove", "anch": "anche", "com": "come",
    },
    "ca": {"l": "el", "d": "de", "m": "em", "t": "et", "s": "es", "n": "en"},
    "oc": {"l": "lo", "d": "de", "m": "me", "t": "te", "s": "se", "n": "ne", "qu": "que"},
}  # fmt: skip
"""Language -> elided word without its apostrophe -> the whole word; of two genders the one that dictionaries list."""

_MIN_STEM, _MAX_ENDING = 3, 5
_MIN_STEMS, _MIN_SHARE = 8, 0.04


def lower(text: str, lang: str = "") -> str:
    """``text`` in lower case as ``lang`` has it: Turkish İ is i and I is ı."""
    if lang in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, lang: str = "") -> str:
    """``text`` in capitals as ``lang`` has them: Turkish i is İ; Georgian stays."""
    if _NO_CAPITALS.search(text):
        return text
    return (text.replace("i", "İ") if lang in _DOTTED else text).upper()


def key(word: str, lang: str = "") -> str:
    """Return the part that two spellings of a word have in common: NFC, lower case, one kind of apostrophe."""
    word = unicodedata.normalize("NFC", lower(word, lang))
    return re.sub(f"(?<=\\w)[{APOSTROPHES}]", "'", word)


def cased(translation: str, word: str, lang: str = "", base: str = "") -> str:
    """The translation, a word of ``lang``, with the capitals of the ``word`` of ``base`` that it replaces."""
    if word.isupper() and len(word) > 1:
        return upper(translation, lang)
    always = base == "en" and (word == "I" or word.startswith(("I'", "I’")))
    if not word[:1].isupper() or always or _NO_CAPITALS.match(translation):
        return translation
    size = 2 if lang == "nl" and translation.startswith("ij") else 1
    return upper(translation[:size], lang) + translation[size:]


def parts(text: str, spans: Iterable[tuple[int, int]], lang: str) -> Iterator[tuple[int, int]]:
    """The ``spans`` of words, (start, end) in code points, with elided words apart: ``d'`` and ``eau``."""
    elided = ELIDED.get(lang)
    for start, end in spans:
        place = next((i for i in range(start + 1, end - 1) if text[i] in APOSTROPHES), -1) if elided else -1
        if elided and place > 0 and text[start:place].lower() in elided:
            yield start, place + 1
            start = place + 1
        yield start, end


def whole(elided: str, follower: str, lang: str) -> str:
    """``elided`` (``d'``) as it stands before ``follower``: itself before a vowel, else the whole word (``de``)."""
    ranked = ELIDED.get(lang, {}).get(elided[:-1].lower()) if elided[-1:] in APOSTROPHES else None
    if ranked is None or unicodedata.normalize("NFC", follower[:1].lower()) in _VOWELS:
        return elided
    return cased(ranked, elided[:-1] if len(elided) > 2 else elided[0], lang)


def inflected(words: Iterable[str], entries: Collection[str]) -> dict[str, str]:
    """Words that are forms of an entry of a dictionary -> that entry.

    Which endings change for which is learned from the words themselves: a change (``-ing`` for ``-e``) that joins many
    words to entries is one of the language, and so are changes of beginnings (``wa-`` for ``m-``).

    Args:
        words: of a text, in lower case.
        entries: of the dictionary, in lower case.
    """
    missing = sorted(
        {word for word in words if word not in entries and word.isalpha() and len(word) > _MIN_STEM}
    )
    known = sorted(entry for entry in entries if entry.isalpha() and len(entry) >= _MIN_STEM)
    ranked: dict[str, tuple[int, int, str]] = {}
    for turned in (False, True):
        for word, rank in _by_ending(missing, known, turned).items():
            ranked[word] = max(ranked.get(word, rank), rank)
    return {word: entry for word, (_, _, entry) in ranked.items()}


def _by_ending(words: list[str], entries: list[str], turned: bool) -> dict[str, tuple[int, int, str]]:
    """Map each word to the entry of the likeliest change of ending (``turned``: of beginning): (stem, count, entry)."""
    step = -1 if turned else 1
    stems: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        for stem, ending in _cuts(entry[::step]):
            stems[stem].append(ending)
    changes: Counter[tuple[str, str]] = Counter()
    endings: Counter[str] = Counter()
    for word in words:
        for stem, ending in _cuts(word[::step]):
            endings[ending] += 1
            changes.update((ending, other) for other in stems.get(stem, ()) if _differ(ending, other))
    ranked: dict[str, tuple[int, int, str]] = {}
    for word in words:
        for stem, ending in _cuts(word[::step]):
            for other in stems.get(stem, ()):
                count = changes[ending, other]
                if count >= _MIN_STEMS and count >= _MIN_SHARE * endings[ending]:
                    rank = len(stem), count, (stem + other)[::step]
                    ranked[word] = max(ranked.get(word, rank), rank)
    return ranked


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    """A word as stem and ending in all ways: a stem of half the word at least, an ending of some letters at most."""
    for size in range(max(_MIN_STEM, len(word) - _MAX_ENDING, (len(word) + 1) // 2), len(word) + 1):
        yield word[:size], word[size:]


def _differ(one: str, other: str) -> bool:
    """Whether two endings begin with different letters, so that their stem is as long as it can be."""
    return one[:1] != other[:1]
