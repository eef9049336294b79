"""Pairs with a side in another language, or with their sides swapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import Language
from xling.corpora.identify import SURE
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter
from xling.corpora.stages.langid import identify
from xling.text.units import runs

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt64

_OK, _OTHER, _LIKE_OPPOSITE = 0, 1, 2
_SAMPLE = 3000
_GRAM, _GRAM_UNSPACED, _NUM_SIZES = 4, 2, 6
_MIN_TEXTS, _MIN_RIGHT, _MIN_SPREAD = 20, 0.05, 0.1
_TEXTS_A_COUNT = 1000  # of a large sample a run must stand in more texts than one
_CLOSE, _FAR = 2.5, 1.5  # standard deviations under the mean
_FIRST_LOOK = 48  # characters; most lines show their language by then
_ENGLISH, _GERMAN = "The old woman sells fresh bread.", "Die alte Frau verkauft frisches Brot."
_FRENCH = "La vieille femme vend du pain frais."
_MIN_COUNT, _MIN_TRUST, _MIN_SHARE, _MIN_WORDS = 2, 0.98, 0.5, 2


@PAIR_FILTERS.register("langid")
@dataclass(frozen=True)
class PairLangId(PairFilter):
    """Drop pairs with a side that is identified as another language.

    Words that stand almost only in lines identified as right, in a sample of the batch, are trusted; a line made
    mostly of them is not looked at again. That leaves the identifier a third of the lines or fewer.

    Args:
        threshold: score from which another language than the expected one is believed.
        max_chars: characters of a line that are read.
        trust: whether the shortcut through trusted words is taken.
        adapt: whether a doubted line stays whose runs of characters are at home in the file.
    """

    threshold: float = 0.5
    max_chars: int = 100
    trust: bool = True
    adapt: bool = True

    name: ClassVar[str] = "langid"
    reasons: ClassVar[dict[str, str]] = {
        "swapped": "each side is in the language of the other",
        "other_src": "the source side is in another language",
        "other_tgt": "the target side is in another language",
    }
    examples = (
        PairExample("", _ENGLISH, _GERMAN),
        PairExample("other_src", _FRENCH, _GERMAN),
        PairExample("other_tgt", _ENGLISH, _FRENCH),
        PairExample("swapped", _GERMAN, _ENGLISH),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        src = self._side(pairs["src"], context.src, context.tgt)
        tgt = self._side(pairs["tgt"], context.tgt, context.src)
        swapped = (src == _LIKE_OPPOSITE) & (tgt == _LIKE_OPPOSITE)
        reasons = np.select([swapped, src != _OK, tgt != _OK], ["swapped", "other_src", "other_tgt"], "")
        return pl.Series("reason", reasons).replace("", None)

    def _side(self, texts: pl.Series, expected: Language, opposite: Language) -> npt.NDArray[np.int8]:
        """Return _OK, _OTHER or _LIKE_OPPOSITE for each text, int8 (num_texts,)."""
        answer = np.zeros(len(texts), np.int8)
        sample = np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(np.int64)
        seen = self._ask(texts, sample, expected)
        asked = np.arange(len(texts))
        if self.trust and expected.spaces and len(texts) > 2 * _SAMPLE:
            lowered = texts.str.to_lowercase().str.split(" ")
            right = np.array([not label for label in seen])
            asked = np.flatnonzero(~_mostly_trusted(lowered, _trusted_words(lowered.gather(sample), right)))
        # Without the shortcut the sample holds every text, or is small beside what is asked then.
        labels = seen if len(sample) == len(texts) else self._ask(texts, asked, expected)
        suspects = np.flatnonzero([bool(label) for label in labels])
        if len(suspects) and (self.adapt or not expected.fasttext):
            doubted = texts.gather(asked[suspects]).to_list()
            at_home = Usage(texts.gather(sample).to_list(), seen, expected)
            stays = at_home.holds(doubted, [labels[i] for i in suspects])
            if not (at_home.enough or expected.fasttext):
                return answer
            suspects = suspects[~stays]
        for i in suspects:
            answer[asked[i]] = _LIKE_OPPOSITE if labels[i] == opposite.base else _OTHER
        return answer

    def _ask(self, texts: pl.Series, rows: npt.NDArray[np.int64], expected: Language) -> list[str]:
        """The other language that each text is identified as; "" where it is the expected one or none is sure."""
        return [self._other(text, expected) for text in texts.gather(rows)]

    def _other(self, text: str, expected: Language) -> str:
        # A language that the identifier does not know is called another, mostly without much confidence.
        threshold = self.threshold if expected.fasttext else max(SURE, self.threshold)
        base, score = _identify(text[:_FIRST_LOOK])
        if base != expected.base and len(text) > _FIRST_LOOK:
            base, score = _identify(text[: self.max_chars])
        if base not in ("", expected.base) and threshold <= score < SURE:
            base, score = _identify(text[: self.max_chars], second_opinion=True)
        return "" if base == expected.base or score < threshold else base


class Usage:
    """How the declared language is written in the file itself, by runs of four characters; two without spaces.

    An identifier condemns languages that it knows badly, and takes close ones for each other. A text whose runs
    stand in other texts of the file, as many as they do in texts that were not doubted, is in the file's language,
    whatever it is taken for. Texts that were taken for the same other language do not vouch for each other.

    Args:
        texts: a sample of the file.
        labels: the other language that each is taken for, "" for none.
        expected: the declared language.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[str], expected: Language) -> None:
        self.expected = expected
        self.length = _GRAM if expected.spaces else _GRAM_UNSPACED
        self.grams = [grams(text, self.length) for text in texts]
        self.labels = np.array(labels)
        flat = np.concatenate([*self.grams, np.zeros(0, np.uint64)])
        self.known, numbers = np.unique(flat, return_inverse=True)
        owners = np.repeat(self.labels, [len(each) for each in self.grams])
        self.counts = {
            label: np.bincount(numbers[owners == label], minlength=len(self.known))
            for label in {str(label) for label in labels}
        }
        self.total = np.bincount(numbers, minlength=len(self.known))
        right = [each for each, label in zip(self.grams, labels, strict=True) if not label and len(each)]
        self.least = 1 + len(texts) // _TEXTS_A_COUNT
        self.enough = len(right) >= max(_MIN_TEXTS, _MIN_RIGHT * len(texts))
        self.bins: dict[int, tuple[float, float]] = {}
        if self.enough:
            others = self.counts[""] - 1
            shares = np.array([self._share(each, others) for each in right])
            sizes = np.array([_size(each) for each in right])
            whole = float(shares.mean()), float(max(shares.std(), _MIN_SPREAD))
            for size in range(_NUM_SIZES):
                own = shares[sizes == size]
                many = len(own) >= _MIN_TEXTS
                self.bins[size] = (float(own.mean()), float(max(own.std(), _MIN_SPREAD))) if many else whole

    def holds(self, texts: Sequence[str], labels: Sequence[str]) -> Bool[np.ndarray, " texts"]:
        """Which texts, taken for the languages ``labels``, are in the file's own language; bool (num_texts,)."""
        answer = np.zeros(len(texts), bool)
        if not self.enough:
            return answer
        for place, (text, label) in enumerate(zip(texts, labels, strict=True)):
            if not languages.matches_script(text, self.expected):
                continue
            hashes = grams(text, self.length)
            mean, spread = self.bins[_size(hashes)]
            vouching = self.total - self.counts.get(label, 0)
            limit = _CLOSE if is_close(self.expected, label) else _FAR
            answer[place] = self._share(hashes, vouching) >= max(mean - limit * spread, mean / 2)
        return answer

    def _share(self, hashes: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> float:
        """Return the share of a text's character runs that other lines of the file have, too."""
        if not len(hashes):
            return 1.0
        places = np.minimum(np.searchsorted(self.known, hashes), len(self.known) - 1)
        return float(((self.known[places] == hashes) & (counts[places] >= self.least)).mean())


def grams(text: str, length: int) -> UInt64[np.ndarray, " runs"]:
    """Return hashes of the different runs of ``length`` characters of a text in lower case, uint64 (num_runs,)."""
    spaced = f" {' '.join(text.lower().split())} "
    return np.unique(runs(np.frombuffer(spaced.encode("utf-32-le"), np.uint32).astype(np.uint64), length))


def _size(hashes: npt.NDArray[np.uint64]) -> int:
    return min(int(np.log2(max(len(hashes), 1) / 4 + 1)), _NUM_SIZES - 1)


@cache
def is_close(expected: Language, label: str) -> bool:
    """Return whether a language is of the branch and script of another, so that the two are taken for each other."""
    try:
        other = languages.get(label)
    except UserError:
        return False
    return other.family == expected.family and other.script == expected.script


def _identify(text: str, second_opinion: bool = False) -> tuple[str, float]:
    """Return language without its script, "" where none can be told, and the score."""
    code, score = identify(text, second_opinion)
    return code.partition("_")[0], score


def _trusted_words(lines: pl.Series, right: npt.NDArray[np.bool_]) -> pl.Series:
    """Return words of a sample of split lines that stand almost only in lines identified as right."""
    table = pl.DataFrame({"word": lines, "right": right}).explode("word").group_by("word")
    counts = table.agg(pl.len().alias("n"), pl.col("right").mean())
    kept = (pl.col("n") >= _MIN_COUNT) & (pl.col("right") >= _MIN_TRUST)
    return counts.filter(kept)["word"]


def _mostly_trusted(lines: pl.Series, trusted: pl.Series) -> npt.NDArray[np.bool_]:
    """Return which split lines hold mostly trusted words, bool (num_lines,)."""
    lengths = lines.list.len().to_numpy().astype(np.int64)
    hits = lines.explode().is_in(trusted.implode()).fill_null(False).to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    sums = np.add.reduceat(hits.astype(np.int32), starts) if len(hits) else np.zeros(0, np.int32)
    return (sums >= _MIN_WORDS) & (sums >= _MIN_SHARE * lengths)
