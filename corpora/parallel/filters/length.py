"""Pairs whose sides are too short, too long or too different in length."""

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.core.languages import Language
from xling.core.settings import values
from xling.core.settings.values import Range, ranged
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason

# Characters that say what 100 characters of an alphabetic script say.
_LETTERS_PER_CHARACTER = {
    "Hans": 32, "Hant": 32, "Hani": 32, "Jpan": 45, "Kore": 50, "Hang": 50, "Ethi": 65, "Hebr": 75, "Arab": 85,
    "Thai": 85,
}  # fmt: skip


@PAIR_FILTERS.register("length")
@dataclass(frozen=True)
class Length(PairFilter):
    """Drop pairs by the number of characters of each side and by their ratio.

    The ratio is (a + smoothing) / (b + smoothing) after scaling by how dense each script is, so that it is mild
    on short sentences and right for Chinese.

    Args:
        min_chars: shortest side kept, in characters of an alphabetic script.
        max_chars: longest side kept.
        max_ratio: largest ratio kept.
        smoothing: characters added to both sides.
    """

    min_chars: int = 3
    max_chars: int = 2000
    max_ratio: float = ranged(2.2, Range(least=1, words="a ratio from 1"))
    smoothing: int = ranged(12, Range(least=1, words="a number of characters from 1"))

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together (UserError)."""
        values.check(self, "settings.length.")

    name: ClassVar[str] = "length"
    reasons: ClassVar[dict[str, str]] = {
        "too_short": "a side has too few characters",
        "too_long": "a side has too many characters",
        "ratio": "one side is much longer than the other",
    }
    values: ClassVar[dict[str, str]] = {
        "length_ratio": "length of the longer side for one of the shorter, as the filter counts"
    }

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        a, b = (_alphabetic_chars(side, lang) + self.smoothing for side, lang in context.sides)
        ratio = pl.max_horizontal(a, b) / pl.min_horizontal(a, b)
        return pairs.with_columns(ratio.cast(pl.Float32).alias("length_ratio"))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        a, b = (_alphabetic_chars(side, lang) for side, lang in context.sides)
        return first_reason(
            self.measured(pairs, context) if "length_ratio" not in pairs.columns else pairs,
            {
                "too_short": pl.min_horizontal(a, b) < self.min_chars,
                "too_long": pl.max_horizontal(a, b) > self.max_chars,
                "ratio": pl.col("length_ratio") > self.max_ratio,
            },
        )


def _alphabetic_chars(side: str, lang: Language) -> pl.Expr:
    """Return length of a side in characters of an alphabetic script, with the surrounding spaces."""
    return pl.col(side).str.len_chars() * (100 / _LETTERS_PER_CHARACTER.get(lang.script, 100))
