"""The control ``dictionary``: rows are translated into the source language word by word, then character n-grams answer.

It shows what a bilingual dictionary alone explains of a score. A word that the dictionary lacks stays as it is, so
without entries it is the control ``ngram``.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.controls.majority_ngrams import NgramControl
from xling.eval.rows.suite import Example, Suite
from xling.text.files import word_alignments
from xling.text.files.dictionary import read_dictionary
from xling.text.pairs import word_spans
from xling.text.words.features import is_unspaced
from xling.text.words.word_forms import copy_capitals, dictionary_key

MAX_ENTRY_WORDS = 8
"""Characters of the longest entry that is looked for in a text without spaces."""
_EXPECTED_FOLDER = "an output of xling corpus links, or a folder of MUSE dictionaries LANG-{source}.txt"


class Dictionaries:
    """The likeliest translation of each word of many languages into one.

    Args:
        folder: output of ``xling corpus links``, whose alignments are counted, or MUSE's dictionaries
            ``LANG-SOURCE.txt``, whose first translation of a word is taken.
        source: the language to translate into.

    Raises:
        UserError: neither is there.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._folder, self._source = folder, source
        self._files = {path.name.partition("-")[0]: path for path in sorted(folder.glob(f"*-{source}.txt"))}
        if not self._files and not (folder / word_alignments.FILE_NAME).is_file():
            raise UserError(
                f"dictionary={folder} has no dictionary",
                _EXPECTED_FOLDER.format(source=source),
                "check dictionary=",
            )

    @cached_property
    def _entries(self) -> Mapping[str, Mapping[str, str]]:
        """Language -> key of a word -> its translation."""
        if self._files:
            return {
                lang: {word: several[0] for word, several in read_dictionary(path, lang).items()}
                for lang, path in self._files.items()
            }
        counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for text in word_alignments.read_word_alignments(self._folder):
            for i, j in text.links:
                counts[text.lang][dictionary_key(text.tgt[j], text.lang)][text.src[i]] += 1
        return {
            lang: {
                word: min(linked, key=lambda other: (-linked[other], other)) for word, linked in words.items()
            }
            for lang, words in counts.items()
        }

    def translate_text(self, text: str, lang: str) -> str:
        """Return ``text`` with each known word of ``lang`` replaced; capitals and marks stay where they are."""
        entries = self._entries.get(lang)
        if not entries or lang == self._source:
            return text
        places, pieces, end, word_index = word_spans(text), list[str](), 0, 0
        while word_index < len(places):
            size, new = _longest_entry(text, places, word_index, entries, lang)
            start, stop = places[word_index][0], places[word_index + size - 1][1]
            word = text[start:stop]
            pieces.append(text[end:start])
            if new:
                new = copy_capitals(new, word, self._source, lang)
            pieces.append(f" {new or word} " if is_unspaced(word) else new or word)
            end, word_index = stop, word_index + size
        joined = "".join([*pieces, text[end:]])
        return " ".join(joined.split()) if any(is_unspaced(text[a]) for a, _ in places) else joined


def _longest_entry(
    text: str, word_spans: Sequence[tuple[int, int]], word_index: int, entries: Mapping[str, str], lang: str
) -> tuple[int, str]:
    """Return how many words the longest entry from ``word_index`` on covers, and its translation, empty for none."""
    start = word_spans[word_index][0]
    most = MAX_ENTRY_WORDS if is_unspaced(text[start:]) else 1
    for size in range(min(most, len(word_spans) - word_index), 0, -1):
        if translation := entries.get(
            dictionary_key(text[start : word_spans[word_index + size - 1][1]], lang)
        ):
            return size, translation
    return 1, ""


class DictionaryControl(NgramControl):
    """Control that translates rows with a dictionary and answers as the control ``ngram`` does.

    Args:
        folder: see `Dictionaries`.
        source: language of the training rows.

    Raises:
        UserError: the folder has no dictionary.
    """

    name = "dictionary"

    def __init__(self, folder: Path, source: str) -> None:
        self._dictionaries = Dictionaries(folder, source)
        self.digest = hashlib.sha256(
            f"dictionary 1 {manifest.digest(folder)} {NgramControl.digest}".encode()
        ).hexdigest()

    def predict(self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str) -> list[Any]:
        """Return the most probable label of each translated row or word."""
        return super().predict(checkpoint, suite, [self._row(row, lang) for row in rows], lang)

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return the n-gram vectors of the translated texts."""
        translated = [self._dictionaries.translate_text(text, lang) for text in texts]
        return super().embed(translated, lang, layer, pooling)

    def _row(self, row: Example, lang: str) -> Example:
        return replace(
            row, fields={name: self._translated_field(value, lang) for name, value in row.fields.items()}
        )

    def _translated_field(self, value: Any, lang: str) -> Any:
        if isinstance(value, str):
            return self._dictionaries.translate_text(value, lang)
        if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
            return tuple(self._dictionaries.translate_text(part, lang) for part in value)
        return value


def dictionary(cfg: Any) -> DictionaryControl:
    """Create the control that uses a dictionary.

    Raises:
        UserError: none is given, or the folder has none.
    """
    if cfg.dictionary is None:
        raise UserError(
            "the system dictionary has no dictionary",
            _EXPECTED_FOLDER.format(source=cfg.source),
            "dictionary=FOLDER",
        )
    return DictionaryControl(cfg.dictionary, cfg.source)
