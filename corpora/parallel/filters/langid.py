"""Pairs with a side in another language, or with their sides swapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.core.languages import Language
from xling.corpora.identify import SURE
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter
from xling.corpora.stages.langid import identify

_OK, _OTHER, _LIKE_OPPOSITE = 0, 1, 2
_SAMPLE = 3000
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
    """

    threshold: float = 0.5
    max_chars: int = 100
    trust: bool = True

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
        found = np.select([swapped, src != _OK, tgt != _OK], ["swapped", "other_src", "other_tgt"], "")
        return pl.Series("reason", found).replace("", None)

    def _side(self, texts: pl.Series, expected: Language, opposite: Language) -> npt.NDArray[np.int8]:
        """_OK, _OTHER or _LIKE_OPPOSITE for each text, int8 (num_texts,)."""
        answer = np.zeros(len(texts), np.int8)
        if not expected.fasttext:  # the identifier does not know this language and would call it another
            return answer
        asked = np.arange(len(texts))
        if self.trust and expected.spaces and len(texts) > 2 * _SAMPLE:
            sample = np.linspace(0, len(texts) - 1, _SAMPLE).astype(np.int64)
            verdicts = self._ask(texts, sample, expected, opposite)
            lowered = texts.str.to_lowercase().str.split(" ")
            trusted = _trusted_words(lowered.gather(sample), verdicts == _OK)
            asked = np.flatnonzero(~_mostly_trusted(lowered, trusted))
        answer[asked] = self._ask(texts, asked, expected, opposite)
        return answer

    def _ask(
        self, texts: pl.Series, rows: npt.NDArray[np.int64], expected: Language, opposite: Language
    ) -> npt.NDArray[np.int8]:
        return np.fromiter(
            (self._verdict(text, expected, opposite) for text in texts.gather(rows)), np.int8, len(rows)
        )

    def _verdict(self, text: str, expected: Language, opposite: Language) -> int:
        base, score = _identify(text[:_FIRST_LOOK])
        if base != expected.base and len(text) > _FIRST_LOOK:
            base, score = _identify(text[: self.max_chars])
        if base not in ("", expected.base) and self.threshold <= score < SURE:
            base, score = _identify(text[: self.max_chars], second_opinion=True)
        if not base or base == expected.base or score < self.threshold:
            return _OK
        return _LIKE_OPPOSITE if base == opposite.base else _OTHER


def _identify(text: str, second_opinion: bool = False) -> tuple[str, float]:
    """Language without its script, "" where none can be told, and the score."""
    code, score = identify(text, second_opinion)
    return code.partition("_")[0], score


def _trusted_words(lines: pl.Series, right: npt.NDArray[np.bool_]) -> pl.Series:
    """Words of a sample of split lines that stand almost only in lines identified as right."""
    table = pl.DataFrame({"word": lines, "right": right}).explode("word").group_by("word")
    counts = table.agg(pl.len().alias("n"), pl.col("right").mean())
    kept = (pl.col("n") >= _MIN_COUNT) & (pl.col("right") >= _MIN_TRUST)
    return counts.filter(kept)["word"]


def _mostly_trusted(lines: pl.Series, trusted: pl.Series) -> npt.NDArray[np.bool_]:
    """Which split lines hold mostly trusted words, bool (num_lines,)."""
    lengths = lines.list.len().to_numpy().astype(np.int64)
    hits = lines.explode().is_in(trusted.implode()).fill_null(False).to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    sums = np.add.reduceat(hits.astype(np.int32), starts) if len(hits) else np.zeros(0, np.int32)
    return (sums >= _MIN_WORDS) & (sums >= _MIN_SHARE * lengths)
