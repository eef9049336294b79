"""Pairs with too little text, markup, broken characters, or casing and punctuation that do not agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason

_CASED = frozenset({"Latn", "Cyrl", "Grek", "Armn"})
# UTF-8 read as Latin-1 or Windows-1252: a lead byte seen as a letter with a continuation byte behind it.
_MOJIBAKE = r"\u{fffd}|[ÃÂ][\u{80}-\u{bf}‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œ]|â€|Ð[\u{80}-\u{bf}‚ƒ„…]|[\u{80}-\u{9f}]"
_MARKUP = r"</?[a-zA-Z][^<>]*>|&(?:[a-z]+|#\d+);|\{\{|\}\}|\\[nrt]\b|^\s*[{\[<].*[}\]>]\s*$"


@PAIR_FILTERS.register("noise")
@dataclass(frozen=True)
class Noise(PairFilter):
    """Drop pairs that are damaged or whose form differs.

    Args:
        min_letters: smallest share of a side's characters that are letters, marks or spaces.
        casing: whether a side all in capitals against one that is not is dropped.
        max_marks: largest difference in the number of sentence marks (. ! ? and their likes) between sides.
    """

    min_letters: float = 0.6
    casing: bool = True
    max_marks: int = 3

    name: ClassVar[str] = "noise"
    reasons: ClassVar[dict[str, str]] = {
        "mojibake": "characters broken by a wrong encoding",
        "markup": "tags, entities or template code",
        "few_letters": "a side is mostly digits and punctuation",
        "casing": "one side is all in capitals, the other is not",
        "punctuation": "the sides have very different numbers of sentence marks",
    }
    examples = (
        PairExample("", "I will <3 you", "Ich werde dich <3"),
        PairExample("", "USA", "die USA"),
        PairExample("mojibake", "It is a cafÃ© here.", "Es ist ein Café."),
        PairExample("mojibake", "Itâ€™s late.", "Es ist spät."),
        PairExample("markup", "<b>Bold</b> word", "ein fettes Wort"),
        PairExample("markup", "Fish &amp; chips", "Fisch und Pommes"),
        PairExample("few_letters", "12 34 -- 56 ##", "zwölf und mehr"),
        PairExample("casing", "STOP AT ONCE", "Halt sofort an"),
        PairExample("punctuation", "One. Two. Three. Four. Five.", "Eins zwei drei vier fünf."),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        tests = {
            "mojibake": pl.any_horizontal(pl.col("src", "tgt").str.contains(_MOJIBAKE)),
            "markup": pl.any_horizontal(pl.col("src", "tgt").str.contains(_MARKUP)),
            "few_letters": pl.any_horizontal(self._few_letters("src"), self._few_letters("tgt")),
        }
        if self.casing and context.src.script in _CASED and context.tgt.script in _CASED:
            tests["casing"] = _shouts("src") != _shouts("tgt")
        tests["punctuation"] = (_marks("src") - _marks("tgt")).abs() > self.max_marks
        return first_reason(pairs, tests)

    def _few_letters(self, side: str) -> pl.Expr:
        others = pl.col(side).str.count_matches(r"[^\p{L}\p{M}\s]")
        return others > (1 - self.min_letters) * pl.col(side).str.len_chars()


def _shouts(side: str) -> pl.Expr:
    """Whether a side has no lower-case letter and several capitals."""
    return ~pl.col(side).str.contains(r"\p{Ll}") & pl.col(side).str.contains(
        r"\p{Lu}.*\p{Lu}.*\p{Lu}.*\p{Lu}"
    )


def _marks(side: str) -> pl.Expr:
    return pl.col(side).str.count_matches(r"[.!?。！？؟।]+").cast(pl.Int32)
