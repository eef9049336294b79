"""Heuristic quality filters of the C4, Gopher and FineWeb family, for any script.

Rules and default values are those of Raffel et al. 2020 (C4, section 2.2), Rae et al. 2021 (Gopher, appendix
A.1) and Penedo et al. 2024 (FineWeb, section 3.6), with three differences. Words are `xling.text.words.units`: in
scripts without spaces a unit is a character, two or three of which count as a word. Sentence ends are those of every
script. Stop words and several limits are those of the language (`xling.corpora.builtin.limits`), and stop words are
counted by their share of the words: lists and menus name things, and a long one has two of them by chance.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xling.array_types import Bool, Float64, Int64
from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.corpora.builtin.limits import LIMITS_OF_LINE, NUMERIC_LIMITS, Limits, limits_of
from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import LONE, Document
from xling.text.long_texts import CLOSING, SENTENCE_ENDS
from xling.text.words.units import CountedUnits, count_units, hash_powers, hash_runs

_SENTENCE_ENDS = tuple(SENTENCE_ENDS + ":;؛：；")
_ELLIPSES = ("…", "...", "‥", "……")
_BULLET_MARKS = tuple("•‣▪▫●○■□►▶◆◇★☆*·-–—※")
_LOREM_IPSUM = "lorem ipsum"
_LONG_LINE_WORDS = 100  # fewer are a sentence rather than a document without paragraphs


@STREAMING.register("filters")
@dataclass(frozen=True)
class Filters(Stage):
    """Drop documents that look unlike running text; the first rule that fails names the reason.

    Args:
        limits: the numbers for every language.
        per_lang: changes by language code and name of the limit, laid over the built-in ones.
        stop_words: by language code, in place of the built-in ones; an empty list switches the rule off.
    """

    limits: Limits = field(default_factory=Limits)
    per_lang: dict[str, dict[str, float]] = field(default_factory=dict)
    stop_words: dict[str, tuple[str, ...]] = field(default_factory=dict)

    name: ClassVar[str] = "filters"
    at_once: ClassVar[int] = 64
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
        "few_stop_words": "too few of the words are stop words of the language: a list, a menu, key words",
    }

    def __post_init__(self) -> None:
        for lang, changes in self.per_lang.items():
            languages.get(lang)
            for name in changes:
                if name not in NUMERIC_LIMITS:
                    raise unknown("filter limit", name, NUMERIC_LIMITS)
        for lang, words in self.stop_words.items():
            languages.get(lang)
            if odd := [word for word in words if len(count_units(word).hashes) != 1]:
                raise UserError(
                    f"filters.stop_words.{lang}: {odd[0]!r}", "words without spaces or marks in them"
                )

    def edits(self, docs: Sequence[Document]) -> Iterator[Verdict]:
        """Yield for each document the first rule that it fails; its ``lang`` decides the limits."""
        for lang in {doc.lang for doc in docs} - self._by_lang.keys():
            self._by_lang[lang] = self.limits_for(lang)
        limits = [self._by_lang[doc.lang] for doc in docs]
        values_of = measure_each([doc.text for doc in docs], limits, [doc.num_title_lines for doc in docs])
        for doc, limit, values in zip(docs, limits, values_of, strict=True):
            doc.meta["filters"] = {name: round(value, 4) for name, value in values.items()}
            if doc.form == LONE and values["words"] < _LONG_LINE_WORDS:
                limit = self._limits_of_line(doc.lang)
            yield Verdict(first_failed_rule(values, limit) or None)

    def _limits_of_line(self, lang: str) -> Limits:
        """Return the limits of one line by itself, too short for the shares that the rules compare.

        A number that the settings give stays.
        """
        key = f"{lang}\t{LONE}"
        if key not in self._by_lang:
            limits, given = self._by_lang[lang], self._given_for(lang)
            loose = {
                name: number
                for name, number in LIMITS_OF_LINE.items()
                if name not in given and getattr(self.limits, name) == getattr(Limits(), name)
            }
            self._by_lang[key] = limits.with_changes(loose)
        return self._by_lang[key]

    def _given_for(self, lang: str) -> dict[str, float]:
        changes: dict[str, float] = {}
        for code, given in self.per_lang.items():
            if lang and languages.get(code) == languages.get(lang):
                changes |= given
        return changes

    @cached_property
    def _by_lang(self) -> dict[str, Limits]:
        return {}

    def limits_for(self, lang: str) -> Limits:
        """Return the limits of one language: the general ones, the built-in changes, then ``per_lang``."""
        if not lang:
            return self.limits
        language = languages.get(lang)
        words: tuple[str, ...] | None = None
        for code, listed in self.stop_words.items():
            if languages.get(code) == language:
                words = listed
        return limits_of(language, self.limits).with_changes(self._given_for(lang), words)


# Reason, statistic, its limit, and whether it is a minimum or a maximum, in the order of checking.
RULES = (
    ("too_few_words", "words", "min_words", "least"),
    ("too_many_words", "words", "max_words", "most"),
    ("mean_word_length", "mean_word", "min_mean_word", "least"),
    ("mean_word_length", "mean_word", "max_mean_word", "most"),
    ("symbols", "symbols", "max_symbols", "most"),
    ("few_letters", "lettered", "min_lettered", "least"),
    ("braces", "braces", "max_braces", "most"),
    ("placeholder", "placeholders", "max_placeholders", "most"),
    ("bullets", "bullets", "max_bullets", "most"),
    ("ellipses", "ellipses", "max_ellipses", "most"),
    ("repeated_lines", "repeated_lines", "max_repeated_lines", "most"),
    ("repeated_lines", "repeated_line_chars", "max_repeated_line_chars", "most"),
    ("unended_lines", "ended", "min_ended", "least"),
    ("short_lines", "short", "max_short", "most"),
    ("top_ngram", "top_bigram", "max_top_bigram", "most"),
    ("top_ngram", "top_trigram", "max_top_trigram", "most"),
    ("top_ngram", "top_fourgram", "max_top_fourgram", "most"),
    ("repeated_runs", "repeated_runs", "max_repeated_runs", "most"),
    ("few_stop_words", "stop_words", "min_stop_words", "least"),
)
STATISTICS = {
    "words": "words of the text",
    "mean_word": "mean characters a word; none in scripts without spaces",
    "symbols": "hash signs and ellipses a word",
    "lettered": "share of words with a letter",
    "braces": "curly brackets a character",
    "placeholders": "placeholder texts (lorem ipsum) a word",
    "bullets": "share of lines that start with a bullet",
    "ellipses": "share of lines that end with an ellipsis",
    "repeated_lines": "share of lines that repeat an earlier one",
    "repeated_line_chars": "the same in characters",
    "ended": "share of characters in lines that end a sentence",
    "short": "share of characters in short lines",
    "top_bigram": "share of characters in the most frequent run of 2 words",
    "top_trigram": "the same for 3 words",
    "top_fourgram": "the same for 4 words",
    "repeated_runs": "share of characters in repeated runs of 5 words; .01 more a word is added to 10 words",
    "stop_words": "share of the words that are stop words of the language; none where no list is known",
}


def first_failed_rule(values: Mapping[str, float], limits: Limits) -> str:
    """Return the first rule that a text with these `measure` values fails, or ""."""
    for reason, statistic, name, side in RULES:
        value = values.get(statistic)
        limit = getattr(limits, name)
        if value is not None and (value < limit if side == "least" else value > limit):
            return reason
    return ""


def measure(text: str, limits: Limits) -> dict[str, float]:
    """Compute the values of `STATISTICS`; ``limits`` defines short lines, the units of a word and stop words."""
    return measure_each([text], [limits])[0]


def measure_each(
    texts: Sequence[str], limits: Sequence[Limits], num_titles: Sequence[int] = ()
) -> list[dict[str, float]]:
    """Return `measure` of each text with its limits, computed together in less time.

    ``num_titles`` has 1 for a text whose first line is a title, else 0; without it none has one.
    """
    num_titles = num_titles or [0] * len(texts)
    words = list(map(count_units, texts))
    per_word = [
        limit.units_per_word if each.unspaced_share > 0.5 else 1
        for each, limit in zip(words, limits, strict=True)
    ]
    statistics: list[dict[str, float]] = [
        _statistics(text, each, limit, size, num_title) if len(each.hashes) else {"words": 0}
        for text, each, limit, size, num_title in zip(texts, words, limits, per_word, num_titles, strict=True)
    ]
    for size in set(per_word):
        ours = [i for i, each in enumerate(words) if per_word[i] == size and len(each.hashes)]
        for batch in _batch_indices(ours, [len(words[i].hashes) for i in ours]):
            for i, values in zip(batch, _repetition_shares([words[i] for i in batch], size), strict=True):
                statistics[i] |= values
    return statistics


def _batch_indices(items: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """Yield the items in groups whose sizes add up to `_BATCH_UNITS`, or single ones that are larger."""
    batch, total = list[int](), 0
    for item, size in zip(items, sizes, strict=True):
        if batch and total + size > _BATCH_UNITS:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


_BATCH_UNITS = 1 << 16


def _statistics(
    text: str, words: CountedUnits, limits: Limits, per_word: int, num_title: int
) -> dict[str, float]:
    """Compute the statistics of the words and lines of a text that has words."""
    num = len(words.hashes)
    num_words = num / per_word
    symbols = text.count("#") + text.count("…") + text.count("...")
    values = {
        "words": num_words,
        "symbols": symbols / num_words,
        "lettered": 1 - words.num_numeric / num,
        "braces": (text.count("{") + text.count("}")) / len(text),
        "placeholders": text.lower().count(_LOREM_IPSUM) / num_words
        if "psum" in text or "PSUM" in text
        else 0.0,
    }
    if limits.stop_words:
        is_stop = _stop_table(limits.stop_words)[(words.hashes >> _STOP_SHIFT).view(np.int64)]
        values["stop_words"] = int(np.count_nonzero(is_stop)) / num
    if per_word == 1:
        values["mean_word"] = float(words.lengths.mean())
    short_line = limits.short_line if per_word == 1 else limits.short_unspaced_line
    return values | _line_statistics(text.split("\n"), short_line, num_title)


_STOP_BITS = 16
_STOP_SHIFT = np.uint64(64 - _STOP_BITS)


@lru_cache(maxsize=400)
def _stop_table(words: tuple[str, ...]) -> Bool[np.ndarray, " hashes"]:
    """Return by the first bits of a unit's hash whether it is a stop word; few other words have them, too.

    A stop word counts as well without its accents, tones or vowel points, which many writers of Yoruba or Arabic omit.
    """
    table = np.zeros(1 << _STOP_BITS, dtype=bool)
    hashes = np.concatenate(
        [count_units(word).hashes for word in {*words, *map(_without_optional_marks, words)}]
    )
    table[(hashes >> _STOP_SHIFT).view(np.int64)] = True
    return table


def _without_optional_marks(word: str) -> str:
    """Return a word without accents and the like; vowel signs of Indian scripts, which no one omits, stay."""
    parts = unicodedata.normalize("NFD", word)
    return unicodedata.normalize(
        "NFC", "".join(c for c in parts if unicodedata.combining(c) < _MIN_OPTIONAL_CLASS)
    )


# Least combining class of marks that may be omitted; signs below are nuktas and viramas.
_MIN_OPTIONAL_CLASS = 10


def _line_statistics(lines: list[str], short_line: int, num_title: int) -> dict[str, float]:
    """Compute the filters' statistics of the lines of a document, the first ``num_title`` of which are its title."""
    num, unique_lines = len(lines), set(lines)
    num_chars = sum(map(len, lines))
    body = lines[num_title:]
    body_chars = sum(map(len, body)) or 1
    # Shares of lines say nothing about a text of one line, which is a paragraph: its last sentence may be cut off.
    ended_chars = sum(len(line) for line in body if is_ended(line))
    return {
        "bullets": sum(line.startswith(_BULLET_MARKS) for line in lines) / num if num > 1 else 0.0,
        "ellipses": sum(line.endswith(_ELLIPSES) for line in lines) / num if num > 1 else 0.0,
        "repeated_lines": (num - len(unique_lines)) / num,
        "repeated_line_chars": (num_chars - sum(map(len, unique_lines))) / num_chars,
        "ended": ended_chars / body_chars if num > 1 else _ended_share(lines[0]),
        "short": sum(len(line) for line in body if len(line) < short_line) / body_chars,
    }


