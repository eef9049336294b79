"""Damage of text that can be undone, before any filter drops it."""

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.core.languages import Language
from xling.corpora.langid.code_pages import MIN_STRANGE, SIGNS_OF_CYRILLIC, CodePages, WrongCodePage
from xling.corpora.parallel.clean.declared_language import own_scripts
from xling.corpora.parallel.filters import PAIR_FILTERS, REPAIRS, Context, PairFilter
from xling.corpora.parallel.filters.script import letters_of
from xling.text import repair
from xling.text.pairs import SIDES
from xling.text.tokenised import TOKENISED, tokenised_kind, undo

_SWAPPED_SHARE = 0.7
Change = tuple[str, str, str, str]


@PAIR_FILTERS.register("repair")
@dataclass(frozen=True)
class Repair(PairFilter):
    """Put right what other programs have damaged. It drops nothing; the card counts and shows every repair.

    Args:
        entities: whether character references such as ``&eacute;`` become characters.
        mojibake: whether text that was read in a wrong encoding is put right: UTF-8, and code pages of the language.
        invisible: whether control characters and marks without width go, where they are no spelling.
        quotes: whether doubled and replaced quotes and apostrophes are put right, and quotes around one side taken off.
        swapped: whether sides in each other's script change places.
        tokenised: whether text that another program has tokenised is put together; what stood there is a guess.
    """

    entities: bool = True
    mojibake: bool = True
    invisible: bool = True
    quotes: bool = True
    swapped: bool = True
    tokenised: bool = False

    name: ClassVar[str] = "repair"
    reasons: ClassVar[dict[str, str]] = {}

    def repaired(self, pairs: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the pairs with texts put right, and what was changed."""
        changes: list[Change] = []
        if self.tokenised:
            for side, lang in context.sides:
                before = pairs[side].to_list()
                after = [undo(text, lang.code) for text in before]
                both = zip(pairs["id"].to_list(), before, after, strict=True)
                changes += [(name, "tokenised", old, new) for name, old, new in both if old != new]
                pairs = pairs.with_columns(pl.Series(side, after, pl.String))
        if self.swapped:  # first, since what is spelling in one language is damage in the other
            pairs, rows = exchange_sides(pairs, _is_swapped(pairs, context))
            changes += rows
        for (side, lang), other in zip(context.sides, reversed(SIDES), strict=True):
            # Quotes and control characters are the bytes of letters in other code pages, so these come last.
            pairs = self._with_steps(pairs, side, other, lang, ("entities",), changes)
            if self.mojibake:
                decoded = self._with_steps(pairs, side, other, lang, ("mojibake",), [])[side]
                pairs = _reread(_with_decoded(pairs, side, lang, decoded, changes), side, lang, changes)
            pairs = self._with_steps(pairs, side, other, lang, ("invisible", "quotes"), changes)
        # A text is a line: what a character reference or another program's escape stood for may be none.
        pairs = pairs.with_columns(pl.col(*SIDES).str.replace_all(r"[\t-\r\u{85}\u{2028}\u{2029}]+", " "))
        return pairs, pl.DataFrame(changes, REPAIRS, orient="row")

    def _with_steps(
        self,
        pairs: pl.DataFrame,
        side: str,
        other: str,
        lang: Language,
        kinds: tuple[str, ...],
        changes: list[Change],
    ) -> pl.DataFrame:
        """Return the pairs with some kinds of damage of a side undone."""
        asked = pairs.select(self._may_need_repair(side, other).alias("asked"))["asked"].arg_true()
        if not len(asked):
            return pairs
        texts, other_texts = pairs[side].to_list(), pairs[other]
        for row in asked.to_list():
            for kind in kinds:
                if getattr(self, kind):
                    new = repair.REPAIR_STEPS[kind](
                        texts[row], other_texts[row], lang.script, own_scripts(lang)
                    )
                    if new != texts[row]:
                        changes.append((pairs["id"][row], kind, texts[row], new))
                    texts[row] = new
        return pairs.with_columns(pl.Series(side, texts, pl.String))

    def notes(self, pairs: pl.DataFrame, context: Context) -> dict[str, int]:
        """Return how many pairs have a side that was tokenised before, by kind."""
        counts: dict[str, int] = {}
        for texts in pairs.select(SIDES).iter_rows():
            if kind := next(filter(None, map(tokenised_kind, texts)), ""):
                counts[f"{TOKENISED}{kind}"] = counts.get(f"{TOKENISED}{kind}", 0) + 1
        return counts

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        return pl.repeat(None, pairs.height, dtype=pl.String, eager=True).alias("reason")

    def _may_need_repair(self, side: str, other: str) -> pl.Expr:
        has_outer_quotes = pl.col(side).str.contains('^["“”„«»]|["“”„«»]$') & ~pl.col(other).str.contains(
            '["“”„«»]'
        )
        return pl.col(side).str.contains(repair.DAMAGE_PATTERN) | (
            has_outer_quotes if self.quotes else pl.lit(False)
        )


def _with_decoded(
    pairs: pl.DataFrame, side: str, lang: Language, decoded: pl.Series, changes: list[Change]
) -> pl.DataFrame:
    """Return the pairs with the decoded texts of a side, or other readings where damage would be left."""
    rows = (pairs[side] != decoded).arg_true()
    if not len(rows):
        return pairs
    before = pairs[side].gather(rows).to_list()
    after = CodePages.of(lang.code).of_decoded(before, decoded.gather(rows).to_list())
    changes += zip(pairs["id"].gather(rows).to_list(), ["mojibake"] * len(rows), before, after, strict=True)
    return pairs.with_columns(pairs[side].scatter(rows, pl.Series(after, dtype=pl.String)))


def _reread(pairs: pl.DataFrame, side: str, lang: Language, changes: list[Change]) -> pl.DataFrame:
    """Return the pairs with texts of a side put right that were read in another code page than they were written in."""
    own = letters_of(lang)
    # Most lines have Latin letters, or those of the language, and need no look.
    asked = pl.col(side).str.contains(r"[^\x00-\x7f]")
    if lang.script != "Latn" and own:
        asked &= ~pl.col(side).str.contains(f"[{own}]") | pl.col(side).str.contains(SIGNS_OF_CYRILLIC)
        if lang.script == "Cyrl":
            strange = f"[Ѐ-ӿ&&[^{''.join(sorted(WrongCodePage.of(lang.code).letters))}]]"
            asked |= pl.col(side).str.count_matches(strange) >= MIN_STRANGE
    rows = pairs.select(asked.alias("asked"))["asked"].arg_true()
    texts = pairs[side].gather(rows).to_list()
    mended = WrongCodePage.of(lang.code).mend(texts)
    changed = [
        (row, text, new) for row, text, new in zip(rows.to_list(), texts, mended, strict=True) if new != text
    ]
    changes += [(pairs["id"][row], "mojibake", text, new) for row, text, new in changed]
    new_texts = pl.Series([new for _, _, new in changed], dtype=pl.String)
    return (
        pairs.with_columns(pairs[side].scatter([row for row, _, _ in changed], new_texts))
        if changed
        else pairs
    )


def exchange_sides(pairs: pl.DataFrame, swapped: pl.Series) -> tuple[pl.DataFrame, list[Change]]:
    """Return ``pairs`` with the sides of some exchanged, and the changes.

    Args:
        swapped: which pairs, bool (num_pairs,).
    """
    rows = pairs.filter(swapped).select("id", *SIDES).rows()
    exchanged_columns = [
        pl.when(swapped).then(pl.col(other)).otherwise(pl.col(side)).alias(side)
        for side, other in zip(SIDES, reversed(SIDES), strict=True)
    ]
    changes = [(name, "swapped", f"{src} | {tgt}", f"{tgt} | {src}") for name, src, tgt in rows]
    return (pairs.with_columns(exchanged_columns) if rows else pairs), changes


def _is_swapped(pairs: pl.DataFrame, context: Context) -> pl.Series:
    """Which pairs have most letters of each side in the script of the other; none where the scripts are the same."""
    src, tgt = (letters_of(lang) for _, lang in context.sides)
    if not src or not tgt or own_scripts(context.src) & own_scripts(context.tgt):
        return pl.repeat(False, pairs.height, dtype=pl.Boolean, eager=True)
    may_be_swapped = pairs.select(
        (pl.col("src").str.contains(f"[{tgt}]") & pl.col("tgt").str.contains(f"[{src}]")).alias("hint")
    )["hint"]
    candidates = pairs.filter(may_be_swapped)
    is_mostly = [
        pl.col(side).str.count_matches(f"[{own}]") > _SWAPPED_SHARE * pl.col(side).str.count_matches(r"\p{L}")
        for side, own in (("src", tgt), ("tgt", src))
    ]
    answer = pl.repeat(False, pairs.height, dtype=pl.Boolean, eager=True)
    return answer.scatter(
        may_be_swapped.arg_true(), candidates.select(is_mostly[0] & is_mostly[1]).to_series()
    )
