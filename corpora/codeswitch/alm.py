"""ALM's code-switched sentences: phrases of an aligned pair exchanged between its sides.

A sentence of either side takes phrases of the other that the word alignment says are their translations, each of
fewer than 5 words, until just under 30 % of its words are replaced. A draw of one sentence is switched with
probability .8, and the plain source or target sentence with .1 each.

Source: Yang et al. 2020 (ALM), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xling.core.sampling import rng
from xling.corpora.parallel.phrases import Span, extract
from xling.corpora.parallel.symmetrise import Link
from xling.text.spans import Replacement, Switched, substitute


@dataclass(frozen=True)
class AlmSettings:
    """Settings of ALM's substitution.

    Attributes:
        max_words: longest phrase; the paper says under 5.
        max_rate: share of a sentence's words that must not be reached.
        switched: share of switched sentences.
        plain: share of plain source and of plain target sentences, each.
        copies: draws from each pair.
        seed: of the draws.
    """

    max_words: int = 4
    max_rate: float = 0.3
    switched: float = 0.8
    plain: float = 0.1
    copies: int = 1
    seed: int = 1


def switch(
    words: Sequence[str],
    other: Sequence[str],
    links: set[Link],
    langs: tuple[str, str],
    settings: AlmSettings,
    draw: np.random.Generator,
) -> Switched:
    """Replace phrases of ``words`` by those of ``other``.

    Args:
        words: sentence that is changed, in language ``langs[0]``.
        other: its translation, in language ``langs[1]``.
        links: (position in ``words``, position in ``other``).
        langs: the two languages.
        settings: see `AlmSettings`.
        draw: decides the order in which phrases are tried.
    """
    spans = [
        s
        for s in extract(links, len(words), len(other), settings.max_words)
        if _says_something(s, words, other)
    ]
    chosen: list[Replacement] = []
    taken = np.zeros(len(words), bool)
    for index in draw.permutation(len(spans)):
        span = spans[index]
        size = span.src_end - span.src_start
        if taken[span.src_start : span.src_end].any() or taken.sum() + size >= settings.max_rate * len(words):
            continue
        taken[span.src_start : span.src_end] = True
        new = tuple(other[span.tgt_start : span.tgt_end])
        chosen.append(Replacement(span.src_start, span.src_end, new, langs[1]))
    return substitute(words, chosen, langs[0])


def _says_something(span: Span, words: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a phrase pair has letters on both sides and differs."""
    left, right = words[span.src_start : span.src_end], other[span.tgt_start : span.tgt_end]
    has_letters = all(any(char.isalpha() for word in side for char in word) for side in (left, right))
    return has_letters and [w.lower() for w in left] != [w.lower() for w in right]


def draw_sentence(
    src: Sequence[str],
    tgt: Sequence[str],
    links: set[Link],
    langs: tuple[str, str],
    settings: AlmSettings,
    *key: int | str,
) -> tuple[str, int, Switched]:
    """Draw from a pair: a kind (``switched``, ``source`` or ``target``), the starting side and the sentence.

    Args:
        src: words of the source sentence.
        tgt: words of the target sentence.
        links: of the pair.
        langs: source and target language.
        settings: see `AlmSettings`.
        key: what the draw depends on beside the seed: the number of the pair and of the copy.
    """
    draw = rng(settings.seed, "alm", *key)
    kind, side = draw.random(2)
    if kind >= settings.switched:
        is_source = kind < settings.switched + settings.plain
        words, lang = (src, langs[0]) if is_source else (tgt, langs[1])
        return "source" if is_source else "target", int(not is_source), substitute(words, (), lang)
    if side < 0.5:
        return "switched", 0, switch(src, tgt, links, langs, settings, draw)
    turned = {(j, i) for i, j in links}
    return "switched", 1, switch(tgt, src, turned, (langs[1], langs[0]), settings, draw)
