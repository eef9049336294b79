"""Documents whose sentences alternate between two languages, for Unicoder's cross-lingual masked LM.

Source: Huang et al. 2019 (Unicoder), section 3.2: in a pair of parallel documents, sentences with an even index
are taken from one language and those with an odd index from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def alternate(pairs: Sequence[tuple[str, str]], first: int) -> list[tuple[int, str]]:
    """Yield a document's sentences alternately from side ``first`` (0 or 1) and the other, with their side."""
    return [((first + index) % 2, pair[(first + index) % 2]) for index, pair in enumerate(pairs)]


def by_document(
    rows: Iterable[tuple[str, str, str]], max_sentences: int
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Group (doc, src, tgt) rows that follow one another; runs without a document are cut by length.

    Args:
        rows: in the order of the text.
        max_sentences: longer documents are cut.
    """
    name, held = "", []  # type: tuple[str, list[tuple[str, str]]]
    for doc, src, tgt in rows:
        if held and (doc != name or len(held) == max_sentences):
            yield name, held
            held = []
        name = doc
        held.append((src, tgt))
    if held:
        yield name, held