def _ended_share(line: str) -> float:
    """Return the share of a line up to the end of its last whole sentence."""
    last = max(map(line.rfind, _SENTENCE_ENDS))
    return 1.0 if is_ended(line) else (last + 1) / len(line)


def is_ended(line: str) -> bool:
    """Return whether a line ends a sentence, in any script."""
    return line.rstrip(CLOSING).endswith(_SENTENCE_ENDS)


def _repetition_shares(batch: Sequence[CountedUnits], per_word: int) -> list[dict[str, float]]:
    """Compute statistics of word n-grams of each text, compared by a 64-bit hash."""
    units = _UnitBatch(batch)
    shares = np.zeros((len(batch), len(_TOP_NGRAMS) + 1))
    for n, ngrams in zip(range(2, 11), _find_recurring(units, per_word), strict=False):
        if n < 5:
            shares[:, n - 2] = units.top_chars(ngrams) / units.total_chars
            continue
        share = units.repeated_chars(ngrams) / units.total_chars
        best = shares[:, -1]
        np.maximum(best, np.where(share > 0, share + (n - 5) / 100, 0), out=best)
        # Longer repeated n-grams lie inside of these.
        units.is_open &= share + 0.05 > best
    return [dict(zip((*_TOP_NGRAMS, "repeated_runs"), row, strict=True)) for row in shares.tolist()]


