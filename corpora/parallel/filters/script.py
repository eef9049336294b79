"""Pairs with a side in another script than its language's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason

_CLASSES = {
    "Latn": r"\p{Latin}", "Cyrl": r"\p{Cyrillic}", "Arab": r"\p{Arabic}", "Grek": r"\p{Greek}",
    "Hebr": r"\p{Hebrew}", "Deva": r"\p{Devanagari}", "Beng": r"\p{Bengali}", "Taml": r"\p{Tamil}",
    "Telu": r"\p{Telugu}", "Mlym": r"\p{Malayalam}", "Knda": r"\p{Kannada}", "Gujr": r"\p{Gujarati}",
    "Guru": r"\p{Gurmukhi}", "Sinh": r"\p{Sinhala}", "Orya": r"\p{Oriya}", "Thai": r"\p{Thai}", "Laoo": r"\p{Lao}",
    "Khmr": r"\p{Khmer}", "Mymr": r"\p{Myanmar}", "Tibt": r"\p{Tibetan}", "Ethi": r"\p{Ethiopic}",
    "Armn": r"\p{Armenian}", "Geor": r"\p{Georgian}", "Hans": r"\p{Han}", "Hant": r"\p{Han}", "Hani": r"\p{Han}",
    "Jpan": r"\p{Han}\p{Hiragana}\p{Katakana}ー", "Kore": r"\p{Hangul}\p{Han}", "Hang": r"\p{Hangul}",
    "Thaa": r"\p{Thaana}", "Tfng": r"\p{Tifinagh}",
}  # fmt: skip

_DENSE = frozenset({"Hans", "Hant", "Hani", "Jpan", "Kore", "Hang"})


@PAIR_FILTERS.register("script")
@dataclass(frozen=True)
class Script(PairFilter):
    """Drop pairs whose letters are not in the script of their language.

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
    examples = (
        PairExample("", "The USA and the EU", "США и ЕС, и NATO", "en-ru"),
        PairExample("script_src", "Дом очень большой.", "Das Haus ist groß."),
        PairExample("script_tgt", "The house is big.", "Дом очень большой."),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        tests = {}
        for side, lang in context.sides:
            if lang.script in _CLASSES:
                # Counting the letters that do not belong is fast, since there are few.
                foreign = pl.col(side).str.count_matches(rf"[\p{{L}}--[{_CLASSES[lang.script]}]]")
                weight = 0.25 if lang.script in _DENSE else 1.0
                tests[f"script_{side}"] = weight * foreign > self.max_foreign * pl.col(side).str.len_chars()
        return (
            first_reason(pairs, tests)
            if tests
            else pl.repeat(None, pairs.height, dtype=pl.String, eager=True)
        )
