"""Pairs with too little text, markup, broken characters, or casing and punctuation that do not agree."""

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.core.languages import Language
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason
from xling.text import repair
from xling.text.words.sentence_ends import ALL_ENDS, SENTENCE_ENDS

_CASED_SCRIPTS = frozenset({"Latn", "Cyrl", "Grek", "Armn"})
# UTF-8 read as Latin-1 or Windows-1252: a lead byte seen as a letter with a continuation byte behind it.
_MOJIBAKE = r"\u{fffd}|[ÃÂ][\u{80}-\u{bf}‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œ]|â€|Ð[\u{80}-\u{bf}‚ƒ„…]|[\u{80}-\u{9f}]"
_MARKUP = "|".join(
    (
        r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]+|#\d+);|\{\{|\}\}|\\[nrt]\b|^\s*[{\[<].*[}\]>]\s*$",
        r"(?i)\[/?(?:b|i|u|s|url|img|quote|code|size|color|list|spoiler|youtube)(?:=[^\]]*)?\]",
        r"\{[^{}]*[\w-]+\s*:[^{};]*[;}]",  # a rule of a style sheet
        r"\bfunction\s*\w*\s*\([^)]*\)\s*\{|\bdocument\.\w+|\bwindow\.\w+\(",
    )
)
# Characters that no text needs: controls, and marks of direction and joining without width. Joiners and zero-width
# spaces are spelling in the scripts of Iran, India and South-East Asia, and in emoji.
_INVISIBLE = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u{2060}-\u{2064}\u{feff}\u{202a}-\u{202e}\u{2066}-\u{2069}]"
)
_JOINERS = r"[\u{200b}-\u{200d}]"
# What a wrong encoding leaves of a letter with a mark: inside a word, as its first letter, or as its last one.
_LOST_LETTER = r"\p{L}\?\p{L}|(?:^|[\s(\"«„“'’])\?\p{L}|\p{L}\?(?:[,;:](?:\s|\p{L}|$)|\.(?:\s|$))"
_CLOSING = r"\"'”’»)\]」』】）"
# A shad is the comma of Tibetan too.
_SENTENCE_MARKS = "".join(sorted(ALL_ENDS - {*SENTENCE_ENDS["Tibt"]}))
_SPACE_FOR_STOP = frozenset({"Thai", "Laoo"})
"""Scripts that write a space for the full stop of other scripts."""
_MIN_SPACED_LETTERS = 6
# Smallest share of letters where both sides have the same numbers, which then count as letters.
_MIN_BESIDE_NUMBERS = 0.3


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
        "invisible": "control characters, or marks without width that the script does not use",
        "lost_letters": "question marks inside words on one side: letters lost in an encoding",
        "letter_spaced": "a side is written with a space between all letters",
        "mojibake": "characters broken by a wrong encoding",
        "markup": "tags, entities or template code",
        "few_letters": "a side is mostly digits and punctuation",
        "casing": "one side is all in capitals, the other is not",
        "punctuation": "the sides have very different numbers of sentence marks",
    }
    values: ClassVar[dict[str, str]] = {
        "letters": "smallest share of a side's characters that are letters, marks or spaces",
        "marks_off": "difference in the number of sentence marks",
    }

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        letters = pl.min_horizontal(_num_letters("src"), _num_letters("tgt")).cast(pl.Float32)
        has_stops = all(lang.script not in _SPACE_FOR_STOP for _, lang in context.sides)
        marks = (_num_marks("src", has_stops) - _num_marks("tgt", has_stops)).abs()
        return pairs.with_columns(letters.alias("letters"), marks.alias("marks_off"))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        tests = {
            "invisible": pl.any_horizontal(_has_invisible(side, lang) for side, lang in context.sides),
            "lost_letters": _has_lost_letter("src") != _has_lost_letter("tgt"),
            "letter_spaced": pl.any_horizontal(_is_letter_spaced(side, lang) for side, lang in context.sides),
            "mojibake": pl.any_horizontal(pl.col("src", "tgt").str.contains(_MOJIBAKE)),
            "markup": pl.any_horizontal(pl.col("src", "tgt").str.contains(_MARKUP)),
            "few_letters": (pl.col("letters") < self.min_letters) & ~self._is_date(),
        }
        if self.casing and context.src.script in _CASED_SCRIPTS and context.tgt.script in _CASED_SCRIPTS:
            tests["casing"] = _is_upper_case("src") != _is_upper_case("tgt")
        many = pl.col("marks_off") > self.max_marks
        tests["punctuation"] = many | ((_num_mark_runs("src") - _num_mark_runs("tgt")).abs() > 1)
        return first_reason(pairs if "letters" in pairs.columns else self.measured(pairs, context), tests)

    def _is_date(self) -> pl.Expr:
        """Return whether the sides have the same numbers and enough letters beside them, as dates and times have."""
        numbers = [pl.col(side).str.extract_all(r"\p{Nd}+").list.sort() for side in ("src", "tgt")]
        enough = (
            pl.min_horizontal(_num_letters("src", r"\p{Nd}"), _num_letters("tgt", r"\p{Nd}"))
            >= self.min_letters
        )
        return (numbers[0] == numbers[1]) & enough & (pl.col("letters") >= _MIN_BESIDE_NUMBERS)


