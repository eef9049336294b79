"""Phrase pairs consistent with a word alignment, and a phrase table with both translation probabilities.

Source: Koehn, Och and Marcu 2003, section 2.2; Koehn 2010, figure 5.3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xling.corpora.parallel.wordalign.symmetrise import Link


@dataclass(frozen=True)
class Span:
    """A phrase pair of one sentence pair, as half-open word ranges."""

    src_start: int
    src_end: int
    tgt_start: int
    tgt_end: int


def extract_spans(links: set[Link], num_src: int, num_tgt: int, max_words: int = 4) -> Iterator[Span]:
    """Yield phrase pairs of at most ``max_words`` words a side.

    A pair is consistent when no word of either side is linked to a word outside and at least one link is inside.
    Words without a link may stand at the borders of the target side.

    Args:
        links: (source position, target position) from 0.
        num_src: words of the source sentence.
        num_tgt: words of the target sentence.
        max_words: ALM takes phrases under 5 words.
    """
    to_tgt: list[list[int]] = [[] for _ in range(num_src)]
    to_src: list[list[int]] = [[] for _ in range(num_tgt)]
    for i, j in links:
        to_tgt[i].append(j)
        to_src[j].append(i)
    for start in range(num_src):
        first_tgt, last_tgt = num_tgt, -1
        for end in range(start + 1, min(start + max_words, num_src) + 1):
            reached = to_tgt[end - 1]
            if reached:
                first_tgt, last_tgt = min(first_tgt, *reached), max(last_tgt, *reached)
            if last_tgt < 0 or last_tgt - first_tgt >= max_words:
                continue
            if any(not start <= i < end for j in range(first_tgt, last_tgt + 1) for i in to_src[j]):
                continue
            yield from _with_free_borders(start, end, first_tgt, last_tgt, to_src, max_words)


def _with_free_borders(
    start: int, end: int, first_tgt: int, last_tgt: int, to_src: list[list[int]], max_words: int
) -> Iterator[Span]:
    start_tgt = first_tgt
    while start_tgt >= 0 and (start_tgt == first_tgt or not to_src[start_tgt]):
        right = last_tgt
        while (
            right < len(to_src) and right - start_tgt < max_words and (right == last_tgt or not to_src[right])
        ):
            yield Span(start, end, start_tgt, right + 1)
            right += 1
        start_tgt -= 1


@dataclass(frozen=True)
class Phrase:
    """An entry of a phrase table.

    Attributes:
        src: source words joined by spaces.
        tgt: target words joined by spaces.
        tgt_given_src: count / count of the source phrase.
        src_given_tgt: count / count of the target phrase.
        count: how often the pair was extracted.
    """

    src: str
    tgt: str
    tgt_given_src: float
    src_given_tgt: float
    count: int


def phrase_table(
    pairs: Iterable[tuple[Sequence[str], Sequence[str], set[Link]]], max_words: int = 4, min_count: int = 1
) -> list[Phrase]:
    """Return the phrase table of aligned sentence pairs, lower-cased, sorted by source and falling probability.

    Args:
        pairs: source words, target words and links of each sentence pair.
        max_words: longest phrase on either side.
        min_count: rarer pairs are left out after the probabilities are estimated.
    """
    pair_counts: Counter[tuple[str, str]] = Counter()
    for src, tgt, links in pairs:
        left, right = [word.lower() for word in src], [word.lower() for word in tgt]
        for span in extract_spans(links, len(src), len(tgt), max_words):
            phrase = left[span.src_start : span.src_end], right[span.tgt_start : span.tgt_end]
            pair_counts[" ".join(phrase[0]), " ".join(phrase[1])] += 1
    src_counts: Counter[str] = Counter()
    tgt_counts: Counter[str] = Counter()
    for (left_text, right_text), count in pair_counts.items():
        src_counts[left_text] += count
        tgt_counts[right_text] += count
    frequent = [
        Phrase(a, b, count / src_counts[a], count / tgt_counts[b], count)
        for (a, b), count in pair_counts.items()
        if count >= min_count
    ]
    return sorted(frequent, key=lambda p: (p.src, -p.tgt_given_src, p.tgt))
