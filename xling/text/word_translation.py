"""Word-by-word translation with a bilingual dictionary: a baseline, and a start for unsupervised translation.

A word is a run of letters, digits and marks. The text between words and words without an entry are copied.
The languages must write spaces between words. With several translations per word and an n-gram model of the
target language, a beam search chooses among them and may swap neighbouring words.

Source: Lample et al. 2018, section 3.4 (word-by-word translation as the first model); Kim et al. 2018,
section 3.1 (choice by context with a language model); swapping neighbours is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import kenlm

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.text.files import corpus_reader
from xling.text.files.dictionary import read_dictionary
from xling.text.lm.model import load_arpa
from xling.text.words.units import combining_marks

WORD = re.compile(rf"\w[\w{combining_marks()}]*")
TOKEN = re.compile(rf"{WORD.pattern}|[^\w\s]")
BEAM_SIZE = 10
SWAP_LOG10 = -1.0  # log10 of the probability that two neighbours are swapped
MAX_SWAPPED_OPTIONS = 3  # number of the second word's translations that are tried in the first place
_CACHE_SIZE = 1 << 16

Translations: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]
"""Lower-case word -> its translations in their usual case, with log10 of their probabilities, best first."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def split_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text in lower case, as the n-gram model reads them."""
    return [token.lower() for token in TOKEN.findall(text)]


