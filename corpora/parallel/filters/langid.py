"""Pairs with a side in another language, or with their sides swapped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float64, Shaped
from xling.core.errors import UserError
from xling.core.languages import Language
from xling.corpora.langid import south_slavic
from xling.corpora.langid.identify import SURE_SCORE
from xling.corpora.parallel.clean.declared_language import DeclaredLanguage
from xling.corpora.parallel.filters import PAIR_FILTERS, REPAIRS, Context, PairFilter
from xling.corpora.parallel.filters.repair import exchange_sides
from xling.corpora.stages.langid import identify

_SAMPLE_TEXTS = 1500
_FIRST_CHARS = 48  # characters; most lines show their language by then
_MIN_COUNT, _MIN_TRUST, _MIN_SHARE, _MIN_WORDS = 2, 0.98, 0.5, 2
_MAX_TRUSTED_WORDS = 1500
_FAULT_COLUMN, _SWAPPED_COLUMN = "langid_fault", "langid_turned"


@PAIR_FILTERS.register("langid")
@dataclass(frozen=True)
class PairLangId(PairFilter):
    """Drop pairs with a side that is in another language than the declared one.

    A side is judged against the first batch of the file: a text goes if it stands out there towards another
    language (`xling.corpora.parallel.clean.declared_language`). The column ``langid`` holds how many deviations the
    worse side lies from the middle of the file; it is null where neither side was looked at. In a large batch, words
    that stand almost only in right lines of a sample are trusted, and so is a line made mostly of them.

    Args:
        deviations: standard deviations under the middle of the file from which a text goes, more in short texts; more
            keeps more.
        threshold: score from which the identifier is believed where the file has too few texts to compare.
        max_chars: characters of a line that the identifier reads.
        trust: whether the shortcut through trusted words is taken.
        adapt: whether texts are judged against the file; false asks the identifier alone.
        swap: whether sides that are in each other's language change places; false drops such pairs.
    """

    deviations: float = 2.5
    threshold: float = 0.5
    max_chars: int = 100
    trust: bool = True
    adapt: bool = True
    swap: bool = True

    name: ClassVar[str] = "langid"
    reasons: ClassVar[dict[str, str]] = {
        "swapped": "each side is in the language of the other",
        "other_src": "the source side is in another language",
        "other_tgt": "the target side is in another language",
    }
    values: ClassVar[dict[str, str]] = {
        "langid": "standard deviations of the worse side from the middle of the file, negative towards another language"
    }

    def __post_init__(self) -> None:
        """Check what types cannot say (UserError)."""
        if not 0 < self.deviations < math.inf:
            raise UserError(f"settings.langid.deviations={self.deviations}", "a number above 0")

    def fitted(self, pairs: pl.DataFrame, context: Context) -> PairFilter:
        """Return the filter with what it learned from the first batch of pairs."""
        src = SideLanguage(pairs["src"], context.src, self)
        return FittedLangId(src, SideLanguage(pairs["tgt"], context.tgt, self), self.swap)

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        item = self.fitted(pairs, context)
        return item.judge(item.measured(pairs, context), context)

    def other_language(self, text: str, expected: Language) -> str:
        """Return the other language that the identifier takes a text for, "" for none or without much confidence."""
        # A language that the identifier does not know is called another, mostly without much confidence.
        threshold = self.threshold if expected.fasttext else max(SURE_SCORE, self.threshold)
        base, score = _identify(text[:_FIRST_CHARS])
        if base != expected.base and len(text) > _FIRST_CHARS:
            base, score = _identify(text[: self.max_chars])
        if base not in ("", expected.base) and threshold <= score < SURE_SCORE:
            base, score = _identify(text[: self.max_chars], second_opinion=True)
        if (
            base != expected.base
            and {base, expected.base} <= south_slavic.GROUP
            and expected.script == "Latn"
        ):
            standard = south_slavic.standard_of(text.lower()).partition("_")[0]
            return "" if standard in ("", expected.base) else standard
        return "" if base == expected.base or score < threshold else base


@dataclass(frozen=True)
class FittedLangId(PairFilter):
    """The filter with what it learned of both sides."""

    src: SideLanguage
    tgt: SideLanguage
    swap: bool = False

    name: ClassVar[str] = PairLangId.name
    reasons: ClassVar[dict[str, str]] = PairLangId.reasons
    values: ClassVar[dict[str, str]] = PairLangId.values

    def repaired(self, pairs: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the pairs with texts put right, and what was changed."""
        if not self.swap:
            return pairs, pl.DataFrame(schema=REPAIRS)
        pairs = self.measured(pairs, context)
        rows = pairs[_SWAPPED_COLUMN].arg_true()
        if not len(rows):
            return pairs, pl.DataFrame(schema=REPAIRS)
        exchanged_pairs, changes = exchange_sides(
            pairs[rows].drop(_FAULT_COLUMN, _SWAPPED_COLUMN, "langid"), pl.repeat(True, len(rows), eager=True)
        )
        exchanged_pairs = self.measured(exchanged_pairs, context)
        is_right = exchanged_pairs[_FAULT_COLUMN].is_null()
        columns = [
            pairs[name].scatter(rows.filter(is_right), exchanged_pairs[name].filter(is_right))
            for name in exchanged_pairs.columns
        ]
        kept_changes = [change for change, stays in zip(changes, is_right, strict=True) if stays]
        return pairs.with_columns(columns), pl.DataFrame(kept_changes, REPAIRS, orient="row")

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        if _FAULT_COLUMN in pairs.columns:  # `repaired` has measured
            return pairs
        (src, src_deviations), (tgt, tgt_deviations) = (
            self.src.other_languages(pairs["src"]),
            self.tgt.other_languages(pairs["tgt"]),
        )
        in_other_language = np.stack([src == context.tgt.base, tgt == context.src.base])
        swapped = in_other_language.all(axis=0)
        reasons = np.select([swapped, src != "", tgt != ""], ["swapped", "other_src", "other_tgt"], "")
        return pairs.with_columns(
            pl.Series("langid", np.fmin(src_deviations, tgt_deviations), pl.Float32).fill_nan(None),
            pl.Series(_FAULT_COLUMN, reasons, pl.String).replace("", None),
            pl.Series(_SWAPPED_COLUMN, in_other_language.any(axis=0)),
        )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        return pairs[_FAULT_COLUMN].alias("reason")


