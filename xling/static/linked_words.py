"""Words of training rows replaced by their translations in many languages, counted from linked texts.

A few hundred labelled rows show few words, and all of them in one language. Rows with words of other languages
show how the vectors of translations differ from those of the words themselves.

Source: Qin et al. 2020, CoSDA-ML; there the dictionaries are given.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from xling.text.files.word_alignments import AlignedPair

MIN_TRANSLATION_COUNT, MIN_TRANSLATION_SHARE, MAX_TRANSLATIONS = 2, 0.2, 3
"""Least number and share of a word's links that lead to a translation, and most translations of a word."""
REPLACED_SHARE = 0.7
"""Share of the words with a translation that are replaced."""


class AlignedTranslations:
    """Translations of some words into the languages of linked texts."""

    def __init__(self, words: Sequence[str], aligned_pairs: Sequence[AlignedPair]) -> None:
        source_words = {word.lower() for word in words}
        counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for text in aligned_pairs:
            for i, j in text.links:
                if (word := text.src[i].lower()) in source_words:
                    counts[text.lang, word][text.tgt[j].lower()] += 1
        translations_by_lang: dict[str, dict[str, tuple[list[str], np.ndarray]]] = defaultdict(dict)
        for (lang, word), translations in counts.items():
            min_count = max(MIN_TRANSLATION_COUNT, MIN_TRANSLATION_SHARE * translations.total())
            kept_translations = [
                (translation, n)
                for translation, n in translations.most_common(MAX_TRANSLATIONS)
                if n >= min_count
            ]
            if kept_translations:
                total = sum(n for _, n in kept_translations)
                translations_by_lang[lang][word] = (
                    [translation for translation, _ in kept_translations],
                    np.array([n / total for _, n in kept_translations]),
                )
        self._translations_by_lang = [translations_by_lang[lang] for lang in sorted(translations_by_lang)]

    def replace_words(self, words: Sequence[str], generator: np.random.Generator) -> tuple[str, ...]:
        """Return a sentence in which words are replaced by translations into one language, which is drawn.

        A word has one word in its place, so tags stay where they are.
        """
        if not self._translations_by_lang:
            return tuple(words)
        translations = self._translations_by_lang[generator.integers(len(self._translations_by_lang))]
        replaced = []
        for word in words:
            candidates, shares = translations.get(word.lower(), ([], None))
            replaced.append(
                candidates[generator.choice(len(candidates), p=shares)]
                if candidates and generator.random() < REPLACED_SHARE
                else word
            )
        return tuple(replaced)
