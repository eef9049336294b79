"""Pairs with a side in another script than its language's."""

import re
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.core.languages import Language
from xling.corpora.parallel.clean.declared_language import SECOND_SCRIPTS
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter
from xling.text.words.han import chinese_form

_LETTERS_OF_SCRIPTS = {
    "Latn": r"\p{Latin}", "Cyrl": r"\p{Cyrillic}", "Arab": r"\p{Arabic}", "Grek": r"\p{Greek}",
    "Hebr": r"\p{Hebrew}", "Deva": r"\p{Devanagari}", "Beng": r"\p{Bengali}", "Taml": r"\p{Tamil}",
    "Telu": r"\p{Telugu}", "Mlym": r"\p{Malayalam}", "Knda": r"\p{Kannada}", "Gujr": r"\p{Gujarati}",
    "Guru": r"\p{Gurmukhi}", "Sinh": r"\p{Sinhala}", "Orya": r"\p{Oriya}", "Thai": r"\p{Thai}", "Laoo": r"\p{Lao}",
    "Khmr": r"\p{Khmer}", "Mymr": r"\p{Myanmar}", "Tibt": r"\p{Tibetan}", "Ethi": r"\p{Ethiopic}",
    "Armn": r"\p{Armenian}", "Geor": r"\p{Georgian}", "Hans": r"\p{Han}", "Hant": r"\p{Han}", "Hani": r"\p{Han}",
    "Jpan": r"\p{Han}\p{Hiragana}\p{Katakana}ー", "Kore": r"\p{Hangul}\p{Han}", "Hang": r"\p{Hangul}",
    "Thaa": r"\p{Thaana}", "Tfng": r"\p{Tifinagh}",
}  # fmt: skip

_NAME = re.compile(r"[A-ZÀ-ÞĀ-ŽΑ-ΩЀ-Я][^\W\d_]*")
_DENSE_SCRIPTS = frozenset({"Hans", "Hant", "Hani", "Jpan", "Kore", "Hang"})


@PAIR_FILTERS.register("script")
@dataclass(frozen=True)
class Script(PairFilter):
    """Drop pairs whose letters are not in the script of their language; simplified Chinese is not traditional.

    Args:
        max_foreign: largest share of a side's characters that may be letters of other scripts; a foreign letter
            counts a quarter in scripts whose characters stand for syllables or words.
    """

    max_foreign: float = 0.3

    name: ClassVar[str] = "script"
    reasons: ClassVar[dict[str, str]] = {
        "script_src": "the source side is written in another script",
        "script_tgt": "the target side is written in another script",
    }
    values: ClassVar[dict[str, str]] = {
        "foreign_letters": "largest share of a side's characters that are letters of other scripts"
    }

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        shares = [
            _num_foreign(side, lang) / pl.max_horizontal(pl.col(side).str.len_chars(), 1)
            for side, lang in context.sides
            if lang.script in _LETTERS_OF_SCRIPTS
        ]
        return pairs.with_columns(
            pl.max_horizontal(pl.lit(0.0), *shares).cast(pl.Float32).alias("foreign_letters")
        )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        pairs = pairs if "foreign_letters" in pairs.columns else self.measured(pairs, context)
        reasons = [""] * pairs.height
        candidates = pairs.with_row_index().filter(pl.col("foreign_letters") > self.max_foreign)
        for (side, lang), other in zip(context.sides, ("tgt", "src"), strict=True):
            if lang.script in _LETTERS_OF_SCRIPTS and candidates.height:
                scale = 0.25 if lang.script in _DENSE_SCRIPTS else 1.0
                allowed = candidates.select(
                    self.max_foreign / scale * pl.col(side).str.len_chars()
                ).to_series()
                # Names that both sides write alike are at home in either.
                texts = _without_names(candidates, side, other).to_frame()
                num_foreign = texts.select(_num_foreign(side, lang)).to_series()
                for row in candidates.filter(num_foreign > allowed)["index"]:
                    reasons[row] = reasons[row] or f"script_{side}"
        for side, lang in context.sides:
            # Both have the letters of Chinese, and characters of their own.
            if lang.script in ("Hans", "Hant"):
                for row, text in enumerate(pairs[side]):
                    if not reasons[row] and chinese_form(text) not in ("", lang.script):
                        reasons[row] = f"script_{side}"
        return pl.Series("reason", reasons, pl.String).replace("", None)


def _num_foreign(side: str, lang: Language) -> pl.Expr:
    """Return the number of letters of a side that no script of its language has."""
    return pl.col(side).str.count_matches(rf"[\p{{L}}--[{letters_of(lang)}]]")


def letters_of(lang: Language) -> str:
    """Return the letters of the scripts of a language as the inside of a regular expression's class; "" for none."""
    scripts = (lang.script, *SECOND_SCRIPTS.get(lang.base, ()))
    return "".join(_LETTERS_OF_SCRIPTS.get(script, "") for script in scripts)


def _without_names(pairs: pl.DataFrame, side: str, other: str) -> pl.Series:
    """Return the texts of a side without the capitalised words that the other side has too."""
    texts = []
    for text, other_text in pairs.select(side, other).iter_rows():
        names = set(_NAME.findall(other_text)) & set(_NAME.findall(text))
        texts.append(re.sub(rf"\b(?:{'|'.join(names)})\b", "", text) if names else text)
    return pl.Series(side, texts, pl.String)
