"""Word-by-word translation with a bilingual dictionary: the baseline, and a way to start unsupervised translation.

A word is a run of letters, digits and marks; what stands between words stays as it is, and so does a word that the
dictionary does not have. Made for languages that write spaces. With several translations of each word and an n-gram
model of the language to be written, a beam search chooses among them and may let neighbours change places.

Source: Lample et al. 2018, section 3.4 (word-by-word translation as the first model); Kim et al. 2018, section 3.1
(choice by context with a language model); the change of places is ours.
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
from xling.text import reader
from xling.text.dictionary import read_dictionary
from xling.text.lm.model import load_arpa
from xling.text.units import marks

WORD = re.compile(rf"\w[\w{marks()}]*")
TOKEN = re.compile(rf"{WORD.pattern}|[^\w\s]")
BEAM = 10
SWAP = -1.0  # log10 of the probability that two neighbours change places
SWAPPED = 3  # of the second word's translations that are tried in the first place
_REMEMBERED = 1 << 16

Entries: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]
"""Word in lower case -> its translations, cased as usual, with log10 of their probabilities, the best first."""


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [found.lower() for found in WORD.findall(text)]


def tokens(text: str) -> list[str]:
    """The words and the marks of a text in lower case, as the n-gram model reads them."""
    return [found.lower() for found in TOKEN.findall(text)]


class WordByWord:
    """Translates texts of one language into another: what stands between words keeps its place.

    A text that begins with a capital is translated to one that does, and words without a translation keep theirs.

    Args:
        entries: translations of each word.
        model: n-gram model over `tokens` of the other language; without one every word becomes its best translation.
    """

    def __init__(self, entries: Entries, model: kenlm.Model | None = None) -> None:
        self.entries = entries
        self.model: Any = model
        # Sentences come again in every epoch.
        self._choose = lru_cache(_REMEMBERED)(self._search if model else self._best)

    def __call__(self, text: str) -> str:
        """The translation of a text."""
        found = list(WORD.finditer(text))
        ends = [0, *(match.end() for match in found)]
        between = [text[end : match.start()] for end, match in zip(ends, found, strict=False)]
        chosen = self._choose(tuple(match.group().lower() for match in found), (*between, text[ends[-1] :]))
        cased = [
            match.group() if word == match.group().lower() else word
            for word, match in zip(chosen, found, strict=True)
        ]
        if found and found[0].group()[0].isupper():
            cased[0] = cased[0][0].upper() + cased[0][1:]
        return "".join(part for two in zip(between, cased, strict=True) for part in two) + text[ends[-1] :]

    def _options(self, word: str) -> Sequence[tuple[str, float]]:
        return self.entries.get(word) or ((word, 0.0),)

    def _best(self, source: tuple[str, ...], between: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._options(word)[0][0] for word in source)

    def _search(self, source: tuple[str, ...], between: tuple[str, ...]) -> tuple[str, ...]:
        """The words of the best hypothesis; ``between`` is what stands before each word and at the end."""
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
                    done[i + 2] += [(score + SWAP, state, made) for score, state, made in both]
        last = [*TOKEN.findall(between[-1]), "</s>"]
        return max((self._after(h, last) for h in _prune(done[len(source)])), key=_score)[2]

    def _extended(self, hypothesis: _Hypothesis, word: str) -> Iterator[_Hypothesis]:
        score, state, made = hypothesis
        for other, probability in self._options(word):
            after = kenlm.State()
            score_here = self.model.BaseScore(state, other.lower(), after)
            yield score + probability + score_here, after, (*made, other)

    def _after(self, hypothesis: _Hypothesis, marks: Sequence[str]) -> _Hypothesis:
        score, state, made = hypothesis
        for mark in marks:
            after = kenlm.State()
            score += self.model.BaseScore(state, mark, after)
            state = after
        return score, state, made


_Hypothesis: TypeAlias = tuple[float, Any, tuple[str, ...]]
"""Log10 probability, state of the n-gram model, words so far."""


def _score(hypothesis: _Hypothesis) -> float:
    return hypothesis[0]


def _prune(hypotheses: list[_Hypothesis]) -> list[_Hypothesis]:
    """The best, of those that go on alike only one."""
    kept: dict[Any, _Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=_score, reverse=True):
        kept.setdefault(hypothesis[1], hypothesis)
        if len(kept) == BEAM:
            break
    return list(kept.values())


def read(spec: str) -> dict[tuple[str, str], WordByWord]:
    """Translators by direction.

    Args:
        spec: a directory of `xling bli`; or dictionaries ``en-fr=PATH,fr-en=PATH`` in MUSE's format, of which the first
            translation of each word counts, and a direction that is not given is the other turned round.

    Raises:
        UserError: it cannot be read so, or a file is missing, empty or no dictionary.
    """
    if spec and "=" not in spec:
        return _read_directory(Path(spec))
    found: dict[tuple[str, str], dict[str, str]] = {}
    turned: dict[tuple[str, str], dict[str, str]] = {}
    for part in filter(None, spec.split(",")):
        pair, _, name = part.partition("=")
        src, tgt = split_pair(pair.strip())
        if not Path(name).is_file():
            raise UserError(f"dictionary {pair}: no file at {name}", fix="check the path, or run `xling bli`")
        entries = read_dictionary(Path(name))
        if not entries:
            raise UserError(f"dictionary {name} is empty", "source<TAB>target, one pair a line")
        found[src, tgt] = {word: translations[0] for word, translations in entries.items()}
        back = turned.setdefault((tgt, src), {})
        for word, translations in entries.items():
            back.setdefault(translations[0].lower(), word)
    return {
        pair: WordByWord({word: ((other, 0.0),) for word, other in entries.items()})
        for pair, entries in (turned | found).items()
    }


def paths(spec: str) -> list[Path]:
    """What `read` reads."""
    return [Path(part.rpartition("=")[2]) for part in spec.split(",") if part]


def _read_directory(directory: Path) -> dict[tuple[str, str], WordByWord]:
    tables = sorted(directory.glob("*-*.tsv"))
    if not tables:
        raise UserError(
            f"dictionaries={directory}", "a directory of `xling bli`, or SRC-TGT=PATH", "run `xling bli`"
        )
    found = {}
    for table in tables:
        entries: dict[str, list[tuple[str, float]]] = {}
        for number, line in enumerate(reader.lines(table), 1):
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
        found[src, tgt] = WordByWord(entries, load_arpa(directory / f"{tgt}.arpa"))
    return found
