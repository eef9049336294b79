"""Bilingual dictionaries in MUSE's format, and replacement of words by their translations in several languages.

Pre-training text is switched once. Fine-tuning data is switched by `Cosda`, which makes new draws each epoch as
CoSDA-ML does: a sentence is chosen with one probability, each of its words with another. The language and the
translation of each word are drawn uniformly.

Source: Conneau et al. 2018 (MUSE); Qin et al. 2020, section 3 (CoSDA-ML).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.text import reader
from xling.text.spans import Replacement, Switched, keeps_entities, substitute

Dictionary = Mapping[str, tuple[str, ...]]
_DIRECTION_SAMPLE = 2000
_DIRECTION_FACTOR = 2.0


def read_dictionary(path: Path) -> dict[str, tuple[str, ...]]:
    """Read a dictionary: source word in lower case -> its translations in the order of the file.

    Lines are ``source<TAB>target`` or ``source target``.

    Raises:
        UserError: a line does not have two fields, or the file is empty or not UTF-8.
    """
    translations_of: dict[str, dict[str, None]] = {}
    for number, line in enumerate(reader.lines(path), 1):
        fields = line.strip().split("\t") if "\t" in line else line.split()
        if not line.strip():
            continue
        if len(fields) != 2:
            raise UserError(
                f"{path} line {number}: {line[:80]!r}",
                "two words separated by a tab or a space (MUSE)",
                "correct the line",
            )
        translations_of.setdefault(fields[0].strip().lower(), {})[fields[1].strip()] = None
    return {word: tuple(translations) for word, translations in translations_of.items()}


def check_direction(path: Path, dictionary: Dictionary, text_words: Collection[str], lang: str) -> None:
    """Reject a dictionary whose right column, not its left one, holds words of the text.

    Args:
        path: path of the dictionary, for the message.
        dictionary: as read.
        text_words: words of the text to be switched.
        lang: language of the text.

    Raises:
        UserError: at least twice as many words of the right column as of the left one occur in the text.
    """
    known = {word.lower() for word in text_words}
    entries = list(dictionary.items())[:_DIRECTION_SAMPLE]
    left = sum(word in known for word, _ in entries)
    right = sum(any(t.lower() in known for t in translations) for _, translations in entries)
    if right > _DIRECTION_FACTOR * max(left, 1):
        raise UserError(
            f"{path} seems to be the wrong way round: of {len(entries):,} entries, {left:,} left and {right:,} right "
            f"words occur in the {lang} text",
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
    """

    base: str
    dictionaries: Mapping[str, Dictionary]
    word_rate: float = 0.9
    sentence_rate: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the rates.

        Raises:
            UserError: a rate outside [0, 1], or no dictionary.
        """
        for name in ("word_rate", "sentence_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name}={getattr(self, name)}", "0 to 1")
        if not self.dictionaries:
            raise UserError("no dictionary", "dictionaries.LANG=FILE", "give at least one")

    def __call__(self, words: Sequence[str], *key: int | str, tags: Sequence[str] | None = None) -> Switched:
        """Replace words at random; the same key gives the same sentence.

        Args:
            words: the words of the sentence.
            key: part of the random key beside the seed, for example the epoch and the sentence's number.
            tags: IOB2 tags; words of an entity are replaced one by one, so that `project_tags` can transfer
                the tags.
        """
        draw = rng(self.seed, "cosda", *key)
        langs = sorted(self.dictionaries)
        replacements: list[Replacement] = []
        if draw.random() < self.sentence_rate:
            # Draw three numbers per word, used or not, so that a gap in one dictionary does not shift the
            # other draws.
            chances = draw.random((len(words), 3))
            for i, word in enumerate(words):
                offers = [lang for lang in langs if word.lower() in self.dictionaries[lang]]
                if not offers or chances[i, 0] >= self.word_rate:
                    continue
                if tags is not None and not keeps_entities(tags, i, i + 1):
                    continue
                lang = offers[int(chances[i, 1] * len(offers))]
                translations = self.dictionaries[lang][word.lower()]
                chosen = translations[int(chances[i, 2] * len(translations))]
                replacements.append(Replacement(i, i + 1, tuple(_cased(chosen, word).split()), lang))
        return substitute(words, replacements, self.base)


def _cased(translation: str, word: str) -> str:
    """Capitalise the translation like the word that it replaces."""
    if word.isupper() and len(word) > 1:
        return translation.upper()
    return translation[:1].upper() + translation[1:] if word[:1].isupper() else translation


def replacement_rates(sentences: Iterable[Switched], base: str) -> dict[str, float]:
    """Return the share of the old words that were replaced by each language; ``all`` is their sum."""
    counts: dict[str, int] = {}
    total = 0
    for sentence in sentences:
        total += sentence.origins[-1][1] if sentence.origins else 0
        spans = dict.fromkeys(zip(sentence.origins, sentence.langs, strict=True))
        for (start, end), lang in spans:
            if lang != base:
                counts[lang] = counts.get(lang, 0) + end - start
    rates = {lang: count / max(total, 1) for lang, count in sorted(counts.items())}
    return {**rates, "all": sum(counts.values()) / max(total, 1)}