_TOP_NGRAMS = ("top_bigram", "top_trigram", "top_fourgram")


class _RecurringNgrams(NamedTuple):
    """The n-grams that occur more than once in their text.

    Attributes:
        num_units: of one n-gram.
        positions: the unit that each occurrence starts at; those of one n-gram follow each other,
            ``(num_occurrences,)``.
        counts: how many each n-gram has, ``(num_ngrams,)``.
        first_positions: the least place of each, ``(num_ngrams,)``.
    """

    num_units: int
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_positions: NDArray[np.int64]


class _UnitBatch:
    """The units of several texts, one after the other.

    Attributes:
        hashes: of all units, ``(num_units,)``.
        text_of: the text of each unit, ``(num_units,)``.
        last_unit: where the text of each unit ends, ``(num_units,)``.
        ends: the characters before each unit and after the last, ``(num_units + 1,)``.
        total_chars: characters of each text, ``(num_texts,)``.
        is_open: whether longer n-grams of a text are wanted, ``(num_texts,)``.
    """

    def __init__(self, batch: Sequence[CountedUnits]) -> None:
        sizes = np.array([len(each.hashes) for each in batch])
        self.hashes = np.concatenate([each.hashes for each in batch])
        self.text_of = np.arange(len(batch)).repeat(sizes)
        stops = np.cumsum(sizes)
        self.last_unit = stops.repeat(sizes)
        self.ends = np.zeros(len(self.hashes) + 1, dtype=np.int64)
        np.cumsum(np.concatenate([each.lengths for each in batch]), out=self.ends[1:])
        self.total_chars = self.ends[stops] - self.ends[stops - sizes]
        self.is_open = np.ones(len(batch), dtype=bool)

    def top_chars(self, ngrams: _RecurringNgrams) -> Int64[np.ndarray, " texts"]:
        """Return for each text the characters in all occurrences of its most frequent n-gram, ``(num_texts,)``.

        Of equal ones the first counts; 0 where none recurs.
        """
        texts = self.text_of[ngrams.first_positions]
        max_chars = np.zeros(len(self.total_chars), dtype=np.int64)
        np.maximum.at(max_chars, texts, ngrams.counts)
        is_top = ngrams.counts == max_chars[texts]
        place = np.full(len(max_chars), len(self.hashes) - ngrams.num_units)
        np.minimum.at(place, texts[is_top], ngrams.first_positions[is_top])
        return max_chars * (self.ends[place + ngrams.num_units] - self.ends[place])

    def repeated_chars(self, ngrams: _RecurringNgrams) -> Float64[np.ndarray, " texts"]:
        """Return for each text the characters covered by n-grams that occurred before, each once, ``(num_texts,)``."""
        places = np.sort(ngrams.positions[ngrams.positions != ngrams.first_positions.repeat(ngrams.counts)])
        stops = places + ngrams.num_units
        np.minimum(stops[:-1], places[1:], out=stops[:-1])
        sums = np.bincount(self.text_of[places], self.ends[stops] - self.ends[places], len(self.total_chars))
        return sums.astype(np.float64)