def _num_letters(side: str, counted: str = "") -> pl.Expr:
    others = pl.col(side).str.count_matches(rf"[^\p{{L}}\p{{M}}\s{counted}]")
    return 1 - others / pl.max_horizontal(pl.col(side).str.len_chars(), 1)


def _has_invisible(side: str, lang: Language) -> pl.Expr:
    return pl.col(side).str.contains(
        _INVISIBLE if lang.script in repair.JOINER_SCRIPTS else f"{_INVISIBLE}|{_JOINERS}"
    )


def _has_lost_letter(side: str) -> pl.Expr:
    return pl.col(side).str.contains(_LOST_LETTER) & ~pl.col(side).str.contains(
        r"[a-z]\.[a-z]+/|https?:|www\."
    )


def _is_letter_spaced(side: str, lang: Language) -> pl.Expr:
    """Return whether most words of a side are single letters, in a language with spaces between words."""
    if not lang.spaces:
        return pl.lit(False)
    lone = pl.col(side).str.count_matches(r"\b\p{L}\p{M}*\b")
    return (lone >= _MIN_SPACED_LETTERS) & (2 * lone > pl.col(side).str.count_matches(r"\p{L}"))


def _is_upper_case(side: str) -> pl.Expr:
    """Return whether a side has no lower-case letter and several capitals."""
    return ~pl.col(side).str.contains(r"\p{Ll}") & pl.col(side).str.contains(
        r"\p{Lu}.*\p{Lu}.*\p{Lu}.*\p{Lu}"
    )


def _num_marks(side: str, has_stops: bool) -> pl.Expr:
    """Sentence marks behind words; those of initials, decimal numbers and abbreviations within a sentence are none.

    Without ``has_stops`` they are question and exclamation marks alone.
    """
    # A syllable of a Brahmic script may be a word ("है"), or stand for a letter of an abbreviation before the next one.
    ends = rf"[{_CLOSING}]*[{_SENTENCE_MARKS if has_stops else '!?'}]+"
    count = pl.col(side).str.count_matches(rf"\p{{L}}\p{{L}}{ends}|\p{{M}}{ends}(?:[\s{_CLOSING}]|$)")
    if not has_stops:
        return count.cast(pl.Int32)
    within = pl.col(side).str.count_matches(r"(?:\p{L}\p{L}|\p{M})\.\s+\p{Ll}")
    return count.cast(pl.Int32) - within.cast(pl.Int32)


def _num_mark_runs(side: str) -> pl.Expr:
    """Marks and signs that are written three times and more."""
    return (
        pl.col(side).str.count_matches(r"!{3,}|\?{3,}|\.{3,}|\*{3,}|-{3,}|={3,}|#{3,}|~{3,}").cast(pl.Int32)
    )
