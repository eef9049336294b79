"""Forms of a word: its key in a dictionary, capitals by language, elided articles, inflected forms of known words."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

APOSTROPHES = "'’ʼ`´"
_DOTTED_I_LANGS = frozenset({"tr", "az", "crh", "tt_Latn", "gag", "kk_Latn"})
"""Languages in which the capital of i has a dot and that of ı has none."""
_GEORGIAN_LETTER = re.compile("[\u10d0-\u10ff]")
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
_MIN_CHANGE_COUNT, _MIN_CHANGE_SHARE = 8, 0.04


def lower_case(text: str, lang: str = "") -> str:
    """``text`` in lower case as ``lang`` has it: Turkish İ is i and I is ı."""
    if lang in _DOTTED_I_LANGS:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper_case(text: str, lang: str = "") -> str:
    """``text`` in capitals as ``lang`` has them: Turkish i is İ; Georgian stays."""
    if _GEORGIAN_LETTER.search(text):
        return text
    return (text.replace("i", "İ") if lang in _DOTTED_I_LANGS else text).upper()


def dictionary_key(word: str, lang: str = "") -> str:
    """Return the part that two spellings of a word have in common: NFC, lower case, one kind of apostrophe."""
    word = unicodedata.normalize("NFC", lower_case(word, lang))
    return re.sub(f"(?<=\\w)[{APOSTROPHES}]", "'", word)


def copy_capitals(translation: str, word: str, lang: str = "", base: str = "") -> str:
    """The translation, a word of ``lang``, with the capitals of the ``word`` of ``base`` that it replaces."""
    if word.isupper() and len(word) > 1:
        return upper_case(translation, lang)
    is_english_i = base == "en" and (word == "I" or word.startswith(("I'", "I’")))
    if not word[:1].isupper() or is_english_i or _GEORGIAN_LETTER.match(translation):
        return translation
    size = 2 if lang == "nl" and translation.startswith("ij") else 1
    return upper_case(translation[:size], lang) + translation[size:]


def split_elided(text: str, word_spans: Iterable[tuple[int, int]], lang: str) -> Iterator[tuple[int, int]]:
    """The ``word_spans`` of words, (start, end) in code points, with elided words apart: ``d'`` and ``eau``."""
    elided = ELIDED.get(lang)
    for start, end in word_spans:
        apostrophe = (
            next((i for i in range(start + 1, end - 1) if text[i] in APOSTROPHES), -1) if elided else -1
        )
        if elided and apostrophe > 0 and text[start:apostrophe].lower() in elided:
            yield start, apostrophe + 1
            start = apostrophe + 1
        yield start, end


def expand_elided(elided: str, follower: str, lang: str) -> str:
    """``elided`` (``d'``) as it stands before ``follower``: itself before a vowel, else the whole word (``de``)."""
    whole_word = ELIDED.get(lang, {}).get(elided[:-1].lower()) if elided[-1:] in APOSTROPHES else None
    if whole_word is None or unicodedata.normalize("NFC", follower[:1].lower()) in _VOWELS:
        return elided
    return copy_capitals(whole_word, elided[:-1] if len(elided) > 2 else elided[0], lang)


def find_inflected(words: Iterable[str], entries: Collection[str]) -> dict[str, str]:
    """Words that are forms of an entry of a dictionary -> that entry.

    Which endings change for which is learned from the words themselves: a change (``-ing`` for ``-e``) that joins many
    words to entries is one of the language, and so are changes of beginnings (``wa-`` for ``m-``).

    Args:
        words: of a text, in lower case.
        entries: of the dictionary, in lower case.
    """
    unknown_words = sorted(
        {word for word in words if word not in entries and word.isalpha() and len(word) > _MIN_STEM}
    )
    long_entries = sorted(entry for entry in entries if entry.isalpha() and len(entry) >= _MIN_STEM)
    ranked: dict[str, tuple[int, int, str]] = {}
    for reverse in (False, True):
        for word, rank in _match_endings(unknown_words, long_entries, reverse).items():
            ranked[word] = max(ranked.get(word, rank), rank)
    return {word: entry for word, (_, _, entry) in ranked.items()}


def _match_endings(words: list[str], entries: list[str], reverse: bool) -> dict[str, tuple[int, int, str]]:
    """Map each word to the entry of the likeliest change of ending (``reverse``: of beginning), with (stem, count)."""
    step = -1 if reverse else 1
    stems: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        for stem, ending in _stem_cuts(entry[::step]):
            stems[stem].append(ending)
    changes: Counter[tuple[str, str]] = Counter()
    endings: Counter[str] = Counter()
    for word in words:
        for stem, ending in _stem_cuts(word[::step]):
            endings[ending] += 1
            # Endings that begin with different letters have the longest stem.
            changes.update((ending, other) for other in stems.get(stem, ()) if ending[:1] != other[:1])
    ranked: dict[str, tuple[int, int, str]] = {}
    for word in words:
        for stem, ending in _stem_cuts(word[::step]):
            for other in stems.get(stem, ()):
                count = changes[ending, other]
                if count >= _MIN_CHANGE_COUNT and count >= _MIN_CHANGE_SHARE * endings[ending]:
                    rank = len(stem), count, (stem + other)[::step]
                    ranked[word] = max(ranked.get(word, rank), rank)
    return ranked


def _stem_cuts(word: str) -> Iterator[tuple[str, str]]:
    """A word as stem and ending in all ways: a stem of half the word at least, an ending of some letters at most."""
    for size in range(max(_MIN_STEM, len(word) - _MAX_ENDING, (len(word) + 1) // 2), len(word) + 1):
        yield word[:size], word[size:]
