"""Bilingual dictionaries in MUSE's format, and replacement of words by their translations in several languages.

Pre-training text is switched once. Fine-tuning data is switched by `Cosda`, which makes new draws each epoch as
CoSDA-ML does: a sentence is chosen with one probability, each of its words with another. The language and the
translation of each word are drawn uniformly. Of the entries that begin at a word the longest is taken.

Source: Conneau et al. 2018 (MUSE); Qin et al. 2020, section 3 (CoSDA-ML).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import PART, ranged
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.words.substitution import Replacement, SwitchedSentence, keeps_entities, substitute
from xling.text.words.word_forms import copy_capitals, dictionary_key

Dictionary = Mapping[str, tuple[str, ...]]
_DIRECTION_SAMPLE = 2000
_DIRECTION_FACTOR = 2.0
_MAX_ENTRY_WORDS = 6
"""Words of an entry; longer ones are not looked for."""


def read_dictionary(path: Path, lang: str = "") -> dict[str, tuple[str, ...]]:
    """Read a dictionary: key of the source word (`word_forms.key`) -> translations in the order of the file.

    Lines are ``source<TAB>target`` or ``source target``. ``lang`` is the language of the source words, if it is known.

    Raises:
        UserError: a line does not have two fields, or the file is empty or not UTF-8.
    """
    translations_of: dict[str, dict[str, None]] = {}
    for number, line in enumerate(corpus_reader.read_lines(path, MAX_CELL_BYTES), 1):
        fields = line.strip().split("\t") if "\t" in line else line.split()
        if not line.strip():
            continue
        if len(fields) != 2:
            raise UserError(
                f"{path} line {number}: {line[:80]!r}",
                "two words separated by a tab or a space (MUSE)",
                "correct the line",
            )
        translations_of.setdefault(dictionary_key(fields[0].strip(), lang), {})[fields[1].strip()] = None
    return {word: tuple(translations) for word, translations in translations_of.items()}


def check_direction(path: Path, dictionary: Dictionary, text_words: Collection[str], lang: str) -> None:
    """Reject a dictionary whose right column, not its left one, holds words of the text.

    Raises:
        UserError: at least twice as many words of the right column as of the left one occur in the text.
    """
    text_keys = {dictionary_key(word, lang) for word in text_words}
    entries = list(dictionary.items())[:_DIRECTION_SAMPLE]
    num_left = sum(word in text_keys for word, _ in entries)
    num_right = sum(any(t.lower() in text_keys for t in translations) for _, translations in entries)
    if num_right > _DIRECTION_FACTOR * max(num_left, 1):
        raise UserError(
            f"{path} seems to be the wrong way round: of {len(entries):,} entries, {num_left:,} left and "
            f"{num_right:,} right words occur in the {lang} text",
            f"{lang} words on the left",
            "swap its columns or name the other dictionary",
        )


@dataclass(frozen=True)
class Cosda:
    """Random replacement of words by translations, for text and for labelled sentences.

    Args:
        base: language of the sentences.
        dictionaries: language -> dictionary from ``base``.
        word_rate: probability that a word is replaced, if a dictionary has it.
        sentence_rate: probability that a sentence is changed at all.
        seed: seed of the random draws.
        language_first: draw the language before it is known whether its dictionary has the word, as CoSDA-ML's code
            does; a word that it lacks stays. Else only languages that have the word are drawn from.
    """

    base: str
    dictionaries: Mapping[str, Dictionary]
    word_rate: float = ranged(0.9, PART)
    sentence_rate: float = ranged(1.0, PART)
    seed: int = 1
    language_first: bool = False

    def __post_init__(self) -> None:
        """Check the rates.

        Raises:
            UserError: a rate outside [0, 1], or no dictionary.
        """
        values.check(self)
        if not self.dictionaries:
            raise UserError("no dictionary", "dictionaries.LANG=FILE", "give at least one")

    def __call__(
        self, words: Sequence[str], *number: int | str, tags: Sequence[str] | None = None
    ) -> SwitchedSentence:
        """Replace words at random; the same key gives the same sentence.

        Args:
            words: the words of the sentence.
            number: part of the random key beside the seed, for example the epoch and the sentence's number.
            tags: IOB2 tags; words of an entity are replaced one by one, so that `project_tags` can transfer
                the tags.
        """
        generator = rng(self.seed, "cosda", *number)
        replacements: list[Replacement] = []
        if generator.random() < self.sentence_rate:
            # Draw three numbers per word, used or not, so that a gap in one dictionary does not shift the
            # other draws.
            draws = generator.random((len(words), 3))
            matches_found = (
                self._drawn_matches(words, draws[:, 1], tags)
                if self.language_first
                else self.matches(words, tags)
            )
            for start, end, entry, langs in matches_found:
                if draws[start, 0] >= self.word_rate:
                    continue
                lang = langs[int(draws[start, 1] * len(langs))]
                translations = self.dictionaries[lang][entry]
                translation = translations[int(draws[start, 2] * len(translations))]
                new = copy_capitals(translation, " ".join(words[start:end]), lang, self.base)
                replacements.append(Replacement(start, end, tuple(new.split()), lang))
        return substitute(words, replacements, self.base)

    def matches(
        self, words: Sequence[str], tags: Sequence[str] | None = None
    ) -> Iterator[tuple[int, int, str, list[str]]]:
        """Find entries from left to right, the longest first: (start, end, entry, languages that have it)."""
        keys = [dictionary_key(word, self.base) for word in words]
        start = 0
        while start < len(words):
            start, match = _longest_match(keys, start, self.dictionaries, self._max_entry_words, tags)
            if match:
                yield match

    def _drawn_matches(
        self, words: Sequence[str], chances: Iterable[float], tags: Sequence[str] | None
    ) -> Iterator[tuple[int, int, str, list[str]]]:
        keys = [dictionary_key(word, self.base) for word in words]
        langs = sorted(self.dictionaries)
        match_end = 0
        for start, draw in enumerate(chances):
            lang = langs[int(draw * len(langs))]
            if start >= match_end:
                match_end, match = _longest_match(
                    keys, start, {lang: self.dictionaries[lang]}, self._max_entry_words, tags
                )
                if match:
                    yield match

    @cached_property
    def _max_entry_words(self) -> Mapping[str, int]:
        """First word of an entry -> words of the longest entry that begins with it."""
        max_words: dict[str, int] = {}
        for dictionary in self.dictionaries.values():
            for entry in dictionary:
                parts = entry.replace("'", "' ").split()
                if len(parts) > 1:
                    for first in {parts[0], entry.split()[0]}:
                        max_words[first] = min(_MAX_ENTRY_WORDS, max(max_words.get(first, 1), len(parts)))
        return max_words


def _longest_match(
    keys: Sequence[str],
    start: int,
    dictionaries: Mapping[str, Dictionary],
    max_words: Mapping[str, int],
    tags: Sequence[str] | None,
) -> tuple[int, tuple[int, int, str, list[str]] | None]:
    """The longest entry at ``start`` that keeps the entities of ``tags``, and where to go on."""
    for end in range(min(len(keys), start + max_words.get(keys[start], 1)), start, -1):
        entry = " ".join(keys[start:end]).replace("' ", "'")
        langs = [lang for lang in sorted(dictionaries) if entry in dictionaries[lang]]
        if langs and (tags is None or keeps_entities(tags, start, end)):
            return end, (start, end, entry, langs)
    return start + 1, None
