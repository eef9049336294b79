"""Documents whose sentences alternate between two languages, for Unicoder's cross-lingual masked LM.

Source: Huang et al. 2019 (Unicoder), section 3.2: in a pair of parallel documents, sentences with an even index
are taken from one language and those with an odd index from the other.
"""

from collections.abc import Iterable, Iterator, Sequence


def alternate_languages(pairs: Sequence[tuple[str, str]], first_side: int) -> list[tuple[int, str]]:
    """Yield a document's sentences alternately from side ``first_side`` (0 or 1) and the other, with their side."""
    return [((first_side + index) % 2, pair[(first_side + index) % 2]) for index, pair in enumerate(pairs)]


def group_by_document(
    rows: Iterable[tuple[str, str, str]], max_sentences: int
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Group (doc, src, tgt) rows that follow one another; runs without a document are cut by length."""
    name, pairs = "", []  # type: tuple[str, list[tuple[str, str]]]
    for doc, src, tgt in rows:
        if pairs and (doc != name or len(pairs) == max_sentences):
            yield name, pairs
            pairs = []
        name = doc
        pairs.append((src, tgt))
    if pairs:
        yield name, pairs