class WordByWord:
    """Word-by-word translator of texts; the text between words is copied.

    A text that begins with a capital is translated to one that does, and words without a translation are
    copied.

    Args:
        entries: translations of each word.
        model: n-gram model over `split_tokens` of the target language; without one every word gets its best
            translation.
    """

    def __init__(self, entries: Translations, model: kenlm.Model | None = None) -> None:
        self.entries = entries
        self.model: Any = model
        # Sentences recur in every epoch.
        self._choose = lru_cache(_CACHE_SIZE)(self._search if model else self._best_translations)

    def __call__(self, text: str) -> str:
        """Translate a text word by word."""
        matches = list(WORD.finditer(text))
        word_ends = [0, *(match.end() for match in matches)]
        gaps = [text[end : match.start()] for end, match in zip(word_ends, matches, strict=False)]
        translations = self._choose(
            tuple(match.group().lower() for match in matches), (*gaps, text[word_ends[-1] :])
        )
        cased = [
            match.group() if word == match.group().lower() else word
            for word, match in zip(translations, matches, strict=True)
        ]
        if matches and matches[0].group()[0].isupper():
            cased[0] = cased[0][0].upper() + cased[0][1:]
        return "".join(part for two in zip(gaps, cased, strict=True) for part in two) + text[word_ends[-1] :]

    def _options(self, word: str) -> Sequence[tuple[str, float]]:
        return self.entries.get(word) or ((word, 0.0),)

    def _best_translations(self, source: tuple[str, ...], gaps: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._options(word)[0][0] for word in source)

    def _search(self, source: tuple[str, ...], gaps: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words of the best hypothesis; ``gaps`` is the text before each word and at the end."""
        start = kenlm.State()
        self.model.BeginSentenceWrite(start)
        beams: list[list[_Hypothesis]] = [[] for _ in range(len(source) + 2)]
        beams[0] = [(0.0, start, ())]
        for i, word in enumerate(source):
            hypotheses = [self._read_marks(h, TOKEN.findall(gaps[i])) for h in _prune(beams[i])]
            for hypothesis in hypotheses:
                beams[i + 1] += self._extend(hypothesis, word)
            if i + 1 < len(source) and gaps[i + 1].isspace():
                for hypothesis in hypotheses:
                    first_words = sorted(self._extend(hypothesis, source[i + 1]), key=_score_of)[
                        -MAX_SWAPPED_OPTIONS:
                    ]
                    swapped = (second for first in first_words for second in self._extend(first, word))
                    beams[i + 2] += [(score + SWAP_LOG10, state, output) for score, state, output in swapped]
        end_tokens = [*TOKEN.findall(gaps[-1]), "</s>"]
        return max((self._read_marks(h, end_tokens) for h in _prune(beams[len(source)])), key=_score_of)[2]

    def _extend(self, hypothesis: _Hypothesis, word: str) -> Iterator[_Hypothesis]:
        score, state, output = hypothesis
        for other, probability in self._options(word):
            next_state = kenlm.State()
            word_score = self.model.BaseScore(state, other.lower(), next_state)
            yield score + probability + word_score, next_state, (*output, other)

    def _read_marks(self, hypothesis: _Hypothesis, marks: Sequence[str]) -> _Hypothesis:
        score, state, output = hypothesis
        for mark in marks:
            next_state = kenlm.State()
            score += self.model.BaseScore(state, mark, next_state)
            state = next_state
        return score, state, output


_Hypothesis: TypeAlias = tuple[float, Any, tuple[str, ...]]
"""A hypothesis: log10 probability, state of the n-gram model, words so far."""


def _score_of(hypothesis: _Hypothesis) -> float:
    return hypothesis[0]


def _prune(hypotheses: list[_Hypothesis]) -> list[_Hypothesis]:
    """Keep the best hypotheses, only one of those with the same future."""
    best_by_state: dict[Any, _Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=_score_of, reverse=True):
        best_by_state.setdefault(hypothesis[1], hypothesis)
        if len(best_by_state) == BEAM_SIZE:
            break
    return list(best_by_state.values())


def read_translators(dictionaries_setting: str) -> dict[tuple[str, str], WordByWord]:
    """Load the dictionaries and n-gram models of each direction as word-by-word translators.

    Args:
        dictionaries_setting: a directory of `xling bli`; or dictionaries ``en-fr=PATH,fr-en=PATH`` in MUSE's
            format. Of these the first translation of each word is used, and a direction that is not given
            is the other one inverted.

    Raises:
        UserError: ``dictionaries_setting`` cannot be parsed, or a file is missing, empty or not a dictionary.
    """
    if dictionaries_setting and "=" not in dictionaries_setting:
        return _read_directory(Path(dictionaries_setting))
    dictionaries: dict[tuple[str, str], dict[str, str]] = {}
    inverted: dict[tuple[str, str], dict[str, str]] = {}
    for part in filter(None, dictionaries_setting.split(",")):
        pair, _, name = part.partition("=")
        src, tgt = split_pair(languages.canonical_pair(pair.strip()))
        if not Path(name).is_file():
            raise UserError(f"dictionary {pair}: no file at {name}", fix="check the path, or run `xling bli`")
        entries = read_dictionary(Path(name))
        if not entries:
            raise UserError(f"dictionary {name} is empty", "source<TAB>target, one pair a line")
        dictionaries[src, tgt] = {word: translations[0] for word, translations in entries.items()}
        inverted_entries = inverted.setdefault((tgt, src), {})
        for word, translations in entries.items():
            inverted_entries.setdefault(translations[0].lower(), word)
    return {
        pair: WordByWord({word: ((translation, 0.0),) for word, translation in entries.items()})
        for pair, entries in (inverted | dictionaries).items()
    }


def input_paths(spec: str) -> list[Path]:
    """List the files and folders that `read_translators` reads."""
    return [Path(part.rpartition("=")[2]) for part in spec.split(",") if part]


def _read_directory(directory: Path) -> dict[tuple[str, str], WordByWord]:
    table_paths = sorted(directory.glob("*-*.tsv"))
    if not table_paths:
        raise UserError(
            f"dictionaries={directory}", "a directory of `xling bli`, or SRC-TGT=PATH", "run `xling bli`"
        )
    translators = {}
    for table in table_paths:
        entries: dict[str, list[tuple[str, float]]] = {}
        for number, line in enumerate(corpus_reader.read_lines(table), 1):
            try:
                word, translation, probability = line.split("\t")
                entries.setdefault(word, []).append((translation, float(probability)))
            except ValueError:
                raise UserError(
                    f"{table}, line {number}: {line[:80]!r}",
                    "word<TAB>translation<TAB>log10 of its probability",
                    "run `xling bli` again",
                ) from None
        src, tgt = split_pair(languages.canonical_pair(table.stem))
        translators[src, tgt] = WordByWord(entries, load_arpa(directory / f"{tgt}.arpa"))
    return translators