def _find_recurring(units: _UnitBatch, per_word: int) -> Iterator[_RecurringNgrams]:
    """Yield the n-grams of 2 words that occur twice in a text, then those of 3, and so on as long as there are any.

    An n-gram recurs only where the one shorter by a word does, so all but the first step look at few positions.
    """
    size = 2 * per_word
    positions = np.flatnonzero(np.arange(size, len(units.hashes) + size) <= units.last_unit)
    # Equal n-grams of two texts get different hashes.
    hashes = hash_runs(units.hashes, size)[positions] ^ (units.text_of[positions].astype(np.uint64) * _SALT)
    while len(hashes) > 1:
        order = hashes.argsort()
        sorted_hashes = hashes[order]
        # is_same[i]: n-gram i equals n-gram i - 1; False at both ends.
        is_same = np.zeros(len(sorted_hashes) + 1, dtype=bool)
        np.equal(sorted_hashes[1:], sorted_hashes[:-1], out=is_same[1:-1])
        is_kept = is_same[1:] | is_same[:-1]
        positions = positions[order[is_kept]]
        if not len(positions):
            return
        starts = np.flatnonzero(~is_same[:-1][is_kept])
        counts = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1] = len(positions) - starts[-1]
        yield _RecurringNgrams(size, positions, counts, np.minimum.reduceat(positions, starts))
        next_size = size + per_word
        is_inside = positions + next_size <= units.last_unit[positions]
        is_inside &= units.is_open[units.text_of[positions]]
        positions, hashes = positions[is_inside], sorted_hashes[is_kept][is_inside]
        for k, power in zip(range(size, next_size), hash_powers(next_size)[size:], strict=True):
            hashes += units.hashes[positions + k] * power
        size = next_size


_SALT = np.uint64(0x9E3779B97F4A7C15)
