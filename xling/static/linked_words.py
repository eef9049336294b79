"""Words of training rows replaced by their translations in many languages, counted from linked texts.

A few hundred labelled rows show few words, and all of them in one language. Rows with words of other languages
show how the vectors of translations differ from those of the words themselves.

Source: Qin et al. 2020, CoSDA-ML; there the dictionaries are given.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from xling.text.files.word_alignments import AlignedPair

MIN_COUNT, MIN_SHARE, MAX_TRANSLATIONS = 2, 0.2, 3
"""Least number and share of a word's links that lead to a translation, and most translations of a word."""
REPLACED = 0.7
"""Share of the words with a translation that are replaced."""


class LinkedWords:
    """Translations of some words into the languages of linked texts.

    Args:
        words: the words to look for, in any case.
        links: linked texts.
    """

    def __init__(self, words: Sequence[str], links: Sequence[AlignedPair]) -> None:
        wanted = {word.lower() for word in words}
        counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for text in links:
            for i, j in text.links:
                if (word := text.src[i].lower()) in wanted:
                    counts[text.lang, word][text.tgt[j].lower()] += 1
        tables: dict[str, dict[str, tuple[list[str], np.ndarray]]] = defaultdict(dict)
        for (lang, word), translations in counts.items():
            least = max(MIN_COUNT, MIN_SHARE * translations.total())
            kept = [(other, n) for other, n in translations.most_common(MAX_TRANSLATIONS) if n >= least]
            if kept:
                total = sum(n for _, n in kept)
                tables[lang][word] = [other for other, _ in kept], np.array([n / total for _, n in kept])
        self._tables = [tables[lang] for lang in sorted(tables)]

    def replaced(self, words: Sequence[str], draw: np.random.Generator) -> tuple[str, ...]:
        """Return a sentence in which words are replaced by translations into one language, which is drawn.

        A word has one word in its place, so tags stay where they are.
        """
        if not self._tables:
            return tuple(words)
        table, replaced = self._tables[draw.integers(len(self._tables))], []
        for word in words:
            others, shares = table.get(word.lower(), ([], None))
            replaced.append(
                others[draw.choice(len(others), p=shares)] if others and draw.random() < REPLACED else word
            )
        return tuple(replaced)