class SideLanguage:
    """One side of a file: its language, and words that are enough to tell it.

    Args:
        texts: of the side; a sample is read.
    """

    def __init__(self, texts: pl.Series, lang: Language, settings: PairLangId) -> None:
        self.lang, self.settings = lang, settings
        rows = np.linspace(0, max(len(texts) - 1, 0), min(_SAMPLE_TEXTS, len(texts))).astype(np.int64)
        sample = texts.gather(rows)
        sample_texts = sample.to_list() if settings.adapt else []
        self.declared = DeclaredLanguage(
            sample_texts, lang, settings.deviations, partial(settings.other_language, expected=lang)
        )
        self.trusted_words = pl.Series(dtype=pl.String)
        if settings.trust and settings.adapt and lang.spaces and len(texts) > 2 * _SAMPLE_TEXTS:
            words = _trusted_words(_words(sample), self.declared.is_declared_in_sample())
            # Words that a close language has too say nothing.
            self.trusted_words = words.filter(pl.Series(~self.declared.leans_to_other(words.to_list())))

    def other_languages(
        self, texts: pl.Series
    ) -> tuple[Shaped[np.ndarray, " texts"], Float64[np.ndarray, " texts"]]:
        """Return the other language of each text and its deviations, each ``(num_texts,)``.

        Both say nothing of a text that was not looked at: its language is ``""``, its deviations are NaN.
        """
        asked = np.arange(len(texts))
        if len(self.trusted_words):
            lines = _words(texts)
            lengths = lines.list.len().to_numpy().astype(np.int64)
            hits = lines.explode().is_in(self.trusted_words.implode()).fill_null(False).to_numpy()
            starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            sums = np.add.reduceat(hits.astype(np.int32), starts) if len(hits) else np.zeros(0, np.int32)
            asked = np.flatnonzero(~((sums >= _MIN_WORDS) & (sums >= _MIN_SHARE * lengths)))
        labels, off = np.zeros(len(texts), "U16"), np.full(len(texts), np.nan)
        labels[asked], off[asked] = self.declared.other_languages(texts.gather(asked).to_list())
        return labels, off


def _words(texts: pl.Series) -> pl.Series:
    return texts.str.to_lowercase().str.split(" ")


def _identify(text: str, second_opinion: bool = False) -> tuple[str, float]:
    """Return language without its script, "" where none can be told, and the score."""
    code, score = identify(text, second_opinion)
    return code.partition("_")[0], score


def _trusted_words(lines: pl.Series, is_right: npt.NDArray[np.bool_]) -> pl.Series:
    """Return words of a sample of split lines that stand almost only in lines identified as right."""
    table = pl.DataFrame({"word": lines, "right": is_right}).explode("word").group_by("word")
    counts = table.agg(pl.len().alias("n"), pl.col("right").mean())
    kept = (pl.col("n") >= _MIN_COUNT) & (pl.col("right") >= _MIN_TRUST) & (pl.col("word") != "")
    return counts.filter(kept).sort("n", "word", descending=True).head(_MAX_TRUSTED_WORDS)["word"]
