"""Words of text that is switched: whole words where there are no spaces, elided articles apart, known forms."""

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from xling.core import languages
from xling.corpora.parallel.wordalign.symmetrise import Link
from xling.text.files import corpus_reader
from xling.text.files.dictionary import Dictionary
from xling.text.pairs import word_spans
from xling.text.word_segmentation import Segmenter
from xling.text.words.word_forms import dictionary_key, find_inflected, split_elided

Spans = list[tuple[int, int]]
SAMPLE_CHARS = 200_000
"""Sentences from which words are learned."""

_MIN_COUNT, _MIN_PROBABILITY = 3, 0.5


def word_cutter(
    lang: str, texts: Iterable[str], word_lists: Mapping[str, str], known_words: Iterable[str] = ()
) -> Callable[[str], Spans]:
    """How text of ``lang`` is cut into words: a function from a text to (start, end) of each.

    Args:
        lang: our code.
        texts: sentences to learn the words of a language without spaces from.
        word_lists: language -> file with a word a line.
        known_words: further words of ``lang``.

    Raises:
        UserError: a list that cannot be read.
    """
    if languages.get(lang).spaces:
        return lambda text: list(split_elided(text, word_spans(text), lang))
    given = corpus_reader.read_lines(Path(word_lists[lang])) if lang in word_lists else ()
    return Segmenter(islice(texts, SAMPLE_CHARS), [*given, *known_words], lang).word_spans


def project_links(
    links: Iterable[Link], new_spans: tuple[Spans, Spans], old_spans: tuple[Spans, Spans]
) -> set[Link]:
    """Links between words of an alignment (``old_spans``) as links between the words that hold them (``new_spans``)."""
    left, right = (_containing_words(new, was) for new, was in zip(new_spans, old_spans, strict=True))
    return {(left[i], right[j]) for i, j in links}


def _containing_words(new: Spans, old_spans: Spans) -> list[int]:
    """For each word of ``old_spans`` the number of the last word of ``new`` that begins no later."""
    containing, position = [], 0
    for start, _ in old_spans:
        while position + 1 < len(new) and new[position + 1][0] <= start:
            position += 1
        containing.append(position)
    return containing


def words_of_phrases(path: Path, side: int) -> Iterator[str]:
    """Phrases of one side (0 source, 1 target) of a phrase table that translate one word, joined without spaces."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in islice(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1, None):
            sure = float(row[3 - side]) >= _MIN_PROBABILITY and int(row[4]) >= _MIN_COUNT
            if sure and " " not in row[1 - side] and row[1 - side][:1].isalpha():
                yield row[side].replace(" ", "")


def add_word_forms(table: Dictionary, texts: Iterable[list[str]], lang: str) -> dict[str, tuple[str, ...]]:
    """The dictionary with the forms of its entries that occur in ``texts``, the words of sentences of ``lang``."""
    seen = {dictionary_key(word, lang) for text in islice(texts, SAMPLE_CHARS) for word in text}
    return {**{form: table[entry] for form, entry in find_inflected(seen, table.keys()).items()}, **table}
