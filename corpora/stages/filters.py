"""Heuristic quality filters of the C4, Gopher and FineWeb family, for any script.

Rules and default values are those of Raffel et al. 2020 (C4, section 2.2), Rae et al. 2021 (Gopher, appendix
A.1) and Penedo et al. 2024 (FineWeb, section 3.6), with three differences. Words are `xling.text.units`: in
scripts without spaces a unit is a character, two or three of which count as a word.
Sentence ends are those of every script. Gopher's English stop words are left out: language identification
has decided the language already.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from xling.core import languages
from xling.core.errors import unknown
from xling.corpora.stages import STREAMING, Example, Stage
from xling.text.document import Document
from xling.text.units import runs, units, unspaced_share

# Sentence ends of the world's scripts (Unicode property Sentence_Terminal), ellipsis, and what closes a quote.
_ENDS = tuple(".!?…。！？．｡؟۔।॥՜՞։܀܁܂።፡፧፨᙮၊။។៕᠃᠉⁇⁈⁉᪨᪩᰻᰼᱾᱿꓿꘎꘏꛳꛷꡶꡷꣎꣏:;؛：；")
_CLOSING = "\"'”’»›)]）］」』】〉》“‘"
_ELLIPSES = ("…", "...", "‥", "……")
_BULLETS = tuple("•‣▪▫●○■□►▶◆◇★☆*·-–—※")
_LOREM = "lorem ipsum"


@dataclass(frozen=True)
class Limits:
    """The numbers of the rules; ratios lie in [0, 1].

    Args:
        min_words: words a document must have (Gopher).
        max_words: words a document may have (Gopher).
        min_mean_word: mean characters a word at least (Gopher); spaced scripts only.
        max_mean_word: mean characters a word at most (Gopher: 10, for English).
        max_symbols: hash signs and ellipses a word (Gopher).
        max_bullets: share of lines that start with a bullet (Gopher).
        max_ellipses: share of lines that end with an ellipsis (Gopher).
        min_lettered: share of words with a letter in them (Gopher).
        max_repeated_lines: share of lines that repeat an earlier one (Gopher).
        max_repeated_line_chars: the same in characters (Gopher).
        max_top_bigram: share of characters in the most frequent run of 2 words (Gopher).
        max_top_trigram: the same for 3 words.
        max_top_fourgram: the same for 4 words.
        max_repeated_runs: share of characters in repeated runs of 5 words (Gopher); to 10 words the limit
            falls by .01 a word.
        min_ended: share of characters in lines that end a sentence. FineWeb counts lines (0.12), so that an article
            under a long menu is dropped and a menu under three slogans kept.
        max_short: share of characters in lines under ``short_line`` characters. FineWeb counts lines (0.67).
        short_line: characters of a short line.
        short_unspaced_line: the same where most letters are of scripts without spaces.
        max_braces: curly brackets a character; C4 drops every page with one, which costs every page of code
            and templates alike.
    """

    min_words: int = 50
    max_words: int = 100_000
    min_mean_word: float = 2.5
    max_mean_word: float = 12.0
    max_symbols: float = 0.1
    max_bullets: float = 0.9
    max_ellipses: float = 0.3
    min_lettered: float = 0.7
    max_repeated_lines: float = 0.3
    max_repeated_line_chars: float = 0.2
    max_top_bigram: float = 0.20
    max_top_trigram: float = 0.18
    max_top_fourgram: float = 0.16
    max_repeated_runs: float = 0.15
    min_ended: float = 0.25
    max_short: float = 0.35
    short_line: int = 30
    short_unspaced_line: int = 12
    max_braces: float = 0.02
    units_per_word: int = 2


# Where the defaults, made for English, are wrong for clean text of a branch or language.
_LONG_WORDS = {"Dravidian": 16.0, "Turkic": 14.0, "Uralic": 14.0, "Eskimo-Aleut": 24.0, "Bantu": 14.0}
_BY_LANG: dict[str, dict[str, float]] = {
    # Thai and Lao end sentences with a space; their words and those of Khmer and Burmese are longer than the
    # two characters of Chinese and Japanese.
    "th": {"min_ended": 0.0, "units_per_word": 3, "short_unspaced_line": 20},
    "lo": {"min_ended": 0.0, "units_per_word": 3, "short_unspaced_line": 20},
    "km": {"units_per_word": 3},
    "my": {"units_per_word": 3},
}


def _examples() -> dict[str, str]:
    """A text of eight lines that every rule accepts, and reason -> one changed so that a rule refuses it."""
    words = [a + b + c for a in "bdfgk" for b in "aeiou" for c in ("lmo", "nta", "rsi", "pol")]
    good = "\n".join(" ".join(words[i : i + 12]) + "." for i in range(0, 96, 12))
    first = good.partition("\n")[0]
    return {
        "": good,
        "too_few_words": " ".join(words[:49]) + ".",
        "mean_word_length": " ".join("abcdefgh"[i % 8] for i in range(60)) + ".",
        "symbols": good + " # … ... ..." * 4,
        "few_letters": good + " 1999 2000 2001 2002" * 12,
        "braces": good + "{}{}{}{}{}{}{}{}{}{}",
        "placeholder": good + "\nLorem Ipsum dolor.",
        "bullets": "\n".join("• " + line for line in good.split("\n")),
        "ellipses": good.replace(".", "…", 3).replace(".", " …", 2),
        "repeated_lines": f"{good}\n{first * 3}\n{first * 3}",
        "unended_lines": good.replace(".", ""),
        "short_lines": good.replace(" ", ".\n"),
        "top_ngram": good.replace("\n", " one two one two one two one two.\n"),
        "repeated_runs": good + " " + " ".join(words[3:24]) + " x.",
    }


_EXAMPLES = _examples()


@STREAMING.register("filters")
@dataclass(frozen=True)
class Filters(Stage):
    """Drop documents that look unlike running text; the first rule that fails names the reason.

    Args:
        limits: the numbers for every language.
        per_lang: changes by language code and name of the limit, laid over the built-in ones.
    """

    limits: Limits = field(default_factory=Limits)
    per_lang: dict[str, dict[str, float]] = field(default_factory=dict)

    name: ClassVar[str] = "filters"
    reasons: ClassVar[dict[str, str]] = {
        "too_few_words": "fewer words than min_words",
        "too_many_words": "more words than max_words",
        "mean_word_length": "words are too short or too long on average",
        "symbols": "too many hash signs and ellipses",
        "bullets": "too many lines start with a bullet",
        "ellipses": "too many lines end with an ellipsis",
        "few_letters": "too few words hold a letter",
        "braces": "too many curly brackets: code or a template",
        "placeholder": "holds the placeholder text lorem ipsum",
        "repeated_lines": "too many lines repeat",
        "unended_lines": "too few characters are in lines that end a sentence",
        "short_lines": "too many characters are in short lines",
        "top_ngram": "one run of 2, 3 or 4 words makes up too much of the text",
        "repeated_runs": "repeated runs of 5 to 10 words make up too much of the text",
    }
    examples = (
        *(Example(reason, text) for reason, text in _EXAMPLES.items()),
        Example("too_many_words", _EXAMPLES[""], settings={"limits": {"max_words": 90}}),
    )

    def __post_init__(self) -> None:
        names = [f.name for f in fields(Limits)]
        for lang, changes in self.per_lang.items():
            languages.get(lang)
            for name in changes:
                if name not in names:
                    raise unknown("filter limit", name, names)

    def judge(self, doc: Document) -> str | None:
        """The first rule that a document fails; ``lang`` decides the limits."""
        if doc.lang not in self._by_lang:
            self._by_lang[doc.lang] = self.limits_for(doc.lang)
        return failed(doc.text, self._by_lang[doc.lang]) or None

    @cached_property
    def _by_lang(self) -> dict[str, Limits]:
        return {}

    def limits_for(self, lang: str) -> Limits:
        """The limits of one language: the general ones, the built-in changes, then ``per_lang``."""
        if not lang:
            return self.limits
        language = languages.get(lang)
        changes: dict[str, float] = {}
        if language.family in _LONG_WORDS and self.limits.max_mean_word == Limits.max_mean_word:
            changes["max_mean_word"] = _LONG_WORDS[language.family]
        changes |= _BY_LANG.get(language.base, {})
        for code, given in self.per_lang.items():
            if languages.get(code) == language:
                changes |= given
        whole = {f.name for f in fields(Limits) if isinstance(f.default, int)}
        exact: dict[str, Any] = {k: int(v) if k in whole else v for k, v in changes.items()}
        return replace(self.limits, **exact)


def failed(text: str, limits: Limits) -> str:
    """The first rule of ``limits`` that ``text`` fails, or ""."""
    found = units(text)
    per_word = limits.units_per_word if unspaced_share(text) > 0.5 else 1
    lengths = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
    return (
        _words(text, found, lengths, per_word, limits)
        or _lines(text.split("\n"), per_word, limits)
        or _repetition(found, lengths, per_word, limits)
    )


def _words(text: str, found: list[str], lengths: NDArray[np.int64], per_word: int, limits: Limits) -> str:
    """Rules on words and characters."""
    num_words = len(found) / per_word
    if num_words < limits.min_words or not found:
        return "too_few_words"
    if num_words > limits.max_words:
        return "too_many_words"
    if per_word == 1 and not limits.min_mean_word <= lengths.mean() <= limits.max_mean_word:
        return "mean_word_length"
    if text.count("#") + text.count("…") + text.count("...") > limits.max_symbols * num_words:
        return "symbols"
    if sum(map(str.isnumeric, found)) > (1 - limits.min_lettered) * len(found):
        return "few_letters"
    if text.count("{") + text.count("}") > limits.max_braces * len(text):
        return "braces"
    if _LOREM in text.lower():
        return "placeholder"
    return ""


def _lines(lines: list[str], per_word: int, limits: Limits) -> str:
    """Rules on lines, that is on paragraphs."""
    num = len(lines)
    if sum(line.startswith(_BULLETS) for line in lines) > limits.max_bullets * num:
        return "bullets"
    if sum(line.endswith(_ELLIPSES) for line in lines) > limits.max_ellipses * num:
        return "ellipses"
    unique = set(lines)
    if num - len(unique) > limits.max_repeated_lines * num:
        return "repeated_lines"
    num_chars = sum(map(len, lines))
    if num_chars - sum(map(len, unique)) > limits.max_repeated_line_chars * num_chars:
        return "repeated_lines"
    body = lines[1:] or lines  # the first is the title
    num_chars = sum(map(len, body))
    ended = sum(len(line) for line in body if line.rstrip(_CLOSING).endswith(_ENDS))
    if ended < limits.min_ended * num_chars:
        return "unended_lines"
    short_line = limits.short_line if per_word == 1 else limits.short_unspaced_line
    if sum(len(line) for line in body if len(line) < short_line) > limits.max_short * num_chars:
        return "short_lines"
    return ""


def _repetition(found: list[str], lengths: NDArray[np.int64], per_word: int, limits: Limits) -> str:
    """Rules on runs of words; runs are compared by a 64-bit hash, rolled with numpy."""
    total = int(lengths.sum())
    # Python's hash of a string differs between processes, but which hashes are equal does not.
    words = np.fromiter(map(hash, found), dtype=np.int64, count=len(found)).view(np.uint64)
    tops = (limits.max_top_bigram, limits.max_top_trigram, limits.max_top_fourgram)
    for n, limit in zip((2, 3, 4), tops, strict=True):
        if _top_run_chars(words, lengths, n * per_word, limit * total) > limit * total:
            return "top_ngram"
    for n in range(5, 11):
        limit = limits.max_repeated_runs - (n - 5) / 100
        chars = _repeated_run_chars(words, lengths, n * per_word)
        if chars > limit * total:
            return "repeated_runs"
        if chars <= (limits.max_repeated_runs - 0.05) * total:
            break  # longer repeated runs lie inside these
    return ""


def _top_run_chars(words: NDArray[np.uint64], lengths: NDArray[np.int64], n: int, enough: float) -> int:
    """Characters in all occurrences of the most frequent run of ``n``; 0 if surely not above ``enough``."""
    hashes = runs(words, n)
    if not len(hashes):
        return 0
    ordered = np.sort(hashes)
    edges = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
    counts = np.diff(edges)
    top = int(counts.argmax())
    ends = np.cumsum(lengths)
    run_chars = ends[n - 1 :] - ends[: len(hashes)] + lengths[: len(hashes)]
    if counts[top] < 2 or counts[top] * run_chars.max() <= enough:
        return 0
    return int(counts[top]) * int(run_chars[np.flatnonzero(hashes == ordered[edges[top]])[0]])


def _repeated_run_chars(words: NDArray[np.uint64], lengths: NDArray[np.int64], n: int) -> int:
    """Characters covered by runs of ``n`` that occurred before, each character counted once."""
    hashes = runs(words, n)
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return 0
    _, first = np.unique(hashes, return_index=True)
    again = np.ones(len(hashes), dtype=np.int64)
    again[first] = 0
    covered = np.zeros(len(words) + 1, dtype=np.int64)
    covered[: len(again)] += again
    covered[n : n + len(again)] -= again
    return int(lengths[np.cumsum(covered[:-1]) > 0].sum())
