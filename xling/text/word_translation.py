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

from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.text.files import corpus_reader
from xling.text.files.dictionary import read_dictionary
from xling.text.lm.model import load_arpa
from xling.text.words.units import marks

WORD = re.compile(rf"\w[\w{marks()}]*")
TOKEN = re.compile(rf"{WORD.pattern}|[^\w\s]")
BEAM = 10
SWAP = -1.0  # log10 of the probability that two neighbours are swapped
SWAPPED = 3  # number of the second word's translations that are tried in the first place
_REMEMBERED = 1 << 16

Entries: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]
"""Lower-case word -> its translations in their usual case, with log10 of their probabilities, best first."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text in lower case, as the n-gram model reads them."""
    return [token.lower() for token in TOKEN.findall(text)]


class WordByWord:
    """Word-by-word translator of texts; the text between words is copied.

    A text that begins with a capital is translated to one that does, and words without a translation are
    copied.

    Args:
        entries: translations of each word.
        model: n-gram model over `tokens` of the target language; without one every word gets its best
            translation.
    """

    def __init__(self, entries: Entries, model: kenlm.Model | None = None) -> None:
        self.entries = entries
        self.model: Any = model
        # Sentences recur in every epoch.
        self._choose = lru_cache(_REMEMBERED)(self._search if model else self._best)

    def __call__(self, text: str) -> str:
        """Translate a text word by word."""
        matches = list(WORD.finditer(text))
        ends = [0, *(match.end() for match in matches)]
        between = [text[end : match.start()] for end, match in zip(ends, matches, strict=False)]
        chosen = self._choose(tuple(match.group().lower() for match in matches), (*between, text[ends[-1] :]))
        cased = [
            match.group() if word == match.group().lower() else word
            for word, match in zip(chosen, matches, strict=True)
        ]
        if matches and matches[0].group()[0].isupper():
            cased[0] = cased[0][0].upper() + cased[0][1:]
        return "".join(part for two in zip(between, cased, strict=True) for part in two) + text[ends[-1] :]

    def _options(self, word: str) -> Sequence[tuple[str, float]]:
        return self.entries.get(word) or ((word, 0.0),)

    def _best(self, source: tuple[str, ...], between: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._options(word)[0][0] for word in source)

    def _search(self, source: tuple[str, ...], between: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words of the best hypothesis; ``between`` is the text before each word and at the end."""
        start = kenlm.State()
        self.model.BeginSentenceWrite(start)
        done: list[list[_Hypothesis]] = [[] for _ in range(len(source) + 2)]
        done[0] = [(0.0, start, ())]
        for i, word in enumerate(source):
            kept = [self._after(h, TOKEN.findall(between[i])) for h in _prune(done[i])]
            for hypothesis in kept:
                done[i + 1] += self._extended(hypothesis, word)
            if i + 1 < len(source) and between[i + 1].isspace():
                for hypothesis in kept:
                    firsts = sorted(self._extended(hypothesis, source[i + 1]), key=_score)[-SWAPPED:]
                    both = (second for first in firsts for second in self._extended(first, word))
                    done[i + 2] += [(score + SWAP, state, written) for score, state, written in both]
        last = [*TOKEN.findall(between[-1]), "</s>"]
        return max((self._after(h, last) for h in _prune(done[len(source)])), key=_score)[2]

    def _extended(self, hypothesis: _Hypothesis, word: str) -> Iterator[_Hypothesis]:
        score, state, written = hypothesis
        for other, probability in self._options(word):
            after = kenlm.State()
            score_here = self.model.BaseScore(state, other.lower(), after)
            yield score + probability + score_here, after, (*written, other)

    def _after(self, hypothesis: _Hypothesis, marks: Sequence[str]) -> _Hypothesis:
        score, state, written = hypothesis
        for mark in marks:
            after = kenlm.State()
            score += self.model.BaseScore(state, mark, after)
            state = after
        return score, state, written


_Hypothesis: TypeAlias = tuple[float, Any, tuple[str, ...]]
"""A hypothesis: log10 probability, state of the n-gram model, words so far."""


def _score(hypothesis: _Hypothesis) -> float:
    return hypothesis[0]


def _prune(hypotheses: list[_Hypothesis]) -> list[_Hypothesis]:
    """Keep the best hypotheses, only one of those with the same future."""
    kept: dict[Any, _Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=_score, reverse=True):
        kept.setdefault(hypothesis[1], hypothesis)
        if len(kept) == BEAM:
            break
    return list(kept.values())


def read(spec: str) -> dict[tuple[str, str], WordByWord]:
    """Load the dictionaries and n-gram models of each direction as word-by-word translators.

    Args:
        spec: a directory of `xling bli`; or dictionaries ``en-fr=PATH,fr-en=PATH`` in MUSE's format. Of these
            the first translation of each word is used, and a direction that is not given is the other one
            inverted.

    Raises:
        UserError: ``spec`` cannot be parsed, or a file is missing, empty or not a dictionary.
    """
    if spec and "=" not in spec:
        return _read_directory(Path(spec))
    dictionaries: dict[tuple[str, str], dict[str, str]] = {}
    turned: dict[tuple[str, str], dict[str, str]] = {}
    for part in filter(None, spec.split(",")):
        pair, _, name = part.partition("=")
        src, tgt = split_pair(pair.strip())
        if not Path(name).is_file():
            raise UserError(f"dictionary {pair}: no file at {name}", fix="check the path, or run `xling bli`")
        entries = read_dictionary(Path(name))
        if not entries:
            raise UserError(f"dictionary {name} is empty", "source<TAB>target, one pair a line")
        dictionaries[src, tgt] = {word: translations[0] for word, translations in entries.items()}
        back = turned.setdefault((tgt, src), {})
        for word, translations in entries.items():
            back.setdefault(translations[0].lower(), word)
    return {
        pair: WordByWord({word: ((other, 0.0),) for word, other in entries.items()})
        for pair, entries in (turned | dictionaries).items()
    }


def paths(spec: str) -> list[Path]:
    """List the files and folders that `read` reads."""
    return [Path(part.rpartition("=")[2]) for part in spec.split(",") if part]


def _read_directory(directory: Path) -> dict[tuple[str, str], WordByWord]:
    tables = sorted(directory.glob("*-*.tsv"))
    if not tables:
        raise UserError(
            f"dictionaries={directory}", "a directory of `xling bli`, or SRC-TGT=PATH", "run `xling bli`"
        )
    translators = {}
    for table in tables:
        entries: dict[str, list[tuple[str, float]]] = {}
        for number, line in enumerate(corpus_reader.lines(table), 1):
            try:
                word, other, probability = line.split("\t")
                entries.setdefault(word, []).append((other, float(probability)))
            except ValueError:
                raise UserError(
                    f"{table}, line {number}: {line[:80]!r}",
                    "word<TAB>translation<TAB>log10 of its probability",
                    "run `xling bli` again",
                ) from None
        src, tgt = split_pair(table.stem)
        translators[src, tgt] = WordByWord(entries, load_arpa(directory / f"{tgt}.arpa"))
    return translators
