"""Pairs whose numbers or web addresses differ."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason

_URL = r"(?:https?://|www\.)[^\s/)\]>\"']+|[\w.+-]+@[\w-]+\.[\w.]+"

_NATIVE = [chr(p) for p in range(0x80, 0x20000) if unicodedata.category(chr(p)) == "Nd"]
_ASCII = [str(unicodedata.decimal(digit)) for digit in _NATIVE]


@PAIR_FILTERS.register("numbers")
@dataclass(frozen=True)
class Numbers(PairFilter):
    """Drop pairs whose longer numbers or addresses do not match.

    Numbers of one digit are often spelt out, so those of two and more digits count, by value: 1998 in the digits of
    any script. A number missing on the other side may have been spelt out too; one that stands against a different
    number was not.

    Args:
        max_unmatched: largest share of numbers, of both sides together, that may lack a partner.
        urls: whether the hosts of web addresses must be the same on both sides.
    """

    max_unmatched: float = 0.5
    urls: bool = True

    name: ClassVar[str] = "numbers"
    reasons: ClassVar[dict[str, str]] = {
        "number_mismatch": "the numbers of the sides differ",
        "url_mismatch": "a web or mail address stands on one side only, or differs",
    }
    examples = (
        PairExample("", "It cost 1,500 euros in 1999.", "Es kostete 1.500 Euro im Jahr 1999."),
        PairExample("", "I have 3 dogs.", "Ich habe drei Hunde."),
        PairExample("", "See https://www.example.org/a", "Siehe http://example.org/a"),
        PairExample("", "Built in 1998.", "१९९८ में बना.", "en-hi"),
        PairExample("number_mismatch", "It happened in 1984.", "Es geschah 1948."),
        PairExample("number_mismatch", "Pages 12, 13 and 14.", "Einige Seiten."),
        PairExample("url_mismatch", "See www.example.org now.", "Siehe dort."),
        PairExample("url_mismatch", "Write to a@b.org now.", "Schreib an c@d.org."),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        digits = pl.col("src").str.contains(r"\d\d") | pl.col("tgt").str.contains(r"\d\d")
        address = pl.col("src").str.contains(r"://|www\.|@") | pl.col("tgt").str.contains(r"://|www\.|@")
        marked = pairs.select("src", "tgt", digits.alias("digits"), address.alias("address")).with_row_index()
        # Most pairs hold neither, and the costly comparison is for the others.
        few = marked.filter(pl.col("digits") | pl.col("address"))
        tests = {"number_mismatch": self._numbers_differ() & pl.col("digits")}
        if self.urls:
            tests["url_mismatch"] = (_hosts("src") != _hosts("tgt")) & pl.col("address")
        found = few.select("index").with_columns(first_reason(few, tests))
        return marked.select("index").join(found, on="index", how="left", maintain_order="left")["reason"]

    def _numbers_differ(self) -> pl.Expr:
        a, b = _numbers("src"), _numbers("tgt")
        total = a.list.len() + b.list.len()
        unmatched = a.list.set_symmetric_difference(b).list.len()
        some_on_both = (a.list.len() > 0) & (b.list.len() > 0)
        return (some_on_both | (total > 2)) & (unmatched > self.max_unmatched * total)


def _numbers(side: str) -> pl.Expr:
    """Distinct numbers of two and more digits, their inner commas, dots and spaces taken out."""
    plain = pl.col(side).str.replace_many(_NATIVE, _ASCII)
    joined = plain.str.replace_all(r"(\d)[.,'\u00a0\u202f\u066c ](\d{3})\b", "${1}${2}")
    return joined.str.extract_all(r"\d{2,}").list.unique()


def _hosts(side: str) -> pl.Expr:
    found = pl.col(side).str.to_lowercase().str.extract_all(_URL)
    return (
        found.list.eval(pl.element().str.replace(r"^https?://", "").str.replace(r"^www\.", ""))
        .list.unique()
        .list.sort()
        .list.join(" ")
    )
