"""ALM's code-switched sentences: phrases of an aligned pair exchanged between its sides.

A sentence of either side takes phrases of the other that the word alignment says are their translations, each of
fewer than 5 words, until just under 30 % of its words are replaced. A draw of one sentence is switched with
probability .8, and the plain source or target sentence with .1 each.

Source: Yang et al. 2020 (ALM), section 3.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import PART, ranged
from xling.corpora.parallel.wordalign.phrases import Span, extract_spans
from xling.corpora.parallel.wordalign.symmetrise import Link
from xling.text.words.substitution import Replacement, SwitchedSentence, substitute


@dataclass(frozen=True)
class AlmSettings:
    """Settings of ALM's substitution.

    Attributes:
        max_words: longest phrase; the paper says under 5.
        max_rate: upper bound of the share of replaced words, exclusive, if ``rate`` is not given.
        rate: share of all words of switched sentences to replace; the whole number of words of a sentence is
            drawn so that the mean is this. None replaces as much as ``max_rate`` permits.
        switched: share of switched sentences.
        plain: share of plain source and of plain target sentences, each.
        copies: draws from each pair.
        seed: seed of the draws.
    """

    max_words: int = 4
    max_rate: float = ranged(0.3, PART)
    rate: float | None = ranged(None, PART)
    switched: float = ranged(0.8, PART)
    plain: float = ranged(0.1, PART)
    copies: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: a share outside 0 to 1.
        """
        values.check(self, "alm.")


_CATCH_UP_WORDS = 50.0
"""Missing words at which the share that is tried is twice the one asked for."""

WordsBetween = Callable[[int, int], str]


def switch(
    words: Sequence[str],
    other: Sequence[str],
    links: set[Link],
    langs: tuple[str, str],
    settings: AlmSettings,
    random: np.random.Generator,
    words_between: WordsBetween | None = None,
) -> SwitchedSentence:
    """Replace phrases of ``words`` by those of ``other``.

    Args:
        words: sentence that is changed, in language ``langs[0]``.
        other: its translation, in language ``langs[1]``.
        links: (position in ``words``, position in ``other``).
        langs: the two languages.
        random: decides the order in which phrases are tried.
        words_between: how a half-open range of ``other`` is written; None gives its words.
    """
    spans = [
        s
        for s in extract_spans(links, len(words), len(other), settings.max_words)
        if _has_content(s, words, other)
    ]
    replacements: list[Replacement] = []
    is_replaced = np.zeros(len(words), bool)
    max_replaced = math.ceil(settings.max_rate * len(words)) - 1
    if settings.rate is not None:
        max_replaced = int(settings.rate * len(words) + random.random())
    for index in random.permutation(len(spans)):
        span = spans[index]
        size = span.src_end - span.src_start
        if is_replaced[span.src_start : span.src_end].any() or is_replaced.sum() + size > max_replaced:
            continue
        is_replaced[span.src_start : span.src_end] = True
        new = tuple(other[span.tgt_start : span.tgt_end])
        if words_between:
            new = (words_between(span.tgt_start, span.tgt_end),)
        replacements.append(Replacement(span.src_start, span.src_end, new, langs[1]))
    return substitute(words, replacements, langs[0])


def _has_content(span: Span, words: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a phrase pair has letters on both sides and differs."""
    left, right = words[span.src_start : span.src_end], other[span.tgt_start : span.tgt_end]
    has_letters = all(any(char.isalpha() for word in side for char in word) for side in (left, right))
    return has_letters and [w.lower() for w in left] != [w.lower() for w in right]


class ReplacementRate:
    """Holds the share of replaced words at ``rate``: the next sentences make up for what one did not allow."""

    def __init__(self, settings: AlmSettings) -> None:
        self._settings, self._num_owed = settings, 0.0

    def settings(self) -> AlmSettings:
        """The settings for the next sentence."""
        if self._settings.rate is None:
            return self._settings
        share = self._settings.rate * (1 + min(max(self._num_owed / _CATCH_UP_WORDS, -1.0), 1.0))
        return replace(self._settings, rate=min(share, 1.0))

    def add(self, num_words: int, num_replaced: int) -> None:
        """Count a switched sentence."""
        self._num_owed += (self._settings.rate or 0.0) * num_words - num_replaced


def draw_sentence(
    src: Sequence[str],
    tgt: Sequence[str],
    links: set[Link],
    langs: tuple[str, str],
    settings: AlmSettings,
    *key: int | str,
    words_between: tuple[WordsBetween, WordsBetween] | None = None,
    rates: tuple[ReplacementRate, ReplacementRate] | None = None,
) -> tuple[str, int, SwitchedSentence]:
    """Draw from a pair: a kind (``switched``, ``source`` or ``target``), the starting side and the sentence.

    Args:
        key: what the draw depends on beside the seed: the number of the pair and of the copy.
        words_between: how ranges of ``src`` and ``tgt`` are written, see `switch`.
        rates: keep the rate of each side over all draws; they count this one.
    """
    random = rng(settings.seed, "alm", *key)
    kind, side = random.random(2)
    if kind >= settings.switched:
        is_source = kind < settings.switched + settings.plain
        words, lang = (src, langs[0]) if is_source else (tgt, langs[1])
        return "source" if is_source else "target", int(not is_source), substitute(words, (), lang)
    side_index = int(side >= 0.5)
    words, other = (src, tgt)[:: -1 if side_index else 1]
    side_settings = rates[side_index].settings() if rates else settings
    turned_links = {(j, i) for i, j in links} if side_index else links
    both, between = (
        (langs[side_index], langs[1 - side_index]),
        words_between and words_between[1 - side_index],
    )
    switched = switch(words, other, turned_links, both, side_settings, random, between)
    if rates:
        rates[side_index].add(len(words), switched.num_replaced(langs[side_index]))
    return "switched", side_index, switched
